"""Programs as trees: whether two are the same, whether code has an effect, and how it reads."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property

from amp_migrate.syntax import children, nodes_in

# Calls that only answer a question.
_QUIET = frozenset(
    (
        "bool float int str len getattr hasattr isinstance issubclass dict list tuple set range zip enumerate "
        "torch.cuda.is_available torch.cuda.is_bf16_supported torch.cuda.get_device_capability "
        "torch.cuda.device_count torch.finfo torch.device "
        "copy.deepcopy copy.copy functools.partial os.path.exists os.path.isdir os.path.isfile os.path.join vars"
    ).split()
)
_QUIET_METHODS = frozenset("get keys values items startswith endswith lower upper parameters is_enabled copy".split())
_COMPOUND = (ast.Lambda, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Same(ast.stmt):
    """A statement that is the same on both sides, and has nothing to do with precision.

    Attributes:
        text: how it is written.
        node: the statement itself.
    """

    _fields = ("text",)

    def __init__(self, text: str, node: ast.stmt) -> None:
        super().__init__()
        self.text = text
        self.node = node

    @cached_property
    def reads(self) -> tuple[list[str], list[str]]:
        """The names that it reads, and the attributes and short texts."""
        names: list[str] = []
        others: list[str] = []
        for each in nodes_in(self.node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                names.append(each.id)
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load):
                others.append(each.attr)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
                others.append(each.value)
            elif isinstance(each, (ast.Global, ast.Nonlocal)):
                names += each.names
        return names, others


def is_quiet(node: ast.AST) -> bool:
    """Whether evaluating an expression does nothing but give its value."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _QUIET_METHODS
        match node.func:
            case ast.Attribute(ast.Constant(str()), "format"):
                is_method = True  # as an f-string is filled in
        is_loss = name.startswith("torch.nn.") and name.endswith("Loss")
        if not (name in _QUIET or name.startswith("<") or is_method or is_loss):
            return False
    elif isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
        return False
    elif isinstance(node, _COMPOUND):
        return isinstance(node, ast.Lambda) or all(map(is_quiet, children(node)))
    return all(map(is_quiet, children(node)))


def is_same(one: object, other: object) -> bool:
    """Whether two trees, or lists of them, are the same but for where they stand."""
    if type(one) is not type(other):
        return False
    if isinstance(one, ast.AST):
        # Whether a name is read or stored is clear from where it stands.
        return all(is_same(v, getattr(other, name, None)) for name, v in ast.iter_fields(one) if name != "ctx")
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other


def dump(node: ast.AST | Sequence[ast.AST]) -> str:
    """A tree as code."""
    if isinstance(node, Same):
        return node.text
    if isinstance(node, ast.AST):
        return ast.unparse(ast.fix_missing_locations(node))
    return "\n".join(map(dump, node))


def brief(node: ast.AST) -> str:
    """Code in one line that can be read."""
    text = " ".join(dump(node).split())
    return text if len(text) <= 100 else f"{text[:97]}..."
