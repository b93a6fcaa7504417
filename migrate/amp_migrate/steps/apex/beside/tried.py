"""Native AMP where Apex raises: `try: model, optimizer = amp.initialize(...)`, `except: scaler = GradScaler()`.

Each step asks whether there is a scaler, and goes by Apex where there is none. Once the scaler is always made where
Apex was tried, it is there wherever such a step is come to: if nothing has been initialized, Apex raised in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.beside.choice import NAMING, goes_natively
from amp_migrate.steps.apex.beside.conditions import Condition, conditions, switched
from amp_migrate.steps.apex.beside.other_loss import stepped
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_uses
from amp_migrate.steps.apex.uses.apex_guards import goes_with_import, is_apex_import
from amp_migrate.steps.scaler.callers import every_call
from amp_migrate.steps.statements.amp_signs import names_amp
from amp_migrate.tables.apex_names import INITIALIZE
from amp_migrate.tables.torch_names import GRAD_SCALER
from amp_migrate.trees.nodes import (
    Block,
    Statement,
    block_of,
    blocks,
    compared_with_none,
    find,
    is_constant,
    statements,
    walk,
)
from amp_migrate.trees.own_calls import named_arguments

_PLAIN = (cst.Assign, cst.Expr, cst.Pass)
# What is raised where Apex, or its amp, is missing.
_MISSING = ("BaseException", "Exception", "ImportError", "ModuleNotFoundError", "NameError", "AttributeError")


@frozen
class Tried:
    """A file that tries Apex.

    Attributes:
        guards: each `try` that initializes it.
        branches: each `if` that asks for a scaler, with its branch that goes by Apex where there is none.
    """

    file: File
    guards: tuple[cst.Try, ...]
    branches: tuple[tuple[cst.If, Block], ...]


def read_tried(project: Project, files: Sequence[File]) -> Tried | None:
    """The file of a script of one that does so, where its handlers are seen to serve all steps; else None."""
    file = files[0]
    starting = list(amp_calls(file, "initialize"))
    if any("enabled" in (named_arguments(call, INITIALIZE) or ("enabled",)) for call in starting):
        return None  # where it is off, steps by Apex train in float32
    guards = [each for call in starting if (each := _guard(file, call)) is not None]
    made = [_made(file, each) for each in guards]
    if len(files) > 1 or not starting or len(guards) < len(starting) or not all(made):
        return None
    targets = [target for each in made for target in each]
    scaler = file.scopes.of(targets[0]).lookup(targets[0].value)
    own = [file.tree.statement(each) for each in targets]
    others = (each for each in scaler if each.node not in own)
    if len(scaler) < len(own) or not all(is_constant(each.value, "None") for each in others):
        return None
    asked = _Asked(project, file, scaler)
    branches = [asked.branch(call) for call in amp_calls(file, "scale_loss")]
    found = tuple(dict.fromkeys(each for each in branches if each is not None))
    dead = {node for each in guards for node in walk(each.body)}
    dead.update(node for each in found for node in walk(asked.without(each)))
    is_all = (
        bool(found)
        and None not in branches
        and all(each in dead or goes_with_import(file, each) for each in amp_uses(file))
    )
    if not is_all or not all(map(asked.is_scaler, targets)):
        return None
    known = {each for place in (*starting, *found) for each in conditions(file, place)}
    native = (each for each in file.tree.every(cst.Name, cst.Attribute) if each not in dead and names_amp(file, each))
    for node in (each for each in native if not isinstance(file.tree.parents[each], NAMING)):
        if not all(each in known or asked.is_there(each) for each in switched(file, node)):
            return None
    return Tried(file, tuple(guards), tuple((each, asked.without(each)) for each in found))


@frozen
class _Asked:
    """What asks for the scaler that the handlers make.

    Attributes:
        scaler: what gives it its value.
    """

    project: Project
    file: File
    scaler: list[Binding]

    def branch(self, call: cst.Call) -> cst.If | None:
        """The `if` of two branches around a step by Apex, of which the other one goes by the scaler."""
        tree = self.file.tree
        around = (
            each for each in tree.ancestors(call) if isinstance(each, cst.If) and self._asks(each.test) is not None
        )
        found = next(around, None)
        if found is None or not isinstance(found.orelse, cst.Else) or tree.statement(found) is not found:
            return None
        gone, other = self.without(found), self.with_one(found)
        steps, natively = ({what for what, _ in stepped(self.file, side)} for side in (gone, other))
        is_apex = tree.block(tree.statement(call)) is gone and steps <= natively  # and trains in float32 nowhere
        return found if is_apex and goes_natively(self.file, other) else None

    def without(self, branch: cst.If) -> Block:
        """The branch that is taken where there is none."""
        return block_of(branch.orelse) if self._asks(branch.test) and branch.orelse is not None else block_of(branch)

    def with_one(self, branch: cst.If) -> Block:
        """The other."""
        return block_of(branch) if self._asks(branch.test) or branch.orelse is None else block_of(branch.orelse)

    def _asks(self, test: cst.BaseExpression) -> bool | None:
        """What a test is where there is a scaler; None where it asks for anything else."""
        asked, is_so = compared_with_none(test) or (test, True)
        return is_so if self.is_scaler(asked) else None

    def is_there(self, condition: Condition) -> bool:
        """Whether a condition is that there is a scaler."""
        compared = compared_with_none(condition.node)
        asked = condition.node if compared is None else compared[0]
        return self.is_scaler(asked) and condition.holds is (compared is None)

    def is_scaler(self, value: cst.BaseExpression, seen: tuple[cst.CSTNode, ...] = ()) -> bool:
        """Whether something is that scaler, or None: by its name, or by a parameter that every call gives it."""
        bindings = self.file.scopes.of(value).lookup(value.value) if isinstance(value, cst.Name) else []
        if [each.node for each in bindings] == [each.node for each in self.scaler]:
            return bool(bindings)
        only = bindings[0] if len(bindings) == 1 else None
        function = None if only is None else self.file.tree.function(only.node)
        if only is None or only.kind is not BindingKind.PARAMETER or function is None or function in seen:
            return False
        called = self.project.reference(self.file, function)
        sites = every_call(self.project, called, ())
        if isinstance(sites, str) or any(True for _ in self.project.possible_calls(called)):
            return False
        given = [(each.file, called.given(each.call, cst.ensure_type(value, cst.Name).value)) for each in sites]
        return all(
            where is self.file and each is not None and self.is_scaler(each, (*seen, function)) for where, each in given
        )


def _guard(file: File, call: cst.Call) -> cst.Try | None:
    """The `try` that only initializes Apex, and has but one handler, in which nothing leaves it."""
    statement = file.tree.statement(call)
    around = file.tree.parents.get(file.tree.block(statement))
    if not isinstance(around, cst.Try) or around.orelse is not None or around.finalbody is not None:
        return None
    if len(around.handlers) != 1 or file.tree.block(statement) is not around.body:
        return None
    handler = around.handlers[0]
    if handler.type is not None and file.tree.code(handler.type) not in _MISSING:
        return None
    name = None if handler.name is None else handler.name.name
    names = {each.value for each in find(handler.body, cst.Name)}
    is_plain = all(map(_is_plain, statements(block_of(handler))))
    if not is_plain or (isinstance(name, cst.Name) and name.value in names):
        return None
    return around if all(each is statement or is_apex_import(file, each) for each in statements(around.body)) else None


def _is_plain(statement: Statement) -> bool:
    """Whether nothing leaves a handler by a statement, which may choose by what PyTorch has: `try: ... except: ...`."""
    is_choice = isinstance(statement, cst.Try) and statement.orelse is None and statement.finalbody is None
    return isinstance(statement, _PLAIN) or (
        is_choice and all(isinstance(each, _PLAIN) for block in blocks(statement) for each in statements(block))
    )


def _made(file: File, guard: cst.Try) -> list[cst.Name]:
    """What the handler of a `try` gives a scaler to, once on each way through it; nothing where it may be another."""
    made = [found for each in statements(block_of(guard.handlers[0])) if (found := _scalers(file, each))]
    return made[0] if len(made) == 1 and len({each.value for each in made[0]}) == 1 else []


def _scalers(file: File, statement: Statement) -> list[cst.Name]:
    """The targets that a statement gives a scaler to, on whichever way through it; nothing where some way has none."""
    if isinstance(statement, cst.Try):
        ways = [[one for each in statements(block) for one in _scalers(file, each)] for block in blocks(statement)]
        return [target for way in ways for target in way] if all(len(way) == 1 for way in ways) else []
    call = statement.value if isinstance(statement, cst.Assign) else None
    if not (isinstance(call, cst.Call) and file.names.meanings(call.func) & GRAD_SCALER):
        return []
    targets = [each.target for each in cst.ensure_type(statement, cst.Assign).targets]
    return [each for each in targets if isinstance(each, cst.Name)]
