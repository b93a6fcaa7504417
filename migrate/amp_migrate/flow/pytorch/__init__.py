"""What PyTorch does: operators, tensors, modules, optimizers, scalers, contexts."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Atom,
    Class,
    Const,
    DeviceOf,
    Dtype,
    External,
    Func,
    Native,
    Obj,
    Opaque,
    Part,
    Some,
    Tup,
    Value,
    Wrapped,
    by_path,
    const,
    join,
    one,
    only,
    reads_of,
    some,
    tensor_of,
    tensors_in,
    tup,
    units_of,
    whole_of,
)
from amp_migrate.flow.domain.contexts import OFF, Context
from amp_migrate.flow.domain.dtypes import LIMITS, PRECISIONS, TENSOR_TYPES
from amp_migrate.flow.domain.kept_casts import Turn
from amp_migrate.flow.domain.machine import Machine, Worlds, made_key
from amp_migrate.flow.domain.state import meet
from amp_migrate.flow.domain.tensor import (
    ANYWHERE,
    BOOL,
    BUFFER,
    CPU,
    CUT,
    DEVICE,
    F32,
    F64,
    FLOWS,
    INT,
    LOW,
    MPS,
    NOTHING,
    OTHER,
    ROUGH,
    SOME_TENSOR,
    SWITCHED,
    Tensor,
    Units,
    made,
)
from amp_migrate.flow.events import OUT_OF_SIGHT, Act
from amp_migrate.flow.python import attributes, command_line, containers
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.classes import DATA_SETS, FUNCTION, MODULE, external_bases, is_module_class, lineage
from amp_migrate.flow.python.expressions import assign
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.python.statements import under
from amp_migrate.flow.pytorch import (
    arrays,
    distributions,
    functions,
    gradients,
    guards,
    modules,
    operators,
    ranges,
    switches,
    tensors,
    unread,
    weight_casts,
)
from amp_migrate.flow.pytorch.cancellation import distances, variances
from amp_migrate.flow.source import Code, Site
from amp_migrate.tables import operators as table
from amp_migrate.tables.library_transforms import TRANSFORMS
from amp_migrate.tables.torch_names import SCHEDULER_FACTORIES, is_module_name, takes_gradients

if TYPE_CHECKING:
    from amp_migrate.flow.analysis import Analysis

_SCALER_METHODS = frozenset("scale unscale_ update get_scale is_enabled".split())
_AS_WRITTEN = nullcontext()


class PyTorch:
    """The transfer functions that ask for PyTorch, in one place; and what they have to remember.

    Attributes:
        registry: optimizers and scalers that have been seen.
        used: the operators that were interpreted.
        places: the places that are named anywhere in the project, as bits.
        entered: what was on where a context was entered by hand.
        opened: the regions of the GPU's autocast that may be on, and whether gradients may be recorded, may not be.
        working: the regions in which something is, or may be, computed in low precision.
        regions_kept: the regions that objects of the project keep, by the names of the attributes.
        on_cpu: the regions of the GPU's autocast in which weights meet something that is on the CPU for certain.
        told_more: where code that nobody has read gets a model, or is told what nobody in sight has written down.
        scatters: whether something brings to the GPU what it is called with, as `DataParallel` does.
        of_unread: the regions in which modules compute that nobody has read.
        in_float64: the regions in which weights are in float64, which they leave.
        lowered: the leaves that a gradient comes to through what a region has computed in low precision.
        stored: where buffers were made that get something else behind their making, and what they get.
        limited: the leaves whose values something keeps within limits, or replaces.
        born_inside: where operators have run in regions.
        zeros: where tensors of zeros were made.
        weighing: by region, the leaves that it casts to low precision.
        births: where what a name gets may have been made, by where it gets that.
        not_float: where sigmoids are made that get what is not float32, and no region has made so.
        running: the parameters that are made anew of products, or of buffers.
        moments: what means and products are made of.
        terms: the products, and the squares of their factors, that values are sums of.
        guards: what is kept from singular points in vain.
        sums: where the elements were made that values are sums of, be something added to keep them from zero.
        factors: of what matrices were multiplied, by where that was done.
        numbers: those that tensors are made of, by where they are made.
        gradients_read: the loss scale in gradients, by where they were read.
        sized: where those were read of which something is made that another scale may change.
        called: the full names of what was called of other packages, by place.
        told_apart: where something unknown is made that is known by who calls for it.
        out_of_registries: where something unknown is made that is one of what the project has registered.
        asked: for each unknown object, the methods that are called on it: what it is shows in what is done with it.
    """

    KNOWN = frozenset(("torch", "numpy", "builtins", "torchvision", "apex", "os", "sys", "math"))

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.registry = gradients.Registry()
        self.used: set[str] = set()
        self.places = 0
        self.places_as_written = 0
        self._is_turned = False
        self.entered: dict[Atom, Context] = {}
        self.opened: dict[Site, int] = {}
        self.entering: defaultdict[Site, set[Code]] = defaultdict(set)  # what is made in one function another may enter
        self.working: set[Site] = set()
        self.on_cpu: set[Site] = set()
        self.regions_kept: dict[str, Value] = {}
        self.scatters = False
        self.told_more: set[Site] = set()
        self.of_unread: set[Site] = set()
        self.in_float64: set[Site] = set()
        self.halved: set[Atom] = set()
        self.lowered: set[Atom] = set()
        self.stored: set[Site] = set()
        self.limited: set[Atom] = set()
        self.born_inside: set[Site] = set()
        self.zeros: set[Site] = set()
        self.ones: set[Site] = set()
        self.weighing: defaultdict[Site, set[Atom]] = defaultdict(set)
        self.asking_gradients: set[ast.AST] = set()
        self.cleared: dict[ast.AST, tuple[str, frozenset[Atom], bool]] = {}
        self.births: dict[Site, set[Site]] = {}
        self.not_float: set[Site] = set()
        self.running: set[Atom] = set()
        self.moments, self.terms = variances.Moments(), distances.Terms()
        self.guards = guards.Guards()
        self.sums: defaultdict[Site, set[Site]] = defaultdict(set)
        self.factors: defaultdict[Site, set[tuple[Tensor, Tensor]]] = defaultdict(set)
        self.numbers: dict[Site, frozenset[float]] = {}
        self.gradients_read: dict[Site, Units] = {}
        self.sized: set[Site] = set()
        self.called: dict[Site, str] = {}
        self.of_models: set[Site] = set()  # the calls that give what models may have computed, in code nobody has read
        self.told_apart: set[Site] = set()
        self.out_of_registries: set[Site] = set()
        self.asked: dict[tuple[object, ...], set[str]] = {}

    # Names

    @staticmethod
    def canonical(full: str) -> str:
        """The usual name of what is reachable under several."""
        if full.startswith("torch.nn.modules."):
            last = full.rpartition(".")[2]
            return f"torch.nn.{last}" if last[:1].isupper() else full
        if full.startswith("torch.nn.parallel.distributed."):
            return full.replace("parallel.distributed.", "parallel.")
        if full.startswith("torch.optim.") and full.count(".") == 3 and not full.startswith(SCHEDULER_FACTORIES):
            last = full.rpartition(".")[2]
            return f"torch.optim.{last}" if last[:1].isupper() else full
        return {"torch.nn.parameter.Parameter": "torch.nn.Parameter"}.get(full, full)

    def external_attribute(self, frame: Frame, full: str) -> Value:
        """An attribute of something of another package."""
        if full in ("torch.pi", "math.pi", "math.e", "numpy.pi", "math.inf"):
            return some("float")
        owner, _, name = full.rpartition(".")
        number = LIMITS.get(owner.removeprefix("torch.finfo."), {}).get(name)
        if number is not None and owner.startswith("torch.finfo."):
            return const(number)
        return one(External(self.canonical(full)))

    def has_steps(self, values: Iterable[Value]) -> bool:
        """Whether some of the values, or of what is in their tuples, is an optimizer."""
        inside = [
            *values,
            *(item for value in values for each in value if isinstance(each, Tup) for item in each.items),
        ]
        return any(isinstance(each, Obj) and each in self.registry.optimizers for value in inside for each in value)

    def truth_of_part(self, value: Value) -> bool | None:
        """What a test of a variable comes to that is given an optimizer or a scaler, or None in its place."""
        if value == NONE_VALUE:
            return False
        is_part = all(each in self.registry.optimizers or each in self.registry.scalers for each in value)
        return True if value and is_part else None

    def there(self, worlds: Worlds, optimizers: Value) -> Callable[[Machine], Value]:
        """Those of the optimizers that a place may be about which are there on one of the ways to it.

        One that was made on the way is in the place of those that other calls make there of the same parameters.
        """
        if len(optimizers) < 2:
            return lambda _: optimizers
        are_there = gradients.there(worlds, [each for each in optimizers if isinstance(each, Atom)])
        twins: dict[Atom, frozenset[Atom]] = {
            each: found for each in optimizers if isinstance(each, Obj) and (found := self.registry.twins(each))
        }

        def about(machine: Machine) -> Value:
            found, made = are_there(machine), machine.made()
            if twins:
                found = [e for e in found if e in made or made.isdisjoint(twins.get(e, ()))]
            return frozenset(found) or optimizers

        return about

    def worlds_with(self, frame: Frame, atom: Atom | Tensor, among: Value) -> Worlds:
        """The ways on which something is there that may be called: of several optimizers, each is where it was made."""
        worlds = frame.now.worlds
        mine = unread.owner_of(atom)
        known = self.registry.optimizers.keys() | self.registry.unread.keys()
        owners = [owner for owner in unread.owners_of(among) if owner in known]
        if len(owners) < 2 or mine not in owners:
            return worlds
        frame.task.touched.update(map(made_key, owners))
        are_there = gradients.there(worlds, owners)
        return frozenset(each for each in worlds if mine in are_there(each.now))

    def precision_of(self, value: Value) -> int | None:
        """The precision that a value names, as `torch.float16` and `x.dtype` do; None where it names none."""
        found = 0
        for each in value:
            if isinstance(each, External) and each.name in PRECISIONS:
                found |= PRECISIONS[each.name]
            elif isinstance(each, Const) and each.kind == "str" and str(each.value) in PRECISIONS:
                found |= PRECISIONS[str(each.value)]
            elif isinstance(each, External) and each.name in ("builtins.float", "builtins.int", "builtins.bool"):
                found |= {"builtins.float": F64, "builtins.int": INT, "builtins.bool": BOOL}[each.name]
            elif isinstance(each, Dtype):
                found |= each.precision
            elif isinstance(each, Some) and each.kind == "dtype":
                found |= 128
        return found or None

    def note_place(self, named: int) -> None:
        """Note what places are named.

        What an installed package names is the place of what it makes, or moves, there: it says nothing of the rest.
        """
        if not self.analysis.is_in_package:
            self.places |= named
            self.places_as_written |= 0 if self._is_turned else named

    def where(self, *, is_turned: bool) -> AbstractContextManager[None]:
        """Note apart what places are named where a run comes only once somebody has turned a switch by hand."""
        return self._where_turned() if is_turned else _AS_WRITTEN

    @contextmanager
    def _where_turned(self) -> Iterator[None]:
        outer, self._is_turned = self._is_turned, True
        yield
        self._is_turned = outer

    def place_of(self, value: Value) -> int | None:
        """The place that a value names, as `"cuda:0"`, a number and `x.device` do; None where it names none."""
        named = new = 0
        for each in value:
            place = _place_named(each)
            named |= place
            new |= 0 if isinstance(each, DeviceOf) else place
        if named and any(isinstance(each, Opaque) for each in value):
            named |= ANYWHERE  # it may be a tensor, but beside a place it is another
            new |= ANYWHERE
        self.note_place(new)
        return (named & ~MPS | DEVICE if named & MPS else named) or None

    def place_told(self, args: Arguments) -> int | None:
        """The place that `to` of a module is told. What nobody knows may be one: hardly anybody gives it a tensor."""
        found = None
        of_words = (args.keywords.get(each, NEVER) for each in ("device", "tensor"))
        for value in (*args.positional[:1], *of_words, args.rest, args.others):
            place = self.place_of(value)
            if place is None and any(isinstance(each, Opaque) for each in value) and self.precision_of(value) is None:
                place = ANYWHERE
                self.note_place(place)
            found = found if place is None else place
        return found

    def _names_precision(self, args: Arguments) -> bool:
        """Whether `to` is told a precision, or another tensor, be it that nobody knows which."""
        return any(
            self.precision_of(value) is not None
            or any(isinstance(each, Tensor) or (isinstance(each, Opaque) and "dtype" in each.name) for each in value)
            for value in args.positional
        )

    def _unread_moved(self, frame: Frame, owner: Opaque, name: str, args: Arguments) -> None:
        """Note where something unknown is moved to, if it is a module."""
        place = self.place_told(args) if name in ("to", "type") else {"cuda": DEVICE, "cpu": CPU}.get(name)
        if owner.path and place is not None:
            frame.write(by_path(owner), modules.PLACE, const(place), strong=False)

    @staticmethod
    def placed(frame: Frame, value: Value) -> Value:
        """See `modules.placed`."""
        return modules.placed(frame, value)

    @staticmethod
    def is_cpu(value: Value) -> bool:
        """Whether a value is the CPU, by a name for it or as a device."""
        return bool(value) and all(isinstance(each, Const) and _place_named(each) == CPU for each in value)

    # Tensors

    def tensor_attribute(self, frame: Frame, tensor: Tensor, name: str, node: ast.AST) -> Value:
        """An attribute of a tensor."""
        return tensors.attribute(frame, tensor, name, node)

    def unknown_attribute(self, frame: Frame, owner: Opaque, name: str, node: ast.AST) -> Value:
        """An attribute of something that may be a tensor."""
        return tensors.unknown_attribute(frame, owner, name, node)

    @staticmethod
    def no_tensor(name: str) -> Value:
        """What an attribute is that only tensors and arrays have, and that is none; nothing where it may be another."""
        return tensors.no_tensor(name)

    def operate(self, frame: Frame, name: str, operands: list[Value], node: ast.AST) -> Value:
        """What an operator gives."""
        return operators.operate(frame, name, operands, node, Arguments(list(operands)))

    def compare(self, frame: Frame, left: Value, right: Value, node: ast.AST) -> Value:
        """What a comparison gives."""
        return operators.compare(frame, left, right, node)

    def compare_numbers(self, frame: Frame, left: Value, right: Value, node: ast.AST) -> None:
        """Numbers are compared, of which one may be made of scaled gradients."""
        operators.compared(frame, left, right, node)

    def add_numbers(self, frame: Frame, left: Value, right: Value, node: ast.AST) -> Units:
        """Numbers are added, of which one may be made of scaled gradients; the scale in their sum."""
        operators.added(frame, (left, right), node)
        return units_of(frozenset().union(*(each for each in (left, right) if not operators.is_epsilon(each))))

    def clear_where_none(self, frame: Frame, node: ast.If) -> None:
        """Look at what a branch clears that runs where there is a gradient."""
        gradients.clear_where_none(frame, node.test, node.body)

    def tests(self, values: Iterable[Value], node: ast.AST) -> None:
        """Something is asked of values: what depends on gradients goes by whether they have overflowed, too."""
        if any(map(reads_of, values)):
            self.asking_gradients.add(node)

    def asks_dtype(self, frame: Frame, values: list[Value], node: ast.Compare) -> None:
        """Note that code asks for a dtype which autocast has changed, or may have."""
        for dtype in (each for value in values for each in value if isinstance(each, Dtype)):
            if dtype.precision & LOW and dtype.regions:
                is_sure = not dtype.precision & ~LOW
                self.analysis.event(frame, Act.COMPARES_DTYPE, node, subject=one(dtype), is_sure=is_sure)

    def element(self, frame: Frame, tensor: Tensor, node: ast.AST) -> Value:
        """What iterating over a tensor gives."""
        return operators.element(frame, tensor, node)

    def subscript(self, frame: Frame, tensor: Tensor, index: Value, node: ast.Subscript) -> Value:
        """A part of a tensor."""
        return operators.subscript(frame, tensor, index, node)

    def index_store(self, frame: Frame, tensor: Tensor, index: Value, value: Value, node: ast.AST) -> None:
        """Store into a part of a tensor."""
        gradients.replaced(frame, tensor, (index, value), node)
        gradients.overwritten(frame, tensor)
        gradients.note_size(frame, value)
        operators.index_store(frame, tensor, index, value, node)

    def to_numpy(self, frame: Frame, value: Value, node: ast.AST) -> None:
        """Make an array of a value, or a part of one."""
        functions.to_numpy(frame, value, node)

    def taking_up(self, frame: Frame, value: Value, part: Value, node: ast.AST) -> Value:
        """A value whose tensors have got a part: what comes of them depends on what that does."""
        return operators.taking_up(frame, value, part, node)

    def in_place(self, frame: Frame, name: str, old: Value, by: Value, new: Value, node: ast.AST) -> Value:
        """What `x += y` leaves: a tensor keeps its precision."""
        known = [each for each in old if isinstance(each, Tensor)]
        if not known:
            return new
        old_one = known[0]
        ranges.follow(frame, name, (old, by), old_one.precision, node, is_switched=bool(old_one.tags & SWITCHED))
        if isinstance(node, ast.AugAssign):
            if only(by, Tensor):
                ranges.scaled_up(frame, name, (old, by), old_one.precision, node)
            ranges.summed_up(frame, name, old_one, [each for each in by if isinstance(each, Tensor)], node.value, node)
        # What is trained stays what it is, whatever is added to it: no loss, and no gradient.
        of_leaf = ("flows", "reach", "surely", "reads", "units") if old_one.leaf else ()
        kept = {name: getattr(old_one, name) for name in ("precision", "leaf", "rank", *of_leaf)}
        kept["regions"] = old_one.regions if old_one.precision & LOW else NOTHING
        found = NEVER
        for each in new:
            found = join(found, one(each.but(**kept) if isinstance(each, Tensor) else each))
        return found

    def with_low_weights(self, frame: Frame, owner: Atom) -> list[Atom]:
        """A module and parts of it whose parameters were cast to half precision, be it on one way only."""
        return modules.with_low_weights(frame, owner)

    def part_of_array(self, array: Some) -> Value:
        """What is taken from an array by an index, or in a loop."""
        return arrays.part(array)

    def with_array(self, frame: Frame, left: Value, right: Value, node: ast.AST) -> Value:
        """What an operator makes of an array and something else."""
        return arrays.combined(frame, left, right, node)

    def array_method(self, frame: Frame, call: Native, args: Arguments, node: ast.AST) -> Value:
        """What a method of an array gives."""
        return arrays.method(frame, call, args, node)

    def array_stored(self, frame: Frame, owners: Value, value: Value, node: ast.AST) -> None:
        """An object of another package gets an array as an element: it may not take one in half precision."""
        if any(isinstance(each, Some) and each.halves for each in value) and (name := unread.name_of(frame, owners)):
            arrays.given(frame, [value], node, name)

    def note_size(self, frame: Frame, value: Value) -> None:
        """Something is made of a value that may show its size."""
        gradients.note_size(frame, value)

    def gauge(self, frame: Frame, value: Value, node: ast.AST, why: str) -> None:
        """Something is made of a value that shows its size."""
        gradients.gauge(frame, value, node, why)

    def tested(self, frame: Frame, value: Value, node: ast.AST) -> None:
        """A value is asked for what it is, which its size does not change."""

    def updated_by_hand(self, frame: Frame, old: Value, operand: Value, node: ast.AST) -> None:
        """Something is changed in place."""
        gradients.updated_by_hand(frame, old, operand, node)

    def works(self, frame: Frame) -> None:
        """Note that something is, or may be, computed in low precision."""
        self.works_in(frame.now.context)

    def works_in(self, context: Context) -> None:
        """The same of the regions that are on in a context."""
        cuda = context.cuda
        if cuda.may_be_on:
            self.working |= cuda.regions | cuda.outermost

    def cast_weight(self, frame: Frame, leaf: Atom, recorded: int, site: Site) -> None:
        """Autocast casts a weight."""
        weight_casts.cast_weight(frame, leaf, recorded, site)

    def note_number(self, frame: Frame, name: str, number: ast.expr) -> None:
        """A variable gets a value."""
        weight_casts.note_number(frame, name, number)

    def turn_of_loop(self, frame: Frame, node: ast.For | ast.AsyncFor) -> Turn | None:
        """The layers that a loop takes one after the other."""
        return weight_casts.turn_of_loop(frame, node)

    def leaves_of(self, frame: Frame, atom: Atom) -> frozenset[Atom]:
        """The leaves of gradients that the parameters of a module are."""
        return modules.leaves(frame, atom)

    @staticmethod
    def _own(frame: Frame) -> Value:
        """The object that a method is one of: what a constructor gives it is in the place of nothing that it had."""
        first = frame.code.parameters[:1]
        return frame.now.names.get(first[0].arg, NEVER) if first else NEVER

    def attribute_stored(self, frame: Frame, owner: Atom, name: str, value: Value, node: ast.AST) -> None:
        """An object's attribute gets a value; what it was is asked, and so depended on, only where that matters."""
        if frame.code.name != "__init__":
            self.stored.update(born for each in tensors_in(value) for born in each.born)
        is_rough = any(each.tags & ROUGH for each in tensors_in(value))
        if is_rough and not (frame.code.name == "__init__" and owner in self._own(frame)):
            for each in tensors_in(frame.read(owner, name)):
                gradients.updated(frame, each, value, node)
        if isinstance(owner, Obj) and is_module_name(owner.external):
            parameters = frozenset(each for each in value if isinstance(each, Tensor) and each.leaf)
            modules.made_low(frame, [owner], parameters, node)
        if name == "param_groups" and isinstance(owner, Obj) and isinstance(owner.made_of, Class):
            gradients.wrap_optimizer(frame, owner, value, node)
        regions = frozenset(each for each in value if isinstance(each, Obj) and each.external in switches.AUTOCAST)
        if not regions <= self.regions_kept.get(name, NEVER):
            self.regions_kept[name] = self.regions_kept.get(name, NEVER) | regions
            self.analysis.heap.signal(_ASKED, f"with .{name}")
        made = [each.path for each in value if isinstance(each, Opaque) and each.made_at and _is_result(each)]
        if made and isinstance(owner, Obj) and attributes.is_module(frame, owner):
            for path in made:
                self._ask(path, _KEPT)

    def kept_as_regions(self, frame: Frame, name: str) -> Value:
        """The regions that objects of the project keep under a name."""
        self.analysis.heap.read(_ASKED, f"with .{name}", frame.task)
        return self.regions_kept.get(name, NEVER)

    def kept_elsewhere(self, frame: Frame, owner: Atom, value: Value, node: ast.AST) -> None:
        """Something is stored as an attribute of what nobody has read, or looks into: its code can get at it."""
        is_own = isinstance(owner, Obj) and isinstance(owner.made_of, Class)
        name = owner.name if isinstance(owner, External) else "" if is_own else unread.name_of(frame, one(owner))
        if isinstance(owner, Opaque) or (name and not unread.is_known(name)):
            gradients.put_out_of_sight(frame, value, node)

    def tensor_stored(self, frame: Frame, tensor: Tensor, name: str, value: Value, node: ast.AST) -> None:
        """An attribute of a tensor is stored: `p.grad = None` clears a gradient, `p.data = x` changes a precision."""
        if name in ("grad", "data"):
            gradients.stored(frame, tensor, name, value, node)
        if name == "data":
            low = tensor_of(value)
            if low is not None and low.may_be_low and low.regions and (tensor.leaf or tensor.tags & BUFFER):
                self.analysis.event(frame, Act.KEPT_LOW, node, tensor=low)
            modules.made_low(frame, [each.owner for each in tensor.leaf if isinstance(each, Part)], value, node)
        if name == "grad" and tensor.leaf and (value == NONE_VALUE or self.are_zeros(value)):
            gradients.cleared(frame, tensor.leaf, node, node, is_gone=value == NONE_VALUE)
        if name == "requires_grad" and isinstance(node, ast.Attribute):
            assign(frame, node.value, tensors.method(frame, tensor, "requires_grad_", Arguments([value]), node), node)

    def note_filled(self, name: str, site: Site) -> None:
        """Note where an operator of a name makes tensors of nothing but zeros or ones."""
        if name in table.ZEROS:
            self.zeros.add(site)
        elif name in table.ONES:
            self.ones.add(site)

    def are_zeros(self, value: Value) -> bool:
        """Whether a value is nothing but tensors that were made of zeros."""
        return bool(value) and all(isinstance(each, Tensor) and each.born and each.born <= self.zeros for each in value)

    # Objects

    def object_attribute(self, frame: Frame, owner: Obj, name: str, node: ast.AST) -> Value:
        """An attribute of an object of another package's class."""
        kind = owner.external
        if owner.made_of in containers.KINDS:
            return one(Native(name, owner))
        if is_module_name(kind) or kind in modules.WRAPPERS:
            if name == "module" and kind in modules.WRAPPERS:
                return NEVER
            stored = frame.read(owner, name)
            return NEVER if stored else modules.attribute(frame, owner, name)
        if gradients.is_optimizer_class(kind) and name == "param_groups":
            return gradients.groups_of(frame, owner)
        if "lr_scheduler" in kind and name == "optimizer":
            return NEVER
        if kind == CONTEXT_OF_FUNCTION:
            return self._of_context(frame, owner, name)
        return distributions.attribute(frame, owner, name, node) or one(Native(name, owner))

    @staticmethod
    def _of_context(frame: Frame, owner: Obj, name: str) -> Value:
        """An attribute of what `forward` hands to `backward`."""
        if name == "saved_tensors":
            return frame.read(owner, _SAVED_TENSORS) or UNKNOWN
        if name == "needs_input_grad":
            return one(Tup((), TRUTHS))
        if name in ("save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads"):
            return one(Native(name, owner))
        return NEVER if frame.read(owner, name) else UNKNOWN

    def class_attribute(self, frame: Frame, base: str, holder: Atom, name: str, missing: bool) -> Value:
        """What a class of the project takes from one of another package."""
        if not missing:
            return NEVER
        if base in ("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"):
            return one(Native(name, holder)) if name in ("__init__", "__new__") else NEVER
        if gradients.is_optimizer_class(base) and name == "param_groups" and isinstance(holder, Obj):
            return gradients.groups_of(frame, holder)
        kind = holder.made_of if isinstance(holder, Obj) else holder
        if is_module_name(base) or gradients.is_optimizer_class(base) or base in functions.SCALERS:
            if name in ("__call__", "__getitem__", "__iter__", "__enter__", "__getattr__", "__post_init__"):
                return one(Native(name, holder)) if name == "__call__" else NEVER
            if (
                isinstance(holder, Obj)
                and is_module_name(base)
                and base != MODULE
                and base not in ("torch.nn.Sequential",)
            ):
                is_own = base.startswith("torch.") or name == "forward" or self.is_of_every_module(frame, kind, name)
                return modules.attribute(frame, holder, name) if is_own else one(Opaque((holder, f".{name}")))
            return TRUTHS if name == "training" else one(Native(name, holder))
        if base == FUNCTION and name == "apply":
            return one(Native("apply", holder))
        if base in containers.BASES and (given := containers.inherited(frame, holder, base, name)):
            return given
        if base.startswith(("builtins.", "abc.", "typing.", "enum.")):
            return one(Native(name, holder)) if not name.startswith("__") or name == "__init__" else NEVER
        if name.startswith("__") and name != "__init__":
            return NEVER
        is_method = name == "__init__" or self.is_of_every_module(frame, kind, name)
        return one(Native(name, holder)) if is_method else one(Opaque((holder, f".{name}")))

    @staticmethod
    def is_of_every_module(frame: Frame, kind: Atom, name: str) -> bool:
        """Whether the objects of a class are modules, and a name is that of what all of these do."""
        return name in modules.OF_EVERY_MODULE and is_module_class(frame, kind)

    def made_of_base(self, frame: Frame, owner: Obj, bases: list[str], args: Arguments, node: ast.AST) -> None:
        """An object of a class of the project that leaves its making to another package's class."""
        if any(map(gradients.is_optimizer_class, bases)):
            gradients.make_optimizer(frame, owner, args, node)
        elif scalers := functions.SCALERS.intersection(bases):
            gradients.make_scaler(frame, owner, min(scalers), args, node)
        elif "torch.nn.Sequential" in bases:
            modules.fill(frame, owner, args)
        elif frame.read(owner, containers.ELEMENTS):
            kind = next(containers.BASES[base][0] for base in bases if base in containers.BASES)
            if any(args.all()):
                made_here = self.analysis.call(frame, one(External(f"{kind.__module__}.{kind.__name__}")), args, node)
                frame.write(owner, containers.ELEMENTS, made_here)
        else:
            modules.hold_arguments(frame, owner, args)

    def iterate(self, frame: Frame, owner: Obj, node: ast.AST) -> Value:
        """What iterating over an object of another package's class gives."""
        if is_module_name(owner.external) or attributes.is_module(frame, owner):
            return modules.iterate(frame, owner)
        if owner.external.endswith("DataLoader"):
            rows = functions.batch(frame, owner, node)
            return rows or one(Opaque((owner, "[]"), functions.some_rows(frame, owner, node)))
        held = frame.read(owner, containers.ELEMENTS)
        return containers.elements(frame, held, node) if held else UNKNOWN

    def get_item(self, frame: Frame, owner: Obj, index: Value, node: ast.AST) -> Value:
        """An element of an object of another package's class."""
        if is_module_name(owner.external) or attributes.is_module(frame, owner):
            return modules.get_item(frame, owner, index, node)
        held = frame.read(owner, containers.ELEMENTS)
        if held:
            return containers.item(frame, held, index, node)
        return containers.contents(frame, owner) or UNKNOWN

    # Calls

    def function(self, frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
        """A call of something of another package."""
        found = functions.call(frame, name, args, node)
        return self._made_unread(frame, External(name), args, found, node)

    @staticmethod
    def _made_unread(frame: Frame, callee: Atom, args: Arguments, found: Value, node: ast.AST) -> Value:
        """What a call of code gives that nobody has read, which may be a model."""
        made = unread.registered(frame, callee, args, found, node)
        modules.made_in_dtype(frame, made, args, node)
        return made

    def run_module(self, frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
        """A module of the project is called."""
        return modules.run(frame, owner, args, node)

    def call_object(self, frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
        """An object of another package's class is called."""
        if owner.external == "functools.partial":
            given = self.analysis.partials.get(owner, Arguments())
            whole = Arguments(
                [*given.positional, *args.positional], args.rest, {**given.keywords, **args.keywords}, args.others,
                [*([None] * len(given.positional)), *args.nodes], args.keyword_nodes,
            )  # fmt: skip
            return self.analysis.call(frame, frame.read(owner, "func"), whole, node)
        if owner.external in functions.AS_LAYERS:
            name, words = functions.AS_LAYERS[owner.external]
            kept = [frame.read(owner, f"<{at}>") or frame.read(owner, f"<{word}>") for at, word in enumerate(words)]
            return self.function(frame, name, Arguments([*args.positional[:1], *kept]), node)
        if owner.external == functions.NAMED_TUPLE:
            return functions.named_tuple(frame, owner, args, node)
        if switches.is_switch(owner.external) and args.positional:
            return switches.decorated(frame, owner, args.positional[0])
        return modules.call_object(frame, owner, args, node)

    def _out_of_sight(self, frame: Frame, args: Arguments, node: ast.AST) -> None:
        """What a call is given goes where nobody follows it."""
        for value in args.all():
            gradients.gauge(frame, value, node, OUT_OF_SIGHT)
            gradients.handed_on(frame, value, node)
            self.analysis.escaped(frame, value)

    def call_unknown(self, frame: Frame, callee: Opaque, args: Arguments, node: ast.AST) -> Value:
        """A call of something unknown: a module perhaps, or anything."""
        found = self._made_unread(frame, callee, args, self._call_unknown(frame, callee, args, node), node)
        modules.run_hooks_of_unread(frame, callee, args, found, node)
        return found

    def call_value(self, frame: Frame, args: Arguments, node: ast.AST) -> Value:
        """A call of a tensor or a number, for which something unknown was taken."""
        self._out_of_sight(frame, args, node)
        return modules.unknown_result(frame, UNKNOWN, args, node)

    def _call_unknown(self, frame: Frame, callee: Opaque, args: Arguments, node: ast.AST) -> Value:
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and takes_gradients(func.attr):
            owner = Opaque(callee.path[:-1])
            return gradients.register(frame, owner, func.attr, args, node, frozenset({whole_of(owner)}))
        if len(callee.path) > 1 and str(callee.path[-1]).startswith(".") and callee.hint != MODULE:
            found = self._method_of_unknown(
                frame, Opaque(callee.path[:-1]), str(callee.path[-1])[1:], callee, args, node
            )
            if self._has_weights(frame, callee, _RUN):
                weight_casts.cast_of_unknown(frame, callee, node)
            kind = callee.path[0] if len(callee.path) == 2 else None
            return join(found, self._made_out_of_sight(frame, kind, node)) if isinstance(kind, Class) else found
        name = func.attr if isinstance(func, ast.Attribute) and not callee.path else ""
        is_handed_back = name in modules._HANDS_BACK
        if not is_handed_back and (found := self._as_of_tensor(frame, Opaque(), name, args, node)):
            return found
        self._out_of_sight(frame, args, node)
        is_module = self.is_like_module(frame, callee)
        if not is_module and self.is_kept(frame, callee):
            self._ask(callee.path, _RUN)
            weight_casts.cast_of_unknown(frame, callee, node)
        if callee.path[1:] == ("()",) and any(tensors_in(value) for value in args.all()):
            self._ask(callee.path, _ON_TENSORS)
        computes = not is_handed_back
        return modules.unknown_result(frame, one(callee), args, node, is_module=is_module, computes=computes)

    def is_kept(self, frame: Frame, unknown: Opaque) -> bool:
        """Whether a module keeps something unknown, or what that is taken from."""
        return self._has_weights(frame, unknown, _KEPT)

    def is_moved(self, frame: Frame, unknown: Opaque) -> bool:
        """Whether something unknown is an object of a class, and goes to a device as modules do."""
        self.analysis.heap.read(_ASKED, ".".join(map(str, unknown.path)), frame.task)
        is_object = _is_result(unknown) and unknown.name[:1].isupper()
        return is_object and not self.asked.get(unknown.path, set()).isdisjoint(("cuda", "to"))

    def _has_weights(self, frame: Frame, unknown: Opaque, seen: str) -> bool:
        """Whether something unknown may have weights, or be a method of what has: it is kept by a module."""
        for end in range(2, len(unknown.path) + 1):
            self.analysis.heap.read(_ASKED, ".".join(map(str, unknown.path[:end])), frame.task)
            if self.asked.get(unknown.path[:end], set()) >= {_KEPT, seen}:
                return True
        return False

    def _ask(self, path: tuple[object, ...], what: str) -> None:
        """Note what is done with something unknown."""
        asked = self.asked.setdefault(path, set())
        if what not in asked:
            asked.add(what)
            self.analysis.heap.signal(_ASKED, ".".join(map(str, path)))

    def _made_out_of_sight(self, frame: Frame, kind: Class, node: ast.AST) -> Value:
        """What a class method of a base that was not read may make: `Model.from_pretrained(path)`."""
        before = frame.now.copy()
        made = self.analysis.call(frame, one(kind), Arguments(rest=UNKNOWN, others=UNKNOWN), node)
        if frame.is_dead:  # its constructor takes something else
            frame.is_dead, frame.state = False, before
        return made

    def given_back(self, frame: Frame, value: Value, to: str, node: ast.AST) -> None:
        """What a function of the project gives is for code that is not read, and runs it: that gets low values so."""
        for each in tensors_in(gradients.all_in(frame, value)):
            if each.may_be_low and each.regions:
                is_sure = each.is_low or bool(each.tags & SWITCHED)
                self.analysis.event(frame, Act.FOREIGN, node, tensor=each, why=to, is_sure=is_sure)

    def returned(self, frame: Frame, value: Value, node: ast.AST) -> None:
        """A function that updates a scaler gives something back: what it has read of scaled gradients is a measure.

        The scale is another one by then, so that nobody can take it out any more.
        """
        is_read = bool(reads_of(gradients.all_in(frame, value)))
        events = self.analysis.events.values() if is_read else ()
        if any(each.act is Act.SCALER_STEP and each.code is frame.code for each in events):
            gradients.gauge(frame, value, node, "returned")

    def has_what_steps(self, frame: Frame, values: Iterable[Value]) -> bool:
        """Whether some of the values are or hold an optimizer or a scaler, or an object of the project that has one."""
        return any(gradients.has_what_steps(frame, each) for each in values)

    def call_not_followed(self, frame: Frame, function: Func, args: Arguments, node: ast.AST) -> Value:
        """A call of a function of the project that is not followed into."""
        owner = None
        code = function.code
        if self.analysis.has_come_to_its_end_for(code):
            given = (each for value in args.all() for each in value)
            is_concerned = code.name == "__init__" or any(gradients.has_gradients(frame, each) for each in given)
            if is_concerned or frame.now.context.cuda.may_be_on:
                self.analysis.note_unseen(code)
        self._out_of_sight(frame, args, node)
        for atom in args.positional[0] if args.positional else NEVER:
            if isinstance(atom, Obj) and isinstance(atom.made_of, Class) and atom.made_of.code is function.code.parent:
                # What a constructor makes is what everybody asks for; what other methods store is seldom new, unless
                # nothing was there yet.
                owner = self.hide(frame, atom) if function.code.name == "__init__" else Opaque((atom, ".*"))
                self._may_change_constants(frame, atom, atom.made_of.code)
        if owner is not None and self.is_data_set(frame, owner):
            return one(Opaque((frame.site(node), "()"), SOME_TENSOR.but(place=CPU, flows=CUT)))
        is_module = owner is not None and function.code.name in ("forward", "__call__")
        found = modules.unknown_result(frame, one(owner or Opaque()), args, node, is_module=is_module)
        return modules.depending_on(frame, found, owner.path[0]) if owner is not None and is_module else found

    @staticmethod
    def is_data_set(frame: Frame, owner: Opaque) -> bool:
        """Whether an object into which nobody looks gives what is read: on the CPU, with no gradient."""
        made_of = owner.path[0].made_of
        return not DATA_SETS.isdisjoint(external_bases(frame, made_of))

    def hide(self, frame: Frame, owner: Obj) -> Opaque:
        """An object into which nobody looks: anything may be in it."""
        inside = Opaque((owner, ".*"))
        frame.write(owner, containers.ANY_ATTRIBUTE, one(inside), strong=False)
        return inside

    def _may_change_constants(self, frame: Frame, owner: Obj, kind: Code) -> None:
        """Let a method into which nobody looks put something in the place of the constants that methods replace."""
        methods = [each for each in kind.inner if each.name != "__init__"]
        for name in frame.analysis.heap.names(owner, frame.task):
            held = frame.read(owner, name)
            is_replaced = any(each.stores(name) for each in methods)
            if held and is_replaced and all(isinstance(each, Const) for each in held):
                frame.write(owner, name, one(Opaque((owner, f".{name}"))), strong=False)

    def is_like_module(self, frame: Frame, unknown: Opaque) -> bool:
        """Whether something unknown is used like a module: the evidence of last resort, but for its name."""
        asked = self.asked.get(unknown.path, set())
        self.analysis.heap.read(_ASKED, ".".join(map(str, unknown.path)), frame.task)
        if unknown.hint:
            return is_module_name(unknown.hint)
        return bool(asked & _MODULE_EVIDENCE) or _named_like_module(unknown.name)

    def is_used_as_module(self, frame: Frame, unknown: Opaque) -> bool:
        """Whether what is done with something unknown shows that it is a module: it may be one without parameters."""
        is_like_module = self.is_like_module(frame, unknown)
        return is_like_module or not self.asked.get(unknown.path, set()).isdisjoint((_RUN, _ON_TENSORS))

    def _method_of_unknown(
        self, frame: Frame, owner: Opaque, name: str, callee: Opaque, args: Arguments, node: ast.AST
    ) -> Value:
        """A method of something unknown: what it is shows in what is done with it."""
        self.analysis.heap.read(_ASKED, ".".join(map(str, owner.path)), frame.task)
        self._ask(owner.path, name)
        asked = self.asked[owner.path]
        self._declared(frame, name, args, node)  # be it a group of a parser's, or a parser of another file
        if name in modules._HANDS_BACK:
            modules.cast_weights(frame, [owner], name, args, node)
        registry = self.registry
        word = owner.name.lower()
        is_scaler = (
            owner in registry.scalers
            or ("scaler" in word and bool(asked & {"scale", "unscale_"}))
            or owner.hint in functions.SCALERS
        )
        if name in _SCALER_METHODS | {"step", "state_dict", "load_state_dict"} and is_scaler:
            return gradients.scaler_method(frame, owner, name, args, node)
        is_optimizer = (
            owner in registry.optimizers
            or bool(asked & {"zero_grad", "add_param_group"} and "step" in asked)
            or "optim" in word
            or word.strip(".").startswith("opt")
        )
        if name == "step" and not is_optimizer and is_scheduler_name(word):
            return NONE_VALUE
        if is_optimizer:
            gradients.note_made_unread(frame, owner, callee.shares)
        # No optimizer's `step()` takes a scaler: a wrapper's does, which steps by it what nobody sees.
        is_wrapper = any(each in registry.scalers for value in args.all() for each in value)
        if name in ("step", "add_param_group") and is_optimizer and "sched" not in word and not is_wrapper:
            return gradients.optimizer_method(frame, owner, name, args, node)
        if name == "zero_grad":
            if is_optimizer:
                gradients.clear_unknown(frame, owner, node)
                return NONE_VALUE
            gradients.clear_leaves(frame, frozenset({whole_of(owner)}), node)
            return NONE_VALUE
        if name in ("state_dict", "load_state_dict"):
            act = Act.SAVED if name == "state_dict" else Act.LOADED
            facts = {"optimizer": one(owner)} if is_optimizer else {"subject": one(owner)}
            self.analysis.event(frame, act, node, **facts)
            return gradients.state_at(frame, node)
        if name in ("parameters", "named_parameters"):
            leaf = made(F32, flows=FLOWS, leaf=frozenset({whole_of(owner)}))
            inside = one(leaf) if name == "parameters" else one(Tup((some("str"), one(leaf))))
            return one(Tup((), inside))
        if name in ("modules", "children", "named_modules", "named_children"):
            return one(Tup((), one(Opaque((*owner.path[:4], f".{name}()")))))
        if name == "backward":
            loss = one(SOME_TENSOR) if not args.positional else args.positional[0]
            if args.positional:
                gradients.handed_on(frame, one(owner), node)
            gradients.backward(frame, loss, args.keywords.get("gradient"), node)
            return NONE_VALUE
        if (
            name in modules._HANDS_BACK
            and not args.keywords.get("dtype")
            and name not in ("float", "half", "double", "type")
        ):
            tensor = owner.tensor
            self.note_place(ANYWHERE if name in ("cuda", "xpu") else 0)
            self._unread_moved(frame, owner, name, args)
            if tensor is None and name == "to" and self._names_precision(args):
                tensor = None if self.is_used_as_module(frame, owner) else tensors.converted(frame, SOME_TENSOR, args)
                return one(owner if tensor is None else owner.with_tensor(tensor))
            return one(owner) if tensor is None else tensors.method(frame, tensor, name, args, node)
        is_module = self.is_used_as_module(frame, owner)
        # A module that is cast can be called as before; what else it has by the name of a tensor's method, as `clone()`
        # is one, is its own.
        if found := self._as_of_tensor(frame, owner, name, args, node):
            if not is_module:
                return found
            if name in modules._HANDS_BACK:
                return one(owner)
        if name in ("append", "update", "add") and not owner.path:
            return NONE_VALUE
        if name == modules.REGISTERING:
            modules.hook_unread(frame, owner, args)
        self._out_of_sight(frame, args, node)
        # It may be of another package, as what `gymnasium.make()` gives is, made here or handed in; or only keep it.
        package = unread.name_of(frame, one(callee))
        if package or not any(hasattr(kind, name) for kind in (list, dict, set)):
            arrays.given(frame, args.all(), node, package or name)
        gradients.handed_on(frame, one(owner), node)
        if name in (
            "items",
            "keys",
            "values",
            "get",
            "pop",
            "split",
            "strip",
            "lower",
            "upper",
            "replace",
            "format",
            "join",
        ):
            return one(callee.part("()"))
        computes = name not in modules._HANDS_BACK
        return modules.unknown_result(frame, one(callee), args, node, is_module=name == "forward", computes=computes)

    def _as_of_tensor(self, frame: Frame, owner: Opaque, name: str, args: Arguments, node: ast.AST) -> Value:
        """What a method of something unknown gives, where it has the name of one of tensors; else nothing."""
        if name in ("item", "tolist"):
            return some("float")
        if plain := tensors.no_tensor_of_call(name, args):
            return plain
        is_tensors = name == "detach" or any(name in each for each in (table.METHODS, table.DTYPE_METHODS, table.LIKE))
        if is_tensors and not self._takes_no_tensor(frame, name, args):
            return tensors.method(frame, SOME_TENSOR.but(reach=frozenset({whole_of(owner)})), name, args, node)
        return NEVER

    def _takes_no_tensor(self, frame: Frame, method: str, args: Arguments) -> bool:
        """Whether a method that has the name of one of tensors is of something else: it is given what none takes.

        That is anything at all, for some, and a network or an optimizer for each.
        """
        if method in table.TAKING_NOTHING and any(args.all()):
            return True
        inside = [each for value in args.all() for each in gradients.all_in(frame, value) if isinstance(each, Obj)]
        return not self.registry.optimizers.keys().isdisjoint(inside) or any(
            is_module_name(each.external) or attributes.is_module(frame, each) for each in inside
        )

    def method(self, frame: Frame, call: Native, args: Arguments, node: ast.AST) -> Value:
        """A call of a method of something that is not the project's."""
        owner, name = call.owner, call.name
        if isinstance(owner, Tensor):
            return tensors.method(frame, owner, name, args, node)
        if isinstance(owner, Opaque) and self._takes_no_tensor(frame, name, args):
            return self._call_unknown(frame, owner.part(f".{name}"), args, node)
        if isinstance(owner, Opaque):
            found = tensors.method(frame, owner.tensor or SOME_TENSOR, name, args, node)
            if name not in modules._HANDS_BACK:
                return found
            # It may be a module as well as a tensor: its weights are cast, and what it hands back can be called.
            if self.is_used_as_module(frame, owner):
                self._unread_moved(frame, owner, name, args)
            modules.cast_weights(frame, [owner], name, args, node)
            return frozenset(owner.with_tensor(each) if isinstance(each, Tensor) else each for each in found)
        kind = owner.external if isinstance(owner, Obj) else ""
        bases = (
            list(external_bases(frame, owner.made_of))
            if isinstance(owner, Obj) and isinstance(owner.made_of, Class)
            else [kind]
        )
        if isinstance(owner, Class):
            bases = list(external_bases(frame, owner))
        if kind == CONTEXT_OF_FUNCTION and isinstance(owner, Obj):
            if name == "save_for_backward":
                saved = one(Tup((), args.rest)) if args.rest else tup(args.positional)
                frame.write(owner, _SAVED_TENSORS, saved, strong=False)
            return NONE_VALUE
        of_class = owner.made_of if isinstance(owner, Obj) else owner
        if name == "apply" and FUNCTION in bases and isinstance(of_class, Class):
            return self._own_function(frame, of_class, args, node)
        if name == "__init__":
            if isinstance(owner, Obj):
                self.made_of_base(frame, owner, bases, args, node)
            return NONE_VALUE
        if any(map(gradients.is_optimizer_class, bases)):
            of_torch = isinstance(owner, Obj) and isinstance(owner.made_of, Class) and lineage(frame, owner.made_of)
            if name == "backward" and of_torch and all(map(_is_of_project_or_torch, of_torch)):
                frame.is_dead = True  # there is no such method
                return NEVER
            return gradients.optimizer_method(frame, owner, name, args, node)
        if any(base in functions.SCALERS for base in bases):
            return gradients.scaler_method(frame, owner, name, args, node)
        is_transform = kind.startswith(TRANSFORMS) and name in modules.OF_EVERY_MODULE
        if any(map(is_module_name, bases)) or kind in modules.WRAPPERS or is_transform:
            found = modules.method(frame, owner, name, args, node)
            is_new = name == "__new__"  # makes one that its `__init__` is run for behind it, with what is given there
            if isinstance(owner, Class) and not is_new and not all(each.startswith("torch.") for each in bases):
                given = args.positional[0] if args.positional else NEVER
                if not any(isinstance(each, Obj) and each.made_of is owner for each in given):
                    found = join(found, self._made_out_of_sight(frame, owner, node))
                    modules.made_in_dtype(frame, found, args, node)
            return found
        if name in ("__enter__", "__exit__") and isinstance(owner, Obj) and switches.is_switch(kind):
            if name == "__enter__":
                self.entered[owner] = frame.now.context
                frame.now.context, value = switches.context_of(frame, owner, frame.now.context, node)
                return value
            frame.now.context = self.entered.get(owner, frame.now.context)
            return NONE_VALUE
        if "lr_scheduler" in kind or "swa_utils" in kind:
            return some("float") if name != "step" else NONE_VALUE
        if name in ("start", "join", "close", "set_epoch"):
            return NONE_VALUE
        if name == "enter_context" and args.positional:
            for each in args.positional[0]:
                frame.now.context, _ = switches.context_of(frame, each, frame.now.context, node)
            return UNKNOWN
        if any(each.startswith(command_line.PARSERS) for each in bases):
            self._declared(frame, name, args, node)
        of_distribution = distributions.method(frame, owner, name, args, node) if isinstance(owner, Obj) else NEVER
        if of_distribution:
            return of_distribution
        for value in args.all():
            gradients.gauge(frame, value, node, f"given to {kind}")
            if not kind.startswith(("torch.", "builtins.", "logging", "argparse")):
                gradients.handed_on(frame, value, node)
            self.analysis.escaped(frame, value)
        if name in ("parse_args", "parse_known_args"):
            space = one(command_line.parsed(frame, node))
            return space if name == "parse_args" else one(Tup((space, UNKNOWN)))
        of = unread.name_of(frame, one(owner))
        unread.note_small(frame, of, args, node)
        found = modules.unknown_result(frame, NEVER, args, node, name=of and f"{of}.{name}", owner=one(owner))
        return self._made_unread(frame, call, args, found, node)

    @staticmethod
    def _declared(frame: Frame, name: str, args: Arguments, node: ast.AST) -> None:
        if name == "add_argument":
            command_line.declare(frame, args, node)
        elif name == "set_defaults":
            command_line.defaults(frame, args)

    def _own_function(self, frame: Frame, owner: Class, args: Arguments, node: ast.AST) -> Value:
        """`apply` of a function of autograd's own: `forward` runs without recording, `backward` without autocast."""
        forward = attributes.load_of_class(frame, owner, owner, None, "forward")
        base, before, after = frame.now.context, frame.now, None
        found = NEVER
        for way, on_it in _in_one_precision(args):
            frame.state = before.copy()
            found = join(found, self._both_directions(frame, owner, forward, way, on_it, node))
            after = meet(after, frame.state)
        frame.state = after
        given = [each for value in args.all() for each in tensors_in(value)]
        flows = any(each.flows & FLOWS for each in given) and base.gradients & 1
        reach = NOTHING.union(*(each.reach | each.leaf for each in given))
        result = NEVER
        for each in found or UNKNOWN:
            tensor = each.tensor if isinstance(each, Opaque) else each
            if isinstance(tensor, Tensor) and flows:
                surely = tensor.surely.union(*(each.sure_leaves for each in given))
                tags = tensor.tags | operators.halved(frame, given, reach)
                normed = tensor.normed | operators.normed_of(given)
                tensor = tensor.but(flows=FLOWS, leaf=NOTHING, reach=reach, surely=surely, tags=tags, normed=normed)
                recorded = each.with_tensor(tensor) if isinstance(each, Opaque) else tensor
                result = join(result, one(recorded))
            else:
                result = join(result, one(each))
        return result

    def _both_directions(
        self, frame: Frame, owner: Class, forward: Value, way: tuple[Site, ...], args: Arguments, node: ast.AST
    ) -> Value:
        """What `forward` gives, with `backward` run on the gradient of that.

        Args:
            way: what tells this from other runs of both at the same place.
        """
        base, found = frame.now.context, [NEVER]
        ctx = Obj(frame.site(node), (*frame.context_of_objects, *way), External(CONTEXT_OF_FUNCTION))

        def body() -> None:
            found[0] = self.analysis.call(frame, forward, args.behind(one(ctx)), node)

        under(frame, Context(base.cuda, base.cpu, OFF, True), body)
        frame.is_dead = False
        if base.gradients & 1 and frame.state is not None:
            self._backward_of(frame, owner, ctx, found[0], forward, node)
        return found[0]

    def _backward_of(self, frame: Frame, owner: Class, ctx: Obj, result: Value, forward: Value, node: ast.AST) -> None:
        """`backward` of a function of autograd's own gets gradients in the precision of what `forward` gave."""
        backward = attributes.load_of_class(frame, owner, owner, None, "backward")
        if not backward or not all(isinstance(each, (Func, Wrapped)) for each in backward):
            return
        context = switches.context_of_backward(frame, forward, backward)
        whole = only(result, Tup)
        outputs = whole.items if whole is not None and whole.rest is None else (result,)
        given = [
            frozenset(_gradient_like(each) if isinstance(each, Tensor) else Opaque() for each in value) or UNKNOWN
            for value in outputs
        ]
        before = frame.now.copy()
        under(frame, context, lambda: self._call_backward(frame, backward, [one(ctx), *given], node))
        frame.state, frame.is_dead = before, False

    def _call_backward(self, frame: Frame, backward: Value, given: list[Value], node: ast.AST) -> None:
        self.analysis.call(frame, backward, Arguments(given), node)

    # Contexts

    def context_of(self, frame: Frame, atom: Atom | Tensor, base: Context, node: ast.AST) -> tuple[Context, Value]:
        """The context that entering something gives."""
        return switches.context_of(frame, atom, base, node)

    def cast_under(self, frame: Frame, atom: Atom, args: Arguments) -> Arguments:
        """What a function gets that runs in a context."""
        return switches.cast_under(frame, atom, args)

    def decorated(self, frame: Frame, atom: Atom, value: Value, node: ast.AST) -> Value:
        """What a decorator of another package makes of a function."""
        unread.register(frame, one(atom), value)
        name = atom.name if isinstance(atom, External) else atom.external if isinstance(atom, Obj) else ""
        if name in switches.GRAD_MODES or name in switches.AUTOCAST or name in switches.CUSTOM:
            return switches.decorated(frame, atom, value)
        if name in ("contextlib.contextmanager", "contextlib.asynccontextmanager"):
            return frozenset(Wrapped("contextmanager", each) for each in value if isinstance(each, (Func, Wrapped)))
        if name in ("builtins.property", "functools.cached_property", "abc.abstractproperty"):
            return frozenset(Wrapped("property", each) for each in value if isinstance(each, (Func, Wrapped)))
        if name in ("builtins.staticmethod", "builtins.classmethod"):
            kind = name.removeprefix("builtins.")
            return frozenset(Wrapped(kind, each) for each in value if isinstance(each, (Func, Wrapped)))
        return value


def _in_one_precision(args: Arguments) -> Iterator[tuple[tuple[Site, ...], Arguments]]:
    """The arguments as they come on each of the ways that join before a call, with a name for the way.

    What `backward` multiplies is of the precision of its own way, and no cast of a value on all ways helps those that
    raise. Ways are told apart for one argument at a time: of two, nobody knows which come together.
    """
    is_split = False
    for index, value in enumerate(args.positional):
        others = frozenset(each for each in value if not isinstance(each, (Tensor, Opaque)))
        ways = {kind: each for kind in (LOW, F32, ~(LOW | F32)) if (each := _of_precision(value, kind))}
        for kind, each in ways.items() if len(ways) > 1 else ():
            is_split = True
            given = [*args.positional[:index], others | each, *args.positional[index + 1 :]]
            yield (Site(f"{index}: {kind}", 0, 0, 0, 0),), replace(args, positional=given)
    if not is_split:
        yield (), args


def _place_named(atom: object) -> int:
    """The place that an atom names, or may name; of mps, which no tensor's place tells from CUDA, that. 0 for none."""
    if isinstance(atom, DeviceOf):
        return atom.place
    named = atom.value if isinstance(atom, Const) else atom.name if isinstance(atom, External) else None
    if named in TENSOR_TYPES:
        return DEVICE if str(named).startswith("torch.cuda.") else CPU
    if isinstance(atom, Const) and atom.kind in ("str", "device"):
        kind = str(atom.value).partition(":")[0]
        return {"cpu": CPU, "mps": MPS, "cuda": DEVICE, "xpu": DEVICE, "npu": DEVICE}.get(kind, ANYWHERE)
    if isinstance(atom, (Const, Some)) and atom.kind == "int":
        return DEVICE
    is_unknown = (isinstance(atom, Some) and atom.kind in ("device", "str")) or (
        isinstance(atom, Opaque) and atom.tensor is None
    )
    is_of_package = isinstance(atom, External) and not atom.name.startswith(("torch.", "builtins.", "numpy."))
    return ANYWHERE if is_unknown or is_of_package else 0


def _of_precision(value: Value, kind: int) -> Value:
    """The tensors that a value may be in one of some precisions; what nobody knows is of another than any known."""
    found = NEVER
    for each in value:
        if isinstance(each, Tensor) and each.precision & kind:
            regions = each.regions if kind == LOW else NOTHING
            found |= one(each.but(precision=each.precision & kind, regions=regions))
        elif isinstance(each, Opaque) and kind & OTHER:
            found |= one(each)
    return found


def _gradient_like(tensor: Tensor) -> Tensor:
    """The gradient of a tensor: of its precision, place and rank, and low where that is."""
    return made(tensor.precision, tensor.rank, tensor.place, tags=tensor.tags & SWITCHED, regions=tensor.regions)


_ASKED = External("<asked>")
CONTEXT_OF_FUNCTION = "torch.autograd.function.FunctionCtx"
_SAVED_TENSORS = "<saved>"
# What is done with the unknown, beside the names of its methods.
_KEPT, _RUN, _ON_TENSORS = "kept by a module", "run as a whole", "run on tensors"
_MODULE_EVIDENCE = frozenset(
    "children eval modules named_children named_modules named_parameters no_sync parameters train".split()
)


def _is_result(unknown: Opaque) -> bool:
    """Whether something unknown is what a call gives, be it of a class, and not a part of that."""
    return len(unknown.path) == 2 and unknown.name[:1] not in (".", "[")


def _named_like_module(name: str) -> bool:
    word = name.strip(".").lower().rstrip("0123456789_")
    return word.endswith(("model", "net", "network", "encoder", "decoder", "backbone", "head"))


def is_scheduler_name(word: str) -> bool:
    """Whether a name is one that schedulers have."""
    return "sched" in word or word.strip(".") in ("lr", "profiler", "prof", "pbar")


def _is_of_project_or_torch(kind: Atom) -> bool:
    """Whether a class is one whose methods are known: the project's, or an optimizer of PyTorch's."""
    return isinstance(kind, Class) or (isinstance(kind, External) and kind.name.startswith("torch.optim."))
