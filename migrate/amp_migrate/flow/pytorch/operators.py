"""What an operator makes of tensors where it stands: under autocast, without gradients, on scaled values."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Iterable, Sequence

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    Atom,
    Const,
    Obj,
    Opaque,
    Part,
    Some,
    Tup,
    Value,
    const,
    constant,
    join,
    many,
    one,
    reads_of,
    tensor_of,
    tensors_in,
    tup,
    units_of,
)
from amp_migrate.flow.domain.contexts import OFF, ON, Autocast
from amp_migrate.flow.domain.tensor import (
    A_GRADIENT,
    A_PIECE,
    ANY_UNIT,
    ANYWHERE,
    BOOL,
    BOUNDED,
    BROUGHT,
    BUFFER,
    COMPLEMENT,
    COMPLEX,
    CONTEST,
    CPU,
    CUT,
    DEVICE,
    EXPONENTIAL,
    EXTENT,
    F16,
    F32,
    F64,
    FLOATING,
    FLOWS,
    GRAM,
    HALVED,
    HUGE,
    IN_A_TERM,
    INT,
    INVERSE,
    LEARNED,
    LOW,
    LOWERED,
    NEAR_ZERO,
    NORMALIZED,
    NOTHING,
    OF_INVERSE,
    OF_OVERFLOW,
    OPPOSITE,
    OTHER,
    PARTLY,
    PATIENT,
    PERHAPS_HALVED,
    PROBABILITY,
    PRODUCT,
    PURE,
    ROUGH,
    ROUNDED,
    SCALAR,
    SCORE,
    SHAPED,
    SIGNED,
    SPARSE,
    SQUARE,
    STEEP,
    SUMMED,
    SWITCHED,
    TOTAL,
    UNGUARDED,
    WAY_OF_GRADIENT,
    WEIGHED,
    WHOLE,
    WIDENED,
    Leaves,
    Tensor,
    Units,
    broadcast,
    combined,
    few_leaves,
    is_same,
    join_tensors,
    made,
    multiplied,
    one_of,
    powered,
    spared_of,
)
from amp_migrate.flow.events import (
    A_BUFFER,
    A_GRID,
    A_ROUGH_INVERSE,
    A_ROUNDED_GRID,
    A_ROUNDED_PROBABILITY,
    OF_AN_INVERSE,
    OF_CASTS,
    OF_DATA,
    OF_DIFFERENCES,
    OF_EXTENTS,
    OF_ITSELF,
    OF_NEIGHBOURS,
    OF_STEEP,
    OF_WHOLE,
    OF_WIDENED,
    ONE_BY_ONE,
    Act,
)
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.attributes import is_module
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import guards, ranges, ranks
from amp_migrate.flow.pytorch.cancellation import distances, variances
from amp_migrate.flow.source import Site
from amp_migrate.tables import operators as table

_NO_ARGUMENTS = Arguments()
_LARGEST_EPSILON = 1e-3
_OF_TERMS = frozenset("add sub subtract rsub".split())
_OF_BOTH = table.PRODUCTS | _OF_TERMS  # dense, unless all of their operands are sparse
_DIFFERENCES = frozenset("sub subtract rsub".split())
# What whole numbers keep their size in: so they do straight through a rounding, `x + (x.round() - x).detach()`.
_TERMS = ranges.LIMITING | ranges.JOINING | frozenset("add sub subtract rsub neg negative pad".split())
_SUMS = _OF_TERMS | {"clamp_min"}
_ARRANGING = table.VIEWS - frozenset(
    "narrow select index_select gather chunk split unbind unfold roll diagonal masked_select".split()
)


def operate(
    frame: Frame,
    name: str,
    operands: Sequence[Value],
    node: ast.AST,
    args: Arguments = _NO_ARGUMENTS,
    *,
    in_place: bool = False,
) -> Value:
    """What an operator gives.

    Args:
        operands: all that may be tensors, in order.
        args: the arguments as they are written, for `dim`, `dtype` and the like.
        in_place: whether the first operand is changed: autocast leaves such an operator alone.
    """
    analysis = frame.analysis
    analysis.pytorch.used.add(name)
    tensors = [each for each in map(tensor_of, operands) if each is not None]
    if not tensors:
        return one(Opaque())
    if name in table.OVERFLOW_TESTS:
        analysis.pytorch.tests(operands, node)
    kind = table.RESULT.get(name)
    treatment = None if in_place else table.AUTOCAST.get(_computed_by(name, operands))
    if treatment == table.LOW and any(each.precision == F64 for each in tensors):
        treatment = None  # autocast leaves float64, and what goes with it is float64, too
        if any(each.leaf and each.precision == F64 for each in tensors):
            analysis.pytorch.in_float64 |= frame.now.context.cuda.regions
    # What only makes a target of the data has nothing to gain.
    if kind is None or (treatment == table.LOW and any(each.leaf or each.flows & FLOWS for each in tensors)):
        analysis.pytorch.works(frame)
        # PyTorch raises at operands in several places: one that is surely on the CPU says where all of them are.
        if any(each.place == CPU and not each.rank & SCALAR for each in tensors):
            analysis.pytorch.on_cpu |= frame.now.context.cuda.regions
    place = 0
    for each in tensors:
        place |= each.place if each.rank != SCALAR or len(tensors) == 1 else 0
    if not in_place and any(each.place == DEVICE for each in tensors):
        place = DEVICE  # of operands in several places PyTorch makes nothing
    autocast, is_sure = frame.now.context.low(place or tensors[0].place)
    if kind == table.WITH_INDICES and name in ("max", "min") and len(tensors) > 1:
        kind = table.PROMOTED  # the larger of two, element by element
    numbers = _numbers(operands)
    plain = OTHER if kind is None else _natural(kind, tensors, numbers)
    precision = plain
    if treatment and autocast.may_be_on:
        cast = _cast(treatment, kind, tensors, autocast, numbers)
        if kind is not None and name not in table.BY_VERSION:
            plain = _natural(kind, [_where_off(each, autocast, not is_sure) for each in tensors], numbers)
        is_sure = is_sure and name not in table.BY_VERSION
        precision = cast if autocast.on == ON and is_sure else cast | plain
    said = dtype_of(frame, args)
    if said is not None and kind not in (table.INTEGER, table.BOOLEAN):
        precision = said
    if name in table.MAKING_COMPLEX:
        precision = COMPLEX
    if name == "stft":
        is_complex = constant(args.keywords.get("return_complex", NEVER))  # else it gives pairs of real numbers
        precision = COMPLEX if is_complex else precision if is_complex is False else COMPLEX | precision
    # Complex numbers have no half precision but where a transform was given it, which is told by itself.
    if name == "istft" or name in table.BACK_TO_REAL:
        precision = F32 | F64
    elif name in table.MAKING_REAL and tensors[0].precision & COMPLEX:
        precision = tensors[0].precision & ~COMPLEX | F32 | F64
    if in_place:
        precision = tensors[0].precision
    _watch(frame, name, treatment, tensors, operands, autocast, node, args, kind, in_place=in_place)
    source = args.get(*table.STORES[name]) if name in table.STORES else None
    if source is not None and tensor_of(source) is not None and not (treatment == table.WIDEST and autocast.may_be_on):
        index_store(frame, tensors[0], one(made(INT, SHAPED)), source, node)
    ranges.scaled_up(frame, name, operands, precision, node)
    if name in table.ADDING and precision & LOW and not _only_chooses(name, args):
        for each in [each for each in tensors if each.may_be_low and each.regions][:1]:
            is_sure = not precision & ~LOW
            analysis.event(frame, Act.RISK, node, tensor=each, why=ONE_BY_ONE, is_sure=is_sure)
    if autocast.may_be_on:
        analysis.pytorch.born_inside.add(frame.site(node))
    is_sum = isinstance(node, ast.BinOp) and node is not frame.augmenting
    sums = tensors if is_sum else tensors[:1] if in_place else []
    for each in sums if precision & LOW else []:
        ranges.summed_up(frame, name, each, tensors, node, node)
    variances.follow(frame, name, operands, precision, node)
    distances.follow(frame, name, operands, precision, node)
    result = _facts(frame, name, kind, tensors, operands, precision, autocast, treatment, node, args)
    is_asked = treatment == table.LOW and autocast.asked and autocast.may_be_on
    if precision & LOW and (is_asked or (treatment is None and _are_switched(tensors, in_place=in_place))):
        result = result.but(tags=result.tags | SWITCHED)
    is_widened = precision == F32 and any(each.tags & WIDENED for each in tensors)
    found = ranges.score(name, operands) | ranges.extent(frame, name, operands) | (WIDENED if is_widened else 0)
    found |= SPARSE if _may_be_sparse(name, tensors) and result.rank != SCALAR else 0
    result = result.but(tags=result.tags & ~(WIDENED | SCORE | OPPOSITE | CONTEST | SPARSE | EXTENT) | found)
    if guards.follow(frame, name, operands, node, args):
        result = result.but(tags=result.tags | UNGUARDED)
    if ranges.is_whole(name, args):
        result = result.but(tags=result.tags | WHOLE)
    if ranges.follow(frame, name, operands, precision, node, is_switched=bool(result.tags & SWITCHED)):
        result = result.but(tags=result.tags | HUGE)
    elif result.tags & HUGE and (name not in table.VIEWS or precision == F16):
        result = result.but(tags=result.tags & ~HUGE)
    return _shape_of_result(name, kind, result, args)


def _may_be_sparse(name: str, tensors: list[Tensor]) -> bool:
    """Whether what comes out may be sparse: of products of matrices and of sums, only where no operand is dense."""
    if name in table.MAKING_SPARSE or name in table.MAKING_DENSE:
        return name in table.MAKING_SPARSE
    are_sparse = [bool(each.tags & SPARSE) for each in tensors]
    return all(are_sparse) and len(tensors) > 1 if name in _OF_BOTH else any(are_sparse)


def _is_written_twice(frame: Frame, name: str, node: ast.AST) -> bool:
    """Whether two factors of a product are one variable: be it one of several tensors, it is the same both times."""
    operands: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.Call) and name != "multi_head_attention_forward":  # that has weights between
        # What attention weighs is multiplied with the weights, not with the keys.
        given = node.args[:2] if name == "scaled_dot_product_attention" else node.args
        operands = [*([node.func.value] if isinstance(node.func, ast.Attribute) else []), *given]
    names = list(filter(None, (_arranged(frame, each) for each in operands)))
    return len(names) > len(set(names))


def _is_quadratic(frame: Frame, name: str, tensors: list[Tensor], node: ast.AST) -> bool:
    """Whether a product has one matrix on both sides of another, or what comes of one with itself: `x.T @ (c @ x)`.

    Each product is noted for those around it. Weights between are learned to give what is small, as attention's are.
    """
    if len(tensors) != 2 or name in table.WEIGHTED or any(each.leaf for each in tensors):
        return False
    factors = frame.analysis.pytorch.factors
    first, second = tensors
    outer = [first for site in second.born for _, right in factors.get(site, ()) if is_same(first, right)]
    outer += [second for site in first.born for left, _ in factors.get(site, ()) if is_same(second, left)]
    factors[frame.site(node)].add((first, second))
    return any(not each.tags & BOUNDED for each in outer) or any(each.tags & GRAM for each in tensors)


def _arranged(frame: Frame, node: ast.expr) -> str:
    """The variable whose elements an expression puts in another order; empty for anything else, as for a layer."""
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        return _arranged(frame, node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ARRANGING:
        return _arranged(frame, node.func.value)
    is_named = isinstance(node, (ast.Name, ast.Attribute))
    value = frame.analysis.values.get(node, NEVER) if is_named else NEVER
    return ast.unparse(node) if is_named and not any(isinstance(each, Obj) for each in value) else ""


def _only_chooses(name: str, args: Arguments) -> bool:
    """Whether an operator that may add elements to others only puts them there, or takes the largest."""
    if name == "index_put":
        return constant(args.get(3, "accumulate") or const(False)) is False
    reduce = args.get(4, "reduce") if name in ("scatter_reduce", "index_reduce") else None
    return reduce is not None and constant(reduce) in ("amax", "amin")


def _are_switched(tensors: list[Tensor], *, in_place: bool) -> bool:
    """Whether something of the precision of some tensors is low wherever a run switches their region on."""
    deciding = [each for each in tensors[: 1 if in_place else None] if each.rank != SCALAR]
    return bool(deciding) and all(each.tags & SWITCHED for each in deciding)


def _where_off(tensor: Tensor, autocast: Autocast, is_elsewhere: bool) -> Tensor:
    """A tensor where autocast is off: what only a region makes low that a run switches is not, where it is off.

    Args:
        is_elsewhere: whether it is off for what is on another device, as all is then that the region would make low.
    """
    is_its = (autocast.asked or is_elsewhere) and bool(tensor.regions) and tensor.regions <= autocast.regions
    if not is_its or not tensor.precision & LOW:
        return tensor
    return tensor.but(precision=tensor.precision & ~LOW | F32)


def _numbers(operands: Sequence[Value]) -> int:
    """What numbers of Python there are among the operands: they decide where a tensor is of a lower kind."""
    kinds = {each.kind for value in operands for each in value if isinstance(each, (Const, Some))}
    found = F32 if kinds & {"float", "number"} else 0
    return found | (INT if kinds & {"int", "number"} else 0)


def _natural(kind: str, tensors: list[Tensor], numbers: int) -> int:
    """The precision that comes out where autocast does nothing."""
    first = tensors[0].precision
    if kind == table.BOOLEAN:
        return BOOL
    if kind == table.INTEGER:
        return INT
    if kind == table.DOUBLE:
        return F64
    if kind == table.EITHER:
        both = 0
        for each in tensors:
            both |= each.precision
        return both
    if kind in (table.SAME, table.WITH_INDICES, table.PIECES):
        return first
    if kind == table.COUNTED:
        return first & ~BOOL | (INT if first & BOOL else 0)
    if kind == table.AGREEING:
        both = OTHER
        for each in tensors:  # one that nobody knows has what the others have, or PyTorch raises
            if both & OTHER:
                both = each.precision
            elif not each.precision & OTHER:
                both = both & each.precision or both
        return both
    found = combined([(each.precision, each.rank) for each in tensors])
    if kind == table.FLOATED and found & (INT | BOOL):
        found = found & ~(INT | BOOL) | F32
    elif numbers & F32 and found & (INT | BOOL):
        found = found & ~(INT | BOOL) | F32 | (found & (INT | BOOL) if numbers & INT else 0)
    elif numbers & INT and found & BOOL:
        found |= INT
    return found


def _cast(treatment: str, kind: str | None, tensors: list[Tensor], autocast: Autocast, numbers: int) -> int:
    """The precision that comes out where autocast is on."""
    if treatment in (table.FLOAT, table.FLOAT_UNLESS_SAID, table.REFUSED):
        after = [each.precision & ~(LOW | OTHER) | (F32 if each.precision & (LOW | OTHER) else 0) for each in tensors]
    elif treatment == table.LOW:
        low = autocast.dtype
        after = [
            each.precision & ~(LOW | F32 | OTHER) | (low if each.precision & (LOW | F32 | OTHER) else 0)
            for each in tensors
        ]
    else:
        after = [combined([(each.precision, SHAPED) for each in tensors])] * len(tensors)
    if kind is None:
        return after[0]
    return _natural(
        kind, [each.but(precision=precision) for each, precision in zip(tensors, after, strict=True)], numbers
    )


def _facts(
    frame: Frame,
    name: str,
    kind: str | None,
    tensors: list[Tensor],
    operands: Sequence[Value],
    precision: int,
    autocast: Autocast,
    treatment: str | None,
    node: ast.AST,
    args: Arguments,
) -> Tensor:
    is_view = name in table.VIEWS
    if not _is_homogeneous(name, operands):
        for each in operands:
            frame.analysis.pytorch.note_size(frame, each)
    regions: frozenset[Site] = NOTHING
    if precision & LOW:
        regions = regions.union(*(each.regions for each in tensors))
        if treatment == table.LOW and autocast.may_be_on:
            regions |= autocast.regions
    flows, reach, surely = _gradients(frame, tensors, precision)
    born = tensors[0].born if is_view and tensors[0].born else frozenset({frame.site(node)})
    is_share = _is_share(frame, name, tensors, node)
    tags = _tags(name, tensors, operands, precision, is_share=is_share) & ~WAY_OF_GRADIENT | _of_overflow(name, args)
    if not is_view or name == "clone":
        tags &= ~A_GRADIENT
    if len(tensors) == 1:
        tags |= tensors[0].tags & BROUGHT
    normed: Leaves = NOTHING
    if not flows & FLOWS:
        tags |= learned(frame, tensors)
    else:
        tags |= functools.reduce(operator.or_, (each.tags for each in tensors)) & LEARNED
        tags |= halved(frame, tensors, reach, autocast if treatment == table.LOW else None)
        if name in ("batch_norm", "instance_norm") and tensors[0].precision == F16:
            tags |= NORMALIZED
            normed = tensors[0].reach | tensors[0].leaf
    # What autocast computes in half precision is products, and no number by itself is an operand of those.
    place = _place(name, tensors, with_numbers=treatment != table.LOW)
    if treatment == table.LOW and precision & LOW and autocast is frame.now.context.cuda and autocast.may_be_on:
        place = place & ~CPU or DEVICE  # it would not have been cast anywhere else
    return Tensor(
        precision,
        ranks.of_result(name, tensors, args),
        place,
        tags,
        flows,
        regions,
        tensors[0].leaf if is_view and name != "clone" else NOTHING,
        reach,
        surely,
        _units(name, kind, operands),
        NOTHING if name in table.SIZELESS and name not in ("sign", "sgn") else NOTHING.union(*map(reads_of, operands)),
        born,
        spared_of(tensors) if reach else NOTHING,
        tensors[0].piece if is_view else NOTHING,
        NOTHING.union(*(each.unread for each in tensors)) if is_view or name in table.LINEAR else NOTHING,
        few_leaves(normed | normed_of(tensors)) if tags & NORMALIZED else NOTHING,
    )


def learned(frame: Frame, tensors: Iterable[Tensor]) -> int:
    """`LEARNED`, if something is computed from what may be a parameter."""
    is_learned = any(each.tags & LEARNED or _has_weights(frame, each.reach | each.leaf) for each in tensors)
    return LEARNED if is_learned else 0


def _has_weights(frame: Frame, leaves: Leaves) -> bool:
    """Whether a leaf of some is more than data that nobody knows, of which a gradient might be asked."""
    return any(not isinstance(each, Part) or may_be_weights(frame, each.owner) for each in leaves)


def may_be_weights(frame: Frame, owner: Atom) -> bool:
    """Whether something is a module, or may be kept by one; of what nobody knows, whether it is used as one."""
    if not isinstance(owner, Opaque):
        return True
    if owner.path and isinstance(root := owner.path[0], Obj):
        return not root.external or is_module(frame, root)
    like = frame.analysis.pytorch.is_like_module
    return any(like(frame, Opaque(owner.path[:end])) for end in range(2, len(owner.path) + 1))


def _is_data(frame: Frame, value: Value) -> bool:
    """Whether something is tensors of which none comes from weights."""
    tensors = [*tensors_in(value)]
    unknown = [each for each in value if isinstance(each, Opaque)]
    return not learned(frame, tensors) and all(
        (each.path or tensors) and not each.shares and not may_be_weights(frame, each) for each in unknown
    )


def _is_loaded(value: Value) -> bool:
    """Whether something is an element of what a loader out of sight gives, in the precision that it has there."""
    return bool(value) and all(
        isinstance(each, Opaque) and each.tensor is None and "[]" in each.path and "()" not in each.path
        for each in value
    )


def _place(name: str, tensors: list[Tensor], *, with_numbers: bool) -> int:
    """Where an operator computes: of operands in several places PyTorch makes nothing, but for a number's of one.

    What a loss is given first is a prediction for each sample, whatever else is known of its shape: one that is brought
    to the CPU is there, as what a function gives of another that was there need not be.
    """
    shaped = [each for each in tensors if each.rank != SCALAR] or tensors[:1]
    if len(shaped) == 1 or not with_numbers:
        sure = shaped
    else:
        first = tensors[:1] if name in table.LOSSES and tensors[0].tags & BROUGHT else []
        sure = [each for each in shaped if each in first or not each.rank & SCALAR]
    known = [each.place for each in sure if not each.place & ANYWHERE]
    common = functools.reduce(operator.and_, known, CPU | DEVICE) if known else 0
    return common or functools.reduce(operator.or_, (each.place for each in shaped))


def halved(frame: Frame, tensors: Sequence[Tensor], reach: Leaves, autocast: Autocast | None = None) -> int:
    """The tags of the way that a result's gradient comes: through float16 of a region, or as that of an operand.

    Args:
        reach: the leaves that it comes to.
        autocast: that of a region, where the result is computed in its precision.
    """
    made = 0 if autocast is None or not autocast.may_be_on else autocast.dtype
    if made & F16:
        frame.analysis.pytorch.halved |= reach
    if made & LOW:
        frame.analysis.pytorch.lowered |= reach
    tags = (HALVED if made == F16 else PERHAPS_HALVED if made & F16 else 0) | (LOWERED if made & LOW else 0)
    for each in tensors:
        tags |= each.tags & WAY_OF_GRADIENT if each.flows & FLOWS else 0
    return tags


def normed_of(tensors: Iterable[Tensor]) -> Leaves:
    """The leaves behind the norms in float16 that a result's gradient comes through: see `Tensor.normed`."""
    return NOTHING.union(*(each.normed for each in tensors if each.flows & FLOWS))


