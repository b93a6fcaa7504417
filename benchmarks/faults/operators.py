"""Operators of mutation: small changes of a program's text, wherever they fit, that somebody might make by mistake.

They know nothing of the script that they change. Whether a change has any effect is for its runs to tell.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_QUIET = frozenset("print save_image write log info debug close flush makedirs add_scalar set_description".split())
_STEP = re.compile(r"^( *)((?:self\.)?\w*scaler\w*)\.step\(((?:[\w.]|\[\w+\])+)\)\n", re.MULTILINE)
_PLAIN_STEP = re.compile(r"^( *)((?:self\.)?optim\w*)\.step\(\)\n", re.MULTILINE)
_REGION = re.compile(r"^( *)with (torch\.(?:amp\.)?autocast\(.*\)):\n((?:\1 +.*\n|\s*\n)+)", re.MULTILINE)
_COUNT = "_steps_made"


@dataclass(frozen=True)
class Mutant:
    """A changed program.

    Attributes:
        kind: what sort of mistake it is.
        operator: which change exactly, its size included.
        line: of the change in the text that was changed, from 1.
        text: of the whole changed program.
    """

    kind: str
    operator: str
    line: int
    text: str


Lines = frozenset[int]


def mutants(text: str, executed: Lines, steps: int) -> Iterator[Mutant]:
    """Every mutant of a program.

    Args:
        executed: lines that a run of it reaches; others are left alone.
        steps: optimizer steps that a run makes.
    """
    for operator in (_statements, _numbers, _arguments, _expressions, _precision, _scaling):
        yield from operator(text, executed)
    yield from _late(text, executed, steps)


class _Text:
    """A program's text by the positions that `ast` gives, which count bytes."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.tree = ast.parse(text)

    def get(self, node: ast.expr | ast.stmt) -> str:
        return ast.get_source_segment("\n".join(self.lines), node) or ""

    def put(self, node: ast.expr | ast.stmt, new: str) -> str:
        """The text with a node replaced."""
        assert node.end_lineno is not None  # a node of parsed text
        a, b = node.lineno - 1, node.end_lineno - 1
        first, last = self.lines[a].encode(), self.lines[b].encode()
        changed = first[: node.col_offset] + new.encode() + last[node.end_col_offset :]
        return "\n".join([*self.lines[:a], changed.decode(), *self.lines[b + 1 :]])


def _statements(text: str, executed: Lines) -> Iterator[Mutant]:
    """A statement that is only there for what it does is lost, or done twice."""
    program = _Text(text)
    for node in ast.walk(program.tree):
        if not isinstance(node, (ast.Expr, ast.AugAssign)) or node.lineno not in executed:
            continue
        if isinstance(node, ast.Expr):
            call = node.value
            if not isinstance(call, ast.Call) or _called(call) in _QUIET:
                continue
            what = _called(call)
        else:
            what = "+="
        if what in ("__init__", "parse_args", "add_argument", "init_process_group"):
            continue
        yield Mutant("statement lost", f"{what} lost", node.lineno, program.put(node, "pass"))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _numbers(text: str, executed: Lines) -> Iterator[Mutant]:
    """A float is off by a share, an integer by one."""
    program = _Text(text)
    quiet = {id(part) for node in ast.walk(program.tree) for part in _of_quiet(node)}
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Constant) or node.lineno not in executed or id(node) in quiet:
            continue
        if type(node.value) is float and node.value:
            for share in (1e-3, 0.01, 0.1, 0.5):
                new = repr(node.value * (1 + share))
                yield Mutant("number changed", f"float off by {share:.1%}", node.lineno, program.put(node, new))
        elif type(node.value) is int and 1 < node.value < 4096:
            yield Mutant("number changed", "integer off by one", node.lineno, program.put(node, repr(node.value + 1)))


