"""Plans in the words of a file, and plans made text.

`editor` makes edits: it knows how names are spelled at a place. `apply` puts the edits of one file into its tree, and
`consume` takes the moves of a whole project: what nobody wants is left out, the rest becomes new texts.
"""
