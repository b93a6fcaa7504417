"""Where an old name goes as a value: under which names, through which calls."""
