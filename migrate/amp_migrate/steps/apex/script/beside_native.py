"""Scripts that train with Apex or with native AMP, as they are told: `if args.amp == "apex": ... else: ...`.

The author has written the native form of everything that Apex does there. What chose Apex chooses that instead, and the
branches of Apex go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import DropBranch, Edit
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.branches import branch_of
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_uses
from amp_migrate.steps.apex.uses.cast_functions import is_needless
from amp_migrate.steps.statements.amp_signs import is_scaled
from amp_migrate.steps.statements.bodies import backward_calls
from amp_migrate.tables.apex_names import USE_SHIM
from amp_migrate.trees.nodes import Block, Statement, blocks, find, nested_statements, walk
from amp_migrate.write.editor import Editor, guarded


@dataclass(frozen=True)
class Choice:
    """How a script chooses between the two.

    Attributes:
        apex: the test of Apex's branches.
        native: the comparison that chooses native AMP; None where that is what is left without Apex.
    """

    apex: cst.BaseExpression
    native: cst.Comparison | None

    @property
    def asked(self) -> cst.BaseExpression:
        """What is compared, or is a flag by itself."""
        return self.apex.left if isinstance(self.apex, cst.Comparison) else self.apex


@dataclass(frozen=True)
class Beside:
    """A script that has both.

    Attributes:
        choice: how it chooses.
        steps: what scales the loss in the branches of Apex.
        gone: each `if` or `elif` whose branch goes.
        widened: the comparisons that choose native AMP.
    """

    choice: Choice
    steps: tuple[tuple[File, Statement], ...]
    gone: tuple[tuple[File, cst.If], ...]
    widened: tuple[tuple[File, cst.Comparison], ...]


def read_beside(project: Project, files: Sequence[File]) -> Beside | Refusal | None:
    """What it takes to choose native AMP where Apex was chosen; None for a script that has Apex alone."""
    scaling = [(file, file.tree.statement(call)) for file in files for call in amp_calls(file, "scale_loss")]
    found = [(file, statement, _choice(file, statement)) for file, statement in scaling]
    choice = next((each for _, _, each in found if each is not None), None)
    if choice is None:
        return None
    reader = _Reader(choice, files[0])
    gone = [(file, node) for file in files for node in file.tree.every(cst.If) if reader.chooses_apex(file, node.test)]
    dead = {each for _, node in gone for each in walk(node.body)}
    tests = {each for _, node in gone for each in walk(node.test)}
    for file in files:
        for node in amp_uses(file):
            if node not in dead and not is_needless(file, file.tree.statement(node)):
                return Refusal(file, node, "apex.amp is used where native AMP is not chosen instead", USE_SHIM)
        for node in reader.asked(file):
            if node not in dead and node not in tests and not reader.is_understood(file, node):
                reason = f"what {file.tree.quote(node)} decides beside Apex is not understood"
                return Refusal(file, node, reason, USE_SHIM)
    elsewhere = reader.asked_elsewhere(project, files)
    if elsewhere is not None:
        return Refusal(*elsewhere, "another file asks whether Apex or native AMP is chosen", USE_SHIM)
    comparisons = [(file, node) for file in files for node in file.tree.every(cst.Comparison) if node not in dead]
    widened = [(file, node) for file, node in comparisons if reader.is_native(file, node)]
    return Beside(choice, tuple((file, each) for file, each, _ in found), tuple(gone), tuple(widened))


class _Reader:
    """Compares the code of a script with how it chooses."""

    def __init__(self, choice: Choice, file: File) -> None:
        self._apex = file.tree.code(choice.apex)
        self._native = None if choice.native is None else file.tree.code(choice.native)
        self._asked = file.tree.code(choice.asked)
        self._word = (dotted(choice.asked) or "").rpartition(".")[2]

    def chooses_apex(self, file: File, test: cst.BaseExpression) -> bool:
        """Whether a test can only be true where Apex is chosen."""
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            return self.chooses_apex(file, test.left) or self.chooses_apex(file, test.right)
        return file.tree.code(test) == self._apex

    def is_native(self, file: File, node: cst.Comparison) -> bool:
        return file.tree.code(node) == self._native

    def asked(self, file: File) -> Iterator[cst.Name | cst.Attribute]:
        """Wherever the choice is read."""
        for node in file.uses.get(self._word, ()):
            if file.tree.code(node) == self._asked and not isinstance(file.tree.parents[node], cst.AssignTarget):
                yield node

    def is_understood(self, file: File, node: cst.Name | cst.Attribute) -> bool:
        """Whether a place asks for native AMP, or for anything but one of the two."""
        parent = file.tree.parents[node]
        if self._asked == self._apex:
            return False
        if not isinstance(parent, cst.Comparison):
            return True
        is_equal = len(parent.comparisons) == 1 and isinstance(parent.comparisons[0].operator, cst.Equal)
        return self._native is not None and is_equal and file.tree.code(parent) != self._apex

    def asked_elsewhere(self, project: Project, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """A file that does not use Apex, and asks what this script has chosen."""
        for file in project.library.mentioning(self._word):
            for node in file.uses.get(self._word, ()) if file not in files else ():
                parent = file.tree.parents[node]
                is_compared = isinstance(parent, cst.Comparison) and file.tree.code(parent) in (
                    self._apex,
                    self._native,
                )
                if is_compared or (self._asked == self._apex and isinstance(node, cst.Attribute)):
                    return file, node
        return None


def write_beside(editor: Editor, beside: Beside) -> Iterator[Edit]:
    """The edits of one file of a script that has both."""
    choice, file = beside.choice, editor.file
    for where, node in beside.gone:
        if where is file:
            for other in _alternatives(file, node):
                yield from _guard_restored(editor, other)
            yield editor.edit(node, DropBranch())
    for where, comparison in beside.widened:
        if where is file and choice.native is not None and isinstance(choice.apex, cst.Comparison):
            values = (each.comparisons[0].comparator for each in (choice.native, choice.apex))
            both = ", ".join(map(editor.text, values))
            yield editor.replace(comparison, code("{} in ({})", comparison.left, both))


def _choice(file: File, statement: Statement) -> Choice | None:
    """How an Apex step is chosen, where another branch beside it does the same by native AMP."""
    inner: cst.CSTNode | None = statement
    while inner is not None and not isinstance(inner, cst.FunctionDef):
        at = file.tree.statement(inner)
        branch = branch_of(file, at)
        for test, block in () if branch is None else _branches(branch.chain):
            if branch is None or branch.test is None or block is branch.block or not _goes_natively(block):
                continue
            if test is None or _asks_the_same(file, test, branch.test):
                choice = Choice(branch.test, test if isinstance(test, cst.Comparison) else None)
                return choice if dotted(choice.asked) is not None else None
        inner = file.tree.parents.get(file.tree.block(at if branch is None else branch.chain))
    return None


def _goes_natively(block: Block) -> bool:
    calls = (call for _, call in backward_calls(block))
    return any(is_scaled(cst.ensure_type(call.func, cst.Attribute).value) for call in calls)


def _asks_the_same(file: File, test: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two tests compare one thing with two values."""
    if not (isinstance(test, cst.Comparison) and isinstance(other, cst.Comparison)):
        return False
    if file.tree.code(test.left) != file.tree.code(other.left):
        return False
    both = (test.comparisons, other.comparisons)
    return all(len(each) == 1 and isinstance(each[0].operator, cst.Equal) for each in both)


