"""One analysis of what every value is, in which precision, and with which gradient.

An abstract interpreter over Python's own `ast`, which is structured already: a second form of a program would only
have to agree with it. `source` reads a file and says which names are whose; `domain` holds the values, the contexts
that are on and the states of scalers and gradients, with their joins; `python` has a transfer function for every
construct of the language; `pytorch` says what the operators of PyTorch, its modules, optimizers and scalers do.
`analysis` interprets calls by summaries until nothing changes, and `questions` is what everybody else asks.

What cannot be known is unknown, and no answer is a guess. Five things are assumed, and written where they are used:
a loop runs at least once where the order of a scaler's calls is concerned; code of other packages does not rebind
attributes of this project's objects; a decorator of another package runs what it decorates; the models that a registry
of another package's class makes are those which the project has registered there; a tensor whose device nobody tells is
where the autocast region around it is meant for.
"""