def _gradients(frame: Frame, tensors: list[Tensor], precision: int) -> tuple[int, frozenset[object], frozenset[object]]:
    """Whether a gradient flows through what comes out, and to what."""
    mode = frame.now.context.gradients
    floating = precision & (FLOATING | OTHER | 64)
    if mode == OFF or not floating:
        return CUT, NOTHING, NOTHING
    flows = FLOWS if any(each.flows == FLOWS for each in tensors) else 0
    if not flows:
        for each in tensors:
            flows |= each.flows
    if mode & OFF:
        flows |= CUT
    if not flows & FLOWS:
        return CUT, NOTHING, NOTHING
    reach: frozenset[object] = NOTHING
    surely: frozenset[object] = NOTHING
    for each in tensors:
        if each.flows & FLOWS:
            reach |= each.reach | each.leaf
            surely |= each.sure_leaves if each.flows == FLOWS and mode == ON else one_of(each.sure_leaves)
    return flows, few_leaves(reach), surely


def _is_share(frame: Frame, name: str, tensors: list[Tensor], node: ast.AST) -> bool:
    """Whether a tensor is divided by its own sum, be it kept from zero; a sum is noted for that."""
    sums = frame.analysis.pytorch.sums
    if name in table.QUOTIENTS and len(tensors) == 2:
        return any(not tensors[0].born.isdisjoint(sums.get(each, ())) for each in tensors[1].born)
    summed: Iterable[Site] = tensors[0].born if name == "sum" else ()
    if len(tensors) == 1 and (name == "add" or name in guards.CLAMPS):
        summed = (each for site in tensors[0].born for each in sums.get(site, ()))
    if found := frozenset(summed):
        sums[frame.site(node)] |= found
    return False


