"""What decides whether something is `apex.amp` or None, where the script says that by itself.

    if args.fp16:                         def prepare(args, model, optimizer, amp):
        from apex import amp                  if amp:
    else:                                         model, optimizer = amp.initialize(model, optimizer)
        amp = None
    prepare(args, model, optimizer, amp)

Natively there is nothing that could be None: what asks for it asks `args.fp16`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import source
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.branches import branch_of, grouped, is_script, negated
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.switch import in_words_of, is_visible
from amp_migrate.steps.apex.uses.amp_tests import (
    AmpTest,
    amp_tests,
    answered_by,
    is_amp_or_none,
    is_none_without_apex,
    is_truth,
)
from amp_migrate.steps.apex.uses.apex_guards import guard_of
from amp_migrate.tables.apex_names import USE_SHIM
from amp_migrate.trees import build
from amp_migrate.trees.nodes import LOOP_TYPES, Statement, block_of, compared_with_none, is_constant, statements, walk


@frozen
class _Said:
    """Where a condition is said, and in which words; nothing where it always holds."""

    file: File
    at: Statement
    parts: tuple[str, ...]


def with_amp_asked(project: Project, initialize: Initialize) -> Initialize | Refusal:
    """An initialization under a test of `apex.amp`, as one under what decides about that."""
    tests = [*tests_round(initialize)]
    said: dict[str, tuple[str, ...]] = {}
    for test in tests:
        parts = condition_of(project, initialize, test)
        if parts is None:
            return unsaid(initialize.file, test)
        said[dotted(test.name) or ""] = parts
    asked = [answered_by(build.expression(code), partial(_answer, said)) for code in initialize.switch if said]
    if not said or False in asked:
        return initialize
    left = [each for each in asked if not isinstance(each, bool)]
    if any(dotted(node) in said for each in left for node in walk(each)):
        return unsaid(initialize.file, tests[0])
    return replace(initialize, switch=tuple(map(source, left)))


def unsaid(file: File, test: AmpTest) -> Refusal:
    """Why a script is not native that decides whether it initializes Apex by whether it has it."""
    name = file.tree.quote(test.name)
    return Refusal(file, test.node, f"what decides whether `{name}` is None cannot be said here", USE_SHIM)


def tests_round(initialize: Initialize) -> Iterator[AmpTest]:
    """The tests that decide about an initialization by whether `apex.amp` is there, which the script says by itself."""
    tree = initialize.file.tree
    statement = initialize.statement
    around = (statement, *tree.ancestors(statement)) if statement in tree.parents else ()
    chains = {each.test for each in around if isinstance(each, cst.If)}
    for test in amp_tests(initialize.file):
        if test.is_switch and not chains.isdisjoint({test.node, *tree.ancestors(test.node)}):
            yield test


def condition_of(project: Project, initialize: Initialize, test: AmpTest) -> tuple[str, ...] | None:
    """What is true where the thing that a test asks for is `apex.amp`, as the place of the test says it.

    Returns:
        The parts, none where it always is; None where that is not known, or cannot be said there.
    """
    file = initialize.file
    found = _said(project, file, test.name, ())
    told = {_in_words(project, initialize, each, file, test.name) for each in found or ()}
    return told.pop() if len(told) == 1 else None


def _answer(said: Mapping[str, tuple[str, ...]], test: cst.BaseExpression) -> cst.BaseExpression | bool:
    inner = test.args[0].value if isinstance(test, cst.Call) and is_truth(test) else test
    value, is_there = compared_with_none(inner) or (inner, True)
    parts = said.get(dotted(value) or "")
    if parts is None:
        return test
    if not parts:
        return is_there
    asked = build.expression(" and ".join(map(grouped, parts)) if len(parts) > 1 else parts[0])
    return build.expression(grouped(source(asked) if is_there else negated(asked)))


def _in_words(
    project: Project, initialize: Initialize, said: _Said, file: File, at: cst.CSTNode
) -> tuple[str, ...] | None:
    """A condition in the words of a place; None where some word of it means nothing there."""
    asked = replace(initialize, file=said.file, home=said.at, switch=said.parts)
    if not said.parts or is_visible(project, asked, file, at):
        return said.parts
    words = in_words_of(project, asked, file, at)
    return None if words is None else (words,)


def _said(project: Project, file: File, value: cst.BaseExpression, seen: tuple[cst.CSTNode, ...]) -> list[_Said] | None:
    """The conditions of a value, one for each way that it comes by; None where one of them is not known."""
    at = file.tree.statement(value)
    if isinstance(value, cst.IfExp):
        arms = [is_constant(each, "None") for each in (value.body, value.orelse)]
        asked = negated(value.test) if arms[0] else file.tree.code(value.test)
        is_apex = arms.count(True) == 1 and is_none_without_apex(file, value.orelse if arms[0] else value.body)
        return [_Said(file, at, (asked,))] if is_apex else None
    if not is_amp_or_none(file, value) or len(seen) > MAX_HOPS:
        return None
    if is_none_without_apex(file, value):
        return [_Said(file, at, ())]
    bindings = object_bindings(file, value)
    given = [each for each in bindings if not is_constant(each.value, "None")]
    if len(given) != 1 or given[0].node in seen:
        return None
    if given[0].kind is BindingKind.PARAMETER:
        return _passed(project, file, given[0].node, seen) if len(bindings) == 1 else None
    own = _branches(file, given[0], [each for each in bindings if each is not given[0]])
    origin = given[0].value
    found = [] if origin is None else _said(project, file, origin, (*seen, given[0].node))
    if own is None or found is None or not own:
        return None if own is None else found
    is_there = not any(each.parts for each in found)  # whatever the test, it is given Apex
    return [_Said(file, file.tree.statement(given[0].node), own)] if is_there else None


def _passed(project: Project, file: File, node: cst.CSTNode, seen: tuple[cst.CSTNode, ...]) -> list[_Said] | None:
    """The conditions of what the callers of a function pass for a parameter."""
    owner = file.tree.function(node)
    if owner is None:
        return None
    function = project.reference(file, owner)
    found: list[_Said] = []
    for site in project.call_sites(function) or ():
        value = function.given(site.call, cst.ensure_type(node, cst.Param).name.value)
        said = None if value is None else _said(project, site.file, value, (*seen, node))
        if said is None:
            return None
        found += (_by_parameters(file, owner, function, site, each) for each in said)
    return found


def _by_parameters(file: File, owner: cst.FunctionDef, function: FunctionRef, site: CallSite, said: _Said) -> _Said:
    """A condition by the parameters of a function that are given its parts, where there are: `args.fp16` for `fp16`."""
    names = [
        name
        for name, bound in file.scopes.inside(owner).bindings.items()
        if all(each.kind is BindingKind.PARAMETER for each in bound)
    ]
    given = {name: function.given(site.call, name) for name in names}
    codes = {site.file.tree.code(value): name for name, value in given.items() if value is not None}
    if not said.parts or said.file is not site.file or not all(each in codes for each in said.parts):
        return said
    return _Said(file, statements(block_of(owner))[0], tuple(codes[each] for each in said.parts))


def _branches(file: File, given: Binding, others: list[Binding]) -> tuple[str, ...] | None:
    """What is true in its function where a name is given `apex.amp`, which else is None; None where that is unknown."""
    tree = file.tree
    statement = tree.statement(given.node)
    home: Statement = guard_of(file, statement) or statement
    parts: tuple[str, ...] = ()
    while (branch := branch_of(file, home)) is not None and not is_script(file, branch):
        home, parts = branch.chain, (*branch.condition(file), *parts)
    around = takewhile(lambda each: not isinstance(each, cst.FunctionDef), tree.ancestors(home))
    is_unknown = branch is None and any(isinstance(each, (cst.If, *LOOP_TYPES)) for each in around)
    if is_unknown or "False" in parts or not all(_is_before_or_instead(file, each, given) for each in others):
        return None
    return parts


def _is_before_or_instead(file: File, other: Binding, given: Binding) -> bool:
    """Whether a name is None before it is given something else, or where it is not."""
    tree, made = file.tree, file.tree.function(other.node)
    if made is not tree.function(given.node):
        return made is None or made.name.value == "__init__"
    block = tree.common_block([other.node, given.node])
    is_instead = tree.lift(other.node, block) is tree.lift(given.node, block)
    return is_instead or tree.order[other.node] < tree.order[given.node]
