"""How far a value is followed through a project before it counts as unknown."""

from __future__ import annotations

# Assignments, calls, arguments, imports and base classes in a row. It ends what comes back to itself by another way;
# chains of training code are shorter: a limit of twelve finds nothing more in the checkouts of the output net.
MAX_HOPS = 8
