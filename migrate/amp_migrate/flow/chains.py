"""Under which tests something happens, as far as they hold on every way to it, and which of them exclude each other."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.machine import GIVEN
from amp_migrate.flow.events import Event
from amp_migrate.flow.source import Code, Site
from amp_migrate.flow.task import Task
from amp_migrate.implications import Facts, implied
from amp_migrate.syntax import nodes_in

_MOST_CALLS = 8  # from one function to another


class CallChains:
    """The tests on the ways through a program that has been interpreted."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def calls_of(self, code: Code) -> list[tuple[Code, ast.stmt]]:
        """The calls of a function in the files in focus: in which other one, by which statement."""
        return self._calls.get(code, [])

    def to(self, event: Event, start: Code) -> Iterator[Facts]:
        """For each chain of calls from a function to where something happens, what tests have come to on it."""
        return self._from(start, event.code, tests_of(event), ())

    def _from(self, start: Code, code: Code, facts: Facts, passed: tuple[Code, ...]) -> Iterator[Facts]:
        if code is start:
            yield facts
        elif code not in passed and len(passed) < _MOST_CALLS:
            for caller, statement in self.calls_of(code):
                worlds = self._analysis.states.get(statement, ())
                above = in_all(world.facts for world in worlds)
                yield from self._from(start, caller, facts | above, (*passed, code))

    def made_in(self, site: Site) -> Code | None:
        """The function that a place stands in."""
        module = self._analysis.module(site.file)
        found = [] if module is None else [each for each in module.codes.values() if each.has(site)]
        return next((each for each in found if not any(inner.has(site) for inner in each.inner)), None)

    def always(self, event: Event, start: Code, holds: Callable[[Facts], bool]) -> bool:
        """Whether something holds of the tests of a function by which every chain of calls to an event goes."""
        if event.code is start:
            return holds(tests_of(event))
        todo = [each for each in event.seen_by if isinstance(each, Task)]
        met = {*todo}
        while todo:
            task = todo.pop()
            if not task.callers:
                return False
            for caller in task.callers:
                if caller.code is start:
                    calls = [statement for code, statement in self.calls_of(task.code) if code is start]
                    ways = [self._analysis.states.get(each, ()) for each in calls]
                    if not ways or not all(holds(in_all(world.facts for world in worlds)) for worlds in ways):
                        return False
                elif caller not in met:
                    met.add(caller)
                    todo.append(caller)
        return bool(met)

    def are_asked_alike(self, code: Code, names: frozenset[str]) -> bool:
        """Whether a function asks names for what changes from round to round, in all of its calls in one loop.

        What they are given beside that is the same, or another number, as of the rounds that each adds up. Of anything
        else, as of a flag of the last call, nobody knows which tests it decides together with the rest.
        """
        calls = self.calls_of(code)
        loops = (each for caller in {caller for caller, _ in calls} for each in _loops(caller.body))
        around = next((each for each in loops if {statement for _, statement in calls} <= set(nodes_in(each))), None)
        if around is None or not names <= {each.arg for each in code.parameters} - code.bound_anew:
            return False
        found = [node for _, statement in calls for node in _expressions(statement)]
        given = [_given(code, each, names) for each in found if code in self._analysis.callees.get(each, ())]
        changed = _changed_in([around])

        def changes(text: str) -> bool:
            return any(each.search(text) for each in changed)

        each_of_one = (set(texts) for texts in zip(*given, strict=False))
        return all(any(map(changes, texts)) for texts in given) and all(
            len(texts) == 1 or all(text.isdecimal() or changes(text) for text in texts) for texts in each_of_one
        )

    @cached_property
    def _calls(self) -> dict[Code, list[tuple[Code, ast.stmt]]]:
        """Where each function is called in the files in focus: in which other one, by which statement."""
        found: defaultdict[Code, list[tuple[Code, ast.stmt]]] = defaultdict(list)
        for file in self._analysis.focus:
            module = self._analysis.module(file)
            for code in () if module is None else module.codes.values():
                for statement in _statements(code.body):
                    for callee in self._called(statement):
                        found[callee].append((code, statement))
        return found

    def _called(self, statement: ast.stmt) -> Iterator[Code]:
        for node in _expressions(statement):
            yield from self._analysis.callees.get(node, ())


def tests_of(event: Event) -> Facts:
    """What tests have come to on every way to where something happens, in the function that it is in."""
    return in_all(facts for _, facts in event.states)