def _branches(chain: cst.If) -> Iterator[tuple[cst.BaseExpression | None, Block]]:
    """The branches of an `if` with their tests; None is that of an `else`."""
    tests: list[cst.BaseExpression | None] = []
    current: cst.If | cst.Else | None = chain
    while isinstance(current, cst.If):
        tests.append(current.test)
        current = current.orelse
    yield from zip([*tests, None], blocks(chain), strict=False)


def _alternatives(file: File, node: cst.If) -> list[Block]:
    """The other branches of an `if`, where the one that goes restores Apex's state."""
    restoring = set(amp_calls(file, "load_state_dict"))
    if not any(call in restoring for call in find(node.body, cst.Call)):
        return []
    chain = file.tree.statement(node)
    return [block for block in blocks(chain) if block is not node.body]


def _guard_restored(editor: Editor, block: Block) -> Iterator[Edit]:
    """The edits that let a checkpoint of Apex's days be loaded: it holds no state of a GradScaler."""
    for statement in nested_statements(block):
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and len(call.args) == 1):
            continue
        if call.func.attr.value == "load_state_dict" and "scaler" in editor.text(call.func.value):
            state = editor.text(call.args[0].value)
            yield editor.substitute(statement, guarded(f'if "scale" in {state}:', code("{}", call)))
