"""What is asked of an analysis: values, contexts, callees, and what is wrong with precision and gradients.

Every answer can be that nobody knows: an unknown value, an empty set, None.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from itertools import pairwise
from operator import attrgetter
from typing import TypeGuard

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.answers.by_dtype import ByDtype
from amp_migrate.flow.answers.chosen import Chosen, chosen
from amp_migrate.flow.answers.elements import Elements
from amp_migrate.flow.answers.kept_gradients import keeps_gradients
from amp_migrate.flow.answers.kept_states import KeptStates
from amp_migrate.flow.answers.saturated import Saturated
from amp_migrate.flow.chains import CallChains
from amp_migrate.flow.domain.atoms import (
    NEVER,
    Atom,
    Class,
    External,
    Obj,
    Opaque,
    Part,
    Some,
    Value,
    by_path,
    const,
    constant,
    one,
    tensors_in,
    whole_of,
)
from amp_migrate.flow.domain.contexts import ON
from amp_migrate.flow.domain.machine import (
    AGAIN,
    EARLIER,
    EMPTY,
    GIVEN,
    GUESSED,
    LOST,
    MIXED,
    PARTLY,
    READY,
    SCALED,
    STEPPED,
    TRUE,
    UNKNOWN,
    UNKNOWN_GRAD,
    UNSCALED,
    UNSCALED_BY,
    Grad,
    Machine,
)
from amp_migrate.flow.domain.tensor import (
    A_GRADIENT,
    ANY_UNIT,
    ANYWHERE,
    BF16,
    COMPLEX,
    CONTEST,
    CPU,
    DEVICE,
    F16,
    FLOWS,
    HALVED,
    MPS,
    NOTHING,
    OF_OVERFLOW,
    PERHAPS_HALVED,
    PURE,
    SCORE,
    Tensor,
)
from amp_migrate.flow.events import WHERE_NOT_FINITE, Act, Event, Reached
from amp_migrate.flow.python.narrow import is_turned
from amp_migrate.flow.pytorch.gradients import (
    ENABLED,
    MADE_OF,
    are_of,
    gets_one,
    is_one,
    is_part_of,
    overlap,
    stage,
    standalone_leaves,
)
from amp_migrate.flow.pytorch.modules import DTYPE, PLACE, bare
from amp_migrate.flow.pytorch.tensors import STANDALONE
from amp_migrate.flow.source import FUNCTIONS, Code, Module, Site, site_of, word_called
from amp_migrate.frozen import frozen_in_order
from amp_migrate.implications import Facts, implied
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.signatures import argument
from amp_migrate.tables.torch_names import (
    BRINGING_CODE,
    CLIPPING,
    CLIPS_BY_VALUE,
    OUT_OF_FILES,
    PLACING_BY_ITSELF,
    STEPPING_BY_ERRORS,
)

# The first PyTorch whose cache of weights' casts knows whether a gradient was wanted (run on 2.6, 2.9 to 2.11, 2.14).
CACHE_MENDED = (2, 11)
# What is wrong wherever it happens, whatever the scaler is in.
WRONG_BY_ITSELF = {
    Act.WEIGHT_CAST: "a weight's cast was kept without a gradient, and serves where one is wanted",
    Act.REFUSED: "autocast refuses it",
    Act.NOT_ALL: "one of more classes and functions of the project than were looked at runs in a region",
    Act.UNREAD_LOSS: "the loss is computed under autocast by code that could not be read",
    Act.NO_KERNEL: "no kernel takes half precision",
    Act.OLD_KERNELS: "older releases of a package have no kernels for half precision",
    Act.MISMATCH: "operands differ in precision",
    Act.CAST_INPUT: "what is cast to half precision meets float32 weights outside of any region, and raises",
    Act.OVERFLOW: "a constant does not fit into float16",
    Act.DTYPE_REFUSED: "the script itself refuses half precision",
    Act.NOT_A_TENSOR: "what a region computes is no tensor, but holds some, and has no `float()`",
    Act.INDEX_STORE: "a value is stored by index into another precision",
    Act.LOW_LEAF: "what is trained is in half precision already",
    Act.KEPT_LOW: "a module's own tensor gets the data of what is in half precision, and stays so",
    Act.LEFT_FLOAT: "computed in half precision outside of a region, though it takes float32",
    Act.RISK: "may overflow, or round, in half precision",
    # batchnorm_double_backward has 1/std, and its cube, in the dtype of the input (FunctionsManual.cpp).
    Act.NORM_TWICE: "a norm is derived twice in float16, where 1/std**3 is infinite for a std below 0.025",
    Act.GAUGE: "a gradient is used while the loss scale is in it",
    Act.SCALED_AGAIN: "a loss is scaled that goes backward from a gradient in which the loss scale may be already",
    Act.NO_OPTIMIZER: "a scaler takes only what has an optimizer's `param_groups`",
    Act.NO_TENSOR: "a scaler scales tensors alone",
    Act.ON_CPU: "computed in half precision on the CPU",
    Act.FOREIGN: "code that could not be read gets a half-precision value",
    Act.HALF_ARRAY: "code that may not take it gets an array in half precision",
}
CHOSEN_BY_DTYPE = "a number is chosen by a dtype that a region changes"
SAVED_LOW = "saved in half precision"
ADDED = "true gradients are added to scaled ones"
OUTDATED = "gradients are of an older scale"
OF_TWO_SCALES = "gradients of an older scale and of a newer one are added up"
MADE_ANEW = "a scaler is made anew"
NO_GRADIENTS = "a scaler steps an optimizer without gradients"
# https://github.com/pytorch/pytorch/issues/58228
OF_COMPLEX = "an optimizer has complex parameters, at whose gradients a scaler's unscale_() raises"
ONE_WITHOUT_GRADIENTS = (
    "a scaler's step() raises for one of several optimizers, from whose parameters no loss is computed"
)
OF_A_REPLACEMENT = (
    "a scaler's step() raises once the loss is computed from what no optimizer has, in place of its optimizer's model"
)
AS_SEEN = "as far as can be seen"
BY_HAND = "what `.grad` is given by hand is of no scaled loss of its own"
UNSCALED_AGAIN = "gradients are unscaled twice"
SHARED = "a parameter that two optimizers have is unscaled twice"
CLIPPED = "gradients are clipped while they are scaled"
LEFT_SCALED = "gradients of parameters that no optimizer has are clipped with others, and nothing unscales them"
PERHAPS_LEFT_SCALED = (
    "gradients are clipped of which an optimizer may have only some, and unscale_() leaves the others multiplied by "
    "the loss scale"
)
NO_BFLOAT16 = "NumPy has no bfloat16"
PAST = "an optimizer steps past its scaler"
LIMITED = "gradients that are not scaled are clipped by a scaled limit"
UNSCALED_LOSS = "torch.autograd.grad() takes gradients of an unscaled loss beside those of the scaled one"
IDLE = "nothing that is trained computes in half precision"
IDLE_STEP = "nothing that this step has under autocast computes in half precision"
IN_THREADS = "nn.DataParallel computes in float16 in its threads, whatever dtype the region has"
IN_FLOAT64 = "the model computes in float64, which autocast leaves alone"
STEPS_INSIDE = "what is evaluated here may train by itself, in code that could not be read: its steps are in no region"
EVALUATED_APART = "what is evaluated here in half precision is trained in float32"
IN_A_SOLVER = "what is evaluated here in half precision is for a solver, which takes its steps by how much it differs"
GIVEN_SMALL = "code that could not be read gets a number whose inverse float16 does not have"
UNREAD_MODELS = "what runs under autocast could not be read"
SEVERAL_SCALES = "gradients of several scales are clipped"
TRAINS_INSIDE = "a loss goes backward inside a region"
LOSS_ON_CPU = "a loss is scaled on the CPU: a scaler's scale lies where its first loss does, and gradients on a GPU"
ON_THE_CPU = "weights meet here what is on the CPU for certain, where autocast for a GPU does nothing"
STUCK = "the scale is updated only where a test of gradients lets it be: where they overflow, it never comes down"
ENDED = "a test of gradients ends the training where they overflow, as they do until the scale has come down"
OF_SKIPPED = "a histogram raises at infinite gradients, which are left where the scaler has skipped a step"
WATCHED = "wandb.watch() logs gradients as they are made, multiplied by the loss scale"
WATCHED_HINT = "let it log parameters alone, or log gradients behind scaler.unscale_(optimizer) yourself"
MENDED = (
    "gradients that are not finite are mended behind unscale_(), which has seen them: the step is skipped all the same"
)
NOT_DIVIDED = "what is made of gradients here is not seen to grow as they do, so it cannot be divided by the loss scale"
UNLOADED = "an optimizer goes on from its state, and the scaler which steps it begins anew"
UNSAVED = "a checkpoint holds the state of an optimizer, and not that of the scaler which steps it"
_ZEROS = const(0) | const(0.0)
_UNREAD = (Act.UNREAD_LOSS, Act.UNREAD_MODEL)
_NOT_ALWAYS = frozenset(
    (
        Act.GAUGE,
        Act.SCALED_AGAIN,
        Act.NO_OPTIMIZER,
        Act.NO_TENSOR,
        Act.REFUSED,
        Act.NO_KERNEL,
        Act.OLD_KERNELS,
        Act.MISMATCH,
        Act.CAST_INPUT,
        Act.OVERFLOW,
        Act.INDEX_STORE,
        Act.KEPT_LOW,
        Act.LEFT_FLOAT,
        Act.LOW_LEAF,
        Act.ON_CPU,
        Act.FOREIGN,
        Act.RISK,
    )
)


@frozen_in_order
class Fault:
    """Something that is wrong with precision or gradients.

    Attributes:
        site: where.
        what: what it is, in words that are the same for every fault of a kind.
        always: whether on all ways that lead there, at first or in every later round of a loop; else on some.
        is_seen: whether no guess lies on some of these ways, so that it does happen where they are gone.
        why: what there is to say beside it: the operator, the reason.
        event: what happens, where it is a single thing.
    """

    site: Site
    what: str
    always: bool = True
    why: str = ""
    is_seen: bool = False
    event: Event | None = field(default=None, compare=False, repr=False)


_NAMING_GRADIENTS = attrgetter("names_gradients")
_PLACING = tuple(f"{each}." for each in PLACING_BY_ITSELF)
_NAMING_DEVICES = attrgetter("may_name_device")


class Questions:
    """Answers about a program that has been interpreted."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._nodes: dict[str, dict[Site, ast.AST]] = {}
        self._parents: dict[str, dict[ast.AST, ast.AST]] = {}
        self._switches: dict[tuple[Obj, Code], frozenset[tuple[str, bool]]] = {}
        self._reaching: defaultdict[Callable[[Module], bool], dict[str, bool]] = defaultdict(dict)

    @property
    def analysis(self) -> Analysis:
        """The program, whose objects are those that are meant from here on."""
        self._analysis.resume()
        return self._analysis

    # Values

    def node_at(self, site: Site) -> ast.AST | None:
        """The expression or statement that stands at a place."""
        if site.file not in self._nodes:
            found = self._nodes[site.file] = {}
            module = self.analysis.module(site.file)
            for node in () if module is None else nodes_in(module.tree):
                if isinstance(node, (ast.expr, ast.stmt)):
                    found.setdefault(site_of(site.file, node), node)
        return self._nodes[site.file].get(site)

    def _around(self, file: str, node: ast.AST | None) -> Iterator[ast.AST]:
        """What a node of a file stands in, innermost first."""
        if file not in self._parents:
            module = self.analysis.module(file)
            nodes = () if module is None else nodes_in(module.tree)
            self._parents[file] = {child: each for each in nodes for child in ast.iter_child_nodes(each)}
        around = None if node is None else self._parents[file].get(node)
        while around is not None and not isinstance(around, ast.mod):
            yield around
            around = self._parents[file].get(around)

    @property
    def is_on_cpu(self) -> bool:
        """Whether every loss that goes backward is on the CPU for certain.

        So is one of weights that are moved to the CPU, or made there and not moved, whatever else it is made of: who
        brings a batch to another place brings nothing of a model there. Where the program names another device, too,
        the weights of all optimizers have to be moved to the CPU: a loss that comes to it says nothing of them. Where
        nothing names one for certain, as `x.device` does not, a loss of such weights need not be known to have stayed
        there. Without weights that are known, nothing may be left out that brings something to a device.
        """
        losses = [_tensors(each) for each in self.events(Act.BACKWARD)]
        if not losses or not self._sees_all_but_data:
            return False
        if self.names_device:
            is_surely_named = bool(self.analysis.pytorch.places & (DEVICE | MPS))
            are_there = _are_on_cpu if is_surely_named else _may_be_on_cpu
            return all(map(are_there, losses)) and self.optimizes_on_cpu
        of_losses = (NOTHING.union(*(each.reach | each.leaf for each in tensors)) for tensors in losses)
        return all(
            (self._sees_devices and _are_on_cpu(each)) or self._are_of(CPU, of)
            for each, of in zip(losses, of_losses, strict=True)
        )

    @property
    def optimizes_on_cpu(self) -> bool:
        """Whether the weights of all optimizers are known, and on the CPU: what runs beside them is no matter."""
        return self._optimizes_on(CPU)

    def _optimizes_on(self, places: int) -> bool:
        optimized = [leaves or NOTHING for leaves in self.analysis.pytorch.registry.optimizers.values()]
        return bool(optimized) and all(self._are_of(places, each) for each in optimized)

    def _are_of(self, places: int, leaves: frozenset[Atom]) -> bool:
        """Whether some weights are known, and moved to certain places, be it with their module, or made there.

        What is beside them, and no weight, is where they are.
        """
        owners = [each.owner for each in leaves if isinstance(each, Part)]
        weights = [each for each in owners if not (isinstance(each, Obj) and each.made_of == STANDALONE)]
        return bool(weights) and len(owners) == len(leaves) and all(self._is_of(places, each) for each in weights)

    def _is_of(self, places: int, owner: Atom) -> bool:
        read = self.analysis.heap.read
        place = read(by_path(owner), PLACE, None) or read(bare(owner), PLACE, None)
        if not place:
            return not self.names_device and self._is_made_on_cpu(owner)
        known = constant(place)
        return isinstance(known, int) and not known & ~places

    def _is_made_on_cpu(self, owner: Atom) -> bool:
        """Whether the program makes some weights, in which nothing moves them where it names no device.

        What a package makes is on the CPU, unless it is told another place, or is known to look for one. Who scales a
        loss, or lowers what a GPU computes, has one in mind, whoever brings the model there.
        """
        pytorch, made = self.analysis.pytorch, bare(owner)
        is_in_mind = bool(pytorch.opened or pytorch.registry.scalers) or self._places_by_itself
        if is_in_mind or self.analysis.is_excerpt or made in self._held_elsewhere:
            return False
        if isinstance(made, Obj):
            is_layer = not made.external or made.external.startswith("torch.nn.")
            return is_layer or made.site not in pytorch.told_more
        made_at = made.made_at if isinstance(made, Opaque) else None
        name = "" if made_at is None else pytorch.called.get(made_at, "")
        is_made = bool(name) and not f"{name}(".startswith((".", *BRINGING_CODE))
        return is_made and made_at not in pytorch.told_more

    @cached_property
    def _held_elsewhere(self) -> frozenset[Atom]:
        """What code may move that is not in sight: what it is given, or makes, with all that this holds."""
        heap, given = self.analysis.heap, self.analysis.moved_elsewhere
        objects = heap.objects_in(given)
        held = (each for owner, value in heap.cells() if owner in objects for each in value)
        return objects.union(bare(each) for each in (*given, *held) if isinstance(each, Opaque))

    @cached_property
    def _places_by_itself(self) -> bool:
        """Whether the program has code that nobody reads bring something to a device of its own choice."""
        pytorch, is_installed = self.analysis.pytorch, self.analysis.files.is_installed
        own = [each for file, each in self.analysis.modules.items() if each is not None and not is_installed(file)]
        names = {name for each in own for name in each.imports}.union(pytorch.called.values())
        return pytorch.scatters or any(f"{name}.".startswith(_PLACING) for name in names)

    @property
    def is_on_mps(self) -> bool:
        """Whether every loss that goes backward is on mps or the CPU for certain, and no other device is named.

        Of weights that are known to be there, data sets that nobody looks into bring none to another place.
        """
        losses = [each for event in self.events(Act.BACKWARD) for each in _tensors(event)]
        is_placed = bool(losses) and not any(each.place & ANYWHERE for each in losses)
        is_seen = self._sees_devices or (self._sees_all_but_data and self._optimizes_on(DEVICE | CPU))
        return is_seen and is_placed and self.analysis.pytorch.places & ~CPU == MPS

    @cached_property
    def _sees_devices(self) -> bool:
        """Whether all is followed that may bring something to a device.

        What data sets of other files do nobody looks into: no file of the program may have a word for one, for they
        may be given what moves things.
        """
        is_installed = self.analysis.files.is_installed
        files = [each for each in self.analysis.modules if not is_installed(each)] if self.analysis.not_followed else []
        return self._sees_all_but_data and not any(self._reaches(each, _NAMING_DEVICES) for each in files)

    @cached_property
    def _sees_all_but_data(self) -> bool:
        """Whether nothing is left out but what data sets of other files do, which get no weights."""
        left = self.analysis.not_followed
        classes = (each.parent if each.is_function else each for each in left)
        is_of_data = all(each in left and isinstance(each.node, ast.ClassDef) for each in classes if each is not None)
        return self.analysis.is_complete and is_of_data

    @property
    def names_device(self) -> bool:
        """Whether the program may name a device somewhere that is not the CPU."""
        return bool(self.analysis.pytorch.places & ~CPU)

    # What happens

    @cached_property
    def ends(self) -> Mapping[Site, bool]:
        """What never returns as far as is seen, and behind which the program was read on; whether a way leads past it.

        None that stands behind a switch which is off as it is written: nobody comes to it with what is in sight.
        """
        found: dict[Site, bool] = {}
        for code, node in self.analysis.gone_on:
            outer = [node, *self._around(code.file, node)]
            around = outer[: outer.index(code.node)] if code.node in outer else outer
            tests = [(each, inner in each.body) for inner, each in pairwise(around) if isinstance(each, ast.If)]
            values = self.analysis.values
            if not any(is_turned(values, each.test, outcome) for each, outcome in tests):
                ifs = (each for each, outcome in tests if outcome and not each.orelse)
                found[site_of(code.file, node)] = any(not is_turned(values, each.test, False) for each in ifs)
        return found

    @cached_property
    def handing_on_gradients(self) -> list[Event]:
        """Where code that nobody follows gets an optimizer, or parameters: it may clear their gradients.

        Functions of the project do not that are given no optimizer and name no gradients.
        """
        registry = self.analysis.pytorch.registry
        handed = (each for each in self.events(Act.HANDED_ON) if not registry.scalers.keys() >= each.subject)
        return [
            each
            for each in handed
            if not registry.optimizers.keys().isdisjoint(each.subject) or not self._leaves_gradients(each.node)
        ]

    def _leaves_gradients(self, call: ast.AST) -> bool:
        """Whether a call runs functions of the project, in files that name no gradients, nor does what these import."""
        called = self.analysis.values.get(call.func, NEVER) if isinstance(call, ast.Call) else NEVER
        files = {each.file for each in self.analysis.callees.get(call, ())}
        if not files or any(isinstance(each, (External, Opaque)) for each in called):
            return False
        return not any(self._reaches(each, _NAMING_GRADIENTS) for each in files)

    def _reaches(self, file: str, names: Callable[[Module], bool]) -> bool:
        """Whether a file names something, or one that it imports, be it through others; or nobody can read one.

        What a file of the project imports of a package is asked for itself where it runs.
        """
        known, is_installed = self._reaching[names], self.analysis.files.is_installed
        if file not in known:
            seen: dict[str, None] = {}
            stack = [file]
            while stack:
                at = stack.pop()
                module = self.analysis.module(at)
                if known.get(at) or module is None or names(module):
                    known[file] = True
                    return True
                seen[at] = None
                located = {self.analysis.files.locate(each, at) for each in module.imports}
                imported = (each for each in located if each and (is_installed(at) or not is_installed(each)))
                stack += (each for each in imported if each not in seen and known.get(each, True))
            known |= dict.fromkeys(seen, False)
        return known[file]

    @cached_property
    def uncleared(self) -> list[Event]:
        """The steps of scalers whose gradients stay for the next scaled loss, as nothing clears what they may be of."""
        clearing = self.events(Act.ZERO)
        return [each for each in self.events(Act.SCALER_STEP) if self.adds_up(each, clearing)]

    def _halving(self, event: Event) -> str:
        """What makes float16 of the weights which something is about, in the words of a message."""
        return self._by([each for each in self.events(Act.HALVED) if each.subject & event.subject])

    def _by(self, casts: Iterable[Event]) -> str:
        """What makes weights of another precision, in the words of a message."""
        # Calls, and attributes that something is stored in: `weight.data`, of `weight.data = weight.data.half()`.
        around = ((each.node, self._around(each.site.file, each.node)) for each in casts)
        nodes = (next(outer, node) if isinstance(node, ast.Attribute) else node for node, outer in around)
        texts = dict.fromkeys(ast.unparse(each) for each in nodes)
        return f" by {', '.join(f'`{each}`' for each in texts)}" if texts else ""

    def adds_up(self, step: Event, clearing: Sequence[Event]) -> bool:
        """Whether behind a scaler's step a scaled loss adds to the gradients, unless something clears them before.

        Whether a loss is computed from the optimizer's parameters does not matter: it steps for those that are.
        """
        losses = [each for each in self.events(Act.BACKWARD) if each.scaler & step.scaler]
        return any(
            any(_grad(machine, optimizer).spent is not False for machine, _ in loss.states)
            and not any(self._may_clear(each, optimizer, loss) for each in clearing)
            for loss in losses
            for optimizer in loss.optimizer & step.optimizer
            if isinstance(optimizer, Atom)
        )

    def _may_clear(self, clearing: Event, optimizer: Atom, loss: Event) -> bool:
        """Whether something clears gradients that a loss gives to an optimizer, or to another that may be meant."""
        known = self.analysis.pytorch.registry.optimizers
        meant = one(optimizer) if overlap(known.get(optimizer), loss.leaves) else loss.optimizer
        given, cleared = ([known.get(e) for e in of if isinstance(e, Atom)] for of in (meant, clearing.optimizer))
        return not meant.isdisjoint(clearing.optimizer) or any(
            own is None or other is None or overlap(own, other) is not False for own in given for other in cleared
        )

    def events(self, *acts: Act) -> list[Event]:
        """What happens of some kinds, in the order of files and places."""
        found = [each for each in self.analysis.events.values() if not acts or each.act in acts]
        found = [each for each in found if not (each.act in _UNREAD and self._is_put_there_by_own(each))]
        return sorted(found, key=lambda each: (each.site, each.act.value, each.why))

    def _is_put_there_by_own(self, event: Event) -> bool:
        """Whether what is run comes out of a file in the place of a module of the project: one was saved there."""
        node = self.node_at(event.site) if event.why.startswith(OUT_OF_FILES) else None
        run = self.analysis.values.get(node.func, NEVER) if isinstance(node, ast.Call) else NEVER
        return any(isinstance(each, Obj) and isinstance(each.made_of, Class) for each in run)

    def faults(self) -> list[Fault]:
        """Everything that is wrong with precision or gradients, in order of place."""
        return sorted(set(self._faults()))

    def _faults(self) -> Iterator[Fault]:
        for event in self.analysis.events.values():
            if event.code in self.analysis.given_up or not event.seen_by:
                continue  # nobody knows in which states it is reached; or it is not
            what = WRONG_BY_ITSELF.get(event.act)
            if event.act is Act.UNREAD_LOSS and (event.site in self._foreign or self._is_put_there_by_own(event)):
                continue  # told already, of what it is given; or it is not unread
            if event.act is Act.GAUGE and self.is_without_scale(event):
                continue
            if event.act is Act.LEFT_FLOAT and self._saturated.is_only_compared(event):
                continue  # on which side of a limit it is half precision tells, too
            if event.act is Act.WEIGHT_CAST and not self.are_asked_for_gradients(event.leaves):
                continue
            if event.act is Act.LOW_LEAF and event.subject and not self._has_amp(event):
                continue  # it is trained in half precision by hand, beside what is not
            if what is not None:
                # Where a tensor may be in another precision as well, it is wrong only in the calls in which it is low.
                is_sure = event.act not in _NOT_ALWAYS or any(event.sure_in.values())
                if event.act is Act.HALF_ARRAY:
                    made = (each for each in self.events(Act.TO_NUMPY) if each.site in event.sources)
                    is_sure = any(sure for each in made for sure in each.sure_in.values())
                by = self._halving(event) if event.act is Act.LOW_LEAF else ""
                yield Fault(event.site, what, is_sure, f"{event.why}{by}", event=event)
            elif event.act is Act.COMPARES_DTYPE and any(event.sure_in.values()):
                if numbers := self._by_dtype.number(event, [*self._around(event.site.file, event.node)]):
                    yield Fault(event.site, CHOSEN_BY_DTYPE, why=numbers, event=event)
            elif event.act is Act.SAVED and event.why:
                yield Fault(event.site, SAVED_LOW, event=event)
            elif event.act is Act.TO_NUMPY and event.tensor is not None and event.tensor.precision & BF16:
                yield Fault(event.site, NO_BFLOAT16, any(event.sure_in.values()), event=event)
            elif event.act is Act.BACKWARD and event.context is not None and event.context.cuda.may_be_on:
                yield Fault(event.site, TRAINS_INSIDE, event.context.is_low_in_training)
            elif event.act is Act.BACKWARD and event.scaler and self.names_device and _are_on_cpu(_tensors(event)):
                yield Fault(event.site, LOSS_ON_CPU)
            elif event.act is Act.SCALER_STEP and (precisions := self._complex_in(event)):
                yield Fault(event.site, OF_COMPLEX, COMPLEX in precisions, event=event)
            elif event.act is Act.SCALER_STEP and (answers := self._unreached(event)):
                yield Fault(event.site, ONE_WITHOUT_GRADIENTS, True in answers, "" if True in answers else AS_SEEN)
            elif event.act is Act.REPLICAS and event.context is not None and event.context.cuda.dtype & BF16:
                made_in = self._around(event.site.file, self.node_at(event.site))
                is_always = not any(isinstance(each, (ast.If, ast.IfExp)) for each in made_in)
                yield Fault(event.site, IN_THREADS, is_always, event=event)
            elif self.is_left_scaled(event):
                yield Fault(event.site, LEFT_SCALED, event=event)
            elif self.may_be_left_scaled(event):
                yield Fault(event.site, PERHAPS_LEFT_SCALED, False, event=event)
            elif event.act is Act.UPDATE and self._waits_for_gradients(event):
                yield Fault(event.site, STUCK)
            elif event.act is Act.UPDATE and self._ends_where_they_overflow(event):
                yield Fault(event.site, ENDED)
            elif self.is_scaled_in_vain(event):
                yield Fault(event.site, "a loss is scaled, and nothing is computed in half precision")
            elif event.act is Act.OWN_GRADIENT and event.units == PURE and self.is_halved(event) is not False:
                halved = {bool(each.tags & (HALVED | PERHAPS_HALVED)) for each in tensors_in(event.subject)}
                if True in halved:
                    is_always = False not in halved and self.is_halved(event) is True
                    yield Fault(event.site, UNSCALED_LOSS, is_always, event=event)
            if event.act is Act.SCALER_STEP and (replacement := self._replacement(event)):
                yield Fault(event.site, OF_A_REPLACEMENT, False, replacement)
            if event.act is not Act.REPLACED or self._goes_by_overflow(event):
                yield from self._wrong_states(event)

    def are_asked_for_gradients(self, leaves: frozenset[Atom]) -> bool:
        """Whether something that goes backward may be computed from some weights, or their gradients be taken."""
        asking = self.events(Act.BACKWARD, Act.OWN_GRADIENT)
        return not asking or any(overlap(each.leaves or None, leaves) is not False for each in asking)

    def _has_amp(self, event: Event) -> bool:
        """Whether gradients of some weights are scaled, or may come through what a region makes low."""
        return bool(event.scaler) or overlap(event.leaves, frozenset(self.analysis.pytorch.lowered)) is not False

    def _goes_by_overflow(self, event: Event) -> bool:
        """Whether a gradient gets another value where it, or an element, is not finite."""
        tests = (node.test for node in self._around(event.site.file, event.node) if isinstance(node, ast.If))
        known = self.analysis.values
        values = (known[each] for test in tests for each in nodes_in(test) if each in known)
        is_tested = any(tensor.tags & OF_OVERFLOW for value in values for tensor in tensors_in(value))
        return event.why == WHERE_NOT_FINITE or is_tested

    def _waits_for_gradients(self, update: Event) -> bool:
        """Whether a scale is updated only on one side of a test that depends on gradients."""
        asking = self.analysis.pytorch.asking_gradients
        inner = update.node
        way = [*self._around(update.site.file, update.node)] if asking else []
        for node, holder in zip(way, [*way[1:], None], strict=False):
            if isinstance(node, FUNCTIONS):
                return False
            for tested, other in _sides(node, inner, holder):
                is_asked = any(each in asking for each in nodes_in(tested))
                if is_asked and not any(each in self._updates for part in other for each in nodes_in(part)):
                    return True
            inner = node
        return False

    def _ends_where_they_overflow(self, update: Event) -> bool:
        """Whether a test that holds for gradients which are not finite leaves the loop, or raises, before an update."""
        asking = self.analysis.pytorch.asking_gradients
        inner = update.node
        for node in self._around(update.site.file, update.node) if asking else ():
            if isinstance(node, FUNCTIONS):
                return False
            for each in _above(node, inner):
                if not isinstance(each, ast.If) or not isinstance(each.body[-1], (ast.Break, ast.Raise)):
                    continue
                if any(part in asking for part in nodes_in(each.test)) and _holds_beyond(each.test):
                    return True
            inner = node
        return False

    def steps_complex(self, step: Event) -> bool:
        """Whether a scaler that may be on steps an optimizer with complex parameters for certain, and raises."""
        return COMPLEX in self._complex_in(step) and not all(map(self.is_never_on, step.scaler))

    def _complex_in(self, step: Event) -> set[int]:
        """The precisions of the parameters of an optimizer that may be complex: those that a script makes by itself."""
        read = self.analysis.heap.read
        owners = {
            each.owner for own in map(self.parameters_of, step.optimizer) for each in own if isinstance(each, Part)
        }
        made_of = (read(each, MADE_OF, None) for each in owners if isinstance(each, Obj))
        return {each.precision for value in made_of for each in tensors_in(value) if each.precision & COMPLEX}

    def _unreached(self, step: Event) -> set[bool]:
        """Whether it is certain that of several optimizers made in one place, some have parameters that no loss is of.

        Nothing where that is not seen; losses are of the parameters of the others.
        """
        parts, found = self.analysis.pytorch.registry.parts, set()
        for optimizer in step.optimizer & self.analysis.plural:
            assert isinstance(optimizer, Obj)
            reached = {overlap(each, self._reached) for each in parts.get(optimizer, ())}
            making = self.node_at(optimizer.site)
            is_idle = isinstance(making, ast.Call) and self._elements.has_idle_ones(making)
            found |= {True} if reached >= {True, False} else {bool(is_idle)} if is_idle is not False else set()
        return {each and not self.analysis.not_followed for each in found}

    def _replacement(self, step: Event) -> str:
        """What the losses of an optimizer may be computed from in place of its parameters, as the text makes it.

        A generator whose average takes its place (`G = average`) is no longer trained: its optimizer has no gradients.
        """
        known = self.analysis.pytorch.registry.optimizers.values()
        if not all(known):
            return ""
        taken = frozenset[Atom]().union(*(each or () for each in known))
        for own in map(self.parameters_of, step.optimizer):
            losses = [
                tensor
                for each in self.events(Act.BACKWARD)
                for tensor in tensors_in(each.subject)
                if overlap(own, tensor.reach)
            ]
            choices = [each for tensor in losses for each in tensor.surely if isinstance(each, frozenset)]
            others = {
                leaf
                for each in choices
                if overlap(own, each)
                for leaf in each
                if overlap(taken, frozenset({leaf})) is False and not self._are_of_one(leaf, own)
            }
            made = sorted(e.owner.site for e in others if isinstance(e, Part) and isinstance(e.owner, Obj))
            if made and len(made) == len(others) and not any(gets_one(own, each.surely) for each in losses):
                node = self.node_at(made[0])
                return "" if node is None else ast.unparse(node)
        return ""

    def _are_of_one(self, leaf: Atom, parameters: frozenset[Atom]) -> bool:
        """Whether one object computes with a leaf and with some parameters: its layers, of which an optimizer has some.

        None of these is there in place of the others.
        """
        owners = {each.owner for each in parameters if isinstance(each, Part)}
        return isinstance(leaf, Part) and any(
            leaf.owner in each and not owners.isdisjoint(each) for each in self._held_by_modules
        )

    @cached_property
    def _held_by_modules(self) -> list[frozenset[Obj]]:
        """What each object holds that has a forward of its own."""
        holders = {owner for owner, _ in self.analysis.heap.cells() if isinstance(owner, Obj)}
        return [self.analysis.heap.objects_in(frozenset({each})) for each in holders if _has_forward(each.made_of)]

    @cached_property
    def _saturated(self) -> Saturated:
        return Saturated(self.analysis)

    @cached_property
    def _by_dtype(self) -> ByDtype:
        return ByDtype(self.analysis)

    @cached_property
    def _elements(self) -> Elements:
        return Elements(self.analysis)

    @cached_property
    def _reached(self) -> frozenset[Atom]:
        """The leaves that any loss is computed from which goes backward."""
        return frozenset().union(*(each.leaves for each in self.events(Act.BACKWARD, Act.OWN_GRADIENT)))

    def _is_reached(self, models: Value) -> bool:
        """Whether a loss that goes backward is computed by something that may have weights."""
        weights = frozenset(whole_of(each) for each in models if isinstance(each, Atom))
        return overlap(weights, self._reached) is True

    def holds_computed(self, node: ast.AST) -> bool:
        """Whether what an expression gives is no tensor, but an object, or a container, of what is computed."""
        given = self.analysis.values.get(node, NEVER)
        if not given or any(isinstance(each, (Tensor, Opaque)) for each in given):
            return False
        heap = self.analysis.heap
        held = (heap.read(part, name, None) for part in heap.objects_in(given) for name in heap.names(part, None))
        return any(each.flows & FLOWS and each.reach for value in (given, *held) for each in tensors_in(value))

    @cached_property
    def _updates(self) -> frozenset[ast.AST]:
        """The calls that update a scale."""
        return frozenset(each.node for each in self.events(Act.UPDATE))

    @cached_property
    def _foreign(self) -> frozenset[Site]:
        """Where code that is not read gets what is low for certain."""
        return frozenset(each.site for each in self.events(Act.FOREIGN) if any(each.sure_in.values()))

    def is_halved(self, event: Event) -> bool | None:
        """Whether gradients that are taken come through float16, as those of leaves that nobody knows.

        None where what comes through it is unknown, and the leaves are seen to be reached without it.
        """
        halved = overlap(event.leaves, frozenset(self.analysis.pytorch.halved)) if event.leaves else True
        reached = (leaf for each in tensors_in(event.subject) for leaf in each.reach | each.leaf)
        return True if halved is None and not event.leaves <= set(reached) else halved

    def is_scaled_in_vain(self, event: Event) -> bool:
        """Whether a loss goes backward scaled, in a program that computes nothing in half precision."""
        return self.is_scaled(event) and not self.has_regions

    def is_scaled(self, event: Event) -> bool:
        """Whether a loss goes backward scaled, which is not brought by a call that is not seen."""
        return event.act is Act.BACKWARD and bool(event.scaler) and not _is_handed_in(event)

    def idle_regions(self) -> list[Fault]:
        """The regions for training, if low precision does nothing in any of them; none where that is not certain.

        What is not followed into works where it is called, for all that anybody knows; elsewhere it does not matter.
        Nor does an evaluation that records gradients which nobody gets.
        """
        training = self._for_training
        if any(code.has(each) for each in training for code in self.analysis.given_up):
            return []
        serving = {each for each in training if not self._serves_no_loss(each)}
        is_trained = any(self.events(Act.BACKWARD))
        working = self.analysis.pytorch.working & (serving if is_trained else training)
        is_idle = not working or self._trains_nothing_low
        return self.doubled_regions() or [Fault(site, IDLE) for site in sorted(training)] if is_idle else []

    @property
    def on_cpu(self) -> set[Site]:
        """The regions for a GPU in which weights meet what is on the CPU for certain, if losses are scaled there."""
        pytorch = self.analysis.pytorch
        is_scaled = any(map(self.is_scaled, self.events(Act.BACKWARD)))
        return pytorch.on_cpu if is_scaled and not pytorch.scatters else set()

    @property
    def trained_on_cpu(self) -> set[Site]:
        """Those of them that are for training."""
        return self.on_cpu & self._for_training

    def doubled_regions(self) -> list[Fault]:
        """The regions for training that have weights in float64; all, where whatever is made is in float64."""
        casts, training = self.events(Act.DOUBLED), self._for_training
        double = training & self.analysis.pytorch.in_float64 if all(each.subject for each in casts) else training
        casts = [each for each in casts if not each.subject or self._is_reached(each.subject)]
        # What nobody knows may be data: it is named where nothing else is.
        casts = [e for e in casts if not e.subject or any(isinstance(one, Obj) for one in e.subject)] or casts
        return [Fault(site, IN_FLOAT64, why=self._by(casts).strip()) for site in sorted(double)]

    @property
    def _for_training(self) -> set[Site]:
        """The regions that are on where gradients may be recorded."""
        return {site for site, mode in self.analysis.pytorch.opened.items() if mode & ON}

    def _serves_no_loss(self, region: Site) -> bool:
        """Whether no loss goes backward where a region is entered, and nothing with a gradient leaves the function."""
        entering = self.analysis.pytorch.entering[region]
        return all(code.is_function and keeps_gradients(self.analysis, code) for code in entering)

    def idle_steps(self) -> list[Fault]:
        """The regions of steps that low precision does nothing for, while it does something for others.

        A step is told from others where its loss goes backward in the function that opens its regions, and that runs no
        region of another. One that is opened elsewhere may be for the forward of any, if a gradient leaves it.
        """
        analysis = self.analysis
        losses = {each.code: None for each in self.events(Act.BACKWARD)}
        opened: defaultdict[Code | None, set[Site]] = defaultdict(set)
        for site in (each for each, mode in analysis.pytorch.opened.items() if mode & ON):
            holding = (code for code in losses if code.has(site) and not any(each.has(site) for each in code.inner))
            code = next(holding, None)
            if code is not None or not self._serves_no_loss(site):
                opened[code].add(site)
        working = [code for code, sites in opened.items() if sites & analysis.pytorch.working]
        told_apart = (code for code in opened if code is not None and code not in analysis.given_up)
        idle = [code for code in told_apart if code not in working]
        return [
            Fault(site, IDLE_STEP)
            for code in idle
            if working and not any(each is None or analysis.is_run_by(each, code) for each in working)
            for site in sorted(opened[code])
        ]

    @property
    def _trains_nothing_low(self) -> bool:
        """Whether it is known what all losses come to that go backward, with low precision on the way to none of it."""
        losses = [list(_tensors(each)) for each in self.events(Act.BACKWARD)]
        trained = frozenset(leaf for of_one in losses for each in of_one for leaf in each.reach | each.leaf)
        is_known = all(isinstance(each, Part) and isinstance(each.owner, Obj) for each in trained)
        is_seen = bool(losses) and all(of_one and all(each.reach for each in of_one) for of_one in losses)
        lowered = {
            each for each in self.analysis.pytorch.lowered if isinstance(each, Part) and isinstance(each.owner, Obj)
        }
        is_followed = not (self.analysis.given_up or self.analysis.not_followed)
        return is_followed and is_known and is_seen and overlap(frozenset(lowered), trained) is False

    def evaluating_apart(self) -> list[Fault]:
        """The regions without gradients for what is seen to be trained, and in no region; at their first statements.

        Which of several models runs there nobody knows: none of them is to be trained in low precision.
        """
        pytorch = self.analysis.pytorch
        losses = (tensor for each in self.events(Act.BACKWARD) for tensor in tensors_in(each.subject))
        trained = frozenset(leaf for each in losses for leaf in each.reach | each.leaf)
        lowered = frozenset(pytorch.lowered)
        found: list[Fault] = []
        for region, leaves in sorted(pytorch.weighing.items()):
            if overlap(lowered, frozenset(leaves)) is False:
                is_trained = any(overlap(trained, frozenset({each})) for each in leaves)
                found += (Fault(each, EVALUATED_APART) for each in self.without_gradients([region]) if is_trained)
        return [*found, *self._running_steps(), *self._in_solvers()]

    def _in_solvers(self) -> Iterator[Fault]:
        """The regions in what a solver of equations runs, to which rounding looks like errors of its steps."""
        run = self.analysis.run_by(STEPPING_BY_ERRORS)
        for region in sorted(each for each in self.analysis.pytorch.opened if any(code.has(each) for code in run)):
            yield from (Fault(each, IN_A_SOLVER) for each in self.without_gradients([region]))

    def _running_steps(self) -> Iterator[Fault]:
        """The regions beside training whose models may train by themselves, where nobody has read what calls that.

        A cast of a weight is kept until the outermost region ends: steps in it would go on from the first weights.
        """
        training = {each.code for each in self.events(Act.BACKWARD)}
        for event in self.events(Act.UNREAD_MODEL):
            owners = (bare(each) for each in event.subject if isinstance(each, Atom))
            kinds = [each.made_of for each in owners if isinstance(each, Obj) and isinstance(each.made_of, Class)]
            if event.context is None or not any("backward" in each.code.attributes for each in kinds):
                continue
            for region in sorted(event.context.cuda.regions):
                block = self._block_of(region)
                if block is not None and not any(each.has(region) for each in training):
                    yield Fault(site_of(region.file, block.body[0]), STEPS_INSIDE)

    @cached_property
    def unread_models(self) -> tuple[Fault, ...]:
        """Where models run in regions in code that nobody has read: the first of each file that get gradients.

        Each has the names of its file that no other has had before.

        None of what a loss is told to come from, or is given what is low. What is evaluated alone is each by itself.
        What a module only keeps, a tokenizer as well as a layer, is one if losses are computed by it.
        """
        named = self.analysis.pytorch.called
        known = [named.get(site, "") for site in {each.site for each in self.events(Act.UNREAD_LOSS)} | self._foreign]
        events = [each for each in self.events(Act.UNREAD_MODEL) if each.seen_by and not _is_named(each.why, known)]
        events = [each for each in events if any(each.sure_in.values()) or self._is_reached(each.subject)]
        quiet = {each for each in events if each.context and self.without_gradients(each.context.cuda.regions)}
        trained = frozenset().union(*(each.subject for each in events if each not in quiet))
        alone = [each for each in events if each in quiet and trained.isdisjoint(each.subject)]
        others = [each for each in events if each not in alone]
        names = {each.why: each for each in reversed(others)}
        by_file: dict[str, list[Event]] = {}
        for each in others:
            is_part = any(each.why.startswith(f"{whole}.") for whole in names)
            if names[each.why] is each and not is_part:
                by_file.setdefault(each.site.file, []).append(each)
        told = [(first, ", ".join(each.why for each in (first, *rest))) for first, *rest in by_file.values()]
        told += ((each, each.why) for each in alone)
        return tuple(Fault(each.site, UNREAD_MODELS, why=why, event=each) for each, why in told)

    def is_unlimited(self, event: Event | None) -> bool:
        """Whether nothing in sight limits the weights that a loss is computed of: no change of them, no other loss."""
        if event is None or overlap(frozenset(self.analysis.pytorch.limited), event.leaves) is not False:
            return False
        others = (each for each in self.events(Act.BACKWARD) if each.leaves <= event.leaves)
        return all(tensor.tags & (SCORE | CONTEST) for each in others for tensor in tensors_in(each.subject))

    def is_constant(self, event: Event) -> bool:
        """Whether a buffer gets nothing behind its making, and so is as good as any input."""
        born = NOTHING if event.tensor is None else event.tensor.born
        return bool(born) and self.analysis.pytorch.stored.isdisjoint(born)

    def given_small(self) -> list[Fault]:
        """The regions in which code that nobody has read gets a number it cannot divide by; at their first statements.

        What a sampling method divides by a temperature of 1e-5 is infinite in float16, and the first of that is taken.
        """
        found: list[Fault] = []
        for event in self.events(Act.SMALL_GIVEN):
            for region in sorted(event.context.cuda.regions if event.context is not None else ()):
                block = self._block_of(region)
                if block is not None:
                    site = site_of(region.file, block.body[0])
                    found.append(Fault(site, GIVEN_SMALL, why=ast.unparse(event.node), event=event))
        return found

    def without_gradients(self, regions: Collection[Site]) -> tuple[Site, ...]:
        """The first statements of some regions, if gradients are recorded in none of them."""
        opened = self.analysis.pytorch.opened
        quiet = [each for each in sorted(regions) if not opened.get(each, ON) & ON]
        blocks = [(each.file, block) for each in quiet if (block := self._block_of(each)) is not None]
        return tuple(site_of(file, each.body[0]) for file, each in blocks) if len(blocks) == len(regions) else ()

    def _block_of(self, region: Site) -> ast.With | None:
        """The statement that opens a region; None where a call does."""
        module = self.analysis.module(region.file)
        blocks = (each for each in nodes_in(module.tree) if isinstance(each, ast.With)) if module else ()
        return next((b for b in blocks if any(site_of(region.file, i.context_expr) == region for i in b.items)), None)

    @cached_property
    def unsaved(self) -> list[Fault]:
        """Where an optimizer's state goes into a checkpoint, and nobody asks the scaler that steps it for its own."""
        return [
            Fault(event.site, UNSAVED, event=event)
            for event, _ in self._without_scaler(Act.SAVED, Act.LOADED, Act.HANDED_ON)
            if self._is_kept(event)
        ]

    @cached_property
    def unloaded(self) -> list[Fault]:
        """Where an optimizer's state is loaded, and nobody loads that of the scaler that steps it, which is saved."""
        asked = (each for each in self.events(Act.SAVED) if not _saves_by_itself(each.node))
        saved = {atom for each in asked if self._is_kept(each) for atom in each.scaler}
        without = self._without_scaler(Act.LOADED, Act.HANDED_ON)
        return [Fault(event.site, UNLOADED, event=event) for event, scalers in without if scalers <= saved]

    def _without_scaler(self, act: Act, *others: Act) -> Iterator[tuple[Event, frozenset[object]]]:
        """What happens to optimizers' states, and neither it nor some other things to those of their scalers."""
        about_state = [each for each in self.events(act, *others) if not self._is_to_own_method(each)]
        kept = {each: (*each.scaler, *each.subject) for each in about_state}
        waiting = {each for each in kept if self._waits(each)}
        stepping: defaultdict[object, set[object]] = defaultdict(set)
        for event in self.events(Act.SCALER_STEP):
            for optimizer in event.optimizer:
                stepping[optimizer].update(event.scaler)
        for event in about_state:
            owners = event.optimizer | event.subject  # what is not known for an optimizer is one that a scaler steps
            told_apart = (each for each in owners if isinstance(each, Atom) and is_one(each))
            scalers = frozenset().union(*(stepping[each] for each in told_apart))
            is_known = bool(scalers) and all(each in stepping for each in owners)
            # What is run asks for no state by a method of a wrapper's that nobody calls.
            others_run = kept.keys() - waiting if event not in waiting else kept.keys()
            if event.act is act and is_known and scalers.isdisjoint(atom for each in others_run for atom in kept[each]):
                yield event, scalers

    def _is_to_own_method(self, event: Event) -> bool:
        """Whether a call hands something to a method of the project, in whose place something unknown may be as well.

        So it is of an object that gets its attributes by unknown names: `setattr(self, key, value)`.
        """
        call = event.node
        if event.act is not Act.HANDED_ON or not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            return False
        callees = self.analysis.callees.get(call, ())
        methods = (each for each in callees if each.parent is not None and isinstance(each.parent.node, ast.ClassDef))
        return any(each.name == call.func.attr for each in methods)

    def _waits(self, event: Event) -> bool:
        """Whether something happens in a method that nobody calls, of objects that stay in sight and do more."""
        code = event.code
        beside = {each for each in self._called if each.parent is code.parent}
        is_method = code.parent is not None and isinstance(code.parent.node, ast.ClassDef)
        return is_method and bool(beside) and code not in beside and not self._go_out_of_sight(code.parent)

    def _go_out_of_sight(self, kind: Code | None) -> bool:
        """Whether objects of a class are put into something, or given to what is not followed: who has them may ask."""
        for module in filter(None, self.analysis.modules.values()):
            for node, _ in module.nodes():
                held = self.analysis.values.get(node, NEVER) if isinstance(node, (ast.Name, ast.Attribute)) else NEVER
                if any(isinstance(each, Obj) and getattr(each.made_of, "code", None) is kind for each in held):
                    around = next(each for each in self._around(module.file, node) if not isinstance(each, ast.keyword))
                    is_used = isinstance(around, (ast.Attribute, ast.Assign)) or (
                        isinstance(around, ast.Call) and bool(self.analysis.callees.get(around))
                    )
                    if not is_used:
                        return True
        return False

    @cached_property
    def _called(self) -> frozenset[Code]:
        """The functions that calls are seen to run."""
        callees = self.analysis.callees.items()
        return frozenset(code for node, codes in callees for code in codes if code.node is not node)

    @cached_property
    def wrongly_divided(self) -> list[Fault]:
        """Where what is computed of gradients is divided by the scale, and is not seen to be proportional to them.

        A name may be of gradients that somebody asked for by themselves, and to clip them gives their norm.
        """
        modules = filter(None, map(self.analysis.module, self.analysis.focus))
        return [
            Fault(site_of(module.file, node), NOT_DIVIDED)
            for module in modules
            for node in nodes_in(module.tree)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_scale(node.right)
            if not isinstance(node.left, ast.Name) and not self._is_proportional(node.left)
        ]

    @property
    def sized(self) -> list[Site]:
        """Where gradients are read in what goes backward, and another loss scale may change what is made of them."""
        analysis, known = self.analysis, set[Site]()
        if analysis.is_complete:
            scales = analysis.pytorch.gradients_read
            read = {each.site for each in self.events(Act.READ)} - analysis.pytorch.sized
            known = {site for site in read if ANY_UNIT not in scales[site]}
        codes = (code for module in filter(None, analysis.modules.values()) for code in module.codes.values())
        found: dict[Site, None] = {}
        for code in (each for each in codes if "backward" in each.asked):
            for node in nodes_in(code.node):
                target = node.target if isinstance(node, ast.AugAssign) else node
                is_read = target is not node or (isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Load))
                if is_read and isinstance(target, ast.Attribute) and target.attr == "grad":
                    found[site_of(code.file, target)] = None
        return [site for site in found if site not in known]

    @property
    def of_skipped(self) -> list[Fault]:
        """The histograms of gradients that a scaler has looked at: it skips the step where they are not finite."""
        reads = {each.site: each for each in self.events(Act.READ)}
        return [
            Fault(each.site, OF_SKIPPED, always=False, event=each)
            for each in self.events(Act.HISTOGRAM)
            if not self._asks_first(each)
            and any(
                _grad(machine, atom).kind == UNSCALED
                for read in (reads[site] for site in each.sources if site in reads)
                for machine, _, about, _ in read.reached
                for atom in _atoms(about)
            )
        ]

    @property
    def watched(self) -> list[Fault]:
        """Where a library hooks itself to gradients to log them, of a program whose losses are scaled."""
        if not self.events(Act.SCALER_STEP):
            return []
        calls = [site for site, name in self.analysis.pytorch.called.items() if name == "wandb.watch"]
        return [Fault(site, WATCHED, always=False) for site in sorted(calls) if self._logs_gradients(site)]

    def _logs_gradients(self, watching: Site) -> bool:
        """Whether a call of `wandb.watch()` logs gradients that may be scaled, and not parameters alone, or nothing."""
        node = self.node_at(watching)
        node = node.value if isinstance(node, ast.Expr) else node
        if not isinstance(node, ast.Call):
            return True
        log = argument(node, "wandb.watch", "log")
        if isinstance(log, ast.Constant) and log.value in ("parameters", None):
            return False
        models = argument(node, "wandb.watch", "models", 0)
        watched = NEVER if models is None else self.analysis.values.get(models, NEVER)
        if not watched or not all(isinstance(each, Obj) for each in watched):
            return True
        weights = frozenset(map(whole_of, self.analysis.heap.objects_in(watched)))
        scaled = (each.leaves for each in self.events(Act.BACKWARD) if each.scaler)
        return any(overlap(weights, leaves) is not False for leaves in scaled)

    def _asks_first(self, event: Event) -> bool:
        """Whether something happens only as a call has answered about gradients: `if torch.isfinite(p.grad).all():`."""
        asking = self.analysis.pytorch.asking_gradients
        tests = (each.test for each in self._around(event.site.file, event.node) if isinstance(each, ast.If))
        return any(each in asking for test in tests for each in nodes_in(test) if isinstance(each, ast.Call))

    def _is_proportional(self, node: ast.expr) -> bool:
        """Whether the scale of a scaler is in a number once, or nothing is: it is zero, or of true gradients.

        A gradient itself, or a view of it, is none: who gets it may write into it, and would write into a quotient.
        """
        value = self.analysis.values.get(node, NEVER)
        called = self.analysis.values.get(node.func, NEVER) if isinstance(node, ast.Call) else NEVER
        if any(isinstance(each, External) and each.name in CLIPPING for each in called):
            return True
        units = frozenset().union(*(each.units for each in value if isinstance(each, (Tensor, Some))))
        is_number = all(isinstance(each, Some) or each in _ZEROS or _is_new(each) for each in value)
        # Where nobody knows what is in the gradients, what is made of them has any scale.
        return is_number and {each[1] for each in units if each is not None and each != ANY_UNIT} == {1}

    def _is_kept(self, event: Event) -> bool:
        """Whether a state goes into a checkpoint, or all of its owner does."""
        return _saves_by_itself(event.node) or self._states.has(event.site)

    @cached_property
    def _states(self) -> KeptStates:
        return KeptStates(self.analysis)

    def parameters_of(self, optimizer: object) -> frozenset[Atom]:
        """The parameters of an optimizer; none where nobody knows them."""
        known = self.analysis.pytorch.registry.optimizers
        return known.get(optimizer) or frozenset() if isinstance(optimizer, Atom) else frozenset()

    def owners_of(self, optimizers: Value) -> frozenset[Atom]:
        """The modules whose parameters some optimizers have; none where nobody knows them."""
        leaves = (leaf for each in optimizers for leaf in self.parameters_of(each))
        return frozenset(by_path(each.owner) for each in leaves if isinstance(each, Part))

    def always_get_gradients(self, optimizer: object) -> bool:
        """Whether the parameters of an optimizer are known, and nobody freezes any of them for a time."""
        own, switched = self.parameters_of(optimizer), frozenset(self.analysis.pytorch.registry.switched)
        return bool(own) and (not switched or overlap(switched, own) is False)

    @cached_property
    def steps_without_gradients(self) -> list[Fault]:
        """Where a scaler steps an optimizer none of whose parameters has a gradient: it raises there."""
        known = (each for each in self.events(Act.SCALER_STEP) if each.code not in self.analysis.given_up)
        return [fault for each in known for fault in self._wrong_states(each) if fault.what is NO_GRADIENTS]

    def is_left_scaled(self, event: Event) -> bool:
        """Whether gradients are clipped together of which `unscale_` divides some: no optimizer has the others.

        They are of a scaled loss, of modules in sight, and nobody freezes them.
        """
        if not self._clips_unscaled(event):
            return False
        registered = self.analysis.pytorch.registry.optimizers.values()
        apart = [
            frozenset({leaf})
            for leaf in self._unfixed(event.leaves)
            if isinstance(leaf.owner, Obj) and all(overlap(own, frozenset({leaf})) is False for own in registered)
        ]
        losses = (each.leaves for each in self.events(Act.BACKWARD) if each.scaler and apart)
        return any(overlap(leaves, each) for leaves in losses for each in apart)

    def may_be_left_scaled(self, event: Event) -> bool | None:
        """The same where it is not certain: whether an optimizer was given less than what is clipped behind `unscale_`.

        It is a part of a model in code that nobody has read, or what a test has chosen by name. None where it is not
        shown that some optimizer has each parameter whose gradient is clipped.
        """
        if not self._clips_unscaled(event):
            return False
        clipped = self._chosen(event.node)
        if clipped is not None and clipped.are_of_groups:
            return False
        registry = self.analysis.pytorch.registry
        leaves = frozenset(self._unfixed(event.leaves))
        given: list[Atom] = []
        whole: dict[object, frozenset[Atom]] = {}
        is_less = False
        for optimizer in (each for each in _atoms(event.optimizer) if each is not None):
            parameters = registry.optimizers.get(optimizer) or registry.unread.get(optimizer, frozenset())
            made_of = self._chosen(self._made_by(optimizer))
            given += parameters
            if made_of is None:
                continue
            if made_of.are_all or (clipped is not None and made_of.tests and made_of.tests == clipped.tests):
                whole[optimizer] = parameters
            is_less |= made_of.are_all is False and clipped is not None and clipped.are_all is True
        for machine, _, about, _ in event.reached:
            # Of those that branches make, the others are not there.
            there = machine.made().intersection(about) or about
            if not are_of(leaves, frozenset().union(*(whole.get(each, ()) for each in there))):
                # What is given beside the whole that it is a part of, and clipped beside that, too, leaves nothing out.
                parts = ((each, leaf) for each in given for leaf in leaves if each not in leaves or leaf not in given)
                return is_less or any(_is_within(each, leaf) for each, leaf in parts) or None
        return False

    def _clips_unscaled(self, event: Event) -> bool:
        """Whether gradients are clipped together that `unscale_` has divided, by a scaler that may be on there.

        What is clipped by value is so each by itself: those that stay scaled change none of the others.
        """
        ways = ((_grad(machine, each), facts) for machine, facts, about, _ in event.reached for each in _atoms(about))
        is_clip = event.act is Act.CLIP and not event.scaler and event.why != CLIPS_BY_VALUE
        return is_clip and any(g.kind == UNSCALED and not self.is_off(g.scaler, event.code, facts) for g, facts in ways)

    def _unfixed(self, leaves: Iterable[Atom]) -> Iterator[Part]:
        """Those of some parameters that nobody freezes."""
        fixed = frozenset(self.analysis.pytorch.registry.switched)
        return (each for each in leaves if isinstance(each, Part) and not overlap(fixed, frozenset({each})))

    def _made_by(self, optimizer: Atom) -> ast.AST | None:
        """The call that makes an optimizer."""
        site = optimizer.made_at if isinstance(optimizer, Opaque) else getattr(optimizer, "site", None)
        return None if site is None else self.node_at(site)

    def _chosen(self, call: ast.AST | None) -> Chosen | None:
        """How the parameters were chosen that a call is given; None where it is not seen."""
        if not isinstance(call, ast.Call):
            return None
        modules = filter(None, self.analysis.modules.values())
        code = next((each.calls[call] for each in modules if call in each.calls), None)
        by_name = (each.value for each in call.keywords if each.arg in ("params", "parameters"))
        given = next(by_name, None) or next(iter(call.args), None)
        return None if given is None or code is None else chosen(given, code)

    def are_float16(self, owner: Atom) -> bool:
        """Whether the weights of a module were cast to float16, and by nobody to something else."""
        dtype = self.analysis.heap.read(by_path(owner), DTYPE, None)
        return self.analysis.pytorch.precision_of(dtype) == F16

    def is_on(self, scaler: object) -> bool:
        """Whether a scaler is surely switched on."""
        return self._is_enabled(scaler) is True

    def is_never_on(self, scaler: object) -> bool:
        """Whether a scaler is switched off for good."""
        return self._is_enabled(scaler) is False

    def _is_enabled(self, scaler: object) -> object:
        return constant(self.analysis.heap.read(scaler, ENABLED, None)) if isinstance(scaler, Obj) else None

    def is_idle(self, method: Code) -> bool:
        """Whether a method runs nowhere: objects of its class are made, stay in sight, and nobody calls it of them."""
        made = self._made_of.get(method.parent, set())
        runs = self.analysis.not_followed or self.analysis.was_run(method)
        return not runs and bool(made) and made.isdisjoint(self._objects_out_of_sight)

    @cached_property
    def _objects_out_of_sight(self) -> frozenset[Obj]:
        return self.analysis.objects_out_of_sight

    @cached_property
    def _made_of(self) -> dict[Code | None, set[Atom]]:
        """All objects that come up somewhere, by their classes."""
        found: defaultdict[Code | None, set[Atom]] = defaultdict(set)
        for each in frozenset().union(*self.analysis.values.values()):
            if isinstance(each, Obj) and isinstance(each.made_of, Class):
                found[each.made_of.code].add(each)
        return found

    @cached_property
    def has_regions(self) -> bool:
        """Whether some region of autocast may be entered anywhere."""
        analysis = self.analysis
        is_entered = any(each.act is Act.REGION for each in analysis.events.values())
        return is_entered or bool(analysis.not_followed or analysis.given_up)

    def _wrong_states(self, event: Event) -> Iterator[Fault]:
        for what, is_wrong in _STATES.get(event.act, ()):
            for scaler in _atoms(event.scaler):
                for optimizer in _atoms(event.optimizer):
                    reached = [
                        each
                        for each in event.reached
                        if (optimizer is None or optimizer in each[2])
                        and (scaler is None or scaler in each[3])
                        and _may_be(each[0], scaler, each[3])
                        and not self.is_off(scaler or _grad(each[0], optimizer).scaler, event.code, each[1])
                    ]
                    wrong = [each for each in reached if is_wrong(each[0], scaler, optimizer)]
                    if what is MADE_ANEW and wrong and _is_of_the_latest(event):
                        # Of several that have stepped or not with an earlier scaler, the latest has not.
                        wrong = [each for each in wrong if all(is_wrong(each[0], scaler, e) for e in _atoms(each[2]))]
                    if (
                        what is PAST and optimizer and self.is_single(optimizer)
                    ):  # to step without gradients is to do nothing
                        reached = [each for each in reached if _grad(each[0], optimizer).kind != EMPTY]
                    if wrong and not (what is SEVERAL_SCALES and self.is_clipped_in_vain(event)):
                        ways = {each[0] for each in wrong}
                        # Every scaler that is made anew was a first one once.
                        is_always = what is MADE_ANEW or _is_always(ways, {each[0] for each in reached} - ways)
                        # Of several that nobody can tell apart, one is meant: the one with which nothing is wrong.
                        # A clip of what each of them has is about all.
                        is_always &= (what is SEVERAL_SCALES and self._is_of_all(event)) or not all(
                            _grad(machine, optimizer).guessed
                            and not all(is_wrong(machine, scaler, one) for one in _atoms(about) if one is not optimizer)
                            for machine, _, about, _ in wrong
                        )
                        is_always &= what is not SEVERAL_SCALES or self._is_surely_of(optimizer, event.leaves)
                        # Which step comes before which, a scaler's switch does not decide.
                        is_seen = any(
                            self.is_known(each, scaler, optimizer)
                            if what not in _OF_AN_UPDATE
                            else scaler is not None
                            and self.is_single(scaler)
                            and self.is_of_two_scales(event, each, optimizer)
                            for each in ways
                        )
                        why = _ways(wrong)
                        if what is NO_GRADIENTS and not why:
                            why = self._other_losses(optimizer) or (BY_HAND if event.code.gives_gradients else "")
                        site = scaler.site if what is MADE_ANEW and isinstance(scaler, Obj) else event.site
                        yield Fault(site, what, is_always, why, is_seen, event)

    def is_clipped_in_vain(self, clip: Event) -> bool:
        """Whether everything that a clip is about is cleared before anybody reads it, on every way, nor its norm."""
        clipped = frozenset(_atoms(clip.optimizer))
        is_sure = self.analysis.is_complete and whole_of(Opaque()) not in clip.leaves and None not in clipped
        around = next(self._around(clip.site.file, clip.node), None)
        if not is_sure or not isinstance(around, ast.Expr) or self.handing_on_gradients:
            return False
        reading = (each for each in self.analysis.events.values() if each.act not in _READING_NO_GRADIENTS)
        grads = (
            _grad(machine, optimizer)
            for each in reading
            for machine, _, about, _ in each.reached
            for optimizer in clipped & about
        )
        return not any(grad.clipped or grad.kind in (UNKNOWN, LOST) for grad in grads)

    def is_off(self, scaler: object, code: Code, facts: Facts) -> bool:
        """Whether what tests have come to says that a scaler is switched off, which is made in the same function."""
        if not facts or not isinstance(scaler, Obj):
            return False
        if (scaler, code) not in self._switches:
            self._switches[scaler, code] = frozenset((text, not on) for text, on, _ in self._switched_on(scaler, code))
        return any((text, outcome) in self._switches[scaler, code] for text, outcome, _ in facts)

    def is_on_where(self, scaler: object, code: Code, facts: Facts) -> bool:
        """Whether what tests have come to says that a scaler is switched on, which is made in the same function."""
        switched = self._switched_on(scaler, code) if isinstance(scaler, Obj) else frozenset()
        return bool(switched) and {fact[:2] for fact in switched} <= {fact[:2] for fact in facts}

    def is_without_scale(self, event: Event) -> bool:
        """Whether each scaler that something is about is off wherever it happens, by tests where the scaler is made."""
        return bool(event.scaler) and all(
            isinstance(scaler, Obj)
            and (made_in := self._chains.made_in(scaler.site)) is not None
            and self._chains.always(event, made_in, partial(self.is_off, scaler, made_in))
            for scaler in event.scaler
        )

    def are_asked_alike(self, code: Code, facts: Facts) -> bool:
        """Whether what tests of a function come to on a way is the same in all of its calls in a round of a loop."""
        names = (names for _, _, names in facts if GIVEN not in names)
        return self._chains.are_asked_alike(code, frozenset().union(*names))

    @cached_property
    def _chains(self) -> CallChains:
        return CallChains(self.analysis)

    def _switched_on(self, scaler: Obj, code: Code) -> Facts:
        """What holds where a scaler is switched on, in the words of the function that makes it."""
        call = self.node_at(scaler.site) if code.has(scaler.site) else None
        if not isinstance(call, ast.Call) or any(each.has(scaler.site) for each in code.inner):
            return frozenset()
        line = call.lineno
        switch = self._enabled(call)
        while isinstance(switch, ast.Name) and len(code.stores(switch.id)) == 1:
            definition = next((each for each in nodes_in(code.node) if _defines(each, switch.id)), None)
            if definition is None or definition.lineno >= line:
                break
            line, switch = definition.lineno, definition.value
        facts = frozenset() if switch is None else implied(switch, True)
        names = {name for _, _, names in facts for name in names}
        return frozenset() if any(each > line for name in names for each in code.stores(name)) else facts

    def _enabled(self, call: ast.Call) -> ast.expr | None:
        """What a scaler is given that switches it."""
        made = (each.name for each in self.analysis.values.get(call.func, NEVER) if isinstance(each, External))
        return argument(call, next(made, ""), "enabled")

    def _other_losses(self, optimizer: Atom | None) -> str:
        """What a loss may be computed from where it is of no parameter of an optimizer, as the text has it."""
        backward = (each for each in self.events(Act.BACKWARD) if optimizer in each.optimizer)
        losses = (tensor for each in backward for tensor in tensors_in(each.subject))
        leaves = {leaf for each in losses for leaf in standalone_leaves((each.reach | each.leaf) - each.surely)}
        made = sorted({leaf.owner.site for leaf in leaves if isinstance(leaf.owner, Obj)})
        texts = (ast.unparse(node) for each in made if (node := self.node_at(each)) is not None)
        return ", ".join(f"the loss may come of {each} alone" for each in texts)

    def _is_of_all(self, event: Event) -> bool:
        """Whether something is about parameters of each optimizer that it may be about."""
        return all(self._is_surely_of(each, event.leaves) for each in _atoms(event.optimizer))

    def _is_surely_of(self, optimizer: Atom | None, leaves: frozenset[Atom]) -> bool:
        """Whether an optimizer has one of some parameters for certain, and not only as far as nobody knows them."""
        own = None if optimizer is None else self.analysis.pytorch.registry.optimizers.get(optimizer)
        return overlap(own, leaves) is True

    def is_known(self, machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
        """Whether no guess has led to a state of an optimizer, and its scaler is surely switched on."""
        return self.is_on(scaler or _grad(machine, optimizer).scaler) and self.is_no_guess(machine, optimizer)

    def is_no_guess(self, machine: Machine, optimizer: Atom | None) -> bool:
        """Whether no guess has led to a state of an optimizer."""
        is_single = optimizer is not None and self.is_single(optimizer)
        return is_single and not _grad(machine, optimizer).guessed and not machine.get(GUESSED)

    def is_of_two_scales(self, event: Event, machine: Machine, optimizer: Atom | None) -> bool:
        """Whether no guess has led to gradients of two scales, or which of the losses they are of decides nothing.

        Of a step that serves one optimizer or another, nobody knows which of them has gone on since the update.
        """
        is_single = optimizer is not None and self.is_single(optimizer) and len(event.optimizer) == 1
        is_anyhow = is_single and _grad(machine, optimizer).is_of_an_older_scale and not machine.get(GUESSED)
        return is_anyhow or self.is_no_guess(machine, optimizer)

    def is_single(self, atom: Atom) -> bool:
        """Whether an optimizer or a scaler is one, and none of several that nobody can tell apart."""
        return is_one(atom) and atom not in self.analysis.plural


def _has_forward(made_of: Atom) -> bool:
    """Whether a class of the project has a forward of its own."""
    code = getattr(made_of, "code", None)
    return isinstance(code, Code) and any(each.name == "forward" for each in code.inner)


def _is_within(leaf: Atom, whole: Part) -> bool:
    """Whether some parameters are those of a part of something that nobody has read, and not of all of it."""
    return (
        isinstance(leaf, Part)
        and isinstance(leaf.owner, Opaque)
        and is_part_of(leaf, whole)
        and not is_part_of(whole, leaf)
    )


def _defines(node: ast.AST, name: str) -> TypeGuard[ast.Assign]:
    """Whether a statement gives a name its value, and nothing else."""
    return isinstance(node, ast.Assign) and len(node.targets) == 1 and ast.unparse(node.targets[0]) == name


def _is_scale(node: ast.expr) -> bool:
    """Whether an expression asks a scaler for its scale."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_scale"


def _is_new(atom: Atom | Tensor) -> bool:
    """Whether something is a tensor that an operation has made of others, and no gradient."""
    return isinstance(atom, Tensor) and not atom.tags & A_GRADIENT


def _are_on_cpu(tensors: Sequence[Tensor]) -> bool:
    return bool(tensors) and all(each.place == CPU for each in tensors)


def _may_be_on_cpu(tensors: Sequence[Tensor]) -> bool:
    return bool(tensors) and all(each.place & CPU and not each.place & DEVICE for each in tensors)


def _tensors(event: Event) -> Sequence[Tensor]:
    return list(tensors_in(event.subject))


def _saves_by_itself(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "save"


def _sides(node: ast.AST, inner: ast.AST, holder: ast.AST | None) -> Iterator[tuple[ast.expr, list[ast.stmt]]]:
    """The tests that decide whether something directly in a statement runs, each with what runs instead of it.

    Args:
        holder: what the statement stands in.
    """
    if isinstance(node, ast.If) and inner is not node.test:
        other = node.orelse if inner in node.body else node.body
        if inner in node.body and isinstance(node.body[-1], (ast.Continue, ast.Return)):
            blocks = [getattr(holder, name, []) for name in ("body", "orelse", "finalbody")]
            block = next((each for each in blocks if isinstance(each, list) and node in each), [node])
            other = [*other, *block[block.index(node) + 1 :]]
        yield node.test, other
    for each in _above(node, inner):
        if isinstance(each, ast.If) and isinstance(each.body[-1], (ast.Continue, ast.Return)):
            yield each.test, each.body


def _above(node: ast.AST, inner: ast.AST) -> Iterator[ast.stmt]:
    """The statements before one, in the block of a statement that it stands in."""
    for block in (getattr(node, name, ()) for name in ("body", "orelse", "finalbody")):
        if isinstance(block, list) and inner in block:
            yield from block[: block.index(inner)]


def _holds_beyond(test: ast.expr) -> bool | None:
    """Whether a test of a number holds for one that is not finite; None where that does not show."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _holds_beyond(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        found = {_holds_beyond(each) for each in test.values}
        decisive = isinstance(test.op, ast.Or)
        return decisive if decisive in found else None if None in found else not decisive
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        is_limit_first = isinstance(test.left, ast.Constant)
        smaller, larger = isinstance(test.ops[0], (ast.Lt, ast.LtE)), isinstance(test.ops[0], (ast.Gt, ast.GtE))
        return None if not (smaller or larger) else smaller if is_limit_first else larger
    if isinstance(test, ast.Call):
        word = word_called(test)
        if word in ("all", "any", "item", "bool") and isinstance(test.func, ast.Attribute):
            return _holds_beyond(test.func.value)
        return {"isfinite": False, "isinf": True, "isnan": True}.get(word)
    return None


def _is_of_the_latest(step: Event) -> bool:
    """Whether a scaler steps what a variable holds that is given nothing but optimizers which are made for it."""
    name = step.node.args[0] if isinstance(step.node, ast.Call) and step.node.args else None
    if not isinstance(name, ast.Name):
        return False
    nodes = [*nodes_in(step.code.node)]
    named = (each for each in nodes if isinstance(each, ast.Name) and each.id == name.id)
    stores = {each for each in named if not isinstance(each.ctx, ast.Load)}
    given = [each for each in nodes if isinstance(each, ast.Assign) and len(each.targets) == 1]
    values = [each.value for each in given if each.targets[0] in stores]
    made = {site_of(step.code.file, arm) for value in values for arm in _arms(value)}
    is_parameter = any(isinstance(each, ast.arg) and each.arg == name.id for each in nodes)
    sites = {each.site for each in step.optimizer if isinstance(each, Obj)}
    return bool(values) and len(values) == len(stores) and not is_parameter and made == sites


def _arms(value: ast.expr) -> list[ast.expr]:
    """What a choice is made of: both arms of `a if test else b`."""
    return [*_arms(value.body), *_arms(value.orelse)] if isinstance(value, ast.IfExp) else [value]


def _atoms(value: Value) -> list[Atom | None]:
    """What a value may be; one unknown where that is nothing."""
    return [each for each in value if isinstance(each, Atom)] or [None]


def _may_be(machine: Machine, scaler: Atom | None, scalers: Value) -> bool:
    """Whether one of several scalers may be meant: on a way that has made one, no other is."""
    made = [each for each in scalers if machine.get(("fresh", each))]
    return not made or scaler in made


def _is_always(wrong: set[Machine], right: set[Machine]) -> bool:
    """Whether something is wrong on all ways: on those that come first, or on those that come round a loop."""
    for again in (True, None):
        if any(each.get(AGAIN) == again for each in wrong) and not any(each.get(AGAIN) == again for each in right):
            return True
    return False


def _ways(states: Iterable[Reached]) -> str:
    """What tests have come to on one of the ways, as a message shows it; that a file is a script says nothing."""
    every = (facts for _, facts, _, _ in states)
    told = (
        sorted((text, outcome) for text, outcome, names in facts if names.isdisjoint((GIVEN, "__name__")))
        for facts in every
    )
    shortest = min(told, key=lambda facts: (len(facts), facts))
    return ", ".join(f"{text} is {'true' if outcome else 'false'}" for text, outcome in shortest)


def _grad(machine: Machine, optimizer: Atom | None) -> Grad:
    return machine.grad(optimizer) or UNKNOWN_GRAD


def _is(*kinds: str) -> Callable[[Machine, Atom | None, Atom | None], bool]:
    return lambda machine, scaler, optimizer: _grad(machine, optimizer).kind in kinds


def _in_stage(wanted: str) -> Callable[[Machine, Atom | None, Atom | None], bool]:
    def holds(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
        return scaler is not None and optimizer is not None and stage(machine, scaler, optimizer) == wanted

    return holds


def _has_none(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    in_stage = any(_in_stage(each)(machine, scaler, optimizer) for each in (READY, UNSCALED_BY))
    return _grad(machine, optimizer).kind == EMPTY and in_stage


def _is_true_and_ready(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    return _is(TRUE)(machine, scaler, optimizer) and _in_stage(READY)(machine, scaler, optimizer)


def _is_scaled_and_unscaled(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    return _is(SCALED)(machine, scaler, optimizer) and _in_stage(UNSCALED_BY)(machine, scaler, optimizer)


def _is_partly_and_ready(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    return _is(PARTLY)(machine, scaler, optimizer) and _in_stage(READY)(machine, scaler, optimizer)


def _is_another_scalers(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    grad = _grad(machine, optimizer)
    return grad.kind == SCALED and grad.scaler is not scaler


def _goes_on(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    """Whether an optimizer has stepped with a scaler that was made in the place of this one, and is still the same."""
    return machine.get(("stepped", scaler, optimizer)) is EARLIER


def _is_outdated(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    grad = _grad(machine, optimizer)
    return grad.kind == SCALED and grad.outdated and not grad.spent


def _is_of_two_scales(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    grad = _grad(machine, optimizer)
    return grad.kind == MIXED and grad.outdated and not grad.spent


def _is_mixed(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    return _is(MIXED)(machine, scaler, optimizer) and not _grad(machine, optimizer).outdated


def _is_unchecked(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    return machine.get(("checked", scaler)) is False


def _is_named(name: str, among: Iterable[str]) -> bool:
    """Whether a full name, or that of a part of what it names, is among some."""
    return any(f"{each}.".startswith(f"{name}.") for each in among)


def _is_handed_in(event: Event) -> bool:
    """Whether a loss goes backward that a parameter brings, in a call that is not seen: nor is what computes it."""
    func = event.node.func if isinstance(event.node, ast.Call) else None
    scaled = func.value if isinstance(func, ast.Attribute) else None
    loss = scaled.args[0] if isinstance(scaled, ast.Call) and scaled.args else scaled
    owners = [each.owner for each in event.leaves if isinstance(each, Part)]
    return isinstance(loss, ast.Name) and any(isinstance(each, Opaque) and each.name == loss.id for each in owners)


def _is_idle(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    return bool(machine.get(("idle", scaler)))


def _is_clipped_scaled(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    # With `clip_grad_norm_(p, 1.0 * scaler.get_scale())` the limit is scaled like the gradients.
    return scaler is None and _is(SCALED)(machine, scaler, optimizer)


def _is_limited_unscaled(machine: Machine, scaler: Atom | None, optimizer: Atom | None) -> bool:
    return scaler is not None and _is(TRUE, UNSCALED)(machine, scaler, optimizer)


_READING_NO_GRADIENTS = frozenset({Act.ZERO, Act.BACKWARD, Act.UNSCALE, Act.UPDATE, Act.OPTIMIZER_MADE})
_OF_AN_UPDATE = frozenset({OUTDATED, OF_TWO_SCALES})
_Test = Callable[[Machine, "Atom | None", "Atom | None"], bool]
_STATES: dict[Act, tuple[tuple[str, _Test], ...]] = {
    Act.UNSCALE: (
        (UNSCALED_AGAIN, _in_stage(UNSCALED_BY)),
        ("gradients are unscaled after the step", _in_stage(STEPPED)),
        ("gradients that are not scaled are divided by the scale", _is(TRUE)),
        ("gradients that are not scaled are divided by the scale", _is_mixed),
        (OUTDATED, _is_outdated),
        (OF_TWO_SCALES, _is_of_two_scales),
        ("gradients of another scaler are unscaled", _is_another_scalers),
        (SHARED, _is(PARTLY)),
    ),
    Act.SCALER_STEP: (
        ("a scaler steps twice without an update", _in_stage(STEPPED)),
        (NO_GRADIENTS, _has_none),
        (ADDED, _is_mixed),
        (OF_TWO_SCALES, _is_of_two_scales),
        (SHARED, _is_partly_and_ready),
        ("a scaler steps on gradients that are not scaled", _is_true_and_ready),
        ("gradients of another scaler are stepped on", _is_another_scalers),
        (OUTDATED, _is_outdated),
        ("gradients are stepped on that have come behind unscale_()", _is_scaled_and_unscaled),
        ("a scaler that has scaled nothing steps", _is_idle),
        (MADE_ANEW, _goes_on),
    ),
    Act.UPDATE: (("a scaler updates without having looked at gradients", _is_unchecked),),
    Act.REPLACED: ((MENDED, _is(UNSCALED)),),
    Act.STEP: (
        (PAST, _is(SCALED, PARTLY)),
        (ADDED, _is(MIXED)),
    ),
    Act.CLIP: (
        (CLIPPED, _is_clipped_scaled),
        (LIMITED, _is_limited_unscaled),
        (SEVERAL_SCALES, _is(MIXED)),
    ),
}


def faults(analysis: Analysis) -> list[Fault]:
    """What is wrong in a program that has been interpreted: see `Questions.faults`."""
    return Questions(analysis).faults()


def wrong_states(act: Act) -> frozenset[str]:
    """What may be said of the states that something happens in."""
    return frozenset(what for what, _ in _STATES.get(act, ()))