def _of_quiet(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and _called(node) in _QUIET:
        yield from ast.walk(node)


def _arguments(text: str, executed: Lines) -> Iterator[Mutant]:
    """A keyword argument is lost, or a switch is turned over."""
    program = _Text(text)
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Call) or node.lineno not in executed or _called(node) in (*_QUIET, "add_argument"):
            continue
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in ("device_type", "num_workers", "download", "dtype"):
                continue
            source, value = program.get(node), program.get(keyword.value)
            shorter = re.sub(rf",?\s*\b{keyword.arg}\s*=\s*{re.escape(value)}", "", source, count=1)
            shorter = shorter.replace("(,", "(").replace("( ,", "(")
            if shorter != source:
                what = f"{_called(node)}({keyword.arg}=)"
                yield Mutant("argument lost", f"{what} lost", node.lineno, program.put(node, shorter))
            if isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is bool:
                new = program.put(keyword.value, repr(not keyword.value.value))
                yield Mutant("switch turned", f"{_called(node)}({keyword.arg}=)", node.lineno, new)


_SWAPPED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
}
_RENAMED = {
    "mean": "sum", "sum": "mean", "train": "eval", "eval": "train", "Adam": "AdamW", "SGD": "Adam", "ReLU": "GELU",
    "MSELoss": "SmoothL1Loss", "L1Loss": "MSELoss", "BatchNorm2d": "InstanceNorm2d", "detach": "clone",
    "tanh": "sigmoid", "relu": "gelu", "step": "state_dict", "zero_grad": "state_dict",
}  # fmt: skip


def _expressions(text: str, executed: Lines) -> Iterator[Mutant]:
    """An operator, a condition or a called method is another."""
    program = _Text(text)
    for node in ast.walk(program.tree):
        if getattr(node, "lineno", 0) not in executed:
            continue
        if isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
            old, new = _SWAPPED[type(node.op)]
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                continue
            text_of = f"({program.get(node.left)}) {new} ({program.get(node.right)})"
            yield Mutant("operator swapped", f"{old} to {new}", node.lineno, program.put(node, f"({text_of})"))
        elif isinstance(node, ast.If) and not program.get(node.test).startswith("__name__"):
            negated = program.put(node.test, f"not ({program.get(node.test)})")
            yield Mutant("condition negated", "if", node.lineno, negated)
        elif isinstance(node, ast.Attribute) and node.attr in _RENAMED:
            new = f"{program.get(node.value)}.{_RENAMED[node.attr]}"
            yield Mutant("another call", f"{node.attr} to {_RENAMED[node.attr]}", node.lineno, program.put(node, new))


Edit = Callable[[re.Match[str]], str]


def _each(text: str, pattern: re.Pattern[str], kind: str, name: str, edit: Edit) -> Iterator[Mutant]:
    for found in pattern.finditer(text):
        new = edit(found)
        if new != found[0]:
            line = text.count("\n", 0, found.start()) + 1
            yield Mutant(kind, name, line, text[: found.start()] + new + text[found.end() :])


def _all(text: str, pattern: re.Pattern[str], kind: str, name: str, edit: Edit) -> Iterator[Mutant]:
    found = pattern.search(text)
    if found is not None and (new := pattern.sub(edit, text)) != text:
        yield Mutant(kind, name, text.count("\n", 0, found.start()) + 1, new)


def _dedent(block: str) -> str:
    inside = re.match(r" *", block)
    assert inside is not None
    return re.sub(rf"^{inside[0][:4]}", "", block, flags=re.MULTILINE)


