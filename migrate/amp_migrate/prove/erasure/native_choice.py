"""The other program that a result may be: the original, where native AMP is chosen wherever Apex was.

A script that trains with either asks which it is: `args.amp == "apex"`, `use_apex`. What that is compared with, or is,
in a branch that calls `apex.amp` is Apex's choice; what it is in another branch of the same `if`, which names autocast
or a scaler of torch, is the native one. In the other program every question is answered as if that had been chosen: the
value stays what it is, and counts as the native one wherever it is asked for. That is native AMP only if nothing else
decides about it: autocast and scalers are named under no condition but this choice, and those of Apex's own calls.

A flag of Apex's branches that is only ever set in the `else` of an `if` which names autocast or a scaler is never set
in the other program: what the `if` does is always done there.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence

from amp_migrate.prove.code.scopes import Scope, heads
from amp_migrate.prove.erasure.choices import NEGATED, OFF, ON, Chooser, Question, compared_with_truth
from amp_migrate.syntax import nodes_in


def chosen_natively(texts: Mapping[str, str]) -> dict[str, str] | None:
    """The texts of the files of such a program; None where the original does not choose between the two."""
    by_option = _chosen([Chooser(name, text, asks_installed=False) for name, text in texts.items()])
    return by_option or _chosen([Chooser(name, text, asks_installed=True) for name, text in texts.items()])


def _chosen(modules: Sequence[Chooser]) -> dict[str, str] | None:
    apex = {atom for each in modules for atom in each.of_apex()}
    never = {atom: chains for atom in apex if (chains := _set_beside(modules, atom))}
    if never:
        return _never_set(modules, never)
    found: dict[Question, set[Question | None]] = {}
    for atom, native in (pair for each in modules for pair in each.pairs(apex)):
        found.setdefault(atom, set()).add(native)
    flags = {native.key for natives in found.values() for native in natives if native is not None}
    choices = {
        atom: next(iter(natives))
        for atom, natives in found.items()
        if len(natives) == 1 and not (atom.value is OFF and atom.key in flags)
    }
    if not choices:
        return None
    known = {text for atom, native in choices.items() for text in _conditions(atom, native)}
    known |= {text for atom in choices if type(atom.value) is not bool for text in _implied(modules, atom)}
    of_apex = [set(way) for each in modules for way in each.conditions(each.is_of_apex)]
    of_torch = [set(way) for each in modules for way in each.conditions(each.is_of_torch)]
    of_torch = [way for way in of_torch if way.isdisjoint(map(_negated, way))]  # what is never come to does nothing
    known = known.union(*of_apex)
    raising = [set(way) - known for each in modules for way in _raising(each, choices)]
    known |= {_negated(text) for rest in raising if len(rest) == 1 for text in rest}
    if not set().union(*of_torch) <= known:
        return None
    # Where the flag is off, the script may train in float32: there has to hold all that Apex asks for beside it.
    off = {f"not ({each.code})" for each in choices if each.value is OFF}
    on = [set(way) for each in modules for way in each.conditions(each.is_of_torch, asks_enabled=True)] if off else []
    if not all(any(apex - off <= way for apex in of_apex) for way in on):
        return None
    return {each.name: _Chosen(each, choices).text() for each in modules}


def _implied(modules: Sequence[Chooser], atom: Question) -> set[str]:
    """What is true wherever what is asked about has another value than None: what it is given each under."""
    given = {statement for each in modules for statement, _ in each.given(atom.key) if not _is_none(statement)}
    ways = [set(way) for each in modules for way in each.conditions(lambda node, _: node in given)]
    return set.intersection(*ways) if ways else set()


def _raising(module: Chooser, choices: Collection[Question]) -> Iterator[set[str]]:
    """What makes a file raise beside that Apex is chosen, in which case it comes to nothing that stands behind."""
    caught = {
        node for each in nodes_in(module.scopes.module.node) if isinstance(each, ast.Try) for node in nodes_in(each)
    }
    chosen = {_negated(each.code) if each.value is OFF else each.code for each in choices}
    for way in module.conditions(lambda node, _: isinstance(node, ast.Raise) and node not in caught):
        if not chosen.isdisjoint(way):
            yield set(way) - chosen


def _negated(text: str) -> str:
    return text[len("not (") : -1] if text.startswith("not (") else f"not ({text})"


def _is_none(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Constant) and value.value is None


def _set_beside(modules: Sequence[Chooser], flag: Question) -> list[ast.If]:
    """Each `if` that sets native AMP up, and in whose `else` a flag is set; none where that is set elsewhere, too."""
    given = [(each, *assigned) for each in modules for assigned in each.given(flag.key)]
    chains = [each.chain_of(statement) for each, statement, value in given if value is True]
    is_known = flag.value is ON and all(value in (True, False) for _, _, value in given)
    found = [each for each in chains if each is not None]
    return found if is_known and len(found) == len(chains) else []


def _never_set(modules: Sequence[Chooser], never: Mapping[Question, Sequence[ast.If]]) -> dict[str, str] | None:
    """The texts where some flags are never set; None where autocast or a scaler is asked for by anything else."""
    always = {each for chains in never.values() for each in chains}
    inside = {node for chain in always for node in nodes_in(chain)}
    known = {text for each in modules for way in each.conditions(each.is_of_apex) for text in way}
    known |= {f"not ({atom.code})" for atom in never}
    flags = {code for chain in always for code in _flags_set(chain.body)}

    def is_apart(node: ast.AST, scope: Scope) -> bool:
        return node not in inside and Chooser.is_of_torch(node, scope)

    if not all(flags & set(way) or known.issuperset(way) for each in modules for way in each.conditions(is_apart)):
        return None
    choices: dict[Question, Question | None] = dict.fromkeys(never)
    return {each.name: _Chosen(each, choices, always).text() for each in modules}


def _flags_set(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The flags that some statements set, as code."""
    for each in (node for statement in body for node in nodes_in(statement)):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and each.value.value is True:
            yield from map(ast.unparse, each.targets)


