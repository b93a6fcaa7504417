"""Attributes and methods of tensors."""

from __future__ import annotations

import ast

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Const,
    DeviceOf,
    Dtype,
    External,
    Native,
    Obj,
    Opaque,
    Part,
    Value,
    const,
    constant,
    one,
    some,
    tensor_of,
)
from amp_migrate.flow.domain.dtypes import DTYPE_OF, DTYPES
from amp_migrate.flow.domain.tensor import (
    ANYWHERE,
    BROUGHT,
    BUFFER,
    CPU,
    CUT,
    DEVICE,
    FLOWS,
    HUGE,
    INT,
    NOTHING,
    OTHER,
    SHAPED,
    SOME_TENSOR,
    Tensor,
    made,
)
from amp_migrate.flow.events import Act
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import arrays, gradients, ranges
from amp_migrate.flow.pytorch.operators import cast, filled, learned, operate, with_part
from amp_migrate.flow.source import Site
from amp_migrate.tables import operators as table
from amp_migrate.tables.torch_names import takes_gradients

# What is asked of a tensor, and is no tensor: attributes, and what calls give.
_NUMBERS = frozenset("ndim itemsize nbytes output_nr _version".split())
_TRUTHS = frozenset(
    "is_cpu is_cuda is_leaf is_meta is_mps is_nested is_quantized is_sparse is_xpu requires_grad retains_grad".split()
)
_SIZES = frozenset("__len__ dim element_size get_device ndimension nelement numel size storage_offset stride".split())
_TESTS = frozenset(
    "has_names is_coalesced is_complex is_contiguous is_floating_point is_inference is_pinned is_same_size is_shared "
    "is_signed".split()
)
_SAME_ATTRIBUTES = {"T": "t", "mT": "transpose", "H": "t", "real": "real", "imag": "imag", "mH": "transpose"}
STANDALONE = External("torch.Tensor")
# Operators of the first tensor that they get, whatever else is said by name.
FIRST_ONLY = frozenset(
    "split chunk unbind sum mean prod reshape flatten transpose permute unsqueeze squeeze softmax log_softmax "
    "dropout argmax topk sort norm one_hot pad interpolate normalize gumbel_softmax".split()
)
_NO_OPERANDS = frozenset("out dtype device dim reduction keepdim".split())


def attribute(frame: Frame, tensor: Tensor, name: str, node: ast.AST) -> Value:
    """An attribute of a tensor; a method stays bound to it until it is called."""
    if name == "grad":
        return gradients.read(frame, tensor, node)
    if name == "data":
        return one(detached(frame, tensor).but(leaf=tensor.leaf))
    if name in _SAME_ATTRIBUTES:
        return operate(frame, _SAME_ATTRIBUTES[name], [one(tensor)], node)
    if name in ("names", "layout"):
        return some("str")
    if name == "dtype":
        return dtype_value(tensor)
    if name == "device":
        kind = {CPU: "cpu", DEVICE: "cuda"}.get(tensor.place, "")
        # Weights are where they have been moved to, if at all; who brings another tensor to where nobody knows?
        is_named = not tensor.place & ANYWHERE or _is_weights(tensor)
        return one(DeviceOf(kind, tensor.place) if is_named else Const("device", kind))
    if name == "grad_fn":
        return UNKNOWN
    return no_tensor(name) or one(Native(name, tensor))  # type: ignore[arg-type]


def _is_weights(tensor: Tensor) -> bool:
    """Whether a tensor is the weights of layers, read or not: they are where they were moved to, if at all."""
    owners = [each.owner for each in tensor.leaf if isinstance(each, Part)]
    of_layers = (not isinstance(each, Obj) or each.external.startswith("torch.nn.") for each in owners)
    return bool(owners) and len(owners) == len(tensor.leaf) and all(of_layers)


def no_tensor(name: str) -> Value:
    """The numbers and truths that an attribute of a tensor is, as of an array: no precision is in them, nor a gradient.

    Nothing where it is something else, or a method.
    """
    if name == "shape":
        return some("size")
    return some("int") if name in _NUMBERS else TRUTHS if name in _TRUTHS else NEVER


def no_tensor_of_call(name: str, args: Arguments) -> Value:
    """The same of what a method gives."""
    if name in _SIZES:
        is_whole = name in ("size", "stride") and not args.positional and not args.keywords
        return some("size") if is_whole else some("int")
    return TRUTHS if name in _TESTS else NEVER


def dtype_value(tensor: Tensor) -> Value:
    """The dtype of a tensor as a value: what has it is low where the tensor is, and by the same regions."""
    known = DTYPE_OF.get(tensor.precision)
    if tensor.precision == INT or (known is not None and not tensor.regions):
        return one(External(known or "torch.int64"))
    return one(Dtype(tensor.precision, tensor.regions))


def regions_of(dtype: Value) -> frozenset[Site]:
    """The regions that may have made a dtype low, where it is that of a tensor."""
    return NOTHING.union(*(each.regions for each in dtype if isinstance(each, Dtype)))


