"""What a statement does to `self` through the methods it calls: `self.forward()` computes `self.output`.

Trainers keep their tensors as attributes, and the method that computes one is not the one that reads it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.steps.statements.data_flow import (
    is_plain_number,
    key_of,
    leaves_graph,
    overwrites,
    reads,
    statement_reads,
    targets,
    writes,
)
from amp_migrate.trees.nodes import Block, Statement, block_of, find, header, nested_statements


class Effects:
    """Reads and writes of the statements of one file, those of the own methods they call included.

    Args:
        has_forward: whether a function runs a module.
    """

    def __init__(self, file: File, project: Project, has_forward: Callable[[FunctionRef], bool]) -> None:
        self._file = file
        self._project = project
        self._has_forward = has_forward
        self._of_method: dict[cst.FunctionDef, tuple[frozenset[str], frozenset[str]]] = {}
        self._filled: dict[Statement, str | None] = {}
        self._keeping: dict[cst.FunctionDef, bool] = {}

    def reads(self, statement: Statement) -> frozenset[str]:
        """The names that a statement reads, and of `self` the attributes."""
        return statement_reads(statement).union(*(each[0] for each in self._methods(statement)))

    def assigns(self, statement: Statement) -> bool:
        """Whether a statement gives a value to something, by itself or through a method."""
        return bool(targets(statement)) or any(each[1] for each in self._methods(statement))

    def writes(self, statement: Statement) -> frozenset[str]:
        """What a statement gives a value to, or puts something into."""
        filled = self.fills(statement)
        own = writes(statement).union(*(each[1] for each in self._methods(statement)))
        return own if filled is None else own | {filled}

    def backward_slice(self, wanted: frozenset[str], before: list[Statement], at: Statement) -> list[Statement]:
        """The statements among `before` whose results reach the names `wanted` at the statement `at`.

        Args:
            before: statements that precede `at`, in source order.

        Returns:
            The slice, in source order.
        """
        tree = self._file.tree
        need = set(wanted)
        found: list[Statement] = []
        around = {tree.block(at), *tree.ancestors(at)}
        hidden: dict[Block, set[str]] = defaultdict(set)  # what a later statement of the block overwrites
        for statement in reversed(before):
            block = tree.block(statement)
            if not self.writes(statement) & need - hidden[block]:
                continue
            ends = self._ends(statement)
            if not ends:
                found.append(statement)
            over = writes(statement) if ends else overwrites(statement)
            hidden[block] |= over
            if block in around:  # it runs whenever `at` is reached: it is the only source
                need -= over
            if not ends:
                more = self.reads(statement)
                need |= more
                for names in hidden.values():
                    names.difference_update(more)
        return found[::-1]

    def fills(self, statement: Statement) -> str | None:
        """The object that keeps what a statement calls its method with: `losses.put(loss)` for `losses.total()`.

        None where the method is a forward, which gives what it keeps a gradient itself.
        """
        if statement not in self._filled:
            call = statement.value if isinstance(statement, cst.Expr) else None
            owner = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
            self._filled[statement] = None
            if isinstance(call, cst.Call) and call.args and owner is not None and key_of(owner) != "self":
                function = self._project.called(self._file, call)
                is_kept = function is not None and function.owner is not None and self._keeps_given(function.node)
                is_forward = is_kept and function is not None and self._has_forward(function)
                self._filled[statement] = key_of(owner) if is_kept and not is_forward else None
        return self._filled[statement]

    def _keeps_given(self, method: cst.FunctionDef) -> bool:
        """Whether a method puts something that it is given into an attribute of its object."""
        if method not in self._keeping:
            given = {each.name.value for each in (*method.params.params[1:], *method.params.kwonly_params)}
            self._keeping[method] = any(
                _attributes(writes(each)) and not given.isdisjoint(statement_reads(each))
                for each in nested_statements(block_of(method))
            )
        return self._keeping[method]

    def _ends(self, statement: Statement) -> bool:
        """Whether a statement assigns what no gradient comes back from, by itself or by the function it calls."""
        if leaves_graph(statement):
            return True
        value = statement.value if isinstance(statement, cst.Assign) else None
        function = self._project.called(self._file, value) if isinstance(value, cst.Call) else None
        if function is None or not all(isinstance(target, cst.Name) for target in targets(statement)):
            return False
        returned = [each.value for each in find(function.node.body, cst.Return)]
        return bool(returned) and all(map(is_plain_number, returned))

    def _methods(self, statement: Statement) -> list[tuple[frozenset[str], frozenset[str]]]:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            return []
        return [each for part in header(statement) for each in self._called(part)]

    def _called(self, part: cst.CSTNode) -> list[tuple[frozenset[str], frozenset[str]]]:
        found = (self._project.own_method(self._file, call) for call in find(part, cst.Call))
        return [self._method(each.node) for each in found if each is not None]

    def _method(self, function: cst.FunctionDef) -> tuple[frozenset[str], frozenset[str]]:
        """The attributes of `self` that a method reads and writes."""
        if function not in self._of_method:
            self._of_method[function] = (frozenset(), frozenset())  # a method that calls itself adds nothing
            inner = self._called(function.body)
            assert isinstance(function.body, (cst.IndentedBlock, cst.SimpleStatementSuite))
            own = frozenset().union(*(writes(each) for each in nested_statements(function.body)))
            self._of_method[function] = (
                _attributes(reads([function.body])).union(*(each[0] for each in inner)),
                _attributes(own).union(*(each[1] for each in inner)),
            )
        return self._of_method[function]


def _attributes(names: frozenset[str]) -> frozenset[str]:
    return frozenset(each for each in names if each.startswith("self."))