def _only_synchronizes(node: ast.If) -> bool:
    """Whether a branch makes batch norms those of all processes, and nothing else: that is no precision, and stays."""
    made = [each.value for each in node.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)]
    words = [ast.unparse(each.func).rpartition(".")[2] for each in made]
    return words == ["convert_syncbn_model"] and len(node.body) == 1 and not node.orelse


class _Chosen:
    """A file where native AMP is chosen.

    Args:
        choices: what chooses Apex, each with what chooses native AMP.
        always: each `if` whose test is always true there.
    """

    def __init__(
        self,
        chooser: Chooser,
        choices: Mapping[Question, Question | None],
        always: Collection[ast.If] = (),
    ) -> None:
        self._chooser, self._choices, self._always = chooser, choices, always

    def text(self) -> str:
        """Its text; a branch that never runs does nothing."""
        edits: list[tuple[ast.AST, ast.AST, str]] = []
        for node, scope in self._chooser.scopes.statements:
            if isinstance(node, ast.If) and _only_synchronizes(node):
                continue
            for head in () if node in self._chooser.keeping else heads(node):
                edits += ((each, each, new) for each, new in self._edits(head, scope))
            if isinstance(node, ast.If) and self._truth(node.test, scope) is False:
                edits.append((node.body[0], node.body[-1], "pass"))
            elif isinstance(node, ast.If) and node in self._always:
                edits += [(node.test, node.test, "True"), (node.orelse[0], node.orelse[-1], "pass")]
            elif isinstance(node, ast.Try) and self._asks_for_apex(node, scope):
                edits.append((node, node, _instead(node)))
        return _edited(self._chooser.text, edits)

    def _asks_for_apex(self, node: ast.Try, scope: Scope) -> bool:
        """Whether a `try` chooses Apex, where its import succeeds, and does nothing else."""
        tried = [*node.body, *node.orelse]
        if len(node.handlers) != 1 or node.finalbody or not all(map(_is_for_apex, tried)):
            return False
        given = [(target, each.value) for each in tried if isinstance(each, ast.Assign) for target in each.targets]
        return any(
            isinstance(value, ast.Constant)
            and (flag := self._chooser.flag(target, scope)) is not None
            and any(each.key == flag.key and each.is_chosen_by(value.value) for each in self._choices)
            for target, value in given
        )

    def _edits(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, str]]:
        """What is said instead of some expressions."""
        new = self._answer(node, scope) if isinstance(node, ast.expr) else None
        if new is not None:
            yield node, new
        elif not isinstance(node, ast.JoinedStr):
            inner = self._chooser.scopes.inside(node, scope)
            never = self._never(node, scope)
            if never is not None:
                yield never, "None"
            for each in ast.iter_child_nodes(node):
                if each is not never:
                    yield from self._edits(each, inner)

    def _never(self, node: ast.AST, scope: Scope) -> ast.expr | None:
        """The side of a conditional expression that is never taken."""
        if not isinstance(node, ast.IfExp):
            return None
        truth = self._truth(node.test, scope)
        return None if truth is None else node.orelse if truth else node.body

    def _answer(self, node: ast.expr, scope: Scope) -> str | None:
        """A question as it is where native AMP is chosen; None where it stays what it is."""
        compared = compared_with_truth(node, scope)
        if compared is not None and (inner := self._answer(compared[0], scope)) in ("True", "False"):
            return str(inner == str(compared[1]))
        if isinstance(node, ast.Compare) and (asked := self._chooser.asked(node, scope)) is not None:
            key, values = asked
            mine = {
                each: native
                for each, native in self._choices.items()
                if each.key == key and type(each.value) is not bool
            }
            as_native = [each.value for each, native in mine.items() if native is not None and native.value in values]
            gone = [each.value for each in mine]
            kept = [each for each in values if each not in gone] + as_native
            if not mine or set(map(repr, kept)) == set(map(repr, values)):
                return None
            is_not = isinstance(node.ops[0], NEGATED)
            if not kept:
                return str(is_not)
            return f"({ast.unparse(node.left)} {'not in' if is_not else 'in'} {tuple(kept)!r})"
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            flag = self._chooser.flag(node, scope)
            if flag is None:
                return None
            given = {each.key: each.value for each in self._choices if each.value is ON or each.value is OFF}
            if flag.key in given:
                return str(not given[flag.key])
            others = [
                self._chooser.called(each, node, scope)
                for each, native in self._choices.items()
                if native is not None and each.value is ON and native.key == flag.key
            ]
            return f"({' or '.join([ast.unparse(node), *others])})" if others else None
        return None

    def _truth(self, test: ast.expr, scope: Scope) -> bool | None:
        """Whether a test is known where native AMP is chosen."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._truth(test.operand, scope)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            decides = isinstance(test.op, ast.Or)
            values = [self._truth(each, scope) for each in test.values]
            return decides if decides in values else None if None in values else not decides
        answer = self._answer(test, scope)
        return answer == "True" if answer in ("True", "False") else None


def _conditions(apex: Question, native: Question | None) -> Iterator[str]:
    """What is true where native AMP is chosen in the place of Apex, as code."""
    yield apex.code if apex.value is OFF else f"not ({apex.code})"
    if native is not None:
        yield native.code


def _is_for_apex(statement: ast.stmt) -> bool:
    """Whether a statement imports something of Apex, or says that it is there: sets a flag, prints."""
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] == "apex"
    if isinstance(statement, ast.Import):
        return all(each.name.partition(".")[0] == "apex" for each in statement.names)
    is_plain = isinstance(statement, ast.Assign) and not any(isinstance(e, ast.Call) for e in nodes_in(statement))
    return is_plain or isinstance(statement, (ast.Expr, ast.Pass))


def _instead(node: ast.Try) -> str:
    """What runs where the import of a `try` fails, as code, but for what it says of that."""
    kept = [each for each in node.handlers[0].body if not isinstance(each, ast.Expr)]
    lines = "\n".join(map(ast.unparse, kept or [ast.Pass()])).split("\n")
    return f"\n{' ' * node.col_offset}".join(lines)


def _edited(text: str, edits: list[tuple[ast.AST, ast.AST, str]]) -> str:
    """A text with other code from the first node of each edit to its last, on as many lines."""
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for each in lines:
        starts.append(starts[-1] + len(each))
    spans: list[tuple[int, int, str]] = []
    statements: set[int] = set()
    for first, last, new in edits:
        begin = starts[first.lineno - 1] + first.col_offset  # type: ignore[attr-defined]
        spans.append((begin, starts[last.end_lineno - 1] + last.end_col_offset, new))  # type: ignore[attr-defined]
        statements.update({begin} if isinstance(first, ast.stmt) else ())
    whole, at, found = b"".join(lines), 0, []
    for begin, end, new in sorted(spans, key=lambda each: (each[0], -each[1])):
        if begin >= at:  # else it stands in code that another edit has taken
            line_ends = b"\n" * (whole[begin:end].count(b"\n") - new.count("\n"))
            is_code = begin in statements
            new_code = new.encode() + line_ends if is_code else b"(" + new.encode() + line_ends + b")"
            found += [whole[at:begin], new_code if line_ends else new.encode()]
            at = end
    return b"".join([*found, whole[at:]]).decode()