def method(frame: Frame, tensor: Tensor, name: str, args: Arguments, node: ast.AST) -> Value:
    """A call of a method of a tensor."""
    pytorch = frame.analysis.pytorch
    if name in table.DTYPE_METHODS:
        return one(cast(tensor, DTYPES[table.DTYPE_METHODS[name]]))
    if name in ("to", "type", "type_as"):
        moved = converted(frame, tensor, args)
        ranges.narrowed(frame, tensor, moved, node)
        return one(moved)
    if name in ("cuda", "cpu"):
        is_cpu = name == "cpu"
        moved = tensor.but(place=CPU if is_cpu else DEVICE, tags=tensor.tags | BROUGHT if is_cpu else tensor.tags)
        pytorch.note_place(moved.place)
        return one(
            moved
            if moved is tensor
            else moved.but(
                leaf=NOTHING,
                reach=tensor.reach | tensor.leaf,
                surely=tensor.sure_leaves,
            )
        )
    if name in ("detach", "detach_"):
        return one(detached(frame, tensor))
    if name in ("item", "tolist", "__float__", "__int__"):
        return some("float" if tensor.precision & ~(INT | 32) else "int", tensor.units, tensor.reads)
    if name == "numpy":
        _to_numpy(frame, tensor, node)
        return arrays.of_tensor(tensor, frame.site(node))
    if name == "backward":
        gradients.backward(frame, one(tensor), args.get(0, "gradient"), node)
        return NONE_VALUE
    if name == "requires_grad_":
        wanted = constant(args.get(0, "requires_grad") or const(True))
        return one(_requiring(frame, tensor, node, wanted is not False))
    if name == "retain_grad":
        return NONE_VALUE
    if takes_gradients(name):
        return gradients.register(frame, tensor, name, args, node)
    if plain := no_tensor_of_call(name, args):
        return plain
    if name == "data_ptr":
        if tensor.may_be_low:
            frame.analysis.event(frame, Act.FOREIGN, node, tensor=tensor, why="data_ptr")
        return some("int")
    if name in table.LIKE or name == "new_tensor":
        return like(frame, tensor, args, name, node)
    if name == "apply_":
        return one(tensor)
    operands = [one(tensor), *args.positional]
    whole = Arguments(
        [one(tensor), *args.positional], args.rest, args.keywords, args.others, [None, *args.nodes], args.keyword_nodes
    )
    if name.endswith("_") and not name.endswith("__"):
        base = name[:-1]
        if base in table.RESULT or base in ("fill", "zero", "copy", "normal", "uniform", "resize", "set"):
            gradients.changed_in_place(frame, tensor, base, args, node)
            result = operate(frame, base if base in table.RESULT else "fill", operands, node, whole, in_place=True)
            after = tensor_of(result)
            if after is None:
                return result
            _taken_up(frame, node, one(after))
            return one(after.but(leaf=tensor.leaf, tags=after.tags | (tensor.tags & BUFFER)))
    if name == "index":
        return one(tensor)
    if name not in FIRST_ONLY:
        operands += named_operands(args)
    return operate(frame, name, _operands(name, operands), node, whole)


def named_operands(args: Arguments) -> list[Value]:
    """What an operator is given by name that may be a tensor which it computes with."""
    return [value for word, value in args.keywords.items() if word not in _NO_OPERANDS]


def _taken_up(frame: Frame, node: ast.AST, part: Value) -> None:
    """What a call changes in place, or a part of it, is another from here on under the name that it has there."""
    changed = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    while isinstance(changed, ast.Subscript):
        changed = changed.value
    held = frame.now.names.get(changed.id, NEVER) if isinstance(changed, ast.Name) else NEVER
    after = with_part(held, part)
    if isinstance(changed, ast.Name) and after != held:
        frame.bind(changed.id, after)


def _operands(name: str, operands: list[Value]) -> list[Value]:
    """The operands that decide: of `cat` and its like, what is in the list."""
    return operands if name not in ("split", "chunk", "view", "reshape", "sum", "mean", "permute") else operands[:1]


def detached(frame: Frame, tensor: Tensor) -> Tensor:
    """The elements of a tensor, which no gradient comes through."""
    tags = tensor.tags | learned(frame, [tensor])
    return tensor.but(flows=CUT, reach=NOTHING, surely=NOTHING, leaf=NOTHING, tags=tags)


def _requiring(frame: Frame, tensor: Tensor, node: ast.AST, wanted: bool) -> Tensor:
    """A tensor that gets a gradient of its own."""
    gradients.note_switched(frame, tensor.leaf)
    if not wanted:
        return detached(frame, tensor)
    if tensor.leaf or tensor.flows == FLOWS:
        return tensor.but(flows=FLOWS)
    leaf = standalone(frame, node)
    frame.write(leaf.owner, gradients.MADE_OF, one(tensor))
    return tensor.but(flows=FLOWS, leaf=frozenset({leaf}))