def _tags(
    name: str, tensors: list[Tensor], operands: Sequence[Value], precision: int, *, is_share: bool = False
) -> int:
    """What is known of the range of what comes out."""
    carried = 0
    for each in tensors:
        carried |= each.tags & (BUFFER | INVERSE | GRAM | SQUARE | SUMMED | EXPONENTIAL | PRODUCT | ROUNDED)
    first = tensors[0]
    if name in _PIECEWISE and all(each.tags & SIGNED for each in tensors):
        carried |= SIGNED
    if not all(each.tags & BUFFER for each in tensors):  # what a buffer was put into, or read at, is no buffer
        carried &= ~BUFFER
    if name in table.LINEAR:
        carried |= functools.reduce(operator.or_, (each.tags & OF_INVERSE for each in tensors))
    if name in table.VIEWS:
        return first.tags
    if name in _TERMS:
        carried |= functools.reduce(operator.or_, (each.tags & WHOLE for each in tensors))
    if name in ("mul", "multiply") and any(each.tags & COMPLEMENT and each.tags & ROUNDED for each in tensors):
        carried |= WEIGHED
    elif name in _KEEPING:
        carried |= WEIGHED & functools.reduce(lambda tags, each: tags | each.tags, tensors, 0)
    if _adds_up(name, tensors, operands):
        carried |= TOTAL
    if name in table.PROBABILITIES:
        tags = PROBABILITY | BOUNDED
    elif name in table.PRODUCTS:
        tags = carried & (BUFFER | ROUNDED) | PRODUCT | (ROUGH if precision & LOW else 0)
        tags |= OF_INVERSE if _of_inverse(name, tensors) else 0
        if len(tensors) > 1 and is_same(first, tensors[1]) and not first.tags & BOUNDED:
            tags |= GRAM
    elif name in table.SQUARES or (name in ("mul", "multiply") and len(tensors) == 2 and is_same(*tensors)):
        tags = carried | SQUARE
    elif name in table.EXPONENTIALS:
        tags = carried | EXPONENTIAL
    elif name in table.SUMS:
        tags = carried | SUMMED
    elif name in table.BOUNDED:
        tags = BOUNDED
    elif name in _DIFFERENCES:
        number = operands[1 if name == "rsub" else 0] if len(operands) > 1 else NEVER
        is_one = constant(number) == 1 and len(tensors) == 1
        tags = carried | (
            COMPLEMENT
            if is_one and first.tags & PROBABILITY
            else PROBABILITY
            if is_one and first.tags & COMPLEMENT
            else first.tags & _BELOW_ONE
            if name != "rsub" and len(tensors) == 1 and _is_near(constant(operands[-1]), 0)
            else 0
        )
    elif name in ("add", "clamp", "clip", "clamp_min", "clamp_max"):
        numbers = [constant(each) for each in operands[1:]] + [constant(each) for each in operands[:1]]
        tiny = [each for each in numbers if isinstance(each, float) and _is_near(each, 0) and len(tensors) == 1]
        tags = carried
        if tiny or name != "add":
            tags |= first.tags & (PROBABILITY | COMPLEMENT | BOUNDED)
            # The gradient of a quotient is as large as the inverse of its divisor.
            tags |= PATIENT if name != "add" or max(map(abs, tiny)) > _INVERTIBLE else NEAR_ZERO
    elif name in ("mul", "multiply") and len(tensors) == 1 and any(_is_near(constant(each), 1) for each in operands):
        tags = carried | first.tags & (_BELOW_ONE | BOUNDED)
    elif (is_share and first.tags & _BELOW_ONE) or (
        name in ("mul", "multiply") and len(tensors) > 1 and all(each.tags & _BELOW_ONE for each in tensors)
    ):
        tags = carried | PROBABILITY | BOUNDED
    elif name in ("mean", "where", "index", "getitem", "neg", "float", "to"):
        tags = carried | first.tags
    else:
        tags = carried
    if name in table.INVERSES:
        tags |= INVERSE
    if _is_steep(name, tensors, operands):
        tags |= STEEP
    if tags & (PROBABILITY | COMPLEMENT) and precision & LOW:
        tags |= ROUNDED
    if name in table.PRODUCTS:
        return tags
    if name in table.EXACT and precision & (FLOATING | OTHER) and any(map(_has_rounded, tensors)):
        tags |= PARTLY
    return tags | ROUGH if name in _PIECEWISE and any(each.tags & ROUGH for each in tensors) else tags & ~ROUGH