def _precision(text: str, executed: Lines) -> Iterator[Mutant]:
    """Regions, formats and casts."""
    kind = "precision"
    yield from _each(text, _REGION, kind, "region lost", _dedented)
    yield from _each(text, _REGION, kind, "region off after some steps", lambda m: _conditional(m, "< 6"))
    yield from _each(text, _REGION, kind, "region on every other step", lambda m: _conditional(m, "% 2"))
    yield from _each(text, _REGION, kind, "dummy product in the region", _dummy)
    yield from _each(text, _REGION, kind, "first statement outside the region", _first_outside)
    yield from _each(text, _REGION, kind, "last statement outside the region", _last_outside)
    swapped = {"float16": "bfloat16", "bfloat16": "float16"}
    dtype = re.compile(r"(?<=dtype=torch\.)(b?float16)(?=\))")
    yield from _all(text, dtype, kind, "the other half format", lambda m: swapped[m[1]])
    device = re.compile(r"(?<=autocast\(device_type=)\"cuda\"")
    yield from _all(text, device, kind, "autocast for the CPU", lambda m: '"cpu"')
    yield from _each(text, re.compile(r"\.float\(\)"), kind, "cast lost", lambda m: "")
    moved = re.compile(r"(?<=\w)\.(?:cuda\(\)|to\((?:self\.)?device\))")
    yield from _each(text, moved, kind, "left on the CPU", lambda m: "")
    loss = re.compile(r"^( *)(\w*loss\w*) = (\w+)\((\w+), ", re.MULTILINE)
    yield from _each(text, loss, kind, "loss of half values", lambda m: f"{m[1]}{m[2]} = {m[3]}({m[4]}.half(), ")
    total = re.compile(r"\+= (\w*loss\w*)\.item\(\)")
    yield from _each(text, total, kind, "sum in half", lambda m: f"+= {m[1]}.detach().half()")


def _dedented(region: re.Match[str]) -> str:
    return _dedent(region[3])


def _conditional(region: re.Match[str], test: str) -> str:
    if "enabled=" in region[2]:
        return region[0]
    count = f"{region[1]}globals().__setitem__('{_COUNT}', globals().get('{_COUNT}', -1) + 1)\n"
    call = region[2][:-1] + f", enabled=globals()['{_COUNT}'] {test})" if test == "< 6" else ""
    call = call or region[2][:-1] + f", enabled=bool(globals()['{_COUNT}'] {test}))"
    return f"{count}{region[1]}with {call}:\n{region[3]}"


def _dummy(region: re.Match[str]) -> str:
    inside = re.match(r" *", region[3])
    assert inside is not None
    one = 'torch.ones(8, 8, device="cuda", requires_grad=True)'
    return f"{region[1]}with {region[2]}:\n{inside[0]}{one} @ {one}\n{_dedent(region[3])}"


def _body(region: re.Match[str]) -> list[str]:
    """The statements of a region that is simple enough: one to a line."""
    lines = [line for line in region[3].split("\n") if line.strip()]
    inside = re.match(r" *", lines[0])
    assert inside is not None
    return lines if all(re.match(rf"{inside[0]}[\w#]", line) for line in lines) else []


def _first_outside(region: re.Match[str]) -> str:
    body = _body(region)
    if len(body) < 2:
        return region[0]
    rest = "\n".join(body[1:])
    return f"{_dedent(body[0])}\n{region[1]}with {region[2]}:\n{rest}\n"


def _last_outside(region: re.Match[str]) -> str:
    body = _body(region)
    if len(body) < 2:
        return region[0]
    rest = "\n".join(body[:-1])
    return f"{region[1]}with {region[2]}:\n{rest}\n{_dedent(body[-1])}\n"


