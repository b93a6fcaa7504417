"""What `flow` says of the files of a project that train under AMP: interpreted once, when the first rule asks."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.library import Library, is_unit_test
from amp_migrate.flow.casts import Casts
from amp_migrate.flow.chains import CallChains, in_all
from amp_migrate.flow.domain.atoms import (
    NEVER,
    Atom,
    Class,
    Func,
    Method,
    Obj,
    Opaque,
    Value,
    Wrapped,
    constant,
    numbers_in,
    one,
)
from amp_migrate.flow.domain.machine import Facts, Machine, World
from amp_migrate.flow.events import OUT_OF_SIGHT, Act, Event
from amp_migrate.flow.files import Files
from amp_migrate.flow.programs import InRegion, Programs
from amp_migrate.flow.questions import Fault, Questions
from amp_migrate.flow.source import Code, Site, site_of
from amp_migrate.steps.read.interpreted import Interpreted
from amp_migrate.trees.counterparts import Counterparts
from amp_migrate.trees.nodes import find

# Accelerate may scale what is clipped.
CLIPS_BESIDE_ACCELERATE = r"(?s:\bAccelerator\(.*\bmixed_precision\b.*clip_grad_)"
# Scaled gradients, those of what a region computes, or a loss that it refuses. In whole words: others have scalers and
# contexts that are called `LossGradScaler` and `fp8_autocast`.
_ASKED = re.compile(
    r"\b(?:Sharded)?GradScaler\b|\bunscale_\b|scaler\.scale\(|(?s:\bautocast\b.*(?:\.backward\(|binary_cross_entropy\())"
    rf"|{CLIPS_BESIDE_ACCELERATE}"
)
_OPENS_REGIONS = re.compile(r"\bautocast\b")

_OF_GRADIENTS = (
    Act.BACKWARD,
    Act.CLIP,
    Act.HANDED_ON,
    Act.READ,
    Act.SCALER_STEP,
    Act.STEP,
    Act.UNSCALE,
    Act.UPDATE,
)
# Each is run from its first statement; what so many do not show, more hardly do.
_MOST_CALLERS = 4
_STEPPING = re.compile(r"GradScaler|autocast|\bunscale_\b|\.(?:backward|step)\(")


class Flowing:
    """The analysis of values, asked by the nodes of LibCST's trees.

    Args:
        texts: all files of the project.
        library: the same, as trees.
        files: those that rules may ask about; it is about those that train under AMP, or have regions of bfloat16.
        programs: those that earlier plans have had interpreted; new ones are added.
        to_bfloat16: whether regions of float16 become such.
    """

    def __init__(
        self, texts: Files, library: Library, files: Iterable[File], programs: Programs, *, to_bfloat16: bool
    ) -> None:
        self._texts = texts
        self._programs = programs
        self._library = library
        self._files = [file for file in files if _is_asked(file.tree.text, to_bfloat16)]
        self._calls: dict[Code, dict[Code, None]] = {}
        self._in_regions: dict[File, Counterparts] = {}

    @cached_property
    def interpreted(self) -> Interpreted:
        """The program. Those who use what trains in other files show in which loops that is.

        What a unit test hands in is small, and on the CPU as often as not: it shows nothing that a script does not.
        """
        focus = [file.name for file in self._files]
        importing = (name for file in self._files for name in self._library.importing(file, _training_in(file)))
        beside = [name for name in dict.fromkeys(importing) if name not in focus]
        scripts = [name for name in beside if not is_unit_test(name)] or beside
        return Interpreted(self._library, self._programs.of(self._texts, focus, scripts[:_MOST_CALLERS]))

    @property
    def questions(self) -> Questions:
        """Everything else that may be asked."""
        return self.interpreted.questions

    @cached_property
    def chains(self) -> CallChains:
        """The tests on the ways through the program, from call to call."""
        return CallChains(self.questions.analysis)

    @cached_property
    def casts(self) -> Casts:
        """Where a cast to float32 mends something."""
        return Casts(self.questions.analysis)

    def file(self, name: str) -> File | None:
        """One of the files that it is about."""
        return next((file for file in self._files if file.name == name), None)

    def events(self, file: File, node: cst.CSTNode, *acts: Act) -> list[Event]:
        """What happens of some kinds at a node, as far as it is known in which states."""
        own = self._node(file, node)
        return [each for each in self._events.get(own, ()) if each.act in acts and not self.is_given_up(each)]

    def gradient_events(self, file: File) -> Iterator[tuple[Act, cst.CSTNode, Event]]:
        """What a file does to gradients and scalers, with its nodes; a read where their size matters is a clipping."""
        for event in self.questions.events(*_OF_GRADIENTS) if file in self._files else ():
            act = Act.CLIP if event.act is Act.READ else event.act
            is_meant = event.site in self._gauged if event.act is Act.READ else act is not Act.CLIP or not event.scaler
            is_meant &= act is not Act.HANDED_ON or any(isinstance(each, Atom) for each in event.subject)
            node = self.interpreted.node_at(file, event.site) if is_meant else None
            if node is not None:
                yield act, node, event

    def place(self, file: File, event: Event | Fault) -> tuple[File, cst.CSTNode] | None:
        """Where something happens in a file, or in one that no rule asks about by itself."""
        is_others = event.site.file != file.name and self.file(event.site.file) is not None
        return None if is_others else self.interpreted.place(event.site)

    def is_given_up(self, event: Event) -> bool:
        """Whether it is not known in which states something happens."""
        return event.code in self.questions.analysis.given_up

    def scalers_in(self, file: File, expression: cst.CSTNode) -> frozenset[Atom]:
        """The gradient scalers that an expression may be."""
        scalers = self.questions.analysis.pytorch.registry.scalers
        return frozenset(each for each in scalers if each in self.value_of(file, expression))

    def before(self, file: File, statement: cst.CSTNode) -> set[Machine]:
        """The states in which a statement is reached."""
        return {world.now for world in self._worlds(file, statement)}

    def tests(self, file: File, statement: cst.CSTNode) -> Facts:
        """What tests have come to on every way to a statement, in the function that it is in."""
        return in_all(world.facts for world in self._worlds(file, statement))

    def _worlds(self, file: File, statement: cst.CSTNode) -> Iterable[World]:
        own = self._node(file, statement)
        return self.questions.analysis.states.get(own, ()) if isinstance(own, ast.stmt) else ()

    def opens_region(self, file: File, block: cst.With) -> bool:
        """Whether a block may run in more regions than the statement that it is of."""
        own, contexts = self._node(file, block), self.questions.analysis.contexts
        if not isinstance(own, ast.With):
            return False
        before, inside = contexts.get(own), contexts.get(own.body[0])
        return before is not None and inside is not None and before.cuda.regions != inside.cuda.regions

    def code_of(self, file: File, function: cst.FunctionDef | None) -> Code | None:
        """A function of a file that it is about, or the file's own code."""
        node = self._node(file, file.tree.module if function is None else function)
        module = self.questions.analysis.module(file.name)
        return None if module is None or node is None else module.codes.get(node)

    def calls_of(self, code: Code) -> Iterator[tuple[File, cst.CSTNode]]:
        """The statements that call a function, in the files that it is about."""
        for caller, statement in self.chains.calls_of(code):
            file = self.file(caller.file)
            node = None if file is None else self.interpreted.counterparts(file).of(statement)
            if file is not None and node is not None:
                yield file, node

    def value_of(self, file: File, expression: cst.CSTNode) -> Value:
        """What an expression may be; nothing at all where it is never reached."""
        own = self._node(file, expression)
        return self.questions.analysis.values.get(own, NEVER) if isinstance(own, ast.expr) else NEVER

    def precision_in_region(self, file: File, expression: cst.CSTNode) -> int:
        """The precisions of an expression of any file where all that is there runs in a region of float16, as bits.

        None at all where it is no tensor.
        """
        known, own = self._in_region(file), self._counterparts_in_region(file).back(expression)
        return 0 if own is None else known.precisions.get(own, 0)

    def numbers_of(self, file: File, expression: cst.CSTNode) -> tuple[float, ...]:
        """The numbers that a name or an attribute of any file may be, as far as is seen: a default is one."""
        own = self.interpreted.counterparts(file).back(expression)
        if own is not None and (value := self.questions.analysis.values.get(own)):
            return numbers_in(value)
        own = self._counterparts_in_region(file).back(expression)
        return () if own is None else self._in_region(file).numbers.get(own, ())

    def constant_of(self, file: File, expression: cst.CSTNode) -> object:
        """The one constant that an expression of any file may be; None for any other."""
        own = self.interpreted.counterparts(file).back(expression)
        return None if own is None else constant(self.questions.analysis.values.get(own, NEVER))

    def without_kernel_in_region(self, file: File) -> Iterator[tuple[cst.CSTNode, str]]:
        """What no kernel may serve there in half precision, with the operator."""
        counterparts = self._counterparts_in_region(file)
        found = ((counterparts.of(node), operator) for node, operator in self._in_region(file).without_kernel.items())
        return ((node, operator) for node, operator in found if node is not None)

    def _in_region(self, file: File) -> InRegion:
        return self._programs.in_region(self._texts, file.name)

    def _counterparts_in_region(self, file: File) -> Counterparts:
        if file not in self._in_regions:
            self._in_regions[file] = Counterparts(file.tree, self._in_region(file).tree)
        return self._in_regions[file]

    def precision_of(self, file: File, dtype: cst.CSTNode) -> int | None:
        """The precisions that an expression may name, if that is all that it may be; None where nobody can tell."""
        value = self.value_of(file, dtype)
        pytorch = self.questions.analysis.pytorch
        return pytorch.precision_of(value) if all(pytorch.precision_of(one(each)) for each in value) else None

    @cached_property
    def refused(self) -> list[Event]:
        """Where a loss is for certain one that autocast refuses, in any file of the program."""
        found = self.questions.events(Act.REFUSED)
        return [each for each in found if any(each.sure_in.values()) and not self.is_given_up(each)]

    def comes_to(self, file: File, call: cst.Call, event: Event, *, may_choose: bool = False) -> bool:
        """Whether something happens in the one function that a call runs, or in what that calls.

        Args:
            may_choose: whether it may be one of several that a table gives by a key.
        """
        own = self._node(file, call)
        codes = () if own is None else self.questions.analysis.callees.get(own, ())
        is_one = len(codes) == 1 and _is_own(self.value_of(file, call.func))
        return event.code in self._run_from(codes) and (is_one or (may_choose and bool(self.table_of(file, call))))

    def table_of(self, file: File, call: cst.Call) -> str:
        """What has made several objects of which a call runs one, by a key, as `LOSSES[args.loss]()`; else empty."""
        made = [each for each in self.value_of(file, call.func) if isinstance(each, Obj)]
        sites = {each.site for each in made}
        by = self.questions.node_at(*sites) if len(made) > 1 == len(sites) else None
        return ast.unparse(by) if isinstance(by, ast.Call) and _looks_up(by.func) else ""

    def is_followed(self, file: File, call: cst.Call) -> bool:
        """Whether a call runs functions of the program that have been looked at."""
        own = self._node(file, call)
        return own is not None and bool(self.questions.analysis.callees.get(own))

    def is_idle(self, file: File, method: cst.FunctionDef) -> bool:
        """Whether a method of any file runs nowhere, though the program makes objects of its class."""
        module, node = self.questions.analysis.module(file.name), self.interpreted.counterparts(file).back(method)
        code = None if module is None or node is None else module.codes.get(node)
        return code is not None and self.questions.is_idle(code)

    def callee_of(self, file: File, call: cst.Call) -> str:
        """The full name of what a call runs that is of another package; empty where it is not."""
        own = self._node(file, call)
        return "" if own is None else self.questions.analysis.pytorch.called.get(site_of(file.name, own), "")

    def is_gauged(self, event: Event) -> bool:
        """Whether something is made of the gradients that are read at a place which depends on their size."""
        return event.site in self._gauged

    def only_reads(self, file: File, call: cst.Call) -> bool:
        """Whether what a call runs makes something of gradients that depends on their size, and changes none."""
        own = self._node(file, call)
        codes = set() if own is None else self._run_from(self.questions.analysis.callees.get(own, ()))
        return not codes.isdisjoint(self._reading) and codes.isdisjoint(self._changing)

    def runs(self, file: File, around: cst.CSTNode, event: Event) -> bool:
        """Whether a loop or a function of a file has something happen, in itself or in what it calls."""
        own = self._node(file, around)
        inside = set() if own is None else set(ast.walk(own))
        return event.node in inside or event.code in self._run_in(inside)

    def files_run(self, file: File, around: cst.CSTNode) -> set[str]:
        """The names of the files of which something is run in a part of a file, be it through others."""
        own = self._node(file, around)
        return set() if own is None else {code.file for code in self._run_in(ast.walk(own))}

    def _run_in(self, nodes: Iterable[ast.AST]) -> set[Code]:
        callees = self.questions.analysis.callees
        return self._run_from(code for node in nodes if node in callees for code in callees[node])

    def _run_from(self, called: Iterable[Code]) -> set[Code]:
        """Some functions, and all that they may run."""
        codes: set[Code] = set()
        stack = list(called)
        while stack:
            code = stack.pop()
            if code not in codes:
                codes.add(code)
                stack += self._called_by(code)
        return codes

    @cached_property
    def _reading(self) -> set[Code]:
        """The functions that clip gradients, or read them where their size matters afterwards."""
        reads = [event for event in self.questions.events(Act.READ) if event.site in self._gauged]
        return {event.code for event in (*reads, *self.questions.events(Act.CLIP))}

    @cached_property
    def _gauged(self) -> set[Site]:
        """Where gradients are read of which something is made that depends on their size."""
        gauges = (each for each in self.questions.events(Act.GAUGE) if not self.questions.is_without_scale(each))
        return {site for each in gauges if not self._is_unseen(each) for site in each.sources}

    def _is_unseen(self, event: Event) -> bool:
        """Whether gradients go to code of the project that a run did not come to: it may reduce them over processes.

        That is to be done while they are scaled, for all processes to find the same infinities.
        """
        if event.why != OUT_OF_SIGHT or not isinstance(event.node, ast.Call):
            return False
        return _is_own(self.questions.analysis.values.get(event.node.func, one(Opaque())))

    @cached_property
    def _changing(self) -> set[Code]:
        return {event.code for event in self.questions.events(Act.BACKWARD, Act.UNSCALE, Act.SCALER_STEP, Act.UPDATE)}

    @cached_property
    def _events(self) -> dict[ast.AST | None, list[Event]]:
        found: dict[ast.AST | None, list[Event]] = defaultdict(list)
        for event in self.questions.analysis.events.values():
            found[event.node].append(event)
        return found

    def _called_by(self, code: Code) -> dict[Code, None]:
        """The functions that a function calls."""
        if code not in self._calls:
            callees = self.questions.analysis.callees
            nodes = (node for statement in code.body for node in ast.walk(statement))
            self._calls[code] = {each: None for node in nodes for each in callees.get(node, ())}
        return self._calls[code]

    def _node(self, file: File, node: cst.CSTNode) -> ast.AST | None:
        return self.interpreted.counterparts(file).back(node) if file in self._files else None


