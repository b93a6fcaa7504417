"""Deprecated regions that stay as they are, and that mean float16 whatever the others compute in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.renames.change.across_files import Handed
from amp_migrate.renames.change.decide_uses import Renaming, decide
from amp_migrate.renames.find.uses import find_uses
from amp_migrate.settings import Dtype

_AUTOCAST = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})


def staying_regions(
    handed: Mapping[File, Handed], files: Iterable[File], renaming: Renaming
) -> Iterator[tuple[File, cst.CSTNode]]:
    """The uses of the old autocast for CUDA that are not rewritten, nobody wants to be, or that are in doubt."""
    for file in files:
        found = [use for uses in find_uses(file) for use in uses if use.rename.old in _AUTOCAST]
        if found:
            own = handed[file]
            made = decide(replace(renaming, dtype=Dtype.FP16), file, own.names, own.stuck)
            yield from ((file, each.node) for each in found if each.node not in made.removed | made.rewrites.keys())
