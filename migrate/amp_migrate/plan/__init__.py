"""What is to change, as data: frozen, printable, comparable. Nothing here reads a project or writes a text.

A reader gives a `Move`, or a `Refusal`. A move holds the `Edit`s that belong together and what is said of them; an edit
names a place in a tree, what becomes of it, what the new code needs at the top of the file, and the rule behind it.
`amp_migrate.write` makes edits in the words of a file, and turns them into its new text.
"""
