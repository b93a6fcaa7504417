"""Scripts that train with Apex or with native AMP, as they are told: `if args.amp == "apex": ... else: ...`.

The author has written the native form of everything that Apex does there. What chose Apex chooses that instead: the
branches of Apex go, and wherever the script asks for native AMP, what asked for Apex counts, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.beside.asked import Asked
from amp_migrate.steps.apex.beside.choice import find_choice
from amp_migrate.steps.apex.beside.idle_holder import Definition, idle_holder
from amp_migrate.steps.apex.beside.native_handler import does_more, native_handler
from amp_migrate.steps.apex.beside.never_set import find_flag
from amp_migrate.steps.apex.beside.other_loss import fewer_steps, other_loss
from amp_migrate.steps.apex.beside.tried import Tried, read_tried
from amp_migrate.steps.apex.step.master_parameters import parameters_of
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_uses
from amp_migrate.steps.apex.uses.apex_guards import goes_with_import
from amp_migrate.steps.apex.uses.cast_functions import is_needless
from amp_migrate.steps.apex.uses.unread_attributes import is_unread
from amp_migrate.steps.statements.amp_signs import is_scaled, names_amp
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.tables.apex_names import USE_SHIM
from amp_migrate.trees.nodes import Statement, block_of, find, statements, walk

_CONVERTING = "apex.parallel.convert_syncbn_model"


@frozen
class Beside:
    """A script that has both.

    Attributes:
        steps: what scales the loss in the branches of Apex.
        gone: each `if` or `elif` whose branch goes.
        answers: the other questions that are answered where nothing chooses Apex, each with its answer.
        widened: what asks for native AMP, each with the question that counts what chose Apex.
        always: each `if` of which only what sets native AMP up stays.
        told: the flag of the script that chooses nothing any more; empty where there is none.
        parameters: the calls of `amp.master_params` that stay to be made, each with what it gives natively, as code.
        idle: in files that go on using `apex.amp`, a definition that does, each of which nothing uses any more.
        tried: each `try` whose handler sets native AMP up, and takes its place.
    """

    steps: tuple[tuple[File, Statement], ...]
    gone: tuple[tuple[File, cst.If], ...]
    answers: tuple[tuple[File, cst.BaseExpression, bool], ...]
    widened: tuple[tuple[File, cst.BaseExpression, Code], ...]
    always: tuple[tuple[File, cst.If], ...]
    parameters: tuple[tuple[File, cst.Call, str], ...] = ()
    told: str = ""
    idle: tuple[tuple[File, Definition], ...] = ()
    tried: tuple[tuple[File, cst.Try], ...] = ()


def read_beside(roles: Roles, files: Sequence[File]) -> Beside | Refusal | None:
    """What it takes to choose native AMP where Apex was chosen; None for a script that has Apex alone."""
    project = roles.project
    scaling = [(file, file.tree.statement(call)) for file in files for call in amp_calls(file, "scale_loss")]
    starting = [(file, file.tree.statement(call)) for file in files for call in amp_calls(file, "initialize")]
    steps = (*scaling, *starting)
    choice = next((each for where in steps if (each := find_flag(project, *where)) is not None), None)
    choice = choice or next((each for where in steps if (each := find_choice(project, *where)) is not None), None)
    if choice is None:
        tried = read_tried(project, files) if files else None
        return None if tried is None else _instead_of(tried, scaling)
    reader = Asked(project, choice, files)
    asked = [(file, node) for file in files for node in reader.asked(file)]
    synchronizing = [(file, call) for file in files for call in _synchronizing(file)]
    staying_asked = {test for each in synchronizing if (test := _asked_for_that_alone(*each)) is not None}
    asked = [each for each in asked if staying_asked.isdisjoint(_questions(reader, *each))]
    known = dict.fromkeys((file, *found) for file, node in asked if (found := reader.decided(file, node)) is not None)
    failing = [(file, file.tree.parents[node], node) for file, node, answer in known if not answer]
    gone = [(file, around) for file, around, node in failing if isinstance(around, cst.If) and around.test is node]
    parts: list[cst.CSTNode] = [part for _, node in gone for part in (node.test, node.body)]
    parts += (node.orelse for _, node in choice.always if node.orelse is not None)
    for file, node, answer in known:
        around = file.tree.parents[node]
        if isinstance(around, cst.If) and around.test is node and answer and around.orelse is not None:
            parts.append(around.orelse)
        if isinstance(around, cst.IfExp) and around.test is node:
            parts.append(around.orelse if answer else around.body)
    dead = {each for part in parts for each in walk(part)}
    for file, call in synchronizing:
        if call in dead:
            return Refusal(file, call, "batch norms are synchronized with Apex, and not with native AMP", USE_SHIM)
    answered = {each for _, question, _ in known for each in walk(question)}
    for file in files:
        for call in file.calls:
            if call in dead and names_amp(file, call.func) and isinstance(file.tree.parents[call], cst.WithItem):
                return Refusal(file, call, "native AMP casts where Apex is chosen, too", USE_SHIM)
        for guard in file.tree.every(cst.Try):
            if native_handler(file, guard) is not None and does_more(guard):
                reason = "native AMP is imported only where this fails, which does more than import Apex"
                return Refusal(file, guard, reason, USE_SHIM)
    unread = next((each for file in files for each in _made_unread(project, file, dead)), None)
    if unread is not None:
        return Refusal(
            *unread, "native AMP would scale where Apex does by a scaler that no code in sight makes", USE_SHIM
        )
    changing = dict.fromkeys(file for file, _ in (*starting, *asked, *choice.always))
    masters = [(file, call) for file in files for call in amp_calls(file, "master_params") if call not in dead]
    masters = [(file, call) for file, call in masters if len(call.args) == 1]
    answered.update(node for _, call in masters for node in walk(call.func))
    idle: list[tuple[File, Definition]] = []
    for file in files:
        for use in amp_uses(file):
            if (
                use in dead
                or use in answered
                or is_needless(file, file.tree.statement(use))
                or goes_with_import(file, use)
            ):
                continue
            if file not in changing and file.tree.is_target(use):
                continue
            holder = None if file in changing else idle_holder(project, file, use, dead)
            if holder is None:
                return Refusal(file, use, "apex.amp is used where native AMP is not chosen instead", USE_SHIM)
            idle.append((file, holder))
    asked = [each for each in asked if each[1] not in dead]
    for file, node in asked:
        if not reader.is_understood(file, node):
            reason = f"what {file.tree.quote(node)} decides beside Apex is not understood"
            return Refusal(file, node, reason, USE_SHIM)
    apart = reader.decided_apart(files)
    if apart is not None:
        return Refusal(*apart, "native AMP is set up here under another condition than what chooses it", USE_SHIM)
    more = reader.set_up_with(files)
    if more is not None:
        return Refusal(*more, "this is done for native AMP, and not where Apex is chosen instead", USE_SHIM)
    otherwise = next(filter(None, map(_otherwise, changing)), None)
    if otherwise is not None:
        return otherwise
    elsewhere = reader.asked_elsewhere(files)
    if elsewhere is not None:
        return Refusal(*elsewhere, "another file asks whether Apex or native AMP is chosen", USE_SHIM)
    widened = ((file, reader.widened(file, node)) for file, node in asked)
    staying = {file for file, _ in idle}
    return Beside(
        tuple(each for each in scaling if each[0] not in staying),
        tuple(gone),
        tuple(each for each in known if each[1] not in dead),
        tuple((file, *each) for file, each in widened if each is not None),
        choice.always,
        tuple((file, call, parameters_of(project, roles, file, call.args[0].value)) for file, call in masters),
        choice.asked if choice.apex is choice.native is None and not (choice.always or staying_asked) else "",
        tuple(dict.fromkeys(idle)),
    )


def _synchronizing(file: File) -> Iterator[cst.Call]:
    """The calls that make batch norms Apex's in a branch, with no other branch in which they become any."""
    for call in file.calls:
        if file.names.callee(call) == _CONVERTING:
            branch = _branch(file, call)
            others = () if branch is None or branch.orelse is None else find(branch.orelse, cst.Call)
            if not any((dotted(each.func) or "").endswith("convert_sync_batchnorm") for each in others):
                yield call


