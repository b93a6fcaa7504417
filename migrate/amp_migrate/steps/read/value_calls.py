"""Calls through a value: `self.backward = self.backward_amp`, a callback, `partial(go_back, args.fp16)`.

Names say nothing of who calls such a function. The analysis of values knows what each call may run.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import fits
from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.imported import imported_names
from amp_migrate.analysis.project import CallSite, FunctionRef, Project, is_asked
from amp_migrate.flow.domain.atoms import NEVER, NONE, Call, Class, Func, Method, Native, Obj, Opaque, Value
from amp_migrate.flow.files import Files
from amp_migrate.flow.programs import Programs
from amp_migrate.flow.source import Code
from amp_migrate.steps.read.interpreted import Interpreted
from amp_migrate.tables.apex_names import WRAPPERS

# One script is asked about after the other, and each program that is kept takes up memory.
_MOST_KEPT = 4
# Functions that the same calls may run, each with all its calls.
CalledTogether: TypeAlias = "Mapping[FunctionRef, tuple[CallSite, ...]]"


class ValueCalls:
    """Knows who calls a function that is handed on as a value.

    Args:
        texts: all files of the project.
        files: those that may change.
        programs: those that earlier plans have had interpreted; new ones are added.
    """

    def __init__(self, project: Project, texts: Files, files: Sequence[File], programs: Programs) -> None:
        self._project = project
        self._texts = texts
        self._files = files
        self._programs = programs
        self._interpreted: dict[tuple[File, ...], _Calls] = {}

    def together(self, function: FunctionRef) -> CalledTogether | None:
        """A function with all that its calls may run besides, and what calls of that may; None if any is in doubt."""
        around: tuple[File, ...] = ()
        words = _names(function.node, function.owner)
        wider, found = self._using([function.file], words), None
        while wider != around:
            around = wider
            focus = self._concerned(function, around)
            calls = self._calls(focus, only_whole=True) if focus else None
            found = None if calls is None else calls.together(function)
            if found is None:
                return None if calls is None or calls.is_complete else self._by_names(function)
            # Whoever gets at one of the calls may bring a function of its own.
            wider = self._using([*around, *(site.file for sites in found.values() for site in sites)], words)
        return found

    def _by_names(self, function: FunctionRef) -> CalledTogether | None:
        """A method with its calls, where names tell the class of each object that may have it.

        Or where each call that may be of it is on a parameter which is passed what has it. That is seen in a program,
        too, which is too large for the analysis of values.
        """
        overriding = self._project.overriding(function)
        named = self._project.call_sites(function)
        if named and not overriding and self._project.is_called_by_its_name(function):
            return None if function.node.decorators else {function: named}
        if function.owner is None or any(self._project.call_sites(each) != () for each in (function, *overriding)):
            return None
        sites = [*self._project.possible_calls(function)]
        meant = [self._project.method_of_given(each.file, each.call) for each in sites]
        own = [site for site, each in zip(sites, meant, strict=True) if each is not None and each.node is function.node]
        return {function: tuple(own)} if own and None not in meant and not function.node.decorators else None

    def may_run(self, file: File, call: cst.Call) -> Iterator[FunctionRef]:
        """The functions of the project that a call may run, beside what nobody knows."""
        return self._around(file, call).may_run(file, call)

    def meant(self, file: File, call: cst.Call) -> list[FunctionRef | None]:
        """The functions of the project that a call may run; None in it for what else it may."""
        return self._around(file, call).meant(file, call)

    def program(self, file: File, node: cst.CSTNode) -> Interpreted | None:
        """The program that a place in a file is part of, as far as it could be looked at; None if not all of it."""
        program = self.part(file, node)
        return program if program.questions.analysis.is_complete else None

    def part(self, file: File, node: cst.CSTNode) -> Interpreted:
        """The same, and if that is not all of it: where nobody has looked, there are no values."""
        return self._around(file, node).interpreted

    def holds_computed(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether what an expression gives is known to be no tensor, but to hold what is computed."""
        program = self.program(file, node)
        given = None if program is None else program.counterparts(file).back(node)
        return program is not None and given is not None and program.questions.holds_computed(given)

    def _around(self, file: File, node: cst.CSTNode) -> _Calls:
        """The program that a place in a file is part of."""
        words = _names(file.tree.function(node), file.tree.owner_class(node))
        return self._calls(self._using([file], words), only_whole=False)

    def _calls(self, focus: tuple[File, ...], *, only_whole: bool) -> _Calls:
        """The program of some files.

        Args:
            only_whole: whether nothing is asked of it unless all of it has been looked at.
        """
        found = self._interpreted.pop(focus, None)
        if found is None or (found.was_stopped and not only_whole):
            names = tuple(each.name for each in focus)
            analysis = self._programs.part(self._texts, names, only_whole=only_whole)
            found = _Calls(self._project, Interpreted(self._project.library, analysis), focus)
        self._interpreted[focus] = found
        if len(self._interpreted) > _MOST_KEPT:
            del self._interpreted[next(iter(self._interpreted))]
        return found

    def _concerned(self, function: FunctionRef, files: tuple[File, ...]) -> tuple[File, ...]:
        """Of some files, those that call a function by its name or use its class, and those that import these.

        All of them, where it may be called otherwise: by what it is handed on as, or as Python and PyTorch do.
        """
        is_called_unseen = function.name == "forward" or function.name.startswith("__")
        if is_called_unseen or any(_hands_on(each, function.name) for each in files):
            return files
        words = _names(function.node, function.owner)
        found = self._using([each for each in files if any(_uses(each, word) for word in words)], words)
        return tuple(each for each in files if each in found)

    def _using(self, files: Sequence[File], words: Collection[str]) -> tuple[File, ...]:
        """Some files and all that import them, be it through others: who has an object has it from there.

        Of those that do not change by themselves, the ones that have one of some words.
        """
        library = self._project.library
        found, waiting = dict.fromkeys(files), [(file, frozenset(words)) for file in files]
        while waiting:
            file, known = waiting.pop()
            wanted = known | _defined_with(file, known)
            beside = (library.named(name) for name in library.importing(file, wanted))
            new = [each for each in (*self._importers[file.name], *beside) if each is not None and each not in found]
            found.update(dict.fromkeys(new))
            waiting += ((each, wanted) for each in new)
        return tuple(sorted(found, key=lambda each: each.name))

    @cached_property
    def _importers(self) -> Mapping[str, list[File]]:
        """The files that import one, by its name: most of what is imported is never asked about, nor parsed for it."""
        found: defaultdict[str, list[File]] = defaultdict(list)
        for file in self._files:
            for name in imported_names(self._project, file):
                found[name].append(file)
        return found