def _is_near(number: object, point: int) -> bool:
    """Whether a number keeps probabilities from a limit, as `p - 1e-5` and `p * (1 - 1e-5)`: half may round it away."""
    return isinstance(number, float) and 0 < abs(number - point) < 0.01


def _adds_up(name: str, tensors: list[Tensor], operands: Sequence[Value]) -> bool:
    """Whether probabilities that have been in half, or sums of them, are added up, with no number that is not zero."""
    is_sum = name in ("sum", "mean") or (name == "add" and len(tensors) == len(operands) > 1)
    is_multiple = len(tensors) == (2 if name in _DIFFERENCES else 1) and name in _MULTIPLES | _DIFFERENCES
    is_of_those = any(each.tags & PROBABILITY and each.tags & ROUNDED for each in tensors)
    return (is_sum and is_of_those) or ((is_sum or is_multiple) and any(each.tags & TOTAL for each in tensors))


def _computed_by(name: str, operands: Sequence[Value]) -> str:
    """The operator that computes one: PyTorch computes `1 / x` as `x.reciprocal() * 1`."""
    return "reciprocal" if name in table.QUOTIENTS and tensor_of(operands[0]) is None else name


def _is_steep(name: str, tensors: list[Tensor], operands: Sequence[Value]) -> bool:
    """Whether something is the inverse of what is hardly kept from zero, or such an inverse at another place."""
    if name in table.EXACT:
        return any(each.tags & STEEP for each in tensors)
    if _computed_by(name, operands) != "reciprocal":
        return False
    number = 1 if name == "reciprocal" else constant(operands[0])
    is_inverse = isinstance(number, (int, float)) and abs(number) >= 1
    return is_inverse and len(tensors) == 1 and bool(tensors[0].tags & NEAR_ZERO)


