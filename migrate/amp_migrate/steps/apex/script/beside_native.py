"""Scripts that train with Apex or with native AMP, as they are told: `if args.amp == "apex": ... else: ...`.

The author has written the native form of everything that Apex does there. What chose Apex chooses that instead: the
branches of Apex go, and wherever the script asks for native AMP, what asked for Apex counts, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.imported import loaded_by
from amp_migrate.analysis.project import Project
from amp_migrate.plan.code import Code, code
from amp_migrate.plan.edit import DropBranch, Edit
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.branches import branch_of
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_uses
from amp_migrate.steps.apex.uses.cast_functions import is_needless
from amp_migrate.steps.apex.write.write_uses import answered
from amp_migrate.steps.statements.amp_signs import is_scaled, names_amp
from amp_migrate.steps.statements.bodies import backward_calls
from amp_migrate.tables.apex_names import USE_SHIM
from amp_migrate.trees.nodes import (
    Block,
    Statement,
    block_of,
    blocks,
    find,
    is_constant,
    nested_statements,
    statements,
    walk,
)
from amp_migrate.write.editor import Editor, guarded

_NOT_EQUAL = (cst.NotEqual, cst.NotIn)
_COMPARED = (cst.Equal, cst.In, *_NOT_EQUAL)
_TESTS = (cst.If, cst.IfExp, cst.Assert)


@dataclass(frozen=True)
class Choice:
    """How a script chooses between the two, as code.

    Attributes:
        asked: a flag, or what is compared.
        apex: the value that chooses Apex; None where `asked` is a flag.
        native: the value that chooses native AMP, or the flag that does; None where that is what is left without Apex.
    """

    asked: str
    apex: str | None
    native: str | None


@dataclass(frozen=True)
class Beside:
    """A script that has both.

    Attributes:
        steps: what scales the loss in the branches of Apex.
        gone: each `if` or `elif` whose branch goes.
        answers: the other questions that are answered where nothing chooses Apex, each with its answer.
        widened: what asks for native AMP, each with the question that counts what chose Apex.
    """

    steps: tuple[tuple[File, Statement], ...]
    gone: tuple[tuple[File, cst.If], ...]
    answers: tuple[tuple[File, cst.BaseExpression, bool], ...]
    widened: tuple[tuple[File, cst.BaseExpression, Code], ...]


def read_beside(project: Project, files: Sequence[File]) -> Beside | Refusal | None:
    """What it takes to choose native AMP where Apex was chosen; None for a script that has Apex alone."""
    scaling = [(file, file.tree.statement(call)) for file in files for call in amp_calls(file, "scale_loss")]
    starting = [(file, file.tree.statement(call)) for file in files for call in amp_calls(file, "initialize")]
    choice = next((each for where in (*scaling, *starting) if (each := _choice(*where)) is not None), None)
    if choice is None:
        return None
    reader = _Reader(choice)
    asked = [(file, node) for file in files for node in reader.asked(file)]
    known = dict.fromkeys((file, *found) for file, node in asked if (found := reader.decided(file, node)) is not None)
    failing = [(file, file.tree.parents[node], node) for file, node, answer in known if not answer]
    gone = [(file, around) for file, around, node in failing if isinstance(around, cst.If) and around.test is node]
    dead = {each for _, node in gone for part in (node.test, node.body) for each in walk(part)}
    for file in files:
        for use in amp_uses(file):
            if use not in dead and not is_needless(file, file.tree.statement(use)):
                return Refusal(file, use, "apex.amp is used where native AMP is not chosen instead", USE_SHIM)
    asked = [each for each in asked if each[1] not in dead]
    for file, node in asked:
        if not reader.is_understood(file, node):
            reason = f"what {file.tree.quote(node)} decides beside Apex is not understood"
            return Refusal(file, node, reason, USE_SHIM)
    apart = reader.decided_apart(files)
    if apart is not None:
        return Refusal(*apart, "native AMP is set up here under another condition than what chooses it", USE_SHIM)
    elsewhere = reader.asked_elsewhere(project, files)
    if elsewhere is not None:
        return Refusal(*elsewhere, "another file asks whether Apex or native AMP is chosen", USE_SHIM)
    widened = ((file, reader.widened(file, node)) for file, node in asked)
    return Beside(
        tuple(scaling),
        tuple(gone),
        tuple(each for each in known if each[1] not in dead),
        tuple((file, *each) for file, each in widened if each is not None),
    )


class _Reader:
    """Reads what a script asks of its choice, as if Apex were never chosen, and native AMP in its stead."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._is_flag = choice.apex is None
        self._names = (choice.asked, choice.native) if self._is_flag and choice.native else (choice.asked,)

    def asked(self, file: File) -> Iterator[cst.Name | cst.Attribute]:
        """Wherever the choice is read."""
        for name in self._names:
            for node in file.uses.get(name.rpartition(".")[2], ()):
                is_given = isinstance(file.tree.parents[node], cst.AssignTarget)
                if file.tree.code(node) == name and not is_given:
                    yield node

    def decided(self, file: File, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool] | None:
        """The longest question that has one answer where Apex is not chosen, with that."""
        parents = file.tree.parents
        inner = parents[node] if not self._is_flag and isinstance(parents[node], cst.Comparison) else node
        found = None
        while isinstance(inner, cst.BaseExpression) and (answer := self._answer(file, inner)) is not None:
            found, inner = (inner, answer), parents[inner]
        return found

    def _answer(self, file: File, node: cst.BaseExpression) -> bool | None:
        """What an expression is where Apex is not chosen; None where that depends on more."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            inner = self._answer(file, node.expression)
            return None if inner is None else not inner
        if isinstance(node, cst.BooleanOperation):
            both = [self._answer(file, each) for each in (node.left, node.right)]
            decides = isinstance(node.operator, cst.Or)
            return decides if decides in both else None if None in both else not decides
        if self._is_flag:
            is_it = isinstance(node, (cst.Name, cst.Attribute)) and file.tree.code(node) == self._choice.asked
            return False if is_it else None
        values = self._values(file, node)
        return isinstance(_operator(node), _NOT_EQUAL) if values == [] else None

    def _values(self, file: File, node: cst.BaseExpression) -> list[str] | None:
        """What the choice is compared with, if Apex's value counts as the native one; None for another expression."""
        if not isinstance(node, cst.Comparison) or file.tree.code(node.left) != self._choice.asked:
            return None
        if len(node.comparisons) != 1 or not isinstance(_operator(node), _COMPARED):
            return None
        apex, values = self._choice.apex, list(map(file.tree.code, _constants(node.comparisons[0])))
        if not values:
            return None
        others = [each for each in values if each != apex]
        return [*others, apex] if apex is not None and self._choice.native in others else others

    def is_understood(self, file: File, node: cst.Name | cst.Attribute) -> bool:
        """Whether it can be said what a place asks: for one of the two, or for anything else."""
        parent, choice = file.tree.parents[node], self._choice
        if self._is_flag and file.tree.code(node) == choice.native:
            return _is_seen(file, node, choice.asked)
        found = self.decided(file, node)
        if found is not None:
            around = file.tree.parents[found[0]]
            is_elif = isinstance(around, cst.If) and file.tree.statement(around) is not around
            return (found[0] is not node or isinstance(around, (*_TESTS, cst.BooleanOperation))) and not is_elif
        if self._is_flag or isinstance(parent, cst.ComparisonTarget):
            return False
        if not isinstance(parent, cst.Comparison):
            return True
        return self._values(file, parent) is not None and choice.native is not None

    def widened(self, file: File, node: cst.Name | cst.Attribute) -> tuple[cst.BaseExpression, Code] | None:
        """A question for native AMP, and the one that counts what chose Apex."""
        choice, parent = self._choice, file.tree.parents[node]
        if self._is_flag:
            return (node, code("{} or {}", node, choice.asked)) if file.tree.code(node) == choice.native else None
        values = self._values(file, parent) if isinstance(parent, cst.Comparison) else None
        if not values or not isinstance(parent, cst.Comparison):
            return None
        old = list(map(file.tree.code, _constants(parent.comparisons[0])))
        if sorted(old) == sorted(values):
            return None
        words = ("not in", "!=") if isinstance(_operator(parent), _NOT_EQUAL) else ("in", "==")
        if len(values) == 1:
            return parent, code("{} {} {}", node, words[1], values[0])
        return parent, code("{} {} {}", node, words[0], f"({', '.join(values)})")

    def decided_apart(self, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """Where autocast or a scaler stands under a condition that is neither this choice nor asked for Apex, too."""
        choice = self._choice
        asked, native = choice.asked if self._is_flag else f"{choice.asked} == {choice.apex}", choice.native
        known = {f"not ({asked})", native if self._is_flag else f"{choice.asked} == {native}"}
        for file in files:
            for name in ("initialize", "scale_loss"):
                known.update(each for call in amp_calls(file, name) for each in _conditions(file, call))
        for file in files:
            for node in file.tree.every(cst.Name, cst.Attribute):
                is_native = not isinstance(file.tree.parents[node], cst.Attribute) and names_amp(file, node)
                if is_native and not _is_its_own(file, node) and not known.issuperset(_conditions(file, node)):
                    return file, node
        return None

    def asked_elsewhere(self, project: Project, files: Sequence[File]) -> tuple[File, cst.CSTNode] | None:
        """Where another file asks what this script has chosen; a script apart from it has a choice of its own."""
        script = loaded_by(project, files)
        for word in dict.fromkeys(name.rpartition(".")[2] for name in self._names):
            for file in project.library.mentioning(word):
                asking = [node for node in file.uses.get(word, ()) if file not in files and self._is_asked(file, node)]
                if asking and file not in script and loaded_by(project, [file]).isdisjoint(files):
                    asking = [node for node in asking if not _is_its_own(file, node)]
                if asking:
                    return file, asking[0]
        return None

    def _is_asked(self, file: File, node: cst.Name | cst.Attribute) -> bool:
        """Whether another file may ask for the choice by the same words."""
        parent = file.tree.parents[node]
        if self._is_flag or not isinstance(parent, cst.Comparison):
            return self._is_flag and isinstance(node, cst.Attribute) and not isinstance(parent, cst.AssignTarget)
        values = self._values(file, parent)
        return values is not None and values != list(map(file.tree.code, _constants(parent.comparisons[0])))


def write_beside(editor: Editor, beside: Beside) -> Iterator[Edit]:
    """The edits of one file of a script that has both."""
    file = editor.file
    for where, node in beside.gone:
        if where is file:
            for other in _alternatives(file, node):
                yield from _guard_restored(editor, other)
            yield editor.edit(node, DropBranch())
    yield from (_write_answer(editor, node, answer) for where, node, answer in beside.answers if where is file)
    yield from (editor.replace(node, new) for where, node, new in beside.widened if where is file)


def _write_answer(editor: Editor, node: cst.BaseExpression, answer: bool) -> Edit:
    """The edit that leaves of the code around a question what its answer leaves of it."""
    around = editor.file.tree.parents[node]
    if isinstance(around, cst.If) and around.test is node:
        return editor.splice(around, block_of(around))
    if isinstance(around, cst.Assert) and around.test is node and answer:
        return editor.remove(around)
    if isinstance(around, cst.IfExp) and around.test is node:
        return editor.replace(around, code("{}", around.body if answer else around.orelse))
    return answered(editor, node, answer=answer)


def _choice(file: File, statement: Statement) -> Choice | None:
    """How an Apex step is chosen, where another branch somewhere in the file does the same by native AMP."""
    inner: cst.CSTNode | None = statement
    while inner is not None and not isinstance(inner, cst.FunctionDef):
        at = file.tree.statement(inner)
        branch = branch_of(file, at)
        for test in () if branch is None or branch.test is None else _parts(branch.test):
            found = {each for chain in file.tree.every(cst.If) for each in _choices(file, chain, test)}
            if len(found) == 1:
                return found.pop()
        inner = file.tree.parents.get(file.tree.block(at if branch is None else branch.chain))
    return None


def _choices(file: File, chain: cst.If, test: cst.BaseExpression) -> Iterator[Choice]:
    """What an `if` says of a choice: a part of one of its tests chooses Apex, another branch goes natively."""
    asked, apex = _compared(file, test) or (dotted(test), None)
    if asked is None or (apex is None and _is_fixed(file, test)) or file.tree.statement(chain) is not chain:
        return
    branches = [(() if each is None else tuple(_parts(each)), block) for each, block in _branches(chain)]
    for parts, _ in branches:
        mine = set(map(file.tree.code, parts))
        if file.tree.code(test) not in mine:
            continue
        for others, block in branches:
            if not _goes_natively(file, block, is_asked=bool(others)):
                continue
            theirs = [each for each in others if file.tree.code(each) not in mine]
            values = [_compared(file, each) for each in theirs]
            if not others and len(parts) == 1:
                yield Choice(asked, apex, None)
            elif apex is not None:
                yield from (Choice(asked, apex, each[1]) for each in values if each is not None and each[0] == asked)
            elif len(theirs) == 1 and (flag := dotted(theirs[0])) and _flags(parts, others) == [asked]:
                yield Choice(asked, None, flag)


def _conditions(file: File, node: cst.CSTNode) -> Iterator[str]:
    """What is true where some code is executed, as code, but for what is installed."""
    inner = node
    for around in file.tree.ancestors(node):
        if isinstance(around, (cst.If, cst.IfExp)) and inner is not around.test:
            parts = [file.tree.code(each) for each in _parts(around.test) if not _is_fixed(file, each)]
            yield from parts if inner is around.body else [f"not ({' and '.join(parts)})"]
        inner = around


def _flags(parts: Sequence[cst.BaseExpression], others: Sequence[cst.BaseExpression]) -> list[str]:
    """The flags among some tests that are not among others."""
    known = set(map(dotted, others))
    return [name for each in parts if (name := dotted(each)) is not None and name not in known]


def _parts(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What has to be so for a test to be true."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from (*_parts(test.left), *_parts(test.right))
    else:
        yield test


def _compared(file: File, test: cst.BaseExpression) -> tuple[str, str] | None:
    """What a test compares with which constant."""
    constants = _constants(test.comparisons[0]) if isinstance(test, cst.Comparison) else []
    if not isinstance(test, cst.Comparison) or not isinstance(_operator(test), cst.Equal) or len(constants) != 1:
        return None
    return None if dotted(test.left) is None else (file.tree.code(test.left), file.tree.code(constants[0]))


def _operator(node: cst.BaseExpression) -> cst.BaseCompOp:
    return cst.ensure_type(node, cst.Comparison).comparisons[0].operator


def _constants(target: cst.ComparisonTarget) -> list[cst.BaseExpression]:
    """The constants that something is compared with; none where one of them is something else."""
    other = target.comparator
    is_many = isinstance(other, (cst.Tuple, cst.List, cst.Set))
    found = [each.value for each in other.elements] if isinstance(other, (cst.Tuple, cst.List, cst.Set)) else [other]
    is_known = all(isinstance(each, (cst.SimpleString, cst.Integer)) or is_constant(each, "None") for each in found)
    return found if is_known and is_many is isinstance(target.operator, (cst.In, cst.NotIn)) else []


def _is_fixed(file: File, test: cst.BaseExpression) -> bool:
    """Whether a name only says what is installed: the module gives it True and False."""
    values = [each.value for each in object_bindings(file, test)]
    is_of_module = isinstance(test, cst.Name) and file.scopes.of(test).find(test.value) is file.scopes.module
    return is_of_module and all(is_constant(each, "True") or is_constant(each, "False") for each in values)


def _is_its_own(file: File, node: cst.Name | cst.Attribute) -> bool:
    """Whether a file itself gives a value to what an expression begins with: nobody hands it in, and no import."""
    root: cst.BaseExpression = node
    while isinstance(root, cst.Attribute):
        root = root.value
    given = file.scopes.of(node).lookup(dotted(root) or "")
    return bool(given) and all(each.kind is BindingKind.ASSIGNMENT for each in given)


def _is_seen(file: File, node: cst.Name | cst.Attribute, flag: str) -> bool:
    """Whether a flag means at the place of another one what it means elsewhere."""
    root = flag.partition(".")[0]
    own = file.tree.code(node).partition(".")[0]
    return root == own if "." in flag else isinstance(node, cst.Name) and file.scopes.of(node).find(flag) is not None


def _goes_natively(file: File, block: Block, *, is_asked: bool) -> bool:
    """Whether a branch scales losses itself, or names autocast; in an `else`, under no further condition."""
    if any(is_scaled(cst.ensure_type(call.func, cst.Attribute).value) for _, call in backward_calls(block)):
        return True
    return any(names_amp(file, each) for each in statements(block) if is_asked or not isinstance(each, cst.If))


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
