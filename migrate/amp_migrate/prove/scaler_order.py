"""Whether a scaler is used in an order in which it works, on every way through the code.

Between two updates: losses are scaled before they go backward, gradients are unscaled once and before anything reads
them, then each optimizer steps through its scaler, and then the scale is updated. What raises, or trains on scaled
gradients, is a fault where the original has none of its kind in the same function.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from amp_migrate.counters import behind_all_in, implied_in, known_of_number, ranging
from amp_migrate.frozen import frozen
from amp_migrate.implications import Fact, Facts
from amp_migrate.prove.code.arguments import arguments, bound, defaults
from amp_migrate.prove.code.atoms import CONTEXT, ENTERED, NONE, SCALE, SCALER, is_carrier
from amp_migrate.prove.code.program import Program
from amp_migrate.prove.code.public_names import NO_CONTEXTS, OPTIMIZERS
from amp_migrate.prove.code.scopes import DEFINITIONS, Definition, Function, Scope, heads, imported_name, last_word
from amp_migrate.prove.code.values import Values
from amp_migrate.prove.code.ways import Walk
from amp_migrate.syntax import children, nodes_in

_MOST = 48  # states that are told apart
_DEPTH = 6  # calls in one another that are gone into: what is further down is not looked at
_READERS = frozenset(
    {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "get_total_norm", "clip_grads_with_norm_"}
)
_NAME, _CALL = re.compile(r"\w+"), re.compile(r"\w\(")
_OF_AUTOGRAD = "torch.autograd.backward"
_SPOKEN_OF = _READERS | {"backward", "step", "zero_grad"}


@frozen
class Between:
    """What has happened since the last update of a scaler.

    Attributes:
        scaled, plain: whether a scaled loss, or one that is not, has gone backward.
        is_latest_plain: whether the latest that has is one that is not.
        is_new: whether the scaler was made here, so that there is nothing before.
        is_updated: whether nothing has gone backward since an update.
        read_safely: whether gradients were unscaled since the last scaled backward.
        unscaled, stepped: the optimizers that were.
        cleared: the optimizers whose gradients were cleared since the last backward.
        known: what tests have come to, each with how many calls deep it was made.
    """

    scaled: bool = False
    plain: bool = False
    is_latest_plain: bool = False
    is_new: bool = False
    is_updated: bool = False
    read_safely: bool = False
    unscaled: frozenset[str] = frozenset()
    stepped: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()
    known: frozenset[tuple[int, Fact]] = frozenset()


@frozen
class Disorder:
    """A use of a scaler that does not work.

    Attributes:
        what: the fact.
        file, function: where it is, the latter as `Class.method`.
    """

    what: str
    file: str
    function: str
    line: int


def disorders(program: Program) -> dict[str, list[Disorder]]:
    """The uses of scalers that do not work, by file."""
    found: dict[str, list[Disorder]] = {name: [] for name in program.files}
    code = _Code(program)
    for file, node, scope, label in code.starts():
        walk = _Order(code, scope, label, {}, (node,) if isinstance(node, DEFINITIONS) else ())
        ended = walk.block(node.body, frozenset({Between()})) | walk.returned
        for each in walk.found:
            found[each.file].append(each)
        if not walk.found and any(each.scaled and each.stepped for each in ended):
            line = getattr(node, "lineno", 0)
            found[file].append(Disorder("the scale is not updated behind a step", file, label, line))
    return found


def new_disorder(before: list[Disorder], after: list[Disorder]) -> Disorder | None:
    """The first disorder that the original does not have in the same function."""
    known = Counter((each.what, each.function) for each in before)
    for each in sorted(set(after), key=lambda each: (each.line, each.what)):
        if not known[each.what, each.function]:
            return each
    return None


class _Code:
    """The functions of a program that have to do with scalers."""

    def __init__(self, program: Program) -> None:
        self.values: Values = program.values
        self._program = program
        self._labels: dict[ast.AST, str] = {}
        self._direct: dict[Function, bool] = {}
        self._called: set[Function] = set()
        self._calls: dict[ast.expr, list[tuple[ast.Call, Scope]]] = {}
        self.stepped: set[str] = set()  # the optimizers that step through a scaler somewhere
        self.optimizers: set[str] = (
            set()
        )  # what is one if it steps: `zero_grad()` is called on it, or it is made as one
        self._changing: dict[str, set[ast.AST]] = {}  # who gives an attribute, or a name of others, another value
        self._flags: dict[ast.AST, set[str]] = {}
        for file in program.files.values():
            for node, scope in file.scopes.functions:
                owner = f"{scope.node.name}." if isinstance(scope.node, ast.ClassDef) else ""
                self._labels[node] = f"{owner}{node.name}"
            for statement, scope in file.scopes.statements:
                for head in () if isinstance(statement, (*DEFINITIONS, ast.ClassDef)) else heads(statement):
                    for call, at in self.calls_of(head, scope):
                        # `model.train()` may be a method of the files, and may be none: that one is entered, too.
                        self._called.update(function for function, _, is_sure in self.callees(call, at) if is_sure)
                        if self.scaler_method(call, at) == "step" and call.args:
                            self.stepped.add(_word(_key(call.args[0], {})))
                        elif isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad":
                            self.optimizers.add(_word(_key(call.func.value, {})))
                for each in () if getattr(scope.node, "name", "") == "__init__" else _changed(heads(statement)):
                    if isinstance(each, ast.Attribute) or last_word(each) in scope.elsewhere:
                        self._changing.setdefault(last_word(each), set()).add(scope.node)
                made = statement.value if isinstance(statement, ast.Assign) else None
                name = self.values.name(made.func, scope) if isinstance(made, ast.Call) else ""
                if f"{name.rpartition('.')[0]}." in OPTIMIZERS and isinstance(statement, ast.Assign):
                    self.optimizers.update(_word(_key(target, {})) for target in statement.targets)

    def facts(self, test: ast.expr, outcome: bool, scope: Scope) -> Facts:
        """What follows from a test, as far as no other function changes what it asks."""
        return self._steady(implied_in(self._program.files[scope.file].tree, scope.node, test, outcome), scope)

    def _steady(self, facts: Facts, scope: Scope) -> Facts:
        return frozenset(fact for fact in facts if all(self._changing.get(e, set()) <= {scope.node} for e in fact[2]))

    def flagged(self, node: ast.stmt, scope: Scope) -> Facts:
        """What a test of a flag or counter comes to behind what sets it, if others of the function set it, too.

        One that is set in one place alone is a switch, which may be set otherwise in another run.
        """
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        value = node.value.value if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else None
        if not isinstance(target, (ast.Name, ast.Attribute)) or not isinstance(value, (bool, int, float)):
            return frozenset()
        if scope.node not in self._flags:
            inside = [*nodes_in(scope.node)]
            targets = [target for each in inside if isinstance(each, ast.Assign) for target in each.targets]
            targets += (each.target for each in inside if isinstance(each, ast.AugAssign))
            times = Counter(map(ast.unparse, targets))
            self._flags[scope.node] = {each for each in times if times[each] > 1}
        if ast.unparse(target) not in self._flags[scope.node]:
            return frozenset()
        if isinstance(value, bool):
            return self.facts(target, value, scope)
        tree, name = self._program.files[scope.file].tree, ast.unparse(target)
        return self._steady(known_of_number(tree, scope.node, name, value), scope)

    def behind_all(self, loop: ast.For | ast.AsyncFor, facts: Facts, scope: Scope) -> Facts:
        """What facts of the last round of a loop come to behind it."""
        return behind_all_in(self._program.files[scope.file].tree, loop, facts)

    def ranges(self, loop: ast.While, scope: Scope) -> bool:
        """Whether a loop goes from a number up to a bound, as `for` over a `range()` does."""
        return loop in ranging(self._program.files[scope.file].tree, scope.node)

    def starts(self) -> Iterator[tuple[str, ast.Module | Definition, Scope, str]]:
        """Where the code may be entered: modules, and functions that nobody in the files calls."""
        for file in self._program.files.values():
            yield file.name, file.tree, file.scopes.module, ""
            for node, scope in file.scopes.functions:
                if node not in self._called:
                    yield file.name, node, self.values.inside(node, scope), self._labels[node]

    def label(self, function: Function) -> str:
        """What a function is called in its file."""
        return self._labels.get(function, "")

    def _calls_in(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
        """The calls in an expression, in the order in which they are made."""
        inner = self.values.inside(node, scope)
        if not isinstance(node, ast.Lambda):
            for each in children(node):
                if not isinstance(each, (ast.Name, ast.Constant, ast.expr_context)):
                    yield from self._calls_in(each, inner)
            if isinstance(node, ast.Call):
                yield node, inner

    def calls_of(self, expression: ast.expr, scope: Scope) -> list[tuple[ast.Call, Scope]]:
        """The calls in an expression that do anything here, in the order in which they are made.

        An expression is looked through once, however many ways lead there.
        """
        if expression not in self._calls:
            calls = self._calls_in(expression, scope)
            self._calls[expression] = [(call, at) for call, at in calls if self._does_something(call, at)]
        return self._calls[expression]

    def _does_something(self, call: ast.Call, scope: Scope) -> bool:
        is_known = _name_of(call) in _SPOKEN_OF or bool(self.scaler_method(call, scope))
        return is_known or SCALER in self.values.of(call, scope) or bool(self.callees(call, scope))

    def callees(self, call: ast.Call, scope: Scope) -> list[tuple[Function, int, bool]]:
        """The functions that a call may run, if that is known well enough to follow them."""
        found = [each for each in self.values.called(call, scope) if not _is_to_be_filled_in(each[0])]
        if len(found) != 1:
            return found if all(is_sure for _, _, is_sure in found) else []
        is_meant = found[0][2] or _is_rare(call) or any(is_carrier(self.values.of(each, scope)) for each in call.args)
        return found if is_meant else []

    def scaler_method(self, call: ast.Call, scope: Scope) -> str:
        """The method of a scaler that is called; empty for any other call."""
        found = [each for each in self.values.of(call.func, scope) if each != NONE]
        is_method = bool(found) and all(isinstance(each, tuple) and each[0] == SCALER for each in found)
        return str(found[0][1]) if is_method else ""


def _name_of(call: ast.Call) -> str:
    """The last name of what is called."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _is_to_be_filled_in(node: Function) -> bool:
    """Whether a method only says that those who derive from its class are to write it."""
    *said, last = node.body if isinstance(node, DEFINITIONS) else [node.body]
    return isinstance(last, ast.Raise) and all(isinstance(each, ast.Expr) for each in said)