def _of_inverse(name: str, tensors: list[Tensor]) -> bool:
    """Whether a product is one of a chain with an inverse, as of projections; what layers make of it is not."""
    is_layer = name in table.WEIGHTED or any(each.leaf for each in tensors)
    return not is_layer and any(each.tags & (INVERSE | OF_INVERSE) for each in tensors)


def take_logarithm(frame: Frame, tensors: Iterable[Tensor], node: ast.AST) -> None:
    """What computes the logarithm of some tensors is given probabilities, perhaps, that have been rounded."""
    for each in tensors:
        if each.tags & WEIGHED or _has_rounded(each):
            frame.analysis.event(frame, Act.RISK, node, tensor=each, why=A_ROUNDED_PROBABILITY)


def _has_rounded(tensor: Tensor) -> bool:
    """Whether there are probabilities in a tensor that have been in half."""
    return bool(tensor.tags & PARTLY) or (bool(tensor.tags & _BELOW_ONE) and bool(tensor.tags & ROUNDED))


def _of_overflow(name: str, args: Arguments) -> int:
    """Whether what comes out goes by whether gradients are finite."""
    tensors = (tensor for value in args.all() for tensor in tensors_in(value))
    if name in table.OVERFLOW_TESTS or name == "nan_to_num":
        is_asked = any(each.reads for each in tensors)
    else:
        is_asked = name in _CHOOSING and any(each.tags & OF_OVERFLOW for each in tensors)
    return OF_OVERFLOW if is_asked else 0


def _is_homogeneous(name: str, operands: Sequence[Value]) -> bool:
    """Whether a positive factor in what goes in is one in what comes out, be it to some power, or is not in it."""
    if name in table.MIXING:
        return len({units_of(each) for each in operands}) == 1
    return name in table.HOMOGENEOUS or name.startswith("conv")


def _units(name: str, kind: str | None, operands: Sequence[Value]) -> Units:
    """The loss scale in what comes out."""
    terms = [each for each in operands if tensor_of(each) is not None] if name in table.OF_ONE else operands
    given = [units_of(each) for each in terms if name not in _SUMS or not is_epsilon(each)]
    if all(each is PURE or each == PURE for each in given):
        return PURE
    if name in table.SIZELESS:
        return PURE
    if name in ("mul", "multiply", "matmul", "mm", "bmm", "linear", "dot", "einsum", "mv") or name.startswith("conv"):
        found = given[0]
        for each in given[1:]:
            found = multiplied(found, each)
        return found
    if name in ("div", "divide", "true_divide"):
        return multiplied(given[0], given[1], -1) if len(given) > 1 else given[0]
    if name == "square" or (name == "pow" and len(operands) > 1):
        power = 2 if name == "square" else constant(operands[1])
        return powered(given[0], power if isinstance(power, (int, float)) else None)
    if name in ("sqrt", "rsqrt", "reciprocal"):
        return powered(given[0], {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1}[name])
    found = (_of_sum(operands) if name in _OF_TERMS else NOTHING) or NOTHING.union(*given)
    of_operands = (table.SAME, table.PIECES, table.WITH_INDICES, table.PROMOTED, table.COUNTED)
    if name in table.PROPORTIONAL or (kind in of_operands and name not in table.INHOMOGENEOUS):
        return PURE if found == PURE else found
    return frozenset({ANY_UNIT})


def _of_sum(terms: Sequence[Value]) -> Units:
    """The scale in a sum of two losses of which one is scaled, and the other not; nothing for any other sum.

    What no gradient goes back from is a number beside the scaled one.
    """
    tensors = [each for term in terms for each in tensors_in(term)]
    are_losses = all(each.flows & FLOWS for each in tensors)
    units = {units_of(each) for each in terms}
    if len(terms) == len(units) == 2 and PURE in units and len(tensors) == sum(map(len, terms)) and are_losses:
        (scaled,) = units - {PURE}
        scalers = [unit[0] for unit in scaled if unit is not None and unit != ANY_UNIT]
        return frozenset({(scalers[0], IN_A_TERM)}) if len(scaled) == len(scalers) == 1 else NOTHING
    return NOTHING