def _branch(file: File, call: cst.Call) -> cst.If | None:
    """The innermost choice that a call is in."""
    return next((each for each in file.tree.ancestors(call) if isinstance(each, cst.If)), None)


def _asked_for_that_alone(file: File, call: cst.Call) -> cst.BaseExpression | None:
    """What a branch is under in which nothing else happens: it stays, and gets what PyTorch has for it."""
    statement, branch = file.tree.statement(call), _branch(file, call)
    if branch is None or branch.orelse is not None or file.tree.statement(branch) is not branch:
        return None
    is_whole = isinstance(statement, (cst.Assign, cst.Expr)) and statement.value is call
    return branch.test if is_whole and statements(block_of(branch)) == (statement,) else None


def _questions(reader: Asked, file: File, node: cst.Name | cst.Attribute) -> tuple[cst.BaseExpression, ...]:
    """What is decided where Apex is not chosen by a place that asks for it."""
    found = reader.decided(file, node)
    return () if found is None else found[:1]


def _made_unread(project: Project, file: File, dead: Collection[cst.CSTNode]) -> Iterator[tuple[File, cst.CSTNode]]:
    """The scalers of native AMP that unread code gives to its classes, maybe not where Apex is chosen."""
    for _, body in bodies(file):
        for _, call in backward_calls(body):
            loss = cst.ensure_type(call.func, cst.Attribute).value
            scale = loss.func if isinstance(loss, cst.Call) and call not in dead and is_scaled(loss) else None
            scaler = scale.value if isinstance(scale, cst.Attribute) else None
            if isinstance(scaler, cst.Attribute) and is_unread(project, file, scaler):
                yield file, scaler


def _instead_of(tried: Tried, scaling: Sequence[tuple[File, Statement]]) -> Beside | Refusal:
    """What it takes to let the handlers of a file that tries Apex set native AMP up."""
    file = tried.file
    refused = _otherwise(file)
    if refused is not None:
        return refused
    gone = [each for each, block in tried.branches if each.body is block]
    answers = tuple((file, each.test, True) for each, block in tried.branches if each.body is not block)
    guards = tuple((file, each) for each in tried.guards)
    return Beside(tuple(scaling), tuple((file, each) for each in gone), answers, (), (), tried=guards)


def _otherwise(file: File) -> Refusal | None:
    """Where native AMP trains something else than Apex does."""
    otherwise = other_loss(file)
    if otherwise is not None:
        return Refusal(file, otherwise, "native AMP computes something else here than what runs with Apex", USE_SHIM)
    fewer = fewer_steps(file)
    if fewer is not None:
        return Refusal(file, fewer, "native AMP leaves out an optimizer here that steps with Apex", USE_SHIM)
    return None
