"""Interprets what a program may do, function by function and call by call, until nothing changes."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from pathlib import PurePath
from typing import Any

from amp_migrate.flow.domain.atoms import (
    CHOSEN,
    MOST_CHOSEN,
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Atom,
    Class,
    External,
    FileModule,
    FrameRef,
    Func,
    Lazy,
    Method,
    Obj,
    Opaque,
    Part,
    Super,
    Value,
    Wrapped,
    are_definitions,
    join,
    join_all,
    loosened,
    many,
    named,
    one,
    only,
    some,
    widened,
)
from amp_migrate.flow.domain.contexts import NO_CONTEXT, OFF, ON, Autocast, Context
from amp_migrate.flow.domain.heap import Heap
from amp_migrate.flow.domain.interned import Run
from amp_migrate.flow.domain.machine import AGAIN, EMPTY_MACHINE, GUESSED, START, Machine, World, Worlds
from amp_migrate.flow.domain.state import Cell, State, meet
from amp_migrate.flow.domain.tensor import LOW, Tensor, is_same, join_tensors
from amp_migrate.flow.events import Act, Event
from amp_migrate.flow.files import Files
from amp_migrate.flow.python import attributes, builtins, calls, containers
from amp_migrate.flow.python.arguments import DEFAULT, Arguments, some_keywords
from amp_migrate.flow.python.classes import BASES, DATA_SETS, lineage
from amp_migrate.flow.python.expressions import evaluate
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.python.statements import execute, under
from amp_migrate.flow.pytorch import PyTorch
from amp_migrate.flow.source import FUNCTIONS, Code, Module, site_of
from amp_migrate.flow.task import NONE, Task, with_called, with_callers
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.star_names import brings

# A function that is called with more sets of arguments than this is interpreted once for all further ones together.
_MOST_TASKS = 24
_MOST_TASKS_OF_THE_REST = 1
_MOST_ENTRIES = 24
# So is one that is called from inside itself, deeper than this.
_MOST_NESTED = 3
# Of the classes that a function makes, each may be called wherever one is: so many of its frames make their own.
_MOST_FRAMES = 4
# What still grows then is anything.
_MOST_WIDENINGS = 4
# A file that is only consulted is followed into as long as a run has not come to so many statements: what is asked of a
# script is not worth more than this, however much lies around it.
_STATEMENTS = 1_500
_STATEMENTS_PER_LINE = 2
# Of what is of no use unless it is whole: a program of more is hardly ever looked at to its end.
_STATEMENTS_OF_WHOLE = 30_000
_AT_MOST = 4  # times that, those of the script itself included, and what still changes is anything
_FOR_TABLES = 4  # the part of it that is worth what imports put into tables
_FOR_CONSTRUCTORS = 2  # what a program is made of is asked for more often than what each part does
# How deep calls are followed at once: what is further down is interpreted later, and its callers again.
_DEEPEST = 40
# How often a function is interpreted for one set of arguments, before nothing more is known of it.
_MOST_RUNS = 40
# Nor is of one that is only consulted, and has nothing to do with gradients or regions, behind so many statements of
# its own: a parser that calls itself, on trees of which nobody knows the depth, leaves nothing to the model.
_MOST_OF_ONE = 4_000
_RECURSION = 12_000
# Through how many files a name is followed that one imports from the other.
_MOST_IMPORTS = 20
# By how many calls, the last ones, what is made in them is told apart: most of what is made over and over is alike.
LONGEST_CONTEXT = 3
_LONGEST_CONTEXT_CLOSELY = 12
_EXITS = frozenset(("exit", "quit", "sys.exit", "os._exit", "os.abort"))
_DATACLASS, _OF_ABSTRACT = External("dataclasses.dataclass"), one(External("abc.ABCMeta"))
_OF_SCALERS = (Act.UPDATE, Act.SCALER_MADE)
_METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Analysis:
    """What a program may do.

    Args:
        files: the texts of the project.
        focus: the files whose values are kept, and whose functions are run with unknown arguments if nobody calls them.
        beside: files that are run as well, because they may call what is in the others.
        patience: how many times as far files that are only consulted are followed into.
        keeps_all: whether the values and callees of the other files are kept, too.
        around: what is switched on around all of it.
        longest_context: by how many of the calls that something is made in it is told from what others make there.
        only_whole: whether it is of no use unless `is_complete`: a run stops where it turns out that it is not.
        as_written: whether numbers, texts and booleans that the files say are what they are in every run.

    Attributes:
        values: what each expression of the files in focus may be.
        contexts: what is switched on at each of their statements.
        states: the ways that lead to each of their statements.
        callees: the functions that each of their calls may run.
        events: what happens anywhere, by kind and place.
        interpreted: how often a function was interpreted.
        executed: how many statements that were.
        consulted: how many of these were of files that are only consulted.
        spent: how many of the consulted statements were those of each function itself.
        lowered: the lines of the files that were parsed.
        unparsed: the files that were asked for, and that the running Python cannot parse: what they have is unknown.
        tables: the dictionaries that a key which nobody knows is looked up in, and that hold classes or functions, or
            nothing so far; with who has looked.
        goes_on: the files and functions that are read on behind statements that are never left, and behind which.
        ends: the statements of the files in focus that are never left, as far as is seen, with who runs them so.
        measuring: the functions that give something made of gradients, such as their norm.
        making: the functions that give modules, optimizers or scalers which what they call makes.
        not_followed: the functions whose calls gave something unknown, because they are none of the run's business, or
            because it has come to its end.
        inside_themselves: the objects that were called inside themselves: each stands for several.
        given_up: the functions that did not come to rest: what they still changed is anything.
        taken_alone: the functions that a run did not come to before its end, and that were looked at all the same, for
            they name a loss that autocast refuses: they may run in a region.
        moved_elsewhere: what code that is not in sight may move: what unread code is given, and objects that nobody in
            sight makes, but are made for a look at what their methods do.
        is_excerpt: whether it reads a name that nothing binds: there is more of the program than is in sight.
        unseen: the functions of which nobody knows what they do to a step, because the run had come to its end, or they
            did not come to rest: they run in a region, or have to do with gradients.
    """

    def __init__(
        self,
        files: Files,
        focus: Iterable[str],
        beside: Iterable[str] = (),
        patience: int = 1,
        keeps_all: bool = False,
        around: Context = NO_CONTEXT,
        longest_context: int = LONGEST_CONTEXT,
        only_whole: bool = False,
        as_written: bool = False,
    ) -> None:
        self.files = files
        self.focus = tuple(dict.fromkeys(focus))
        self.beside = tuple(each for each in dict.fromkeys(beside) if each not in self.focus)
        self._own = frozenset((*self.focus, *self.beside))
        self.keeps_all = keeps_all
        self.longest_context = longest_context
        self._outermost = around
        self._objects = Run()
        self._only_whole = only_whole
        self.as_written = as_written
        self.heap = Heap(self._outdate)
        self.pytorch = PyTorch(self)
        self.values: dict[ast.AST, Value] = {}
        self.contexts: dict[ast.AST, Context] = {}
        self.states: dict[ast.stmt, Worlds] = {}
        self.callees: dict[ast.AST, dict[Code, None]] = {}
        self.events: dict[tuple[Any, ...], Event] = {}
        self.measuring: set[Code] = set()
        self.making: set[Code] = set()
        self.many: set[Atom] = set()
        self.plural: set[Atom] = set()
        self.inside_themselves: set[Atom] = set()
        self.instances: dict[Code, dict[Obj, None]] = {}
        self.partials: dict[Obj, Arguments] = {}
        self.tables: dict[Atom, dict[Task, None]] = {}
        self._put_in_elsewhere: set[Atom] = set()
        self._filled: set[Atom] = set()
        self._escaped: dict[Func, Context] = {}
        self._escaped_to: dict[Code, str] = {}
        self.managers: dict[Obj, dict[Atom, Arguments]] = {}
        self.modules: dict[str, Module | None] = {}
        self.unparsed: dict[str, None] = {}
        self.interpreted = self.executed = self.consulted = self.evaluated = self.lowered = 0
        self.goes_on: dict[Code, frozenset[ast.stmt]] = {}
        self.ends: dict[ast.stmt, dict[Task, tuple[Frame, bool]]] = {}
        self.not_followed: dict[Code, None] = {}
        self.given_up: dict[Code, None] = {}
        self.unseen: dict[Code, None] = {}
        self.taken_alone: dict[Code, None] = {}
        self.moved_elsewhere: Value = NEVER
        self._objects_out_of_sight: set[Obj] = set()
        self.is_excerpt = False
        self._patience, self._allowance = patience, _STATEMENTS * patience
        self._over_at = 0
        self._called_by_nobody: list[tuple[Frame, Func, Arguments, Context]] = []
        self._tasks: dict[tuple[Any, ...], Task] = {}
        self._by_code: dict[Code, list[Task]] = {}
        self._wide: dict[tuple[FrameRef, int, int], Task] = {}
        self._defined: dict[Code, dict[Func, None]] = {}
        self._stars: dict[str, dict[str, bool]] = {}
        self._pending: dict[Task, None] = {}
        self._active: list[Task] = []
        self.spent: Counter[Code] = Counter()
        self._located: dict[tuple[str, str], str | None] = {}

    # Running

    def run(self) -> Analysis:
        """Interpret the program, and come to rest."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _RECURSION))
        try:
            with self._objects.interpreting(), suppress(_NotWhole):
                self._interpret_all()
        finally:
            sys.setrecursionlimit(limit)
        self.files.note_run(self.executed)
        return self

    def resume(self) -> None:
        """Have what is made from now on be known for what it is here: other programs may have been run since."""
        self._objects.resume()

    def let_go(self) -> None:
        """Be asked nothing any more: what is known goes now, and not once Python looks for what refers to itself."""
        for task in chain.from_iterable(self._by_code.values()):
            vars(task).clear()
        vars(self).clear()

    def _interpret_all(self) -> None:
        self._allowance += _STATEMENTS_PER_LINE * sum(module.lines for module in self._own_modules)
        if self._only_whole:
            self._allowance = min(self._allowance, _STATEMENTS_OF_WHOLE * self._patience)
        for file in (*self.focus, *self.beside):
            self._bring_module(file)
        self._settle()
        self._fill_tables()
        self._go_on()
        entered: set[Code] = set()
        while self._go_on_behind_ends() or self._enter_uncalled(entered):
            self._settle()
            self._fill_tables()
        self._call_again()
        if self.keeps_all and not self.is_complete and self.pytorch.opened:
            self._take_alone(entered)
            self._settle()

    def _go_on(self) -> None:
        """Look at the rest of files in focus that end at a statement which raises, as far as is seen.

        The next cell of a notebook runs all the same, and a step behind it would be one that nobody has looked at.
        """
        for file in self.focus:
            module = self.module(file)
            if module is not None and module.tree.body and module.tree.body[-1] not in self.states:
                self.goes_on[module.code] = module.followed
                self._outdate(self.task(module.code, FrameRef(module.code, (), None), {}, self._outermost))
        self._settle()

    def note_end(self, frame: Frame, node: ast.stmt, *, is_dead: bool) -> None:
        """Note whether a statement of a file in focus calls what never returns, as far as is seen now."""
        if is_dead and not _leaves(node):
            self.ends.setdefault(node, {})[frame.task] = frame, bool(frame.raising)
        elif node in self.ends:
            self.ends[node].pop(frame.task, None)

    def _go_on_behind_ends(self) -> bool:
        """Look at what stands behind calls that never return, if nothing else leads there; whether there was any.

        Rather than a program that ends before its step, that is one which has not been understood. In a `try`, a call
        may be there to raise: only more than plain statements behind it is looked at.
        """
        more: dict[Code, set[ast.stmt]] = {}
        for node, frames in self.ends.items():
            for frame, may_be_meant in frames.values():
                known = self.goes_on.get(frame.code, frozenset())
                behind = list(frame.module.behind(frame.code, node))
                is_last = not behind or behind[0] in self.states
                if node not in known and not is_last and not (may_be_meant and not _holds_others(behind)):
                    more.setdefault(frame.code, set()).add(node)
        for code, nodes in more.items():
            self.goes_on[code] = self.goes_on.get(code, frozenset()) | nodes
            for task in {each: None for node in nodes for each in self.ends[node]}:
                self._outdate(task)
        return bool(more)

    @property
    def gone_on(self) -> list[tuple[Code, ast.stmt]]:
        """The statements that are never left, as far as is seen, and behind which the program was read on.

        None that calls a function which ends the program, or waits forever, or of which the same is told.
        """
        found = {
            (frame.code, node): None
            for node, frames in self.ends.items()
            for frame, _ in frames.values()
            if node in self.goes_on.get(frame.code, ()) and not self._calls_the_last(node)
        }
        return sorted(found, key=lambda each: (each[0].file, each[1].lineno, each[1].col_offset))

    def _calls_the_last(self, node: ast.stmt) -> bool:
        ending = {frame.code for frames in self.ends.values() for frame, _ in frames.values()}
        called = [code for each in nodes_in(node) for code in self.callees.get(each, ())]
        return any(code in ending or any(map(_is_last, nodes_in(code.node))) for code in called)

    def put_in_elsewhere(self, frame: Frame, table: Atom) -> Value:
        """What else a dictionary of classes or functions may hold than what is known to be put into it."""
        self.tables.setdefault(table, {})[frame.task] = None
        return CHOSEN if table in self._put_in_elsewhere else NEVER

    def runs_in(self, task: Task, code: Code) -> bool:
        """Whether a task is one of a function, or was called by one, as far as is seen."""
        return any(each.code is code for each in with_callers((task, *self._active)))

    def is_run_by(self, code: Code, other: Code) -> bool:
        """Whether a function may be called, be it by others, from another, as far as is seen."""
        return any(self.runs_in(each, other) for each in self._by_code.get(code, ()))

    def _fill_tables(self) -> None:
        """Run what is imported for nothing but what it puts into a table, as `import models` for its decorators.

        A table that is empty all the same is filled where nobody sees it; one may be, where the run has come to its
        end.
        """
        for table in [each for each in self.tables if not are_definitions(self._held(each))]:
            del self.tables[table]
        new = self.tables.keys() - self._filled
        if not new:
            return
        if not self._bring_imported():
            self._note_put_in_elsewhere(new)
        self._settle()
        self._filled |= new
        self._note_put_in_elsewhere(
            each
            for each in new
            if self._is_of_package(each) or not any(name.startswith("[") for name in self.heap.names(each, _NOBODY))
        )
        self._settle()

    def _note_put_in_elsewhere(self, tables: Iterable[Atom]) -> None:
        """Let those who read tables look again, for more is put into these than anybody sees."""
        found = {*tables} - self._put_in_elsewhere
        for table in [each for each in self.tables if each in found]:
            self._put_in_elsewhere.add(table)
            for reader in self.tables[table]:
                self._outdate(reader)

    def _is_of_package(self, table: Atom) -> bool:
        """Whether a table is of an installed package, of which nobody looks at all that is imported with it."""
        return isinstance(table, Obj) and self.files.is_installed(table.site.file)

    def _held(self, table: Atom) -> Value:
        names = self.heap.names(table, _NOBODY)
        return join_all(self.heap.read(table, each, _NOBODY) for each in names if each.startswith("["))

    def _bring_imported(self) -> bool:
        """Run all that is imported from one file to the next; whether there was not too much of it to look at."""
        for file, _ in self._with_imported():
            is_full = any(len(self.heap.names(each, _NOBODY)) > MOST_CHOSEN for each in self.tables)
            if is_full or self.consulted > self._allowance // _FOR_TABLES:
                return False
            self._bring_module(file)
        return True

    def _with_imported(self) -> Iterator[tuple[str, Module]]:
        """The files that it is about, and all of the project that is imported from one to the next."""
        files = [*self.focus, *self.beside]
        for file in files:
            module = self.module(file)
            if module is not None:
                yield file, module
                located = dict.fromkeys(self.locate(each, file) for each in module.imports)
                found = (each for each in located if each is not None and not self.files.is_installed(each))
                files += [each for each in found if each not in files]

    def module(self, file: str) -> Module | None:
        """A file, parsed when it is first asked for; None where it cannot be."""
        if file not in self.modules:
            found = self.modules[file] = self.files.module(file)
            if found is None and self.files.text(file) is not None:
                self.unparsed[file] = None
            self.lowered += 0 if found is None else found.lines
        return self.modules[file]

    @property
    def is_spent(self) -> bool:
        """Whether a run has come to so many statements that what still changes is given up."""
        return self.executed > _AT_MOST * self._allowance

    @property
    def is_complete(self) -> bool:
        """Whether a run has come to rest within its allowance, as far as it has to do with a step."""
        return not self.unseen

    @property
    def may_take_for_one(self) -> bool:
        """Whether a weight used with and without gradients may be two: more calls than are told apart have made it."""
        met = (leaf for each in self.events.values() if each.act is Act.WEIGHT_CAST for leaf in each.leaves)
        owners = (leaf.owner for leaf in met if isinstance(leaf, Part))
        return any(isinstance(each, Obj) and len(each.context) >= self.longest_context for each in owners)

    @property
    def was_stopped(self) -> bool:
        """Whether a run was stopped as soon as it could not be complete."""
        return self._only_whole and not self.is_complete

    @property
    def met_no_limit(self) -> bool:
        """Whether a run would have been the same with more patience: it has come to rest before it asked for that."""
        is_over = self.is_spent or self.consulted > self._allowance // _FOR_TABLES
        return not (is_over or self._only_whole)

    def follows(self, code: Code, is_of_step: Callable[[], bool]) -> bool:
        """Whether a call of a function is followed into it. One of a file in focus, or about gradients, always is.

        Args:
            is_of_step: whether a file in focus calls it, or it is given what steps: for these there is as much again.
        """
        if self.is_own(code) or (code.is_function and code.reads_gradients) or code in self.taken_alone:
            return True
        if code.parent not in self.not_followed:
            if not self.has_come_to_its_end_for(code):
                return True
            self._over_at = self._over_at or self.consulted
            if self.consulted <= self._over_at + self._allowance and is_of_step():
                return True
        self.not_followed[code] = None
        return False

    def has_come_to_its_end_for(self, code: Code) -> bool:
        """Whether a run has come to so many statements that a function which is only consulted is not worth more."""
        return self.consulted > self._allowance * (_FOR_CONSTRUCTORS if code.name == "__init__" else 1)

    def follows_objects(self, code: Code, bases: list[str], is_told_cpu: Callable[[], bool]) -> bool:
        """Whether an object of a class is looked into. Data sets of other files give what they read.

        Args:
            is_told_cpu: whether it is told the CPU: what it makes is there if all that it may be told is.
        """
        if self.is_own(code) or DATA_SETS.isdisjoint(bases) or is_told_cpu():
            return True
        self.not_followed[code] = None
        return False

    @property
    def is_in_package(self) -> bool:
        """Whether what is interpreted now is of an installed package."""
        return bool(self._active) and self.files.is_installed(self._active[-1].code.file)

    def is_own(self, code: Code) -> bool:
        """Whether a function is of a file in focus, or of one beside."""
        return code.file in self._own

    def _outdate(self, task: Task) -> None:
        if task.is_given_up:
            return
        task.is_outdated = True
        if not task.is_active:
            self._pending[task] = None

    def _settle(self) -> None:
        while self._pending:
            task = next(iter(self._pending))
            del self._pending[task]
            if task.is_outdated and not task.is_active and task.is_reached:
                self._run(task)

    def _bring_module(self, file: str) -> None:
        module = self.module(file)
        if module is not None:
            self.bring(self.task(module.code, FrameRef(module.code, (), None), {}, self._outermost), {EMPTY_MACHINE})

    def task(
        self,
        code: Code,
        ref: FrameRef,
        given: dict[str, Value],
        context: Context,
        around: Mapping[Cell, Value] = NONE,
    ) -> Task:
        """The task of running a function with some values, and with some of the names of its file."""
        key = (ref, tuple(given.values()), context, *around.items())
        found = self._tasks.get(key)
        if found is not None:
            return found
        known = self._by_code.setdefault(code, [])
        nested = sum(each.code is code for each in self._active)
        again = sum(each.ref is ref for each in known) if nested else 0
        is_nested = max(nested, again) >= _MOST_NESTED
        if any(isinstance(each, ast.ClassDef) for each in code.body):
            is_nested |= len({each.ref for each in known} - {ref}) >= _MOST_FRAMES
        if len(known) >= self._most_tasks(code) or is_nested:
            wide = FrameRef(code, (), ref.parent) if is_nested else ref
            # What a region makes low must not come out where none is on, nor a loss without gradients where they are.
            apart = (wide, context.cuda.on, context.gradients)
            found = self._wide.get(apart)
            if found is None:
                found = self._wide[apart] = Task(code, wide, given, context, around)
                found.is_many = True
                known.append(found)
            else:
                found.widenings += 1
                joined = {name: widened(found.given[name], value) for name, value in given.items()}
                grown = {name: value for name, value in joined.items() if value != found.given[name]}
                if grown and all(map(are_definitions, grown.values())):
                    found.runs = 0  # these come to an end: the text has no more of them
                elif found.widenings > _MOST_WIDENINGS:
                    is_over = found.widenings > 2 * _MOST_WIDENINGS
                    grown = {name: value for name, value in grown.items() if not _comes_to_an_end(value)}
                    joined |= {name: loosened(value, tensors=not is_over) for name, value in grown.items()}
                both = found.context.join(context)
                common = {cell: value for cell, value in found.around.items() if around.get(cell) == value}
                if joined != found.given or both is not found.context or common != found.around:
                    if both is not found.context:
                        found.casts.clear()  # whether they record gradients is to be seen again
                    found.given, found.context, found.around = joined, both, common
                    self._outdate(found)
        else:
            found = Task(code, ref, given, context, around)
            known.append(found)
        self._tasks[key] = found
        return found

    def _most_tasks(self, code: Code) -> int:
        """With how many sets of arguments a function is interpreted; a consulted one with few once half is used up."""
        is_short = self.consulted > self._allowance // 2 and not self.is_own(code)
        return _MOST_TASKS_OF_THE_REST if is_short else _MOST_TASKS

    def bring(self, task: Task, machines: set[Machine]) -> None:
        """See to it that a task has been run for these states, as far as it has to be."""
        while True:
            if task.is_given_up:
                task.leave_unknown(machines)
                return
            known = {each.only(task.keys) for each in task.entries}
            missing: dict[Machine, Machine] = {}
            for each in machines:
                if each.only(task.keys) not in known:
                    missing.setdefault(each.only(task.keys), each)
            if task.is_joined:
                task.join_entries(missing.values())
            elif missing or not task.has_run:
                # Most of what is only consulted has nothing to do with states: a first run in one of them shows it.
                is_first_asked = not task.has_run and self.is_own(task.code)
                task.entries |= machines if is_first_asked else set(missing.values())
                task.is_outdated = True
                if len(task.entries) > _MOST_ENTRIES:
                    task.join_entries()
            if not task.is_outdated or task.is_active:
                return
            if len(self._active) >= _DEEPEST:
                self._pending[task] = None
                return
            self._run(task)  # which may show that more of the states matters

    def _run(self, task: Task) -> None:
        task.is_active = True
        self._active.append(task)
        while task.runs < _MOST_RUNS and (not self.is_spent or not task.has_run) and not self._is_worn(task):
            task.is_outdated = False
            before = task.summary()
            self._interpret(task)
            task.has_run = True
            if task.summary() != before:
                task.version += 1
                for caller, used in list(task.callers.items()):
                    if used < task.version:
                        self._outdate(caller)
            if not task.is_outdated:
                break
        else:
            self._give_up(task)
        self._active.pop()
        task.is_active = False

    def _is_worn(self, task: Task) -> bool:
        """Whether a function has taken more than it is worth, whatever it may come to."""
        if self.spent[task.code] <= _MOST_OF_ONE or self.is_own(task.code):
            return False
        makes = task.code.name == "__init__" or task.code in self.making
        return not (makes or task.touched or task.context.cuda.may_be_on or task.code.reads_gradients)

    def _give_up(self, task: Task) -> None:
        """Let a function that does not come to rest give anything."""
        self.gives_up(task, task.code, task.context)
        task.give_up()
        for caller in list(task.callers):
            self._outdate(caller)

    def gives_up(self, task: Task, code: Code, context: Context) -> None:
        """Note a function that does not come to rest: in the regions that it runs in, anything may be computed."""
        self.given_up[code] = None
        if task.touched or context.cuda.may_be_on or any(code.has(site) for site in self.pytorch.opened):
            self.note_unseen(code)
        self.pytorch.works_in(context)

    def note_unseen(self, code: Code) -> None:
        """Note a function of which nobody knows what it does to a step."""
        self.unseen[code] = None
        if self._only_whole:
            raise _NotWhole

    def _interpret(self, task: Task) -> None:
        self.interpreted += 1
        task.runs += 1
        for event in task.happened:
            event.seen_by.pop(task, None)
            event.sure_in.pop(task, None)
        task.happened = {}
        before, task.called = task.called, {}
        module = self.module(task.code.file)
        assert module is not None
        worlds = frozenset(World(each, frozenset(), each) for each in task.entries)
        sites = {each.arg: module.site(each) for each in task.code.parameters}
        given = {name: named(value, sites[name]) for name, value in task.given.items()}
        frame = Frame(self, module, task, State(dict(given), dict(task.around), task.context, worlds or START))
        for name in [each for each in given if each in task.code.captured]:
            self.heap.write(task.ref, name, given[name])
        execute(frame, task.code.body)
        if frame.state is None and frame.ended is None and task.code.is_generator:  # whose call returns all the same
            frame.state = frame.paused or State(given, {}, task.context, worlds or START)
            frame.state.context = task.context
        if frame.state is not None:
            frame.leave(NONE_VALUE)
        value = many(frame.yielded) if task.code.is_generator else frame.returned
        task.value = join(task.value, value)
        task.no_longer_calls(before)
        if frame.ended is not None:
            task.leaves(frame.ended.worlds)
            after = frame.ended.context
            task.leaves_on = after if task.leaves_on is None else task.leaves_on.join(after)
            task.cells = {cell: v for cell, v in frame.ended.cells.items() if cell in task.written}
            became = ((name, _leaf_of(value, frame.ended.names.get(name, NEVER))) for name, value in given.items())
            task.made_leaves = {name: leaf for name, leaf in became if leaf is not None}

    # Entry points

    def _enter_uncalled(self, entered: set[Code]) -> bool:
        """Run a function of the files in focus that nobody has called; whether there was one.

        What their classes inherit from others is among these, and what goes where nobody follows it, of whatever file:
        `Engine(update)`. Those come first whose names no function uses, then those that are no methods and whose names
        are those of attributes at most (`train`, for `model.train()`): the others may be called by them. What only the
        code of a file names has not been called by it with what it takes (`@hydra.main()`, and then `main()`).
        """
        names, attributes = self._names_used
        waiting: dict[int, Code] = {}
        own = (code for module in self._own_modules for code in module.functions)
        for code in (*own, *self._inherited, *self._handed_away):
            if code in entered or self._by_code.get(code) or code not in self._defined:
                continue
            is_used = code.name in names or code.name in attributes or _is_called_by_torch(code)
            rank = 2 if code.name in names or _is_method(code) else 1
            waiting.setdefault(rank if is_used else 0, code)
            if 0 in waiting:
                break
        if waiting:
            self._enter_code(waiting[min(waiting)], entered)
        return bool(waiting)

    def _take_alone(self, entered: set[Code]) -> None:
        """Run what is imported and names a loss that autocast refuses, if the run had come to its end before it.

        Whether it runs in a region is not known; that such a loss has to be computed in float32 needs no more.
        """
        for _, module in self._with_imported():
            unmet = [each for each in module.functions if each.names_refused_loss and not self._by_code.get(each)]
            self.taken_alone.update(dict.fromkeys(unmet))
        for code in self.taken_alone:
            self._bring_module(code.file)
        switched = Autocast(ON | OFF, LOW, ON, frozenset(self.pytorch.opened), frozenset(), True)
        for code in self.taken_alone:
            for function in self._defined.get(code, ()):
                self._escaped.setdefault(function, self._outermost.but(cuda=switched))
            if code in self._defined:
                self._enter_code(code, entered)

    @property
    def _own_modules(self) -> Iterator[Module]:
        return (each for each in map(self.module, (*self.focus, *self.beside)) if each is not None)

    @cached_property
    def _inherited(self) -> dict[Code, Code]:
        """The methods of other files that classes of the files in focus inherit, each with one that does."""
        found: dict[Code, Code] = {}
        for kind in (code for module in self._own_modules for code in module.code.inner if not code.is_function):
            outside = Frame(self, self._some_module(), _NOBODY, State({}, {}, NO_CONTEXT, START))
            bound = set(kind.bound)
            for base in lineage(outside, Class(kind, None)):
                if isinstance(base, Class) and self._is_of_others(base.code.file):
                    methods = (
                        each for each in base.code.inner if isinstance(each.node, _METHODS) and each.name not in bound
                    )
                    found.update({method: kind for method in methods if method not in found})
                if isinstance(base, Class):
                    bound |= base.code.bound
        return found

    def _is_of_others(self, file: str) -> bool:
        """Whether a file is one of the project's that is only consulted."""
        return file not in self._own and not self.files.is_installed(file)

    @cached_property
    def _names_used(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names that functions of the files in focus read, and those of attributes, inherited methods included."""
        names: set[str] = set()
        attributes: set[str] = set()
        for module in self._own_modules:
            names.update(name for code in module.codes.values() if code.is_function for name in code.used)
        for code in (*(module.code for module in self._own_modules), *self._inherited):
            attributes |= code.attributes
        return frozenset(names), frozenset(attributes)

    @property
    def _handed_away(self) -> Iterator[Code]:
        """The lambdas, and the functions of files that are only consulted, which somebody gets whom nobody follows.

        Those of installed packages only where they may be run in a region: of each decorator of another package that
        theirs are for, the program has no part.
        """
        codes = dict.fromkeys(function.code for function, to in self._escaped.items() if self._may_matter(function, to))
        others = (each for each in codes if isinstance(each.node, ast.Lambda) or not self.is_own(each))
        return (each for each in others if self.is_own(each) or not self.has_come_to_its_end_for(each))

    def _may_matter(self, function: Func, context: Context) -> bool:
        return context.cuda.may_be_on or not self.files.is_installed(function.code.file)

    def _enter_code(self, code: Code, entered: set[Code]) -> None:
        entered.add(code)
        owner = self._inherited.get(code, code.parent)
        for function in list(self._defined[code]):
            self._enter(function, owner if owner is not None and isinstance(owner.node, ast.ClassDef) else None)

    def _enter(self, function: Func, owner: Code | None) -> None:
        """Run a function with arguments that nobody knows."""
        module = self.module(function.code.file)
        assert module is not None
        task = self.task(module.code, FrameRef(module.code, (), None), {}, self._outermost)
        context = self._escaped.get(function, self._outermost).where_called()
        frame = Frame(self, module, task, State({}, {}, context, START))
        frame.task = _Outside(task)
        node = function.code.node
        assert isinstance(node, FUNCTIONS)
        parameters = [*node.args.posonlyargs, *node.args.args]
        owners: list[Value] = []
        if owner is not None and parameters and not function.code.is_static_as:
            # One after another: the model of one goes with its own optimizer, and not with that of another.
            owners = [one(each) for each in self._some_object(frame, owner, function)]
            if self._by_code.get(function.code):
                return  # making the object has run it
        elif owner is not None and function.code.is_static_as == "classmethod":
            owners = [one(Class(owner, function.frame))]
        positional = [self._some_argument(frame, function, each) for each in parameters[1 if owners else 0 :]]
        named = {each.arg: self._some_argument(frame, function, each) for each in node.args.kwonlyargs}
        rest = UNKNOWN if node.args.vararg else NEVER
        others = self._some_keywords(function, node.args)
        for given in [[each, *positional] for each in owners] or [positional]:
            arguments = Arguments(given, rest, named, others)
            self._called_by_nobody.append((frame, function, arguments, context))
            self._call(frame, function, arguments, State({}, {}, context, START))

    def _call(self, frame: Frame, function: Func, arguments: Arguments, state: State) -> set[Machine]:
        """Call a function for the caller that nobody sees; the states that it leaves."""
        frame.state, frame.is_dead = state, False
        calls.call_atom(frame, function, arguments, function.code.node)
        return set() if frame.state is None else {each.now for each in frame.state.worlds}

    def _call_again(self) -> None:
        """Run once more what goes backward and steps, behind its own end, if nobody is seen to call it.

        A step is there to be made again. What lies between two calls nobody knows; but gradients that it clears itself
        are nobody else's to clear, nor is a scaler that it updates another's to update.
        """
        for frame, function, arguments, context in self._called_by_nobody:
            left = self._call(frame, function, arguments, State({}, {}, context, START))
            left = {each for each in left if not each.get(GUESSED)}
            acts: defaultdict[Act, set[Atom | Tensor]] = defaultdict(set)
            tasks = with_called(each for each in frame.task.called if each.code is function.code)
            for event in (each for task in tasks for each in task.happened):
                acts[event.act].update(event.scaler if event.act in _OF_SCALERS else event.optimizer)
            if Act.BACKWARD not in acts or acts.keys().isdisjoint((Act.STEP, Act.SCALER_STEP)):
                continue
            cleared, updated = acts[Act.ZERO] - acts[Act.OPTIMIZER_MADE], acts[Act.UPDATE] - acts[Act.SCALER_MADE]
            known = {each.known_behind(cleared, updated) for each in left}
            if any(each.items for each in known):
                again = {each.but({AGAIN: True}) for each in known}
                worlds = frozenset(World(each, frozenset(), each) for each in again)
                self._call(frame, function, arguments, State({}, {}, context, worlds))
                self._settle()

    @staticmethod
    def _some_keywords(function: Func, spec: ast.arguments) -> Value:
        rest = spec.kwarg
        return NEVER if rest is None else some_keywords(site_of(function.code.file, rest), rest.arg)

    def _some_argument(self, frame: Frame, function: Func, parameter: ast.arg) -> Value:
        default = self.heap.read(function, DEFAULT + parameter.arg, frame.task)
        hint = ""
        if parameter.annotation is not None and not isinstance(parameter.annotation, ast.Constant):
            said = evaluate(frame, parameter.annotation)
            frame.is_dead = False
            named = [each for each in said if isinstance(each, External)]
            hint = named[0].name if len(said) == len(named) == 1 else ""
        site = site_of(function.code.file, parameter)
        return join(one(Opaque((site, parameter.arg), None, hint)), default)

    def _some_object(self, frame: Frame, owner: Code, function: Func) -> Value:
        """The objects of a class that are known, of those that inherit from it too; else one that nobody has made.

        Of a class that leaves methods to others, that is one of each of these.
        """
        known = [made for kind, objects in self.instances.items() if self._inherits(kind, owner) for made in objects]
        if known:
            return frozenset(known[:8])
        heirs = [each for each in self._heirs(owner) if not each.is_abstract] if owner.is_abstract else []
        kinds = [Class(each, None) for each in heirs] or [Class(owner, function.frame)]
        return join_all(self._made_by_nobody(frame, each) for each in kinds[:8])

    def _heirs(self, owner: Code) -> Iterator[Code]:
        """The classes of the files in focus that inherit from one."""
        own = (code for module in self._own_modules for code in module.codes.values())
        return (each for each in own if isinstance(each.node, ast.ClassDef) and self._inherits(each, owner))

    def _made_by_nobody(self, frame: Frame, kind: Class) -> Value:
        """An object of a class, made with arguments that nobody knows."""
        init = attributes.load_of_class(frame, kind, kind, None, "__init__")
        arguments = Arguments()
        for each in init:
            inner = each.function if isinstance(each, (Wrapped, Method)) else each
            if isinstance(inner, Func) and isinstance(inner.code.node, FUNCTIONS):
                spec = inner.code.node.args
                arguments.positional = [
                    self._some_argument(frame, inner, p) for p in [*spec.posonlyargs, *spec.args][1:]
                ]
                arguments.keywords = {p.arg: self._some_argument(frame, inner, p) for p in spec.kwonlyargs}
                arguments.rest = UNKNOWN if spec.vararg else NEVER
                arguments.others = self._some_keywords(inner, spec)
                break
        made = calls.instantiate(frame, kind, arguments, kind.code.node) or one(Obj(kind.code.site, (), kind))
        frame.is_dead = False
        self.moved_elsewhere |= made
        return made

    def _inherits(self, kind: Code, owner: Code) -> bool:
        if kind is owner:
            return True
        for each in (Class(kind, None),):
            count = len(kind.node.bases) if isinstance(kind.node, ast.ClassDef) else 0
            for index in range(count):
                for base in self.heap.read(each, f"{BASES}{index}", _NOBODY):
                    if isinstance(base, Class) and base.code is not kind and self._inherits(base.code, owner):
                        return True
        return False

    # Names

    def unbound_name(self, frame: Frame, node: ast.Name) -> Value:
        """What a name is that nobody in sight binds: Python's own, or one of `from x import *`."""
        name = node.id
        stars = self._stars.get(frame.module.file, {})
        for star, inside in reversed(stars.items()):  # a later one takes the name from an earlier one
            if inside:
                found = self.global_of(frame, star, name, strict=True)
                if found:
                    return found
        if name in builtins.NAMES:
            return one(External(f"builtins.{name}"))
        outside = [star for star, inside in stars.items() if not inside and brings(star, name) is not False]
        if outside and name == "torch":
            return one(External(name))  # which whoever brings it has imported
        if len(outside) == 1:
            return one(External(self.pytorch.canonical(f"{outside[0]}.{name}")))
        if name in ("__name__", "__file__", "__doc__"):
            return some("str")
        if frame.code.bound and name in frame.module.code.bound:
            return NEVER if not frame.code.is_function else UNKNOWN
        self.is_excerpt = True
        return one(Opaque((frame.module.file, name)))

    def global_of(
        self,
        frame: Frame,
        file: str,
        name: str,
        *,
        strict: bool = False,
        within: frozenset[tuple[str, str]] = frozenset(),
    ) -> Value:
        """What a name of a file of the project is; its own code is run for that.

        Args:
            strict: give nothing at all where the file has no such name.
            within: the names that it is asked for: files that import each other may come back to them.
        """
        self._bring_module(file)
        owner = FileModule(file)
        within |= {(file, name)}
        found = self.heap.read(owner, name, frame.task)
        if any(isinstance(each, Lazy) for each in found):
            found = join_all(
                self._imported_name(frame, each, within) if isinstance(each, Lazy) else one(each) for each in found
            )
        if found:
            return found
        for star, inside in self._stars.get(file, {}).items():
            if inside and (star, name) not in within and len(within) < _MOST_IMPORTS:
                found = self.global_of(frame, star, name, strict=True, within=within)
                if found:
                    return found
        submodule = self._submodule(file, name)
        if submodule is not None:
            return one(FileModule(submodule))
        module = self.module(file)
        is_bound = module is not None and name in module.code.bound
        return NEVER if strict and not is_bound else one(Opaque((file, name)))

    def _imported_name(self, frame: Frame, name: Lazy, within: frozenset[tuple[str, str]]) -> Value:
        """What a name is that is imported; where that comes back to itself, the file of a package is meant."""
        if (name.file, name.name) not in within and len(within) < _MOST_IMPORTS:
            return self.global_of(frame, name.file, name.name, within=within)
        submodules = (self._submodule(*each) for each in sorted(within))
        found = next((each for each in submodules if each is not None), None)
        return one(Opaque((name.file, name.name)) if found is None else FileModule(found))

    def _submodule(self, package: str, name: str) -> str | None:
        """The file of a name in a package; None where it is no package, or has none."""
        return self.locate(f".{name}", package) if PurePath(package).name == "__init__.py" else None

    def is_missing(self, atom: object) -> bool:
        """Whether something is a name of a file that nothing binds in what was looked at: to read it raises."""
        file, name = atom.path if isinstance(atom, Opaque) and len(atom.path) == 2 else ("", "")
        module = self.modules.get(file)
        # What is no plain file has names that no text says: a package its compiled parts, a notebook those of IPython.
        if module is None or not file.endswith(".py") or PurePath(file).name == "__init__.py":
            return False
        is_starred = any(each.names[0].name == "*" for each in module.import_statements)
        if is_starred or not module.binds_in_sight or name.startswith("__"):
            return False
        is_set = any(self.heap.has(FileModule(file), each) for each in (name, containers.ANY_ATTRIBUTE))
        return not is_set and name not in module.code.bound | module.rebound

    def global_at(self, frame: Frame, owner: FileModule, name: object) -> Value:
        """What a file has under a key of `globals()`; any of it where nobody knows the key."""
        return self.global_of(frame, owner.file, name) if isinstance(name, str) else self.any_global(frame, owner.file)

    def any_global(self, frame: Frame, file: str, depth: int = 0) -> Value:
        """What of a file a run chooses by a name: anything that can be called, or another file of its package.

        Where there are classes, what is made only as the file runs (`args`, `model`) is not among it, and what another
        package has under the name of a function or module is not named: nobody knows what could call that. Nor is what
        it has for its own use, where `__all__` says what is for others.
        """
        self._bring_module(file)
        module = self.module(file)
        if module is None or depth > _DEEPEST:
            return UNKNOWN
        stars = self._stars.get(file, {})
        found = NEVER if all(stars.values()) and module.binds_in_sight else UNKNOWN
        for star in (each for each, inside in stars.items() if inside):
            found = join(found, self.any_global(frame, star, depth + 1))
        made = NEVER
        for name in self.heap.names(FileModule(file), frame.task):
            for each in self.global_of(frame, file, name):
                if isinstance(each, (Opaque, Obj)):
                    made = join(made, one(each))
                elif isinstance(each, External) and module.listed and name not in module.listed:
                    continue
                elif isinstance(each, (Class, Func, Wrapped)) or (
                    isinstance(each, External) and "." in each.name and name not in module.owners
                ):
                    found = join(found, one(each))
        parts = (self.locate(each, file) for each in sorted(module.relative_imports))
        found = join(found, frozenset(FileModule(each) for each in parts if each is not None))
        if not any(isinstance(each, Class) for each in found):
            return join_all((found, made, UNKNOWN))
        foreign = frozenset(each for each in found if isinstance(each, External) and not self._may_be_class(each))
        return join(found - foreign, UNKNOWN) if foreign else found

    def _may_be_class(self, atom: External) -> bool:
        """Whether a name is torch's, of which it is known what it is, or spelled as those of classes are."""
        root, last = atom.name.partition(".")[0], atom.name.rpartition(".")[2]
        return root in self.pytorch.KNOWN or last[:1].isupper()

    def locate(self, dotted: str, importer: str) -> str | None:
        """The file that an import means."""
        key = (dotted, importer)
        if key not in self._located:
            self._located[key] = self.files.locate(dotted, importer)
        return self._located[key]

    def imported(self, frame: Frame, base: str, name: str) -> Value:
        """What `from base import name` binds."""
        importer = frame.module.file
        origin = self.locate(base, importer) if base.strip(".") or base else None
        joint = "" if base.endswith(".") else "."
        if origin is not None:
            module = self.module(origin)
            if module is not None and name in module.code.bound:
                return one(Lazy(origin, name))
        submodule = self.locate(f"{base}{joint}{name}", importer)
        if submodule is not None:
            return one(FileModule(submodule))
        if origin is not None and not (origin.endswith("__init__.py") and _binds_no_more(self.module(origin))):
            return one(Lazy(origin, name))
        return one(External(self.pytorch.canonical(f"{base}{joint}{name}")))

    def import_star(self, frame: Frame, base: str) -> None:
        """Note `from base import *`."""
        origin = self.locate(base, frame.module.file)
        self._stars.setdefault(frame.module.file, {})[base if origin is None else origin] = origin is not None

    def external_attribute(self, frame: Frame, owner: External, name: str) -> Value:
        """An attribute of something of another package; a module of the project where only its folder was imported."""
        full = f"{owner.name}.{name}"
        root = owner.name.partition(".")[0]
        if root not in self.pytorch.KNOWN:
            found = self.locate(full, frame.module.file)
            if found is not None:
                return one(FileModule(found))
        return self.pytorch.external_attribute(frame, full)

    # Definitions

    def define(self, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Value:
        """What a definition makes: a function with the variables around it, and its defaults."""
        code = frame.module.codes[node]
        function = Func(code, self._around(frame))
        self._defined.setdefault(code, {})[function] = None
        spec = node.args
        positional = [*spec.posonlyargs, *spec.args]
        for parameter, default in zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True):
            self.heap.write(function, DEFAULT + parameter.arg, evaluate(frame, default))
        for parameter, given in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if given is not None:
                self.heap.write(function, DEFAULT + parameter.arg, evaluate(frame, given))
        return one(function)

    @staticmethod
    def _around(frame: Frame) -> FrameRef | None:
        ref: FrameRef | None = frame.ref
        while ref is not None and not ref.code.is_function:
            ref = ref.parent
        return ref

    def define_class(self, frame: Frame, node: ast.ClassDef) -> Value:
        """What a class statement makes; its body is run in place."""
        code = frame.module.codes[node]
        kind = Class(code, self._around(frame))
        for index, base in enumerate(node.bases):
            self.heap.write(kind, f"{BASES}{index}", evaluate(frame, base))
        words = {each.arg or "": evaluate(frame, each.value) for each in node.keywords}
        if words.pop("metaclass", _OF_ABSTRACT) != _OF_ABSTRACT or "__new__" in code.bound:
            self.heap.write(kind, attributes.MORE, TRUTHS)
        inner = Frame(self, frame.module, frame.task, State({}, frame.now.cells, frame.now.context, frame.now.worlds))
        inner.code, inner.ref = code, FrameRef(code, frame.ref.context, frame.ref)
        execute(inner, node.body)
        if inner.state is not None:
            for name, value in inner.state.names.items():
                self.heap.write(kind, name, value)
        for each in attributes.load_of_super(frame, Super(kind, kind), "__init_subclass__"):
            if isinstance(each, Method):
                calls.call_atom(frame, each, Arguments(keywords=words), node)
                frame.is_dead = False
        return one(kind)

    def class_atom(self, frame: Frame) -> Class:
        """The class whose body is run."""
        return Class(frame.code, self._around(frame))

    def class_cell(self, frame: Frame, kind: Class, name: str) -> Value:
        """What a class itself has under a name."""
        return attributes.resolve(frame, self.heap.read(kind, name, frame.task))

    def decorate(self, frame: Frame, decorator: ast.expr, value: Value, node: ast.AST) -> Value:
        """What a decorator makes of a function or class. One of another package is taken to run what it decorates."""
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter", "getter"):
            name = getattr(node, "name", "")
            self.heap.write(self.class_atom(frame), f"{name}.{decorator.attr}", value)
            return frame.now.names.get(name, NEVER) or value
        found = NEVER
        mode = frame.now.context.gradients
        made_by = evaluate(frame, decorator)
        frame.now.context = frame.now.context.but(gradients=mode)  # what it switches, it switches where that runs
        for atom in made_by:
            if isinstance(atom, (External, Opaque, Obj)) and not (
                isinstance(atom, Obj) and isinstance(atom.made_of, Class)
            ):
                found = join(found, self.pytorch.decorated(frame, atom, value, decorator))
                for each in value if atom != _DATACLASS else NEVER:
                    if isinstance(each, Class):
                        self.heap.write(each, attributes.MORE, TRUTHS)
            else:
                made = calls.call_atom(frame, atom, Arguments([value]), decorator)
                found = join(found, made if not frame.is_dead else value)
                frame.is_dead = False
        return found or value

    # What the transfer functions ask for

    def call(self, frame: Frame, callee: Value, args: Arguments, node: ast.AST) -> Value:
        """What calling a value may give."""
        return calls.call(frame, callee, args, node)

    def call_function(self, frame: Frame, function: Atom, values: list[Value]) -> Value:
        """What a function gives that is called without a call being written."""
        found = calls.call_atom(frame, function, Arguments(values), frame.code.node)
        frame.is_dead = False
        return found

    def call_without_arguments(self, frame: Frame, callee: Value, node: ast.AST) -> Value:
        """What a value gives that is called at a place where no call is written."""
        found = self.call(frame, callee, Arguments(), node)
        frame.is_dead = False
        return found

    def enter(self, frame: Frame, managers: Value, body: Callable[[Value], None], node: ast.AST) -> None:
        """Run the body of a `with`."""
        calls.enter(frame, managers, body, node)

    def super_of(self, frame: Frame) -> Value:
        """`super()`."""
        return calls.super_of(frame)

    def inline(
        self, frame: Frame, function: Func, given: dict[str, Value], body: Callable[[Value], None], node: ast.AST
    ) -> None:
        """Run a generator in place, with something else wherever it yields."""
        module = self.module(function.code.file)
        assert module is not None
        outer = frame.now
        inner = Frame(self, module, frame.task, State(given, outer.cells, outer.context, outer.worlds, outer.casts))
        inner.code = function.code
        inner.ref = FrameRef(
            function.code, (*frame.ref.context, frame.site(node))[-self.longest_context :], function.frame
        )
        inner.is_recorded = module.file in self.focus
        inner.keeps_values = self.keeps_all or inner.is_recorded
        for name in [each for each in given if each in function.code.captured]:
            self.heap.write(inner.ref, name, given[name])

        def on_yield(at: Frame, value: Value) -> None:
            mine = at.now
            frame.state = State(outer.names, mine.cells, mine.context, mine.worlds, mine.casts)
            body(value)
            back = frame.state
            if back is None:
                at.state = None
            else:
                outer.names = back.names
                at.state = State(mine.names, back.cells, mine.context, back.worlds, back.casts)

        inner.on_yield.append(on_yield)

        def run() -> None:
            execute(inner, function.code.body)
            left = meet(inner.state, inner.ended)
            frame.state = None
            if left is not None:
                frame.state = State(outer.names, left.cells, left.context, left.worlds, left.casts)

        under(frame, frame.now.context, run)

    def dead_state(self, frame: Frame) -> State:
        """A state for the rest of an expression that is not reached."""
        return State({}, {}, NO_CONTEXT, START)

    def iterate(self, frame: Frame, owner: Obj, node: ast.AST) -> Value:
        """What iterating over an object gives that is no container of Python's."""
        if isinstance(owner.made_of, Class):
            for name, args in (("__iter__", []), ("__getitem__", [some("int")])):
                method = attributes.load_of_class(frame, owner.made_of, owner, owner, name)
                projects = frozenset(each for each in method if isinstance(each, Method))
                if projects:
                    given = self.call(frame, projects, Arguments(list(args)), node)
                    frame.is_dead = False
                    if name == "__iter__":
                        if any(isinstance(e, Obj) and e is owner for e in given):
                            step = attributes.load_of_class(frame, owner.made_of, owner, owner, "__next__")
                            given = self.call(frame, step, Arguments(), node) if step else UNKNOWN
                            frame.is_dead = False
                            return given
                        return containers.elements(frame, given, node)
                    return given
        return self.pytorch.iterate(frame, owner, node)

    def get_item(self, frame: Frame, owner: Obj, index: Value, node: ast.AST) -> Value:
        """An element of an object."""
        if isinstance(owner.made_of, Class):
            method = attributes.load_of_class(frame, owner.made_of, owner, owner, "__getitem__")
            projects = frozenset(each for each in method if isinstance(each, Method))
            if projects:
                return self.call(frame, projects, Arguments([index]), node)
        return self.pytorch.get_item(frame, owner, index, node)

    def set_item(self, frame: Frame, owner: Obj, index: Value, value: Value, node: ast.AST) -> None:
        """Store an element of an object."""
        if isinstance(owner.made_of, Class):
            method = attributes.load_of_class(frame, owner.made_of, owner, owner, "__setitem__")
            projects = frozenset(each for each in method if isinstance(each, Method))
            if projects:
                self.call(frame, projects, Arguments([index, value]), node)
                return
        held = frame.read(owner, containers.ELEMENTS)
        if held:
            containers.store_item(frame, held, index, value, node)
            return
        frame.write(owner, containers.key(index) or containers.REST, value, strong=False)

    def shared(self, frame: Frame, value: Value) -> None:
        """Note that something is kept beside others that were made in the same place."""
        self.plural.update(each for each in value if isinstance(each, Obj) and each in self.many)

    def _some_module(self) -> Module:
        return next(each for each in self.modules.values() if each is not None)

    def escaped(self, frame: Frame, value: Value, to: str = "") -> None:
        """Note what goes where nobody follows it: functions may be called with anything, there or later.

        Args:
            to: the full name of what gets them; empty for what may be given all that they give.
        """
        for each in value:
            inner = each
            while isinstance(inner, (Method, Wrapped)):
                inner = inner.function
            if isinstance(inner, Obj):
                self._objects_out_of_sight.add(inner)
            if isinstance(inner, Func):
                self._escaped[inner] = self._escaped.get(inner, self._outermost).join(frame.now.context)
                if to:
                    self._escaped_to.setdefault(inner.code, to)

    def handed_to(self, code: Code) -> str:
        """What gets a function, and runs it outside of regions; empty where nothing does, or may be given all of it."""
        to = self._escaped_to.get(code, "")
        contexts = (each for function, each in self._escaped.items() if to and function.code is code)
        return "" if any(each.cuda.may_be_on for each in contexts) else to

    def run_by(self, names: tuple[str, ...]) -> list[Code]:
        """The functions that run where others get one of them, of which the full names begin so."""
        given = [code for code, to in self._escaped_to.items() if to.startswith(names)]
        functions = (each for each in self._by_code if given and each.is_function)
        return [each for each in functions if any(self.is_run_by(each, code) for code in given)]

    @property
    def objects_out_of_sight(self) -> frozenset[Obj]:
        """The objects that go where nobody follows them, with all that these hold, once nothing more is stored."""
        return self.heap.objects_in(frozenset(self._objects_out_of_sight) | self.moved_elsewhere)

    def was_run(self, code: Code) -> bool:
        """Whether a function has been interpreted: what is consulted is where it is called."""
        return code in self._by_code

    def goes_out_of_sight(self, code: Code) -> bool:
        """Whether a function goes where nobody follows it, or did not come to rest."""
        return code in self.given_up or any(each.code is code for each in self._escaped)

    def note_callee(self, frame: Frame, node: ast.AST, code: Code) -> None:
        """Note that a call may run a function."""
        if frame.keeps_values:
            self.callees.setdefault(node, {})[code] = None

    def constructs(self, code: Code) -> bool:
        """Whether a function makes objects, by itself or by another."""
        module = self.module(code.file)
        assert module is not None
        return code in module.constructing or code in self.making

    def evaluate(self, frame: Frame, node: ast.expr) -> Value:
        """What an expression may be, for who comes before expressions."""
        return evaluate(frame, node)

    def event(self, frame: Frame, act: Act, node: ast.AST, **facts: Any) -> Event:
        """Note that something happens, in the states in which it is reached."""
        site = facts.get("site") or frame.site(node)
        key = (act, site, facts.get("why", ""), frame.code)
        found = self.events.get(key)
        if found is None:
            found = self.events[key] = Event(act, frame.code, node, site, why=facts.get("why", ""))
        for name in ("scaler", "optimizer", "subject"):
            if name in facts:
                setattr(found, name, join(getattr(found, name), facts[name]))
        for name in ("sources", "leaves"):
            if name in facts:
                setattr(found, name, getattr(found, name) | facts[name])
        tensor = facts.get("tensor")
        if isinstance(tensor, Tensor):
            found.tensor = tensor if found.tensor is None else join_tensors(found.tensor, tensor)
        is_sure = facts.get("is_sure", not isinstance(tensor, Tensor) or tensor.is_low)
        found.sure_in[frame.task] = found.sure_in.get(frame.task, True) and is_sure
        context = frame.now.context
        found.context = context if found.context is None else found.context.join(context)
        about = self.pytorch.there(frame.now.worlds, facts.get("optimizer", NEVER))
        by = facts.get("scaler", NEVER)
        states = ((world.now, world.facts, about(world.now), by) for world in frame.now.worlds)
        found.seen_by.setdefault(frame.task, set()).update(states)
        frame.task.happened[found] = None
        return found


def _holds_others(statements: list[ast.stmt]) -> bool:
    return any(isinstance(each, (ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)) for each in statements)


def _comes_to_an_end(value: Value) -> bool:
    """Whether there are no more of what a value is than the text makes: what is stored in objects has to reach them."""
    return all(isinstance(each, (Class, Func, Obj)) for each in value)


def _leaves(node: ast.stmt) -> bool:
    """Whether a statement is there to be the last: `sys.exit()`, `return`, `raise`."""
    is_exit = isinstance(node, ast.Expr) and _is_last(node.value)
    return is_exit or isinstance(node, (ast.Return, ast.Raise, ast.Assert))


def _is_last(node: ast.AST) -> bool:
    """Whether something ends the program, or is a loop without an end."""
    if isinstance(node, ast.While):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    if isinstance(node, ast.Raise):
        return node.exc is not None and ast.unparse(node.exc).startswith("SystemExit")
    return isinstance(node, ast.Call) and ast.unparse(node.func) in _EXITS


def _binds_no_more(module: Module | None) -> bool:
    """Whether a package has no names but those that its text binds: what else is in it is a file, or is compiled."""
    if module is None:
        return False
    return not any(each.names[0].name == "*" for each in module.import_statements) and module.binds_in_sight


def _is_called_by_torch(code: Code) -> bool:
    """Whether a function is a method that nobody calls by its name: `forward`, `__getitem__`."""
    return _is_method(code) and (code.name in ("forward", "backward") or code.name.startswith("__"))


def _is_method(code: Code) -> bool:
    return code.parent is not None and isinstance(code.parent.node, ast.ClassDef)


def _leaf_of(before: Value, after: Value) -> Atom | None:
    """The leaf that a tensor has become, which it was not before; None where it has not."""
    was, is_now = only(before, Tensor), only(after, Tensor)
    if was is None or is_now is None or was.leaf or len(is_now.leaf) != 1 or not is_same(was, is_now):
        return None
    return next(iter(is_now.leaf))  # type: ignore[no-any-return]


def analysed(
    files: Files,
    focus: Iterable[str],
    beside: Iterable[str] = (),
    patience: int = 1,
    only_whole: bool = False,
    as_written: bool = False,
) -> Analysis:
    """What a program may do, looked at closely where parts that many calls have made may be taken for one.

    Two models have weights of their own, however deep in them the one function is called that makes their layers.
    """
    focus, beside = list(focus), list(beside)
    look = partial(Analysis, files, focus, beside, patience, keeps_all=True, as_written=as_written)
    found = look(only_whole=only_whole).run()
    if found.is_complete and found.may_take_for_one:
        closely = look(longest_context=_LONGEST_CONTEXT_CLOSELY, only_whole=True).run()
        found, other = (closely, found) if closely.is_complete else (found, closely)
        other.let_go()
    return found


class _NotWhole(Exception):
    """Ends a run that is of no use any more."""


class _Outside(Task):
    """The caller that nobody sees: what it calls is not its concern."""

    def __init__(self, like: Task) -> None:
        super().__init__(like.code, like.ref, {}, NO_CONTEXT)
        self.is_active = True


class _Nobody(Task):
    def __init__(self) -> None:
        tree = ast.Module([], [])
        code = Code("", tree, None, "")
        super().__init__(code, FrameRef(code, (), None), {}, NO_CONTEXT)
        self.is_active = True


_NOBODY = _Nobody()