def _shape_of_result(name: str, kind: str | None, result: Tensor, args: Arguments) -> Value:
    """A tensor; for some operators, several."""
    if kind == table.WITH_INDICES:
        has_dim = len(args.positional) > 1 or "dim" in args.keywords or bool(args.rest)
        if name not in table.REDUCED_OR_INDEXED or has_dim:
            with_other = len(args.positional) > 1 and tensor_of(args.positional[1]) is not None
            if name in ("max", "min") and with_other:  # the larger of two, element by element
                return one(result)
            indices = result.but(
                precision=INT,
                flows=CUT,
                reach=NOTHING,
                surely=NOTHING,
                units=PURE,
                reads=NOTHING,
                tags=0,
                regions=NOTHING,
            )
            return tup([one(result), one(indices)])
        return one(result)
    if kind == table.PIECES:
        return many(one(result.but(rank=ranks.of_piece(name, result.rank))))
    if name in table.SEVERAL:
        return tup([one(result)] * table.SEVERAL[name])
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        hidden = tup([one(result), one(result)]) if name == "lstm" else one(result)
        return tup([one(result), hidden])
    if name == "lstm_cell":
        return tup([one(result), one(result)])
    if name == "multi_head_attention_forward":
        return tup([one(result), join(one(result), frozenset({Const("NoneType", None)}))])
    if name == "nonzero" and constant(args.keywords.get("as_tuple", NEVER)) is True:
        return many(one(result))
    return one(result)


def dtype_of(frame: Frame, args: Arguments) -> int | None:
    """The precision that a call names; None where it names none."""
    value = args.keywords.get("dtype")
    if value is None or value == frozenset({Const("NoneType", None)}):
        return None
    return frame.analysis.pytorch.precision_of(value)


# What is watched


def _take_sparse(frame: Frame, name: str, tensors: list[Tensor], autocast: Autocast | None, node: ast.AST) -> None:
    """A product of what is sparse, in half precision.

    Args:
        autocast: that of a region, where it makes the operands low.
    """
    sparse = [each for each in tensors if each.tags & SPARSE]
    if not sparse and name not in table.SPARSE_PRODUCTS:
        return
    on = autocast.on if autocast is not None else OFF
    if on & ON or any(each.may_be_low for each in sparse):
        why = name if name in table.SPARSE_PRODUCTS else f"{name} of a sparse tensor"
        is_sure = on == ON or any(each.is_low for each in sparse)
        frame.analysis.event(frame, Act.NO_KERNEL, node, why=why, is_sure=is_sure)


def _watch(
    frame: Frame,
    name: str,
    treatment: str | None,
    tensors: list[Tensor],
    operands: Sequence[Value],
    autocast: Autocast,
    node: ast.AST,
    args: Arguments,
    kind: str | None,
    *,
    in_place: bool,
) -> None:
    analysis = frame.analysis
    low = [each for each in tensors if each.may_be_low]
    for region in autocast.regions if treatment == table.LOW and autocast.may_be_on else ():
        for each in tensors:
            analysis.pytorch.weighing[region] |= each.leaf
    if treatment == table.LOW and autocast.may_be_on and autocast.cache & ON:
        for each in tensors:
            for leaf in each.leaf:
                if each.precision & (F32 | OTHER) and each.flows & FLOWS:
                    analysis.pytorch.cast_weight(frame, leaf, frame.now.context.gradients, frame.site(node))
    if treatment == table.REFUSED and autocast.may_be_on:
        analysis.event(frame, Act.REFUSED, node, tensor=tensors[0], why=name, is_sure=True)
    if name in table.PRODUCTS or name in table.SPARSE_PRODUCTS:
        _take_sparse(frame, name, tensors, autocast if treatment == table.LOW else None, node)
    if name == "batch_norm":
        _normalised(frame, tensors[0], args, node)
    for place in table.FILLED.get(name, ()):
        for each in low[:1]:
            filled(frame, each, args.get(*place), node, name)
    if low:
        first = low[0]
        for each in low[1:]:
            first = join_tensors(first, each)
        # The signal of `stft` is multiplied by its window first: a float32 one makes it float32.
        is_widened = kind == table.PROMOTED and not _natural(kind, tensors, 0) & LOW
        may_be_complex = name in table.TAKING_COMPLEX and bool(first.precision & (COMPLEX | OTHER))
        if name in table.IN_FLOAT32 and not (is_widened or may_be_complex):
            analysis.event(frame, Act.NO_KERNEL, node, tensor=first, why=name)
        # What is low only where the region around is on has not left it there.
        is_left = bool(autocast.on & OFF) and not first.regions <= autocast.regions
        saturates = name in table.SATURATING and not in_place
        is_float = saturates or treatment in (table.FLOAT, table.FLOAT_UNLESS_SAID)
        # In another region that is switched, autocast sees to it where it is on.
        is_sure_left = first.is_low or (bool(first.tags & SWITCHED) and not autocast.may_be_on)
        if is_left and is_float and dtype_of(frame, args) is None:
            analysis.event(frame, Act.LEFT_FLOAT, node, tensor=first, why=name, is_sure=is_sure_left)
        others = [each for each in tensors if each.precision & ~LOW]
        # Autocast makes the operands of `addmm` agree, not those of `addmm_`, and of `lerp` neither.
        is_as_is = (treatment is None and name in table.AUTOCAST) or name in table.AGREE_UNDER_AUTOCAST
        has_gradient = bool(frame.now.context.gradients & ON) and any(each.flows == FLOWS for each in tensors)
        must_agree = name in table.MUST_AGREE or name in table.AGREE_UNDER_AUTOCAST
        must_agree |= name in table.AGREEING_IN_GRADIENT and has_gradient
        if must_agree and others and (is_left or is_as_is):
            known = [each for each in others if each.precision & (F32 | F64)]
            differs = first.is_low and any(not each.precision & LOW for each in known)
            if name in table.LOSSES and first.is_low:  # who trains in float32 has no targets in half precision
                differs |= any(_is_loaded(each) for each in operands[1:2])
            if frame.now.context.in_gradient:  # where nobody can cast for it, one way of those that join is enough
                made_low = [each for each in low if each.is_low or each.tags & SWITCHED]
                differs = any(not each.tags & other.tags & SWITCHED for each in made_low for other in known)
            is_sure = differs and (autocast.on == OFF or is_as_is)
            analysis.event(frame, Act.MISMATCH, node, tensor=first, why=name, is_sure=is_sure)
        # Be it by a cast that stands under a test: the way through it comes here as well as the other.
        is_cast = autocast.on == OFF and not (first.regions or first.precision & ~(LOW | F32))
        if name in table.MUST_AGREE and is_cast and any(each.precision == F32 and each.leaf for each in others):
            analysis.event(frame, Act.CAST_INPUT, node, tensor=first, why=name, is_sure=True)
        is_on_cpu = any(each.place == CPU for each in low) and bool(first.regions)
        if is_on_cpu and name not in table.EXACT and not (is_left and is_float):
            analysis.event(frame, Act.ON_CPU, node, tensor=first, why=name, is_sure=is_sure_left)
    if name in table.LOGARITHMS or name == "binary_cross_entropy":
        take_logarithm(frame, tensors[:1], node)
    divisor = operands[1] if name in table.QUOTIENTS and len(operands) > 1 else operands[0] if name in _OVER else NEVER
    by = tensor_of(divisor)  # a number that is added is no guard where it is rounded to zero, which is told by itself
    is_of_terms = by is not None and by.tags & TOTAL and by.tags & SUMMED
    if by is not None and (is_of_terms or (by.tags & _BELOW_ONE and by.tags & ROUNDED)) and not by.tags & PATIENT:
        analysis.event(frame, Act.RISK, node, tensor=by, why=A_ROUNDED_PROBABILITY)
    is_of_inverse = name in table.PRODUCTS and _of_inverse(name, tensors)
    if is_of_inverse and any(each.tags & ROUGH for each in tensors):
        analysis.event(frame, Act.INVERSE_USED, node, tensor=tensors[0])
    if treatment == table.LOW and autocast.may_be_on and name in table.PRODUCTS:
        is_twice = len(tensors) > 1 and (is_same(*tensors[:2]) or _is_written_twice(frame, name, node))
        is_of_itself = (is_twice and not tensors[0].tags & BOUNDED) or _is_quadratic(frame, name, tensors, node)
        if is_of_itself:
            analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=OF_ITSELF)
        is_difference = name.startswith("conv") and len(tensors) > 1 and bool(tensors[1].tags & SIGNED)
        # What is left of neighbours that are much alike is of the size of their rounding: a Sobel filter of an image.
        if is_difference and not tensors[0].is_low:
            analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=OF_DIFFERENCES)
        is_inverse = is_of_inverse or any(each.tags & INVERSE for each in tensors)
        is_told = is_of_itself or is_difference or is_inverse
        is_half = all(each.is_low and not each.regions for each in tensors)  # as it was without the region
        is_of_data = len(tensors) > 1 and not (is_told or is_half) and all(_is_data(frame, each) for each in operands)
        if is_of_data:
            analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=OF_DATA)
        for each in () if is_of_data else tensors:
            if each.tags & BUFFER and not each.tags & BOUNDED and not is_difference:
                analysis.event(frame, Act.RISK, node, tensor=each, why=A_BUFFER)
        if is_inverse:
            analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=OF_AN_INVERSE)
        if any(each.tags & STEEP and not each.precision & LOW for each in tensors) and autocast.dtype & F16:
            analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=OF_STEEP)
        if any(each.tags & WIDENED for each in tensors):
            # Where models alone are cast, a product with their weights takes nothing in float32.
            is_of_casts = all(each.precision == F32 and not each.leaf for each in tensors)
            why = OF_WIDENED if name in table.AS_THEY_COME_IN_APEX else OF_CASTS if is_of_casts else ""
            if why:
                analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=why, is_sure=True)
        if autocast.dtype & F16 and len(tensors) > 1 and all(each.tags & WHOLE for each in tensors[:2]):
            analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=OF_WHOLE)
        if name == "affine_grid":
            analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=A_GRID)
    # Autocast knows none of it: it multiplies its input with itself as that comes.
    if (
        name in ("local_response_norm", "cross_map_lrn2d")
        and low
        and autocast.may_be_on
        and low[0].precision & autocast.dtype & F16
    ):
        analysis.event(frame, Act.RISK, node, tensor=low[0], why=OF_NEIGHBOURS)
    is_product = name in ("mul", "multiply") and len(tensors) == 2
    is_narrow = is_product and low and all(each.may_be_low or each.rank & SCALAR for each in tensors)  # no promotion
    if is_narrow and autocast.may_be_on and autocast.dtype & F16 and all(t.tags & EXTENT for t in tensors):
        analysis.event(frame, Act.RISK, node, tensor=low[0], why=OF_EXTENTS)
    if name in table.INVERSES and tensors[0].tags & ROUGH:
        analysis.event(frame, Act.RISK, node, tensor=tensors[0], why=A_ROUGH_INVERSE)
    if name in table.SAMPLING and len(tensors) > 1 and tensors[1].is_low:
        analysis.event(frame, Act.RISK, node, tensor=tensors[1], why=A_ROUNDED_GRID)
    if name in ("add", "sub", "subtract") and len(operands) == 2:
        added(frame, operands, node)
    if name in guards.CLAMPS:
        _limited(frame, operands[0], [args.get(*place) for place in table.FILLED[name]], node)


