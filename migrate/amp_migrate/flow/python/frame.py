"""One function while it is interpreted: its variables, its exits, and where everybody finds the analysis."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from amp_migrate.counters import known_of_number
from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    UNBOUND,
    Atom,
    Call,
    FileModule,
    FrameRef,
    Opaque,
    Value,
    constant,
    join,
    one,
    truth_of_flag,
    untold,
)
from amp_migrate.flow.domain.kept_casts import Turn
from amp_migrate.flow.domain.machine import GIVEN, GUESSED, Worlds, assuming, guessed
from amp_migrate.flow.domain.state import Cell, Gathered, State, meet
from amp_migrate.flow.source import Code, Module, Site

if TYPE_CHECKING:
    from amp_migrate.flow.analysis import Analysis
    from amp_migrate.flow.task import Task

A = TypeVar("A", bound=Hashable)
T = TypeVar("T")


class Loop:
    """A loop that is being interpreted: the states at its `break` and `continue`."""

    def __init__(self) -> None:
        self.breaks: State | None = None
        self.continues: State | None = None


class Frame:
    """Changed in place while the statements are interpreted.

    Attributes:
        state: what is known before the next statement; None where it is not reached.
        returned: what `return` and `yield` hand on.
        ended: the state at every `return` so far.
        paused: the state at every `yield` so far, behind which nobody may ask for more.
        raising: for each `try` around, nearest last, the state at every place so far that may raise in it.
        is_dead: whether the expression at hand has called what never returns.
        augmenting: what `x += y` adds, while the sum is made: that stands in no place of its own.
        unkept: the lists that only a function of `torch` gets, which keeps none: each is as good as a tuple.
        telling: the names in tests that tell from what a tensor is computed.
        turns: the layers that are taken one after the other where the code is, of the innermost list last.
    """

    def __init__(self, analysis: Analysis, module: Module, task: Task, state: State) -> None:
        self.analysis = analysis
        self.module = module
        self.task = task
        self.code: Code = task.code
        self.ref: FrameRef = task.ref
        self.state: State | None = state
        self.returned: Value = NEVER
        self.yielded: Value = NEVER
        self.ended: State | None = None
        self.paused: State | None = None
        self.loops: list[Loop] = []
        self.raising: list[State | None] = []
        self.depth = 0
        self.is_dead = False
        self.augmenting: ast.expr | None = None
        self.unkept: set[ast.List] = set()
        self.telling: set[str] = set()
        self.turns: list[Turn] = []
        self.is_recorded = module.file in analysis.focus
        self.keeps_values = analysis.keeps_all or self.is_recorded
        self.on_yield: list[object] = []

    @property
    def now(self) -> State:
        """The state, where the code is reached."""
        assert self.state is not None
        return self.state

    def site(self, node: ast.AST) -> Site:
        """Where a node stands."""
        return self.module.site(node)

    @property
    def context_of_objects(self) -> tuple[Site, ...]:
        """On whose behalf objects are made here."""
        return self.ref.context

    def call_at(self, node: ast.AST) -> Site | Call:
        """A call by what nobody has read and is made in it: told from that of others on whose behalf it is."""
        site = self.site(node)
        if not self.ref.context:
            return site
        self.analysis.pytorch.told_apart.add(site)
        return Call(site, self.ref.context)

    @property
    def runs_often(self) -> bool:
        """Whether what is made here may be made more than once."""
        return self.depth > 0 or self.task.is_many

    # Variables

    def bind(self, name: str, value: Value) -> None:
        """Give a variable a value."""
        state = self.now
        code = self.code
        if name in code.global_names:
            self.write(FileModule(self.module.file), name, value)
        elif name in code.nonlocal_names:
            home = code.home(name)
            ref = None if home is None else self.frame_of(home)
            if ref is not None:
                self.write(ref, name, value)
        else:
            state.names[name] = value
            if code.parent is None:
                self.analysis.heap.write(FileModule(self.module.file), name, value)
            elif name in code.captured:
                self.analysis.heap.write(self.ref, name, value)
        state.forget(name)
        if name in self.telling:
            for other, known in state.names.items():
                state.names[other] = untold(known, code, name)
        truth = self.analysis.pytorch.truth_of_part(value)
        if truth is None and name in code.bound_anew:
            truth = truth_of_flag(value)
        if truth is not None:
            self.learn(name, truth, name)
        elif name in code.bound_anew:
            for text, outcome, names in known_of_number(self.module.tree, code.node, name, constant(value)):
                self.learn(text, outcome, *names)

    def learn(self, text: str, truth: bool, *names: str) -> None:
        """Know from here on what a test of something comes to: by whether it holds, ways are told apart."""
        fact = (text, truth, frozenset((*names, GIVEN)))
        self.now.worlds = assuming(self.now.worlds, frozenset({fact}))

    def frame_of(self, code: Code) -> FrameRef | None:
        """The variables of a function around this one."""
        ref: FrameRef | None = self.ref
        while ref is not None and ref.code is not code:
            ref = ref.parent
        return ref

    def variable(self, name: str) -> Value:
        """What a variable may be here; nothing where it is none of this function's or those around it."""
        code = self.code
        own = self.now.names.get(name)
        if own is not None and name in code.rebound:
            return self.read(self.ref, name)
        if own is not None and not (code.parent is None and name in self.module.rebound):
            if UNBOUND not in own:
                return own
            if code.is_function or code.parent is None:
                return own - {UNBOUND}
        if own is None and name in code.captured:
            return self.read(self.ref, name)
        home = code.home(name)
        if home is not None:
            ref = self.frame_of(home)
            return NEVER if ref is None else self.read(ref, name)
        found = self.read(FileModule(self.module.file), name)
        if found == NONE_VALUE and code.is_function and name not in self.module.rebound:
            # Whoever calls it, out of sight, sets what is only declared here.
            found = join(found, one(Opaque((self.module.file, name))))
        return found if own is None else join(found, own - {UNBOUND})

    # Attributes and elements

    def read(self, owner: Atom, name: str) -> Value:
        """What a cell holds, as well as it is known here."""
        known = self.now.cells.get((owner, name))
        if known is None:
            return self.analysis.heap.read(owner, name, self.task)
        self.analysis.heap.holds_only_here()
        return known

    def kept(self, ask: Callable[[Frame, A], T], about: A) -> T:
        """What a question about something comes to that nothing but reading is done for: as long as that is the same.

        Args:
            ask: answers it; one function for every frame.
        """
        known = {} if self.state is None else self.state.cells
        return self.analysis.heap.kept((ask, about), self.task, known, partial(ask, self, about))

    def write(self, owner: Atom, name: str, value: Value, *, strong: bool = True) -> None:
        """Store something in a cell; where the object may be several, what it held before may still be there."""
        self.analysis.heap.write(owner, name, value)
        cell: Cell = (owner, name)
        self.task.written.add(cell)
        state = self.now
        if strong and owner not in self.analysis.many:
            state.cells[cell] = value
        else:
            state.cells.pop(cell, None)
        state.forget(name)

    # Exits

    def may_raise(self, *, is_seen: bool = False) -> None:
        """Note the state, for the handlers around and for callers; `is_seen` where the text raises it."""
        if self.raising:
            self.to_handlers(self.now.worlds, is_seen=is_seen)
        self.task.raises(self.now.worlds)

    def to_handlers(self, worlds: Worlds, *, is_seen: bool = False) -> None:
        """Note the worlds in which the handlers around may be come to."""
        if not is_seen and any(world.now.items for world in worlds):
            self.task.touched.add(GUESSED)
            worlds = guessed(worlds)
        known = self.raising[-1]
        if known is None:
            self.raising[-1] = Gathered(self.now, worlds)
            return
        if not isinstance(known, Gathered):
            known = self.raising[-1] = Gathered(known, known.worlds)
        known.add(self.now, worlds)

    def pause(self) -> None:
        """Yield: the caller goes on, and may never come back."""
        self.may_raise()
        self.paused = meet(self.paused, self.now.copy())

    def leave(self, value: Value) -> None:
        """Return a value."""
        self.returned = join(self.returned, value)
        self.ended = meet(self.ended, self.state)
        self.state = None
