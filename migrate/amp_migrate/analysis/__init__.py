"""Read-only facts about a module and a project: what a name stands for, what an object is, who calls whom."""