def steady(facts: Facts, code: Code, node: ast.AST | None = None) -> Facts:
    """Those of some tests that come to the same in every round: on nothing that is changed there.

    Args:
        code: the function that has the tests: what it changes may be another in its next call.
        node: what they lead to; where that is in a loop, the rounds are those of the outermost.
    """
    loops = _loops(code.body)
    around = next((each for each in loops if node is not None and any(one is node for one in nodes_in(each))), None)
    changed = _changed_in(code.body if around is None else [around])
    return frozenset(fact for fact in facts if not any(each.search(fact[0]) for each in changed))


def _changed_in(body: Iterable[ast.stmt]) -> list[re.Pattern[str]]:
    """What finds in a text the names that some statements store."""
    stored = {
        ast.unparse(target)
        for statement in _statements(body)
        for target in nodes_in(statement)
        if isinstance(getattr(target, "ctx", None), (ast.Store, ast.Del))
    }
    return [re.compile(rf"(?<![\w.]){re.escape(each)}(?!\w)") for each in sorted(stored)]


def exclude(one: Facts, other: Facts) -> bool:
    """Whether what tests have come to on two ways cannot be on one."""
    told = [{(text, outcome) for text, outcome, _ in facts} for facts in (one, other)]
    known, others = told
    if any(_denied(fact, others) for fact in known) or any(_denied(fact, known) for fact in others):
        return True
    mine, theirs = ([each for each in map(_equality, facts) if each is not None] for facts in told)
    return any(left == other and _differ(a, b) for left, a in mine for other, b in theirs)


def _equality(fact: tuple[str, bool]) -> tuple[str, ast.expr] | None:
    """What a test has found to be equal to what; None for any other test, or outcome."""
    test = ast.parse(fact[0], mode="eval").body if fact[1] else None
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or not isinstance(test.ops[0], (ast.Eq, ast.Is)):
        return None
    return ast.unparse(test.left), test.comparators[0]


def _differ(one: ast.expr, other: ast.expr) -> bool:
    """Whether two things are never equal: constants, or members of one class."""
    if isinstance(one, ast.Constant) and isinstance(other, ast.Constant):
        return bool(one.value != other.value)
    if not (isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute)):
        return False
    owners = {ast.unparse(each.value) for each in (one, other)}
    is_of_class = owners.pop().rpartition(".")[2][:1].isupper() and not owners
    return is_of_class and one.attr[:1].isupper() and other.attr[:1].isupper() and one.attr != other.attr


def _denied(fact: tuple[str, bool], known: set[tuple[str, bool]]) -> bool:
    """Whether a test has come to the contrary, by itself or by all its parts."""
    text, outcome = fact
    contrary = {(each, is_so) for each, is_so, _ in implied(ast.parse(text, mode="eval").body, not outcome)}
    return (text, not outcome) in known or (bool(contrary) and contrary <= known)


def in_all(ways: Iterable[Facts]) -> Facts:
    """What has been tested on each of several ways; what a variable was given is no test."""
    known = [frozenset(fact for fact in facts if GIVEN not in fact[2]) for facts in ways]
    return known[0].intersection(*known[1:]) if known else frozenset()


def _given(code: Code, call: ast.AST, names: frozenset[str]) -> tuple[str, ...]:
    """What a call gives for some parameters, as it is written; nothing where that cannot be seen."""
    parameters = [each.arg for each in code.parameters]
    is_method = code.parent is not None and isinstance(code.parent.node, ast.ClassDef)
    if not isinstance(call, ast.Call) or any(isinstance(each, ast.Starred) for each in call.args):
        return ()
    given = dict(zip(parameters[is_method:], map(ast.unparse, call.args), strict=False))
    given |= {each.arg: ast.unparse(each.value) for each in call.keywords if each.arg is not None}
    return tuple(given[each] for each in sorted(names)) if names <= given.keys() else ()


def _loops(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    return (each for each in _statements(body) if isinstance(each, (ast.For, ast.AsyncFor, ast.While)))


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """What stands in a statement itself, and in none of the statements in it."""
    stack = [each for each in ast.iter_child_nodes(statement) if not isinstance(each, ast.stmt)]
    while stack:
        node = stack.pop()
        yield node
        stack += (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt))


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and those in them, but for what functions and classes in it have."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for each in ast.iter_child_nodes(statement):
                if isinstance(each, ast.stmt):
                    yield from _statements([each])
                elif isinstance(each, (ast.ExceptHandler, ast.match_case)):
                    yield from _statements(each.body)
