"""How many dimensions an operator's result may have: a tensor of none counts for less where types are promoted."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from amp_migrate.flow.domain.atoms import NEVER, Const, Some, Tup, Value, constant, only
from amp_migrate.flow.domain.tensor import BOOL, INT, MATRIX, SCALAR, SHAPED, VECTOR, Tensor, broadcast
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.tables import operators as table

_ANY = SCALAR | SHAPED
_SPLITTING = frozenset("split chunk tensor_split split_with_sizes".split())
# What is given after the tensor are sizes.
_SIZED = frozenset("view reshape expand broadcast_to".split())
# A dimension behind the first is named: the tensor has at least two, and so has the result.
_ALONG = frozenset("normalize softmax log_softmax softmin cumsum flatten cat concat concatenate".split())
# A matrix is meant: `t` takes vectors too, and leaves them as they are.
_TURNS = frozenset("t adjoint transpose swapaxes swapdims tril triu".split())


def of_result(name: str, tensors: Sequence[Tensor], args: Arguments) -> int:
    """The ranks that an operator's result may have, as bits."""
    first = tensors[0].rank
    if name in table.ALWAYS_SCALAR:
        return SCALAR
    if name in table.LOSSES:
        reduction = args.keywords.get("reduction")
        return SCALAR if reduction is None or constant(reduction) in ("mean", "sum", "batchmean") else _ANY
    if name in table.REDUCING:
        return _of_reduction(name, first, args)
    if name in _TURNS:
        return MATRIX
    if name in _ALONG and _is_behind_first(name, args):
        return MATRIX
    if name in table.MATRIX_RESULTS:
        return MATRIX
    if name == "linear":
        return first & SHAPED or SHAPED
    if name == "unsqueeze":
        return MATRIX if not first & SCALAR else SHAPED
    if name in table.SHAPED_RESULTS or name == "flatten":
        return SHAPED
    if name in _SIZED:
        return of_sizes(args.positional[1:]) if args.positional and not args.rest else _ANY
    if name in ("squeeze", "select", "view_as", "reshape_as"):
        return _ANY
    if name in table.VIEWS:
        return first
    if table.RESULT.get(name) in (table.PROMOTED, table.FLOATED, table.BOOLEAN) and len(tensors) > 1:
        return functools.reduce(broadcast, (each.rank for each in tensors))
    if name == "matmul" and len(tensors) > 1:
        return _of_product(first, tensors[1].rank)
    if name == "einsum":
        return _of_einsum(args)
    if name in ("matmul", "tensordot", "inner", "gather", "index_select", "take"):
        return _ANY
    return first


def of_sizes(sizes: Sequence[Value]) -> int:
    """The ranks of a tensor that is made of, or looked at in, some sizes: several numbers, or one tuple of them."""
    whole = only(sizes[0], Tup) if len(sizes) == 1 else None
    if whole is not None:
        sizes = whole.items
    are_numbers = all(isinstance(e, (Const, Some)) and e.kind in ("int", "number") for each in sizes for e in each)
    if (whole is not None and whole.rest is not None) or not are_numbers or not sizes:
        return SCALAR if whole is not None and whole.rest is None and not sizes else _ANY
    return VECTOR if len(sizes) == 1 else MATRIX


def without_one(rank: int) -> int:
    """The ranks of a tensor that has lost one dimension."""
    return (SCALAR if rank & VECTOR else 0) | (SHAPED if rank & MATRIX else 0) or _ANY


def of_piece(name: str, rank: int) -> int:
    """The ranks of one of several pieces that an operator takes a tensor to."""
    if name == "unbind":
        return without_one(rank)
    return rank & SHAPED or SHAPED if name in _SPLITTING else _ANY


def of_part(rank: int, index: ast.expr, value: Value) -> int:
    """The ranks of a part of a tensor, by the index that it is taken at, and what that may be.

    What a mask takes has a dimension of its own, and what a tensor of whole numbers does has those of that.
    """
    given = only(value, Tensor)
    if given is not None and (given.precision == BOOL or (given.precision == INT and not given.rank & SCALAR)):
        return SHAPED
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(each, ast.Slice) for each in parts):
        keeps = all(isinstance(each, ast.Slice) or _is_ellipsis(each) for each in parts)
        return rank & SHAPED or SHAPED if keeps else SHAPED
    taken = [each for each in parts if not _is_ellipsis(each)]
    if any(isinstance(each, ast.Constant) and each.value is None for each in taken):  # it makes a dimension
        return SHAPED
    if not all(map(_is_number, taken)):
        return _ANY
    return functools.reduce(lambda left, _: without_one(left), taken, rank)  # `x[..., 2]` is of one dimension less


def _is_ellipsis(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and index.value is ...


def _is_number(index: ast.expr) -> bool:
    """Whether an index is a whole number that is written out."""
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        index = index.operand
    return isinstance(index, ast.Constant) and isinstance(index.value, int) and not isinstance(index.value, bool)


def is_whole(index: ast.expr) -> bool:
    """Whether an index takes all of a tensor, be it in another shape: `x[:, None]`, `x[...]`."""
    if isinstance(index, ast.Tuple):
        return all(map(is_whole, index.elts))
    if isinstance(index, ast.Slice):
        return index.lower is index.upper is index.step is None
    return isinstance(index, ast.Constant) and index.value in (None, ...)


def _of_reduction(name: str, rank: int, args: Arguments) -> int:
    before = 2 if name in ("norm", "linalg.norm", "linalg.vector_norm", "quantile") else 1
    has_dim = len(args.positional) > before or "dim" in args.keywords
    if not has_dim and not ("axis" in args.keywords or args.rest or args.others):
        return SCALAR
    if constant(args.keywords.get("keepdim", NEVER)) is True:
        return rank & SHAPED or SHAPED
    given = args.keywords.get("dim") or (args.positional[before] if len(args.positional) == before + 1 else NEVER)
    return without_one(rank) if isinstance(constant(given), int) else _ANY


def _of_product(a: int, b: int) -> int:
    """A product of two vectors is a scalar, one of a matrix and a vector is at least a vector."""
    found = SCALAR if a & VECTOR and b & VECTOR else 0
    if (a & VECTOR and b & MATRIX) or (a & MATRIX and b & VECTOR):
        found |= SHAPED
    return found | (MATRIX if a & MATRIX and b & MATRIX else 0) or _ANY


def _of_einsum(args: Arguments) -> int:
    equation = constant(args.positional[0]) if args.positional else None
    if not isinstance(equation, str) or "->" not in equation:
        return _ANY
    result = equation.rpartition("->")[2].replace(" ", "")
    if "..." in result:
        return _ANY
    return (SCALAR, VECTOR, MATRIX)[min(len(result), 2)]


def _is_behind_first(name: str, args: Arguments) -> bool:
    word = "start_dim" if name == "flatten" else "dim"
    at = args.positional[1] if len(args.positional) > 1 and name != "normalize" else NEVER
    dimension = constant(args.keywords.get(word) or at)
    return isinstance(dimension, int) and not isinstance(dimension, bool) and dimension >= 1