def _scaling(text: str, executed: Lines) -> Iterator[Mutant]:
    """What is done with a loss scaler."""
    kind = "loss scaling"
    scaler = r"((?:self\.)?\w*scaler\w*)"
    made = re.compile(r"(GradScaler\(\"cuda\")\)")
    for argument in (
        "enabled=False",
        "init_scale=1.0, growth_interval=10**9",
        "init_scale=2.0**-6",
        "growth_interval=1",
        "init_scale=2.0**40, backoff_factor=0.999",
    ):
        new = argument
        yield from _all(text, made, kind, f"GradScaler({argument})", lambda m, new=new: f"{m[1]}, {new})")  # type: ignore[misc]
    scale = re.compile(rf"{scaler}\.scale\((.+?)\)\.backward\(")
    yield from _each(text, scale, kind, "not scaled", lambda m: f"({m[2]}).backward(")
    yield from _each(text, scale, kind, "scaled twice", lambda m: f"{m[1]}.scale({m[1]}.scale({m[2]})).backward(")
    yield from _each(text, scale, kind, "loss 5 % larger", lambda m: f"{m[1]}.scale(1.05 * ({m[2]})).backward(")
    unscale = re.compile(rf"^ *{scaler}\.unscale_\(.*\)\n", re.MULTILINE)
    yield from _each(text, unscale, kind, "unscale_ lost", lambda m: "")
    clip = re.compile(rf"^( *{scaler}\.unscale_\(.*\)\n)( *.*clip_grad.*\n)", re.MULTILINE)
    yield from _each(text, clip, kind, "clipped before unscale_", lambda m: f"{m[3]}{m[1]}")
    update = re.compile(rf"^( *){scaler}\.update\(\)\n", re.MULTILINE)
    yield from _each(text, update, kind, "update lost", lambda m: f"{m[1]}pass\n")
    yield from _each(text, update, kind, "update twice", lambda m: m[0] * 2)
    yield from _each(text, _STEP, kind, "step past the scaler", lambda m: f"{m[1]}{m[3]}.step()\n")
    yield from _each(text, _STEP, kind, "unscaled by hand and stepped", _by_hand)
    yield from _each(text, _STEP, kind, "infinities replaced", lambda m: f"{_replaced(m)}{m[0]}")
    yield from _each(
        text, _STEP, kind, "stepped only now and then", lambda m: f"{m[1]}if torch.rand(1) < 0.9:\n    {m[0]}"
    )
    yield from _each(text, _STEP, kind, "gradients 5 % larger", lambda m: f"{_larger(m)}{m[0]}")
    each_step = re.compile(rf"^( *){scaler}(\.scale\(.+\)\.backward\(.*\)\n)", re.MULTILINE)
    yield from _each(
        text,
        each_step,
        kind,
        "a scaler for every step",
        lambda m: f'{m[1]}{m[2]} = torch.amp.GradScaler("cuda")\n{m[0]}',
    )


def _by_hand(step: re.Match[str]) -> str:
    indent, scaler, optimizer = step.groups()
    return (
        f"{indent}for _g in {optimizer}.param_groups:\n{indent}    for _p in _g['params']:\n"
        f"{indent}        _p.grad = None if _p.grad is None else _p.grad / {scaler}.get_scale()\n"
        f"{indent}{optimizer}.step()\n"
    )


def _replaced(step: re.Match[str]) -> str:
    return _on_gradients(step, "_p.grad.nan_to_num_(0.0, 0.0, 0.0)")


def _larger(step: re.Match[str]) -> str:
    return _on_gradients(step, "_p.grad.mul_(1.05)")


def _on_gradients(step: re.Match[str], do: str) -> str:
    indent, _, optimizer = step.groups()
    return (
        f"{indent}for _g in {optimizer}.param_groups:\n{indent}    for _p in _g['params']:\n"
        f"{indent}        _p.grad is not None and {do}\n"
    )


def _late(text: str, executed: Lines, steps: int) -> Iterator[Mutant]:
    """Something changes late in the training."""
    settings = {
        "learning rate halved": "_g['lr'] = _g['lr'] * 0.5",
        "learning rate 10 % higher": "_g['lr'] = _g['lr'] * 1.1",
        "weight decay lost": "_g['weight_decay'] = 0 * _g['weight_decay'] + (0 if _g['weight_decay'] else 1e-4)",
        "momentum lost": "_g.update({k: v * 0 for k, v in _g.items() if k == 'momentum'})",
    }
    for share in (0.4, 0.7, 0.95):
        at = max(3, int(share * steps))
        for name, setting in settings.items():
            for pattern in (_STEP, _PLAIN_STEP):
                for mutant in _each(text, pattern, "late", f"{name} after {share:.0%}", _after(at, setting)):
                    yield mutant
                    break


def _after(at: int, setting: str) -> Edit:
    def edit(step: re.Match[str]) -> str:
        indent, optimizer = step[1], step[step.re.groups]
        return (
            f"{indent}globals().__setitem__('{_COUNT}', globals().get('{_COUNT}', 0) + 1)\n"
            f"{indent}if globals()['{_COUNT}'] == {at}:\n{indent}    for _g in {optimizer}.param_groups:\n"
            f"{indent}        {setting}\n{step[0]}"
        )

    return edit