def _is_rare(call: ast.Call) -> bool:
    """Whether a method has a name that objects of other classes hardly have."""
    return isinstance(call.func, ast.Attribute) and call.func.attr not in ("step", "update", "backward", "zero_grad")


class _Order(Walk[Between]):
    """The states of scalers on the ways through one function, and through those that it calls."""

    def __init__(
        self,
        code: _Code,
        scope: Scope,
        label: str,
        names: dict[str, str],
        running: tuple[Function, ...] = (),
        told: Mapping[str, ast.expr] | None = None,
    ) -> None:
        """
        Args:
            names: what the caller calls the optimizers that it passes, and the object whose method it calls.
            told: what parameters are that nothing else is ever given.
        """
        super().__init__()
        self._told = told or {}
        self._code = code
        self._scope = scope
        self._label = label
        self._names = names
        self._running = running
        self._regions = 0
        self._scaled_by_apex = 0  # bodies of `amp.scale_loss`, at the end of which Apex unscales
        self.found: list[Disorder] = []

    def fewer(self, states: frozenset[Between]) -> frozenset[Between]:
        known: dict[Between, frozenset[tuple[int, Fact]]] = {}
        for each in states:
            bare = replace(each, known=frozenset()) if each.known else each
            known[bare] = known.get(bare, each.known) & each.known
        states = frozenset(replace(each, known=facts) if facts else each for each, facts in known.items())
        return states if len(states) <= _MOST else frozenset(sorted(states, key=_in_words)[:_MOST])

    def interrupted(self, states: frozenset[Between]) -> frozenset[Between]:
        # Who breaks it off between a step and its update may do so in the middle of the step.
        return frozenset(each for each in states if not (each.scaled and each.stepped)) or states

    def give(self, node: ast.stmt, states: frozenset[Between]) -> frozenset[Between]:
        if not isinstance(node, (ast.For, ast.AsyncFor)):
            return states
        states = _forgetting([node.target], states)
        turn = {each.id for each in nodes_in(node.target) if isinstance(each, ast.Name)}

        def before(keys: frozenset[str]) -> frozenset[str]:  # the same name is another optimizer in the next turn
            return frozenset(key if turn.isdisjoint(_NAME.findall(key)) else f"{key} before" for key in keys)

        return frozenset(
            replace(s, unscaled=before(s.unscaled), stepped=before(s.stepped), cleared=before(s.cleared))
            for s in states
        )

    def branch(self, test: ast.expr, outcome: bool, states: frozenset[Between]) -> frozenset[Between]:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.branch(test.operand, not outcome, states)
        told = self._told.get(test.id, test) if isinstance(test, ast.Name) else test
        return self._assuming(self._code.facts(test, outcome, self._scope), super().branch(told, outcome, states))

    def skips(self, node: ast.For | ast.AsyncFor | ast.While) -> bool:
        # There is an optimizer in a list of them, and a batch in an epoch, in whatever way it is gone through.
        return isinstance(node, ast.While) and not self._code.ranges(node, self._scope)

    def exhausted(self, node: ast.For | ast.AsyncFor, states: frozenset[Between]) -> frozenset[Between]:
        depth = len(self._running)
        found: frozenset[Between] = frozenset()
        for each in states:
            known = frozenset(fact for asked, fact in each.known if asked == depth)
            facts = self._code.behind_all(node, known, self._scope)
            found |= self._assuming(facts, frozenset({each}))
        return found

    def _assuming(self, facts: Facts, states: frozenset[Between]) -> frozenset[Between]:
        """The states in which some facts may hold, and which know it now."""
        depth = len(self._running)
        contrary = {(depth, (text, not outcome, names)) for text, outcome, names in facts}
        told = {(depth, fact) for fact in facts}
        return frozenset(replace(s, known=s.known | told) for s in states if s.known.isdisjoint(contrary))

    def enter(self, node: ast.With | ast.AsyncWith) -> None:
        self._regions += self._is_region(node)
        self._scaled_by_apex += self._is_of_apex(node)

    def leave(self, node: ast.With | ast.AsyncWith) -> None:
        self._regions -= self._is_region(node)
        self._scaled_by_apex -= self._is_of_apex(node)

    def _is_region(self, node: ast.With | ast.AsyncWith) -> bool:
        return any(self._is_autocast(item.context_expr) for item in node.items)

    def _is_autocast(self, expression: ast.expr) -> bool:
        values = self._code.values
        is_none = isinstance(expression, ast.Call) and values.name(expression.func, self._scope) in NO_CONTEXTS
        return not is_none and values.of(expression, self._scope) == {CONTEXT}

    def _is_of_apex(self, node: ast.With | ast.AsyncWith) -> bool:
        values, scope = self._code.values, self._scope
        contexts = [item.context_expr for item in node.items]
        made = [each.func for each in contexts if isinstance(each, ast.Call)]
        kept = (each for each in contexts if isinstance(each, ast.Name))
        return any(values.name(func, scope) == "apex.amp.scale_loss" for func in made) or any(
            values.of(each, scope) == {ENTERED} for each in kept
        )

    def may_raise(self, node: ast.stmt) -> bool:
        # Errors that are handled are those of what is computed: an optimizer whose step fails will not train on.
        call = node.value if isinstance(node, ast.Expr) else None
        return not (isinstance(call, ast.Call) and self._code.scaler_method(call, self._scope) in ("step", "update"))

    def read(self, node: ast.stmt, expressions: Iterable[ast.expr], states: frozenset[Between]) -> frozenset[Between]:
        expressions = [*expressions]
        for expression in expressions:
            for call, scope in self._code.calls_of(expression, self._scope):
                states = self._call(call, scope, states)
        return self._assuming(self._code.flagged(node, self._scope), _forgetting(expressions, states))

    def _note(self, what: str, node: ast.AST) -> None:
        self.found.append(Disorder(what, self._scope.file, self._label, getattr(node, "lineno", 0)))

    def _call(self, call: ast.Call, scope: Scope, states: frozenset[Between]) -> frozenset[Between]:
        method = self._code.scaler_method(call, scope)
        func = call.func
        if method in ("step", "unscale_", "update"):
            return frozenset(getattr(self, f"_{method.strip('_')}")(call, state) for state in states)
        if SCALER in self._code.values.of(call, scope) and self._is_made(call, scope):
            return frozenset(replace(state, is_new=not (state.scaled or state.plain)) for state in states)
        callees = self._code.callees(call, scope)
        if isinstance(func, ast.Attribute) and func.attr == "backward" and not callees:
            if call.args and _word(_key(func.value, self._names)) in self._code.stepped:
                return frozenset()  # what a scaler steps is an optimizer, and has no such method
            if imported_name(func, scope) != _OF_AUTOGRAD:
                goes_on = bool(call.args) or any(each.arg == "gradient" for each in call.keywords)
                return self._backward(call, func.value, goes_on, scope, states)
            given = arguments(call, ("tensors", "grad_tensors"))
            return self._backward(call, given.get("tensors"), "grad_tensors" in given, scope, states)
        takes_scaler = any(is_carrier(self._code.values.of(each, scope)) for each in call.args)
        if isinstance(func, ast.Attribute) and func.attr == "zero_grad" and not callees:
            key = _key(func.value, self._names)
            return frozenset(replace(state, cleared=state.cleared | {key}) for state in states)
        is_scaled = any(state.scaled and not state.read_safely for state in states)
        is_scaled |= bool(self._scaled_by_apex) and any(state.is_latest_plain for state in states)
        if _name_of(call) in _READERS and is_scaled and not self._is_by_scale(call, scope):
            self._note("gradients are clipped before they are unscaled", call)
        ended: frozenset[Between] = frozenset()
        for function, skipped, _ in callees:
            is_followed = isinstance(function, DEFINITIONS) and function not in self._running
            if isinstance(function, DEFINITIONS) and is_followed and len(self._running) < _DEPTH:
                ended |= self._run(function, call, skipped, states)
            else:
                ended |= states
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "step"
            and not takes_scaler
            and not _stepped(ended) - _stepped(states)
        ):
            key = _key(func.value, self._names)
            word = _word(key)
            is_its = word in self._code.stepped
            found = {
                "that may be infinite" if key in state.unscaled else "that are scaled"
                for state in states
                if state.scaled
                and key not in state.cleared
                and (is_its or key in state.unscaled or (word in self._code.optimizers and not state.is_latest_plain))
            }
            for which in sorted(found):  # each, in whatever order the ways come: the original may have one of them
                self._note(f"an optimizer steps past its scaler, on gradients {which}", call)
        return ended or states

    def _is_made(self, call: ast.Call, scope: Scope) -> bool:
        return any(isinstance(each, tuple) and each[0] == "name" for each in self._code.values.of(call.func, scope))

    def _is_by_scale(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a call has the loss scale in its arguments."""
        return any(
            self._code.values.of(e, scope) == {SCALE}
            for a in (*call.args, *(keyword.value for keyword in call.keywords))
            for e in nodes_in(a)
            if isinstance(e, ast.expr)
        )

    def _run(
        self, function: Definition, call: ast.Call, skipped: int, states: frozenset[Between]
    ) -> frozenset[Between]:
        given = dict(bound(function, call, skipped))
        scope = self._code.values.scope_of(function)
        names = dict(self._names) if scope.parent is self._scope else {}
        if skipped == 1 and isinstance(call.func, ast.Attribute):
            names[[*function.args.posonlyargs, *function.args.args][0].arg] = self._object(call.func.value)
        names |= {name: _key(v, self._names) for name, v in given.items() if v is not None}
        is_open = any(each.arg is None for each in call.keywords)
        asked = given if is_open else defaults(function) | given
        told = {
            name: self._told.get(v.id, v) if isinstance(v, ast.Name) else v
            for name, v in asked.items()
            if v is not None and name not in scope.assigned
        }
        inner = _Order(self._code, scope, self._code.label(function), names, (*self._running, function), told)
        inner._regions = self._regions
        ended = inner.block(function.body, states) | frozenset(inner.returned)
        self.found += inner.found
        depth = len(self._running)
        ended = frozenset(replace(s, known=frozenset(e for e in s.known if e[0] <= depth)) for s in ended)
        return self.fewer(ended) or states

    def _object(self, node: ast.expr) -> str:
        """The object whose method is called, as it is told from others: `super()` is the one of the caller."""
        is_own = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
        return self._names.get("self", "self") if is_own else _key(node, self._names)

    def _backward(
        self, call: ast.Call, loss: ast.expr | None, goes_on: bool, scope: Scope, states: frozenset[Between]
    ) -> frozenset[Between]:
        """A loss goes backward, or from gradients that are given."""
        is_scaled = isinstance(loss, ast.Call) and self._code.scaler_method(loss, scope) == "scale"
        if is_scaled and self._regions:
            self._note("backward() runs inside an autocast region", call)
        if is_scaled:
            return frozenset(
                replace(s, scaled=True, is_latest_plain=False, is_updated=False, read_safely=False, cleared=frozenset())
                for s in states
            )
        # A gradient that it goes on from may be that of the scaled loss: what is in it, the analysis of values tells.
        return frozenset(
            replace(s, read_safely=False, cleared=frozenset())
            if goes_on and s.scaled and not s.is_latest_plain
            else replace(s, plain=True, is_latest_plain=True, is_updated=False, cleared=frozenset())
            for s in states
        )

    def _unscale(self, call: ast.Call, state: Between) -> Between:
        key = _key(call.args[0], self._names) if call.args else ""
        if key in state.unscaled or key in state.stepped:
            self._note("gradients are unscaled twice, or after the step", call)
        if state.is_new and not state.scaled:
            self._note("gradients are unscaled before there are any", call)
        return replace(state, unscaled=state.unscaled | {key}, read_safely=True)

    def _step(self, call: ast.Call, state: Between) -> Between:
        key = _key(call.args[0], self._names) if call.args else ""
        if key in state.stepped:
            self._note("an optimizer steps twice without an update of the scale", call)
        if state.is_new and not state.scaled:
            self._note("an optimizer steps through its scaler before a scaled loss has gone backward", call)
        if state.is_updated:
            self._note("an optimizer steps behind the update of the scale", call)
        if state.is_latest_plain or (state.plain and not state.scaled):
            self._note("a loss goes backward unscaled before a step through the scaler", call)
        return replace(state, stepped=state.stepped | {key})

    def _update(self, call: ast.Call, state: Between) -> Between:
        if state.scaled and not (state.stepped or state.unscaled):  # `unscale_` has looked at gradients, too
            self._note("the scale is updated without a step", call)
        return Between(is_updated=state.scaled, known=state.known)


def _changed(expressions: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """What expressions give another value: names and attributes, and those of which it is an item."""
    for each in (inner for expression in expressions for inner in nodes_in(expression)):
        if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(each.ctx, ast.Load):
            yield each.value if isinstance(each, ast.Subscript) else each


def _forgetting(expressions: Iterable[ast.expr], states: frozenset[Between]) -> frozenset[Between]:
    """The states without what is known of what expressions give another value, or of the length of what has methods."""
    if not any(each.known for each in states):
        return states
    names = {last_word(each) for each in _changed(expressions)}
    inside = [inner for each in expressions for inner in nodes_in(each)]
    asked = {last_word(e.func.value) for e in inside if isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute)}

    def is_left(known: tuple[int, Fact]) -> bool:
        text, _, of = known[1]
        return names.isdisjoint(of) and not (_CALL.search(text) and not asked.isdisjoint(of))

    return frozenset(replace(each, known=frozenset(filter(is_left, each.known))) for each in states)


def _in_words(state: Between) -> str:
    """A state as the same text in every run: the order of a set is another in each."""
    values = vars(replace(state, known=frozenset())).values()
    return repr([sorted(each) if isinstance(each, frozenset) else each for each in values])


def _stepped(states: Iterable[Between]) -> frozenset[str]:
    """The optimizers that a scaler has stepped, on any way."""
    return frozenset(each for state in states for each in state.stepped)


def _key(node: ast.expr, names: dict[str, str]) -> str:
    """An optimizer as it is told from others: by the path that the first of the callers has for it."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_key(node.value, names)}.{node.attr}"
    return ast.unparse(node)


def _word(key: str) -> str:
    """What an optimizer is called wherever it is, however it is come to: `optimizer` for `self.net.optimizer`."""
    return key.rpartition(".")[2]
