"""What only one of several processes does: of those that train together, each has a scaler of its own."""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.trees.nodes import find, last_word, parts_of

# What PyTorch, its launchers, and those that wrap them call the number of a process, and the test for the first one.
_RANK = re.compile(r"(^|_)rank$|^(slurm_procid|get_rank|process_index)$", re.IGNORECASE)
_IS_FIRST = re.compile(
    r"^(is_)?(global_|local_|world_)?(main|master|chief|(process|rank)_?(zero|0))(_(process|rank|worker))?$"
)


def is_in_one_process(file: File, node: cst.CSTNode) -> bool:
    """Whether a test around a node lets only the first process come to it, as far as names and values show."""
    child = node
    for around in file.tree.ancestors(node):
        if (
            isinstance(around, cst.If)
            and around.body is child
            and any(_asks_for_first(file, e) for e in parts_of(around.test))
        ):
            return True
        child = around
    return False


def _asks_for_first(file: File, test: cst.BaseExpression) -> bool:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _is_rank(file, test.expression)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
        is_zero = isinstance(operator, cst.Equal) and isinstance(other, cst.Integer) and other.value == "0"
        is_among = isinstance(operator, cst.In) and any(each.value == "0" for each in find(other, cst.Integer))
        return (is_zero or is_among) and _is_rank(file, test.left)
    named = test.func if isinstance(test, cst.Call) else test
    return _IS_FIRST.match(last_word(named) or "") is not None


def _is_rank(file: File, node: cst.BaseExpression, *, is_value: bool = False) -> bool:
    """Whether an expression is the number of a process: `rank`, `dist.get_rank()`, `int(os.environ["LOCAL_RANK"])`."""
    words = [each.value for each in find(node, cst.Name)] + [
        str(each.evaluated_value) for each in find(node, cst.SimpleString)
    ]
    if any(map(_RANK.search, words)):
        return True
    values = [each.value for each in object_bindings(file, node)] if not is_value else []
    return any(value is not None and _is_rank(file, value, is_value=True) for value in values)