def _is_own(called: Value) -> bool:
    """Whether what is called is code of the project, whatever comes before."""
    return all(
        isinstance(each.made_of, Class) if isinstance(each, Obj) else isinstance(each, (Class, Func, Method, Wrapped))
        for each in called
    )


def _looks_up(kind: ast.expr) -> bool:
    """Whether an expression takes something out of others: `KINDS[key]`, `KINDS.get(key)`, `getattr(kinds, key)`."""
    if not isinstance(kind, ast.Call):
        return isinstance(kind, ast.Subscript)
    is_method = isinstance(kind.func, ast.Attribute) and bool(kind.args)
    return is_method or (isinstance(kind.func, ast.Name) and kind.func.id == "getattr")


def _training_in(file: File) -> set[str]:
    """What a file has in which something is stepped or scaled, itself or by what else is there, by name."""
    about: dict[str, set[str]] = {}
    found: set[str] = set()
    for statement in file.tree.module.body:
        targets = (each.target for each in find(statement, cst.AssignTarget))
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            own = {statement.name.value}
        else:
            own = {each.value for each in targets if isinstance(each, cst.Name)}
        trains = bool(own) and _STEPPING.search(file.tree.code(statement)) is not None
        found |= own if trains else set()
        about |= {name: {each.value for each in find(statement, cst.Name)} for name in own if not trains}
    while more := {name for name, used in about.items() if name not in found and not used.isdisjoint(found)}:
        found |= more
    return found


def _is_asked(text: str, to_bfloat16: bool) -> bool:
    """Whether rules may ask about a file with this text."""
    has_bfloat16 = (to_bfloat16 or "bfloat16" in text) and _OPENS_REGIONS.search(text) is not None
    return has_bfloat16 or _ASKED.search(text) is not None
