"""What every result must pass before it is written: a checker that trusts no plan, and shares nothing with planners.

It reads two texts of a file with Python's own parser, the one before and the one after, and asks four questions:
whether the same program is left when the precision is taken out of both (`erasure/`), whether every new name has a
value wherever it is used (`bound_names.py`), whether what was written can be imported and called (`calls.py`), and
whether the scaler is used in an order in which it works (`scaler_order.py`). `check.py` asks them all, for every set of
packages that code may find installed; `code/` is how code is read, and `origins/` says where values come from.
"""