def filled(frame: Frame, tensor: Tensor, value: Value | None, node: ast.AST, name: str) -> None:
    """A number goes into a tensor as it is: PyTorch refuses one that float16 cannot hold, infinities apart."""
    if tensor.precision & F16 and ranges.is_too_large(value):
        is_sure = ranges.is_float16(tensor.precision, is_switched=bool(tensor.tags & SWITCHED))
        frame.analysis.event(frame, Act.OVERFLOW, node, tensor=tensor, why=name, is_sure=is_sure)


def _normalised(frame: Frame, tensor: Tensor, args: Arguments, node: ast.AST) -> None:
    """Batch normalisation takes statistics and weights of one precision: that of its input, or float32."""
    given = [args.get(1 + index, word) for index, word in enumerate(("running_mean", "running_var", "weight", "bias"))]
    known = [each for value in given if value is not None for each in (tensor_of(value),) if each is not None]
    low = [each for each in known if each.is_low]
    if low and any(each.precision == F32 for each in (tensor, *known)):
        frame.analysis.event(frame, Act.MISMATCH, node, tensor=low[0], why="batch_norm")


def added(frame: Frame, operands: Sequence[Value], node: ast.AST) -> None:
    """Scaled and true numbers added: a measure of gradients that depends on the scale."""
    units = [units_of(each) for each in operands]
    for own, other, value in ((units[0], units[1], operands[0]), (units[1], units[0], operands[1])):
        is_scaled = any(each is not None for each in own) and None in other and other != own
        if is_scaled and not any(map(is_epsilon, operands)) and reads_of(value):
            frame.analysis.pytorch.gauge(frame, value, node, "added to something")


def _limited(frame: Frame, value: Value, limits: Sequence[Value | None], node: ast.AST) -> None:
    """A gradient is limited by a number that has another scale: but for zero and infinities, which have any."""
    for limit in limits:
        is_given = limit is not None and limit != NONE_VALUE and constant(limit) not in _OF_ANY_SIZE
        if is_given and reads_of(value) and units_of(limit or NEVER) != units_of(value):
            frame.analysis.pytorch.gauge(frame, value, node, "limited by a number")


def is_epsilon(value: Value) -> bool:
    """Whether a value is a number that is added so that nobody divides by zero: of no size beside what is scaled."""
    number = constant(value)
    return isinstance(number, (int, float)) and abs(number) < _LARGEST_EPSILON


def compared(frame: Frame, left: Value, right: Value, node: ast.AST) -> None:
    """Scaled and true numbers are compared, but for zero and infinities: these say the same in any scale."""
    is_sized = constant(left) not in _OF_ANY_SIZE and constant(right) not in _OF_ANY_SIZE
    if is_sized and units_of(left) != units_of(right):
        for value in (left, right):
            frame.analysis.pytorch.gauge(frame, value, node, "compared")


