"""The indent of a new block, where a file has several."""

from __future__ import annotations

import libcst as cst

from amp_migrate.trees.nodes import Block
from amp_migrate.trees.tree import Tree


def indent_within(tree: Tree, block: Block) -> str:
    """The indent of a block whose head stands in `block`: that of `block`, or at the top of a file, of the last."""
    around: cst.CSTNode | None = block
    while around is not None and not isinstance(around, (cst.IndentedBlock, cst.Module)):
        around = tree.parents.get(around)
    if not isinstance(around, cst.IndentedBlock):
        around = next(reversed(tree.every(cst.IndentedBlock)), None)
    return (None if around is None else around.indent) or tree.module.default_indent
