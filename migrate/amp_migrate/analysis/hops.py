"""How far a value is followed through a project before it counts as unknown."""

from __future__ import annotations

# Assignments, calls, arguments, imports and base classes in a row; what comes back to itself by another way ends here.
# It was three, four, six or eight by the question once: with eight for all, the fixtures and fourteen public projects
# come out the same.
MAX_HOPS = 8
