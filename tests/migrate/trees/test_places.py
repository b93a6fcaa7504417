"""Places are those that LibCST finds by printing the whole module."""

from __future__ import annotations

from textwrap import dedent

import libcst as cst
import pytest
from amp_migrate.trees.tree import Tree
from libcst.metadata import MetadataWrapper, PositionProvider

SCRIPT = '''
# header


"""Docstring
of two lines."""
import torch; import os

@decorated(
    1,
)
# below the decorator
def train(
    model,  # first
    loader,
):  # opens

    # above
    for x in loader:
        loss = model(
            x,
        ).sum(); loss.backward()
    return (
        1 +
        2
    )

class Trainer(Base):
    """Trains."""

    limit = {
        "a": 1,
    }

    @property
    def step(self): return self.optimizer.step()

    def outer(self):
        def inner(x):
            if x: pass
            elif model(x):
                y = """text
of several lines"""; z = y
            return z

        return inner
    # footer

async def serve(queue):
    try:
        with open("größe.txt") as f, lock(
            f
        ): g = "µ"; f.write(g)
    except (OSError,
            ValueError) as error:
        raise Failed(error) from error
    except KeyError: pass
    else:
        async for each in queue:
            match each:
                case [x, y] if x > y:
                    yield x
                case _:
                    del each
    finally:
        assert queue, (
            queue
        )
    while queue and \
            queue.pop(): continue
    else: return None
\f
class Tabbed:
	def step(self):
		self.optimizer.step(
			closure,
		)

if __name__ == "__main__":
    train(model, \\
          loader)
# end
'''
KINDS = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.ImportAlias, cst.Arg, cst.Param)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_every_node_is_where_libcst_finds_it(newline: str, end: str) -> None:
    text = (dedent(SCRIPT).strip() + end).replace("\n", newline)
    tree = Tree("train.py", cst.parse_module(text))
    expected = MetadataWrapper(tree.module, unsafe_skip_copy=True).resolve(PositionProvider)
    nodes = [node for node in tree.order if isinstance(node, KINDS)]
    assert len(nodes) > 90
    for node in nodes:
        start = expected[node].start
        assert tree.position(node) == (start.line, start.column + 1), tree.code(node)