def as_leaf(frame: Frame, tensor: Tensor, node: ast.AST) -> Tensor:
    """The elements of a tensor with a gradient of their own, whatever they were computed from."""
    return _requiring(frame, detached(frame, tensor), node, wanted=True)


def standalone(frame: Frame, node: ast.AST) -> Part:
    """The leaf that a tensor is which gets a gradient of its own."""
    leaf = Part(Obj(frame.site(node), frame.context_of_objects, STANDALONE), "")
    gradients.new_leaf(frame, leaf)
    return leaf


def converted(frame: Frame, tensor: Tensor, args: Arguments) -> Tensor:
    """`to`, `type` and `type_as`: another precision, another place, or both."""
    pytorch = frame.analysis.pytorch
    precision, place, regions, brought = tensor.precision, tensor.place, tensor.regions, 0
    for value in [*args.positional, *(args.keywords.get(each, NEVER) for each in ("dtype", "device", "other"))]:
        said = pytorch.precision_of(value) if value else None
        if said is not None:
            precision, regions = said, regions | regions_of(value)
        where = pytorch.place_of(value) if value else None
        if where is not None:
            place, brought = where, BROUGHT if where == CPU else 0
        other = tensor_of(value) if value and not _is_device(value) else None
        if other is not None:
            unknown = not any(isinstance(each, Tensor) for each in value) and other is SOME_TENSOR
            precision = precision | OTHER if unknown else other.precision
            regions |= other.regions
            place = ANYWHERE if unknown else other.place
            if place != tensor.place and not _is_weights(other):
                pytorch.note_place(place & ANYWHERE)
    if args.rest or args.others:
        precision |= OTHER
    moved = tensor if precision == tensor.precision else cast(tensor.but(regions=regions), precision)
    if place != tensor.place:
        moved = moved.but(
            place=place,
            tags=moved.tags | brought,
            leaf=NOTHING,
            reach=moved.reach | moved.leaf,
            surely=moved.sure_leaves,
        )
    return moved


def _is_device(value: Value) -> bool:
    """Whether something unknown is called a device, as `x.device` is: it has no precision to give."""
    return all(isinstance(each, Opaque) and each.name.lstrip(".") == "device" for each in value)


def like(frame: Frame, tensor: Tensor, args: Arguments, name: str, node: ast.AST) -> Value:
    """A new tensor in the precision of another."""
    pytorch = frame.analysis.pytorch
    said = pytorch.precision_of(args.keywords["dtype"]) if "dtype" in args.keywords else None
    where = pytorch.place_of(args.keywords["device"]) if "device" in args.keywords else None
    rank = tensor.rank if name.endswith("_like") else SHAPED
    whole = args if name.endswith("_like") else args.behind(one(tensor))
    for place in table.FILLED.get(name, ()):
        filled(frame, tensor if said is None else tensor.but(precision=said), whole.get(*place), node, name)
    number = next((whole.get(*place) for place in table.FILLED.get(name, ())), None)
    data = args.get(0, "data") if name == "new_tensor" else number
    ranges.note_numbers(frame, data or NEVER, node)
    fresh = made(
        said if said is not None else tensor.precision,
        rank,
        where if where is not None else tensor.place,
        tags=HUGE if ranges.is_too_large(number) else 0,
        regions=tensor.regions if said is None else regions_of(args.keywords["dtype"]),
        born=frozenset({frame.site(node)}),
    )
    pytorch.note_filled(name, frame.site(node))
    return one(asked_for_gradient(frame, fresh, args, node))


def asked_for_gradient(frame: Frame, fresh: Tensor, args: Arguments, node: ast.AST) -> Tensor:
    """A new tensor, which gets a gradient of its own where it is made with `requires_grad=True`."""
    is_asked = constant(args.keywords.get("requires_grad", NEVER)) is True
    return fresh.but(flows=FLOWS, leaf=frozenset({standalone(frame, node)})) if is_asked else fresh


def _to_numpy(frame: Frame, tensor: Tensor, node: ast.AST) -> None:
    if tensor.may_be_low:
        frame.analysis.event(frame, Act.TO_NUMPY, node, tensor=tensor)


def unknown_attribute(frame: Frame, owner: Opaque, name: str, node: ast.AST) -> Value:
    """An attribute of something unknown that is a tensor, or holds tensors."""
    assert owner.tensor is not None
    if (
        name in table.METHODS
        or name in table.DTYPE_METHODS
        or name in ("to", "numpy", "item", "backward", "cuda", "cpu", "detach", "tolist", "grad")
    ):
        return one(Native(name, owner)) if name != "grad" else gradients.read(frame, owner.tensor, node)
    if name in ("device", "dtype", "layout", "names"):
        return attribute(frame, owner.tensor, name, node)
    if name in _SIZES | _TESTS or (name.endswith("_") and name[:-1] in table.RESULT):
        return one(Native(name, owner))
    part = owner.part(f".{name}")
    is_view = _SAME_ATTRIBUTES.get(name) in ("t", "transpose")
    return no_tensor(name) or one(part.with_tensor(owner.tensor) if is_view else part)