class _Calls:
    """A program that has been interpreted, asked by the nodes of LibCST's trees.

    Args:
        files: those in focus.
    """

    def __init__(self, project: Project, interpreted: Interpreted, files: Sequence[File]) -> None:
        self._project = project
        self.interpreted = interpreted
        self._analysis = interpreted.questions.analysis
        self._focus = files

    @property
    def was_stopped(self) -> bool:
        """Whether what has not been looked at ended the analysis."""
        return self._analysis.was_stopped

    @property
    def is_complete(self) -> bool:
        """Whether all of the program has been looked at."""
        return self._analysis.is_complete

    def together(self, function: FunctionRef) -> CalledTogether | None:
        """See `ValueCalls.together`."""
        module = self._analysis.module(function.file.name)
        node = self.interpreted.counterparts(function.file).back(function.node)
        if module is None or node is None or node not in module.codes or not self.is_complete:
            return None
        found: dict[FunctionRef, tuple[CallSite, ...]] = {}
        calls: dict[cst.Call, None] = {}
        todo, seen = [module.codes[node]], {module.codes[node]}
        while todo:
            code = todo.pop()
            part = self._function(code)
            sites = None if part is None else self._sites(code, part)
            if part is None or not sites or self._analysis.goes_out_of_sight(code):
                return None
            found[part] = sites
            calls.update(dict.fromkeys(site.call for site in sites))
            new = {each for _, node in self._calls[code] for each in self._callees(node)} - seen
            seen |= new
            todo += sorted(new, key=lambda each: each.site)
        beside = self._calls_beside(found, calls)
        return None if beside is None else {each: (*sites, *beside.get(each, ())) for each, sites in found.items()}

    def may_run(self, file: File, call: cst.Call) -> Iterator[FunctionRef]:
        """See `ValueCalls.may_run`."""
        node = self.interpreted.counterparts(file).back(call)
        codes = [] if node is None else sorted(self._callees(node), key=lambda each: each.site)
        return filter(None, map(self._function, codes))

    def meant(self, file: File, call: cst.Call) -> list[FunctionRef | None]:
        """See `ValueCalls.meant`."""
        node = self.interpreted.counterparts(file).back(call)
        codes = {each and each[0]: None for each in self._meant(node)} if isinstance(node, ast.Call) else {}
        return [None if each is None else self._function(each) for each in codes]

    def _sites(self, code: Code, function: FunctionRef) -> tuple[CallSite, ...] | None:
        """All calls of a function; None where one runs what nobody knows, or is none that is written in a file."""
        found: list[CallSite] = []
        for name, node in self._calls[code]:
            file = self._project.library.named(name) if isinstance(node, ast.Call) else None
            own = None if file is None else self.interpreted.counterparts(file).of(node)
            meant = [] if not isinstance(node, ast.Call) else [*self._meant(node)]
            filled = {given for each, given in filter(None, meant) if each is code}
            if file is None or not isinstance(own, cst.Call) or None in meant or len(filled) != 1:
                return None
            if {each for each, _ in filter(None, meant)} != set(self._callees(node)):
                return None
            found.append(CallSite(file, own, filled.pop() - function.is_bound))
        if not all(fits(function.node, each.call, bound=function.is_bound + each.filled) for each in found):
            return None
        return tuple(found)

    def _meant(self, call: ast.Call) -> Iterator[tuple[Code, int] | None]:
        """What a call runs for each thing that is called, and how many parameters that fills; None for the unknown."""
        for atom in self._value(call.func):
            if atom is not NONE and not self._is_missing(atom):  # which nobody can call
                yield from self._run_by(atom, call)

    def _is_missing(self, atom: object) -> bool:
        """Whether something is a name that nothing binds, be it a file that need not be looked at for the step."""
        if not isinstance(atom, Opaque) or not self._analysis.is_missing(atom):
            return False
        where, name = atom.path
        library, file = self._project.library, self._project.library.named(where)
        setters = () if file is None else library.importing(file, (name, "setattr", "vars", "__dict__"))
        is_set = any(True for _ in setters) or any(True for _ in library.mentioning("builtins", name))
        return file is not None and not is_set

    def _run_by(self, atom: object, call: ast.Call) -> Iterator[tuple[Code, int] | None]:
        if isinstance(atom, Func):
            yield atom.code, 0
        elif isinstance(atom, Method) and isinstance(atom.function, Func):
            yield atom.function.code, 1
        elif isinstance(atom, Obj) and isinstance(atom.made_of, Class):
            own = [each for each in self._callees(call) if each.name == "__call__"]
            yield from ((each, 1) for each in own) if own else (None,)
        elif isinstance(atom, Obj) and atom in self._analysis.partials:
            given = self._analysis.partials[atom]
            is_plain = not (given.rest or given.keywords or given.others)
            for inner in self._analysis.heap.read(atom, "func", None):
                for found in self._run_by(inner, call):
                    yield None if found is None or not is_plain else (found[0], found[1] + len(given.positional))
        else:
            yield None

    def _calls_beside(self, functions: CalledTogether, known: Mapping[cst.Call, None]) -> CalledTogether | None:
        """The calls of some functions in functions that nobody calls, by a name that no others have.

        Returns:
            None where something else is called by a name of theirs that is unknown, in a way that one could be called.
        """
        found: dict[FunctionRef, tuple[CallSite, ...]] = {}
        names = {each.name for each in functions} | {_last_word(each.func) for each in known}
        for file in self._focus:
            for call in file.calls:
                if call not in known and _last_word(call.func) in names:
                    node = self.interpreted.counterparts(file).back(call)
                    value = self._value(node.func) if isinstance(node, ast.Call) else NEVER
                    if value and not any(isinstance(each, Opaque) for each in _without_apex(value)):
                        continue
                    meant = [each for each in functions if fits(each.node, call, bound=each.is_bound)]
                    if meant and not self._is_never_run(file, call, meant):
                        return None
                    found.update((each, (*found.get(each, ()), CallSite(file, call))) for each in meant)
        return found

    def _is_never_run(self, file: File, call: cst.Call, meant: Sequence[FunctionRef]) -> bool:
        """Whether a call on a parameter of a function that nobody calls could run one function of the project alone."""
        owner, node = call.func.value if isinstance(call.func, cst.Attribute) else None, file.tree.function(call)
        function = None if node is None else self._project.reference(file, node)
        if function is None or function.owner is not None or self._project.call_sites(function) != ():
            return False
        given = [] if owner is None else file.scopes.of(owner).lookup(dotted(owner) or "")
        if [each.kind for each in given] != [BindingKind.PARAMETER]:
            return False
        others = self._project.may_call(file, call, meant[0].name)
        fitting = {each.node for each in others if fits(each.node, call, bound=each.is_bound)}
        return len(meant) == 1 and fitting == {meant[0].node}

    def _function(self, code: Code) -> FunctionRef | None:
        file = self._project.library.named(code.file)
        node = None if file is None else self.interpreted.counterparts(file).of(code.node)
        return self._project.reference(file, node) if file is not None and isinstance(node, cst.FunctionDef) else None

    def _value(self, node: ast.expr) -> Value:
        return self._analysis.values.get(node, NEVER)

    def _callees(self, node: ast.AST) -> Mapping[Code, None]:
        return self._analysis.callees.get(node, {})

    @cached_property
    def _calls(self) -> Mapping[Code, list[tuple[str, ast.AST]]]:
        """What runs each function, with the file."""
        found: defaultdict[Code, list[tuple[str, ast.AST]]] = defaultdict(list)
        for name, module in self._analysis.modules.items():
            for node in () if module is None else ast.walk(module.tree):
                for code in self._callees(node):
                    if code.node is not node:  # which is run as nobody calls it
                        found[code].append((name, node))
        return found


