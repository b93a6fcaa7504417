"""Whether a value is sure to be floating, so that `.float()` changes nothing once autocast is off.

A small proof: a value is floating if all that may have been put there is, and a call if it computes what only floating
numbers have, or raises. Models are followed to the `forward` of their class.
"""

from __future__ import annotations

import ast

from amp_migrate.prove.code.scopes import Scope, last_word
from amp_migrate.prove.sources.origins import ClassSource, Origins, Source
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.operators import NO_HALF_KERNEL

_DEPTH = 12  # values that are made of one another; what is further back is not known to be floating
# Functions of torch, and methods of tensors, whose result is floating whatever they are given, or that raise.
_FLOATING = frozenset(
    (
        "float double half sigmoid tanh exp expm1 log log2 log10 log1p softmax log_softmax logsumexp logsigmoid "
        "mean std var norm sqrt rsqrt sin cos erf rand randn rand_like randn_like normal bernoulli dropout gelu "
        "elu selu celu silu mish hardswish softplus leaky_relu prelu layer_norm batch_norm instance_norm "
        "group_norm rms_norm interpolate grid_sample linspace reciprocal true_divide sinc atan atan2 "
        "cosine_similarity normalize scaled_dot_product_attention linear conv1d conv2d conv3d conv_transpose1d "
        "conv_transpose2d conv_transpose3d embedding avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
        "adaptive_avg_pool2d adaptive_avg_pool3d stft"
    ).split()
)
# Methods and functions whose result is of the type of what they are given.
_KEEPS = frozenset(
    (
        "abs chunk clamp clip clone contiguous cpu cuda data detach expand expand_as flatten flip gather "
        "index_select masked_fill masked_select max min neg permute pow relu repeat reshape select split squeeze "
        "sum t to transpose unsqueeze view view_as narrow unbind mul add sub div matmul mm bmm einsum cat stack "
        "tril triu unflatten square requires_grad_ detach_ numpy sort topk roll repeat_interleave cumsum prod "
        "item max_pool2d pixel_shuffle"
    ).split()
)
_OTHER_TYPES = frozenset("int long bool short byte argmax argmin argsort nonzero item tolist size numel".split())
# Modules whose result is floating, or that raise; those that keep the type of what they are given.
_LAYERS = (
    *("Linear", "Conv", "LazyLinear", "BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm", "Sigmoid"),
    *("Tanh", "Softmax", "LogSoftmax", "GELU", "ELU", "SiLU", "Softplus", "LeakyReLU", "PReLU", "Embedding", "LSTM"),
    *("GRU", "RNN", "Transformer", "MultiheadAttention", "Upsample", "AvgPool", "AdaptiveAvgPool", "Bilinear"),
    *("LogSigmoid", "SELU", "Mish", "Hardswish", "SyncBatchNorm"),
)
_HANDS_ON = frozenset("to cuda cpu float train eval half double requires_grad_ apply".split())
_WRAPS = frozenset("DataParallel DistributedDataParallel convert_sync_batchnorm compile script deepcopy".split())
# Losses that compare one number with one: their second argument is taken as floating, too, or raises.
_PAIRED = ("BCELoss", "BCEWithLogitsLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "KLDivLoss")
_PAIRED_FUNCTIONS = frozenset(
    "binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss huber_loss kl_div".split()
)
# Losses that raise where the first of their arguments is not floating.
_LOSSES = frozenset(
    (
        "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy nll_loss kl_div mse_loss l1_loss "
        "smooth_l1_loss huber_loss ctc_loss"
    ).split()
)


class Floating:
    """The small proof."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    def is_floating(self, source: Source) -> bool:
        """Whether a value of the original is sure to be a floating tensor where precision is off."""
        return self._holds(source, 0)

    def may_be_floating(self, source: Source, depth: int = 0) -> bool:
        """Whether a value is not known to be a tensor of whole numbers or truth values, or no tensor."""
        node, scope = source.node, source.scope
        if isinstance(node, ast.Compare):
            return False
        if isinstance(node, ast.Constant):
            return isinstance(node.value, float)
        if isinstance(node, ast.Call):
            name = last_word(node.func).removesuffix("_")
            if name in _OTHER_TYPES or any(map(_names_type, (*node.args, *(k.value for k in node.keywords)))):
                return _is_float_type(node)
            if name not in _KEEPS or not isinstance(node.func, ast.Attribute) or depth >= _DEPTH:
                return True
            return self.may_be_floating(Source(node.func.value, scope), depth + 1)
        given = self._origins.of(source) if depth < _DEPTH and source.index is None else []
        return not given or any(each.index is not None or self.may_be_floating(each, depth + 1) for each in given)

    def is_module(self, source: Source) -> bool:
        """Whether a value is sure to be a module that computes something floating."""
        return self._computes(source, None, 0)

    def demanded(self, call: ast.Call, scope: Scope) -> int:
        """How many arguments of a call are floating, or the call raises: it is a loss, by name or as an object."""
        func = call.func
        if isinstance(func, ast.Name) and func.id.removeprefix("torch.") in NO_HALF_KERNEL:
            return 2
        if isinstance(func, ast.Name) and func.id.startswith("torch.nn.functional."):
            name = func.id.rpartition(".")[2]
            return 0 if name not in _LOSSES else 2 if name in _PAIRED_FUNCTIONS else 1
        made = [Source(func, scope)] if isinstance(func, ast.Call) else self._origins.of(Source(func, scope))
        return min((self._demanded_by(self._bare(each)) for each in made), default=0)

    @staticmethod
    def is_demanded_by(method: str) -> bool:
        """Whether a method raises where its tensor is not floating."""
        return method in NO_HALF_KERNEL

    def _demanded_by(self, source: Source) -> int:
        full, _ = self._origins.made(source)
        if not (full.startswith("torch.nn.") and full.endswith("Loss")):
            return 0
        return 2 if full.endswith(_PAIRED) else 1

    def _holds(self, source: Source, depth: int) -> bool:
        node, scope = source.node, source.scope
        if depth > _DEPTH:
            return False
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = node.elts if source.index is None else node.elts[source.index : source.index + 1]
            return bool(parts) and all(self._holds(Source(each, scope), depth + 1) for each in parts)
        if isinstance(node, ast.Call):
            return self._is_call(node, source, depth)
        if isinstance(node, ast.BinOp):
            sides = (Source(node.left, scope), Source(node.right, scope))
            return isinstance(node.op, ast.Div) or any(self._holds(each, depth + 1) for each in sides)
        if isinstance(node, ast.UnaryOp):
            return self._holds(Source(node.operand, scope), depth + 1)
        if isinstance(node, ast.IfExp):
            return all(self._holds(Source(each, scope, source.index), depth + 1) for each in (node.body, node.orelse))
        if isinstance(node, ast.Subscript):
            index = node.slice.value if isinstance(node.slice, ast.Constant) else None
            part = Source(node.value, scope, index if isinstance(index, int) else None)
            return self._holds(part, depth + 1) or self._holds(Source(node.value, scope), depth + 1)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, float)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in _KEEPS
            and self._holds(Source(node.value, scope), depth + 1)
        ):
            return True
        given = self._origins.of(source)
        return bool(given) and all(
            self._holds(each if each.index is not None else Source(each.node, each.scope, source.index), depth + 1)
            for each in given
            if not _is_of_itself(each.node, node)
        )

    def _is_call(self, node: ast.Call, source: Source, depth: int) -> bool:
        scope, func = source.scope, node.func
        name = func.id.rpartition(".")[2] if isinstance(func, ast.Name) else last_word(func)
        name = name if name in _KEEPS else name.removesuffix("_")
        if name in _OTHER_TYPES or any(_names_type(each) for each in (*node.args, *(k.value for k in node.keywords))):
            return _is_float_type(node)
        full, _ = self._origins.made(source)
        if full.startswith("torch."):
            if name in _FLOATING or name in _LOSSES:
                return True
            return name in _KEEPS and any(self._holds(Source(each, scope), depth + 1) for each in node.args)
        if isinstance(func, ast.Attribute):
            if name in _FLOATING and name not in ("float", "double", "half"):
                return True
            if name in ("float", "double") or (name in _KEEPS and self._holds(Source(func.value, scope), depth + 1)):
                return True
        returned = self._origins.returned(source)
        if returned:
            return all(self._holds(each, depth + 1) for each in returned)
        if isinstance(func, ast.Attribute) and self._method_gives_floating(
            Source(func.value, scope), name, source.index, depth
        ):
            return True
        return self._computes(Source(func, scope), source.index, depth)

    def _method_gives_floating(self, of: Source, name: str, index: int | None, depth: int) -> bool:
        """Whether a method of an object returns something floating, whichever object it is of the classes it may be."""
        own = self._origins.own_class(of)
        made = [self._bare(each) for each in self._origins.of(of) if not isinstance(each.node, ast.Constant)]
        classes = [self._origins.made(each)[1] for each in made] if own is None else [own]
        return bool(classes) and all(
            each is not None and self._returns(each, name, index, depth + 1) for each in classes
        )

    def _computes(self, module: Source, index: int | None, depth: int) -> bool:
        """Whether the call of a module gives something floating."""
        made = [module] if isinstance(module.node, ast.Call) else self._origins.of(module)
        made = [each for each in made if _may_be_called(each.node)]
        return bool(made) and all(self._gives_floating(self._bare(each), index, depth + 1) for each in made)

    def _bare(self, source: Source) -> Source:
        """A module without what wraps it."""
        node = source.node
        while isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _HANDS_ON:
                node = node.func.value
            elif last_word(node.func) in _WRAPS and node.args:
                node = node.args[0]
            else:
                break
        return Source(node, source.scope)

    def _gives_floating(self, source: Source, index: int | None, depth: int) -> bool:
        if depth > _DEPTH:
            return False
        if not isinstance(source.node, ast.Call):
            given = self._origins.of(source)
            given = [each for each in given if not _is_of_itself(each.node, source.node) and _may_be_called(each.node)]
            return bool(given) and all(self._gives_floating(self._bare(each), index, depth + 1) for each in given)
        full, at = self._origins.made(source)
        if at is not None:
            return self._forward(at, index, depth)
        returned = self._origins.returned(source)
        if returned:
            return all(self._gives_floating(self._bare(each), index, depth + 1) for each in returned)
        name = full.rpartition(".")[2]
        if name == "Sequential" and full.startswith("torch.nn."):
            return any(
                self._gives_floating(Source(each, source.scope), None, depth + 1)
                for each in source.node.args
                if isinstance(each, ast.Call)
            ) or any(isinstance(each, ast.Starred) for each in source.node.args)
        return full.startswith("torch.nn.") and (name.startswith(_LAYERS) or name.endswith("Loss"))

    def _forward(self, at: ClassSource, index: int | None, depth: int) -> bool:
        """Whether all that the `forward` of a class returns is floating."""
        return self._returns(at, "forward", index, depth)

    def _returns(self, at: ClassSource, name: str, index: int | None, depth: int) -> bool:
        forward = at.method(name)
        if forward is None or depth > _DEPTH:
            return False
        returned = [each.value for each in nodes_in(forward) if isinstance(each, ast.Return)]
        inner = self._origins.inside(forward, at)
        return bool(returned) and all(
            each is not None and self._holds(Source(each, inner, index), depth + 1) for each in returned
        )


def _is_of_itself(value: ast.expr, name: ast.expr) -> bool:
    """`x = x.view(-1)`: what is floating stays so."""
    node = value
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute) or node.func.attr in _OTHER_TYPES:
                return False
            node = node.func
        else:
            node = node.value
    return isinstance(name, ast.Name) and isinstance(node, ast.Name) and node.id == name.id and value is not node


def _may_be_called(node: ast.expr) -> bool:
    """Whether a value may be a module: a list that one is made of later, by the same name, is none."""
    return not isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Constant))


def _names_type(node: ast.expr) -> bool:
    """`torch.long`, as the dtype of a call."""
    return isinstance(node, ast.Attribute) and node.attr in (
        *("long", "int", "int8", "int16", "int32", "int64", "uint8", "bool"),
        *("float", "float32", "float64", "double", "half", "float16", "bfloat16"),
    )


def _is_float_type(node: ast.Call) -> bool:
    values = (*node.args, *(each.value for each in node.keywords))
    return any(isinstance(e, ast.Attribute) and e.attr in ("float", "float32", "float64", "double") for e in values)
