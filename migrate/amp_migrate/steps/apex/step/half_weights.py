"""When a script that wraps its optimizers whatever its switch makes the weights float16: `if args.fp16: model.half()`.

`FP16_Optimizer` takes float32 weights as well, and scales their loss: what asks for mixed precision is what makes them
float16, and not that there is a wrapper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.branches import branch_of, is_said_before, is_script, negated
from amp_migrate.steps.apex.initialize.in_helper import is_chosen
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.switch import is_visible
from amp_migrate.steps.apex.step.fp16_optimizer import half_networks, is_never_stepped
from amp_migrate.tables.apex_names import USE_SHIM
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement

_UNSCALED = "float32 weights had their loss scaled, too: without {} there is no loss scale now"
_UNSAID = "when FP16_Optimizer gets float16 weights cannot be said where the scaler would be made"


@frozen
class _Place:
    """A statement that makes weights float16, or calls what does, with the conditions around it."""

    file: File
    statement: Statement
    conditions: tuple[str, ...]


def asked_of_weights(
    project: Project, roles: Roles, files: Iterable[File], initialize: Initialize
) -> Initialize | Refusal:
    """A wrapper, under the conditions of its script for float16 weights beside its own.

    Args:
        files: those of the script.

    Returns:
        A refusal where the wrapper is always there, and those conditions cannot be asked beside it.
    """
    halved = [(file, call, network) for file in files for call, network in half_networks(file, roles)]
    networks = [(file, call) for file, call, network in halved if not is_never_stepped(file, roles, network)]
    places = [place for file, call in networks for place in _places(project, initialize, file, call)]
    known = {part for code in initialize.switch for part in _parts(code)}
    asked = _without_opposites(
        {tuple(code for code in place.conditions if not known.issuperset(_parts(code))) for place in places}
    )
    if () in asked or not asked:
        return initialize
    codes = asked.pop()
    if not asked and _can_ask(project, initialize, places[0], codes):
        notes = initialize.notes
        if initialize.init_scale != "1.0":
            notes += (_UNSCALED.format(f"`{' and '.join(codes)}`"),)
        return replace(initialize, switch=(*initialize.switch, *codes), notes=notes)
    if initialize.switch or is_chosen(project, initialize):
        return initialize
    return Refusal(initialize.file, initialize.call, _UNSAID, USE_SHIM)


def _places(project: Project, initialize: Initialize, file: File, node: cst.CSTNode, hops: int = 0) -> Iterator[_Place]:
    """Where it is decided that some code runs: in an `if` around it, or else around each call of its function."""
    statement, function = file.tree.statement(node), file.tree.function(node)
    conditions = _conditions(initialize, file, statement)
    is_beside = function is initialize.file.tree.function(initialize.call)
    sites = (
        None if conditions or is_beside or function is None else project.call_sites(project.reference(file, function))
    )
    if not sites or hops == MAX_HOPS:
        yield _Place(file, statement, conditions)
        return
    for site in sites:
        yield from _places(project, initialize, site.file, site.call, hops + 1)


def _conditions(initialize: Initialize, file: File, statement: Statement) -> tuple[str, ...]:
    """What is true, as code, where a statement of a function runs and the wrapper need not be made."""
    shared = {*initialize.file.tree.ancestors(initialize.call)}
    conditions: tuple[str, ...] = ()
    while not isinstance(around := file.tree.parents.get(file.tree.block(statement)), (cst.FunctionDef, cst.ClassDef)):
        branch = branch_of(file, statement)
        if around is None or (branch is not None and branch.block in shared):
            break
        if branch is not None and not is_script(file, branch):
            conditions = (*branch.condition(file), *conditions)
        statement = file.tree.statement(around)
    return conditions


def _without_opposites(asked: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The same conditions, without the test of an `if` where both of its branches are among them."""
    for codes in asked:
        other = (*codes[:-1], negated(build.expression(codes[-1]))) if codes else ()
        if other and other in asked:
            return _without_opposites((asked - {codes, other}) | {codes[:-1]})
    return asked


def _parts(code: str) -> Iterator[str]:
    """The conditions that one is made of: `a` and `b` for `a and b`."""
    stack = [build.expression(code)]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
            stack += [node.left, node.right]
        else:
            yield cst.Module([]).code_for_node(node)


def _can_ask(project: Project, initialize: Initialize, place: _Place, codes: tuple[str, ...]) -> bool:
    """Whether conditions mean beside the wrapper what they mean where weights become float16."""
    asked = replace(initialize, file=place.file, home=place.statement, switch=codes)
    home = initialize.home
    is_said = not isinstance(home, cst.If) or is_said_before(initialize.file, home, codes)
    return is_said and is_visible(project, asked, initialize.file, home)
