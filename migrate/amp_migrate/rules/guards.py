"""Guards round the imports of AMP: `try: from torch.cuda.amp import GradScaler` with a stand-in for old PyTorch.

Every PyTorch that is written for has what is imported, so that the stand-in is never taken. The guard goes with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.tree import Block, statements, walk


def folded_guards(file: File, bringing: Collection[cst.CSTNode]) -> Iterator[tuple[cst.Try, Block]]:
    """The guards whose handlers are never taken, with the block to keep of each.

    Args:
        bringing: the imports, and assignments of a class, of which everything comes from torch's new module.
    """
    if not file.names.has_torch:
        return
    for guard in file.tree.order:
        if not isinstance(guard, cst.Try) or guard.orelse is not None or guard.finalbody is not None:
            continue
        body = _block(guard.body)
        if not all(statement in bringing for statement in statements(body)):
            continue
        brought = _bound(file, guard.body)
        if all(_bound(file, handler.body) <= brought for handler in guard.handlers):
            yield guard, body


def _block(suite: cst.BaseSuite) -> Block:
    assert isinstance(suite, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return suite


def _bound(file: File, part: cst.CSTNode) -> set[str]:
    """The names that code binds in the scope it stands in."""
    inside = set(walk(part))
    scope = file.scopes.of(part)
    return {name for name, bindings in scope.bindings.items() if any(each.node in inside for each in bindings)}