def compare(frame: Frame, left: Value, right: Value, node: ast.AST) -> Value:
    """What a comparison of tensors gives: booleans of their shape."""
    tensors = [each for each in (tensor_of(left), tensor_of(right)) if each is not None]
    compared(frame, left, right, node)
    found = NEVER
    if any(isinstance(each, Tensor) for each in left | right):
        rank = functools.reduce(broadcast, (each.rank for each in tensors))
        found = one(Tensor(BOOL, rank, tensors[0].place, 0, CUT, *_NOTHINGS, PURE, NOTHING, NOTHING))
    if any(isinstance(each, Opaque) for each in left | right) or not found:
        found = join(join(found, TRUTHS), one(Opaque()))
    return found


_BELOW_ONE = PROBABILITY | COMPLEMENT
_INVERTIBLE = 1 / 65504  # what is larger has an inverse in float16
_MULTIPLES = frozenset("mul multiply div divide true_divide".split())
_OVER = frozenset("reciprocal rsqrt".split())
_OF_ANY_SIZE = (0, float("inf"), -float("inf"))
# What takes elements by a test, or makes another test of it.
_CHOOSING = table.VIEWS | table.SIZELESS | frozenset("where masked_fill bitwise_not bitwise_or bitwise_and".split())
# A weighed mean of probabilities stays one through these.
_KEEPING = frozenset("add mul multiply cat concat stack index getitem clamp clamp_min clip where scatter_add".split())
_PIECEWISE = table.LINEAR - frozenset("sum nansum mean nanmean".split())  # which takes no two elements of one tensor
_NOTHINGS = (NOTHING, NOTHING, NOTHING, NOTHING)


def element(frame: Frame, tensor: Tensor, node: ast.AST) -> Value:
    """What iterating over a tensor gives."""
    rank, reach = ranks.without_one(tensor.rank), tensor.reach | tensor.leaf
    return one(tensor.but(rank=rank, leaf=NOTHING, reach=reach, piece=A_PIECE))


def subscript(frame: Frame, tensor: Tensor, index: Value, node: ast.Subscript) -> Value:
    """A part of a tensor."""
    return one(
        tensor.but(
            rank=ranks.of_part(tensor.rank, node.slice, index),
            leaf=NOTHING,
            reach=tensor.reach | tensor.leaf,
            surely=tensor.sure_leaves,
            piece=tensor.piece if ranks.is_whole(node.slice) else A_PIECE,
        )
    )


def index_store(frame: Frame, tensor: Tensor, index: Value, value: Value, node: ast.AST) -> None:
    """Store into a part of a tensor: by a tensor as index, both must be of one precision, under autocast too.

    One number on the CPU goes wherever a mask is true, whatever it is.
    """
    given = tensor_of(value)
    if given is None:
        filled(frame, tensor, value, node, "an item")
        return
    parts = [item for each in index if isinstance(each, Tup) for part in each.items for item in part]
    by = [tensor_of(one(each)) for each in (*index, *parts) if isinstance(each, (Tensor, Opaque))]
    by = [each for each in by if each is not None and each.rank != SCALAR]
    for low, other in ((given, tensor), (tensor, given)):
        if by and low.may_be_low and low.regions and other.precision & (F32 | F64):
            is_index = all(each.rank == SHAPED or each.precision == BOOL for each in by if each is not None)
            is_sure = low.is_low and not other.precision & ~(F32 | F64) and is_index
            is_number = given.rank & SCALAR and given.place & ~DEVICE
            frame.analysis.event(frame, Act.INDEX_STORE, node, tensor=low, is_sure=is_sure and not is_number)


def taking_up(frame: Frame, value: Value, part: Value, node: ast.AST) -> Value:
    """A value whose tensors have got a part: what comes of them depends on what that does."""
    given = tensor_of(part)
    if given is None:
        after = frozenset(guards.stored(frame, e, part, node) if isinstance(e, Tensor) else e for e in value)
        return frozenset(map(_with_too_large, after)) if ranges.is_too_large(part) else after
    return frozenset(_taking_up(frame, each, given) for each in value)


def _with_too_large(each: Atom | Tensor) -> Atom | Tensor:
    """Something that has got a number that float16 does not have."""
    return each.but(tags=each.tags | HUGE) if isinstance(each, Tensor) and not each.leaf else each


def _taking_up(frame: Frame, each: Atom | Tensor, given: Tensor) -> Atom | Tensor:
    if isinstance(each, Opaque) and each.tensor is not None:  # it may be what holds tensors, wherever these are
        place = each.tensor.place | given.place
        return each.with_tensor(_with_part(each.tensor, given).but(place=place))
    if not isinstance(each, Tensor) or each.leaf:
        return each
    each = _with_part(each, given)
    if not given.reach | given.leaf:
        return each
    flows, reach, surely = _gradients(frame, [each, given], each.precision)
    if not flows & FLOWS:
        return each
    tags, normed = each.tags | halved(frame, [given], reach), few_leaves(each.normed | normed_of([given]))
    return each.but(flows=flows, reach=reach, surely=surely, tags=tags, normed=normed)


def with_part(value: Value, part: Value) -> Value:
    """A value whose tensors have got a part, as far as that is probabilities, or numbers that float16 does not have."""
    given = tensor_of(part)
    if given is None or not given.tags & (_BELOW_ONE | PARTLY | HUGE):
        return value
    return frozenset(_with_part(each, given) if isinstance(each, Tensor) else each for each in value)


def _with_part(tensor: Tensor, given: Tensor) -> Tensor:
    """A tensor that has got a part: if that is rounded probabilities, or is rounded there, what was made as it was."""
    if given.tags & HUGE:
        tensor = tensor.but(tags=tensor.tags | HUGE)
    if not (_has_rounded(given) or (given.tags & _BELOW_ONE and tensor.may_be_low)):
        return tensor
    born = tensor.born | given.born if tensor.born and given.born else NOTHING
    return tensor.but(tags=tensor.tags | PARTLY, born=born)


def cast(tensor: Tensor, precision: int) -> Tensor:
    """A tensor in another precision."""
    regions = tensor.regions if precision & LOW else NOTHING
    leaf = tensor.leaf if precision == tensor.precision else NOTHING
    reach, surely = tensor.reach, tensor.surely
    if not leaf and tensor.leaf:
        reach, surely = reach | tensor.leaf, tensor.sure_leaves
    flows = tensor.flows if precision & (FLOATING | OTHER | 64) else CUT
    tags = tensor.tags
    if tags & (PROBABILITY | COMPLEMENT) and precision & LOW:
        tags |= ROUNDED
    tags = tags & ~WIDENED | (WIDENED if precision == F32 and (tensor.may_be_low or tags & WIDENED) else 0)
    return tensor.but(
        precision=precision, regions=regions, leaf=leaf, reach=reach, surely=surely, flows=flows, tags=tags
    )