def is_of_list(file: File, call: cst.Call) -> bool:
    """Whether a call is of each of several functions: `for call in calls: call(model, optimizer)`."""
    bindings = file.scopes.of(call).lookup(call.func.value) if isinstance(call.func, cst.Name) else []
    return any(isinstance(each.node, (cst.For, cst.CompFor)) for each in bindings)


def _defined_with(file: File, words: Collection[str]) -> set[str]:
    """The functions and classes of a file that use something of some words: whoever has an object may have it of them.

    Such are those of `def build(args): return Trainer(args)`, of which a script imports no more than `build`.
    """
    found: set[str] = set()
    new = {*words}
    while new:
        uses = [use for word in new for use in _uses(file, word)]
        around = (
            [each for each in file.tree.ancestors(use) if isinstance(each, cst.FunctionDef | cst.ClassDef)]
            for use in uses
        )
        new = _names(*(outermost for *_, outermost in filter(None, around))) - found
        found |= new
    return found


def _uses(file: File, name: str) -> list[cst.Name | cst.Attribute]:
    """Where a file uses something of a name, or what it has, and not only asks whether it is there."""
    uses = (use for local in file.local_names(name) for use in file.uses.get(local, ()))
    return [each for each in uses if isinstance(file.tree.parents[each], cst.Attribute) or not is_asked(file, each)]


def _hands_on(file: File, name: str) -> bool:
    """Whether a file may do something else with a function than call it: it names it as a value, or in a text."""
    uses = ((use, file.tree.parents[use]) for use in _uses(file, name))
    is_given = any(not isinstance(parent, cst.Call) or parent.func is not use for use, parent in uses)
    return is_given or any(each.raw_value == name for each in file.tree.every(cst.SimpleString))


def _without_apex(value: Value) -> Iterator[object]:
    """What a value may be, but for what an `FP16_Optimizer` of Apex has: nothing of the project's."""
    owners = [each.owner for each in value if isinstance(each, Native)]
    made = {each.site for each in owners if isinstance(each, Obj) and each.external in WRAPPERS}
    for each in value:
        source = each.path[0] if isinstance(each, Opaque) and each.path else None
        if not (isinstance(source, Call) and source.site in made):
            yield each


def _names(*definitions: cst.FunctionDef | cst.ClassDef | None) -> set[str]:
    return {each.name.value for each in definitions if each is not None}


def _last_word(node: cst.BaseExpression | ast.expr) -> str:
    """The name that something is called by; empty for a call of what an expression gives."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.value if isinstance(node, cst.Name) else node.id if isinstance(node, ast.Name) else ""
