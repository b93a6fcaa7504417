"""Random programs on tensors: what each computes is noted while it runs, and compared with what was said of it.

Nothing in it is float64: fake tensors multiply matrices of different precisions, where true ones raise.

A program is one function `main(flag, fail)`: `flag(k)` is a branch that only a run knows, `fail(k)` may raise, and
`note(k, x)` writes down what `x` is.
"""

from __future__ import annotations

from random import Random

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.amp import autocast
from elsewhere import fail, flag, note


class Net(nn.Module):
    def __init__(self, wide, norm):
        super().__init__()
        self.wide = wide
        self.first = nn.Linear(4, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.norm = nn.LayerNorm(4) if norm else nn.Identity()
        self.scale = nn.Parameter(torch.ones(4))
        self.last = None

    def forward(self, x, extra=None):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x) + x
        self.last = x
        if self.wide:
            x = self.body(x)
        if extra is not None:
            x = x * extra
        return self.norm(x) * self.scale

    def summary(self, x):
        return {"mean": self(x).mean(), "last": self.last}


class Wide(Net):
    def __init__(self):
        super().__init__(True, True)

    def forward(self, x, extra=None):
        y = super().forward(x, extra)
        return torch.cat([y, x], dim=0)


def twice(f):
    def run(x):
        return f(f(x))

    return run


def parts(x):
    for i in range(2):
        yield x.softmax(-1) if i else x


@torch.no_grad()
def frozen(net, x):
    return net(x)


"""
_EXPRESSIONS = (
    "{a} + {b}", "{a} * 0.5", "{a} @ {b}", "{a}.softmax(-1)", "F.relu({a})", "{a}.float()", "{a}.half()", "{a}.sum()",
    "{a}.mean(-1, keepdim=True)", "{a}.exp()", "torch.cat([{a}, {b}])[:4]", "torch.stack([{a}, {b}])[0]",
    "{a} > {b}", "torch.sigmoid({a})",
    "net({a}[:4])", "net.body({a}[:4])", "net.first({a}[:4])", "wide({a}[:4])[:4]", "frozen(net, {a}[:4])",
    "twice(net.first)({a}[:4])",
    "{a}.detach()", "torch.where(flag(7), {a}, {b}) if False else {a}", "{a}[0]", "{a}.t()",
    "F.layer_norm({a}, {a}.shape[-1:])", "{a}.to({b}.dtype)",
    "{a}.type_as({b})", "torch.zeros_like({a})", "{a} if flag(1) else {b}", "sum([{a}, {b}])",
    "(lambda t: t @ t.t())({a})", "max({a}.mean(), {b}.mean())",
    "F.mse_loss({a}, {b})", "F.normalize({a})", "{a} ** 2", "1 - {a}", "{a} / ({b}.norm() + 1e-6)", "{a}.mul({b})",
    "net.summary({a}[:4])['last']",
    "net.summary({a}[:4])['mean']", "[t for t in parts({a})][1]", "tuple(parts({a}))[0]",
    "[layer({a}[:4]) for layer in net.layers][0]", "{a}.var()", "{a}.max(0)[0]",
    "torch.einsum('ij,kj->ik', {a}, {b})", "{a}.argmax(-1)", "({a} > 0).float() * {a}", "{a}.long() * 2",
    "torch.clamp({a}, 0, 1).log()",
)  # fmt: skip


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.notes = 0
        self.names = ["x", "y"]
        self.functions = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        return self.random.choice(self.names)

    def expression(self) -> str:
        return self.random.choice(_EXPRESSIONS).format(a=self.name(), b=self.name())

    def note(self, depth: int, name: str) -> None:
        self.notes += 1
        self.line(depth, f"note({self.notes}, {name})")

    def assign(self, depth: int) -> None:
        name = self.name() if self.random.random() < 0.4 else f"v{self.random.randrange(6)}"
        value = self.expression()
        # A shape may not fit, and is then what it was: both ways are ways of the program.
        self.line(depth, "try:")
        self.line(depth + 1, f"{name} = {value}")
        self.line(depth, "except (RuntimeError, IndexError, TypeError, ValueError):")
        self.line(depth + 1, f"{name} = {self.random.choice(('x0', 'x0.half()', 'x0 * 2'))}")
        if name not in self.names:
            self.names.append(name)
        self.note(depth, name)

    def block(self, depth: int, size: int, in_loop: bool) -> None:
        for _ in range(size):
            self.statement(depth, in_loop)

    def statement(self, depth: int, in_loop: bool) -> None:
        kind = self.random.random()
        known = list(self.names)
        if depth > 4 or kind < 0.45:
            self.assign(depth)
            return
        if kind < 0.58:
            enabled = self.random.choice(("", "", ", enabled=False", ", enabled=flag(2)"))
            dtype = self.random.choice(("float16", "float16", "bfloat16"))
            self.line(depth, f"with autocast('cuda', dtype=torch.{dtype}{enabled}):")
            self.block(depth + 1, self.random.randint(1, 3), in_loop)
            self.note(depth, self.name())
            return
        if kind < 0.66:
            self.line(
                depth,
                self.random.choice(
                    ("with torch.no_grad():", "with torch.set_grad_enabled(flag(3)):", "with torch.enable_grad():")
                ),
            )
            self.block(depth + 1, self.random.randint(1, 2), in_loop)
            return
        if kind < 0.78:
            self.line(depth, f"if flag({self.random.randrange(9)}):")
            self.block(depth + 1, self.random.randint(1, 2), in_loop)
            if self.random.random() < 0.5:
                self.names = [each for each in known if each in self.names]
                self.line(depth, "else:")
                self.block(depth + 1, 1, in_loop)
        elif kind < 0.88:
            self.line(
                depth,
                self.random.choice(
                    ("for step in range(2):", "for step, item in enumerate([x, y]):", "for item in parts(x):")
                ),
            )
            self.block(depth + 1, self.random.randint(1, 2), True)
            self.note(depth + 1, self.name())
        elif kind < 0.93:
            self.line(depth, "try:")
            self.block(depth + 1, 1, in_loop)
            self.line(depth + 1, "fail(1)")
            self.names = list(known)
            self.line(depth, "except ValueError:")
            self.block(depth + 1, 1, in_loop)
            if self.random.random() < 0.4:
                self.names = list(known)
                self.line(depth, "finally:")
                self.block(depth + 1, 1, False)
        elif in_loop:
            self.line(depth, f"if flag({self.random.randrange(9)}):")
            self.line(depth + 1, self.random.choice(("break", "continue")))
        else:
            self.functions += 1
            inner = f"inner{self.functions}"
            self.line(depth, f"def {inner}(t, other=x):")
            self.line(depth + 1, f"if flag({self.random.randrange(9)}):")
            self.line(depth + 2, "return t.float(), other")
            self.line(
                depth + 1, f"return {self.random.choice(('t @ t.t()', 'F.relu(t)', 't * y', 'net.first(t[:4])'))}, t"
            )
            self.line(depth, "try:")
            self.line(depth + 1, f"v0, v1 = {inner}({self.name()})")
            self.line(depth, "except (RuntimeError, IndexError):")
            self.line(depth + 1, "v0 = v1 = x0")
            self.names = [*known, *(each for each in ("v0", "v1") if each not in known)]
            self.note(depth, "v0")
            self.note(depth, "v1")
            return
        self.names = known

    def text(self) -> str:
        """The whole program."""
        self.line(0, "def main():")
        self.line(1, f"net = Net({self.random.choice((True, False))}, {self.random.choice((True, False))}).cuda()")
        self.line(1, "wide = Wide().cuda()")
        self.line(1, "x0 = torch.randn(4, 4, device='cuda')")
        self.line(1, f"x = torch.randn(4, 4, device='cuda'{self.random.choice(('', ', requires_grad=True'))})")
        self.line(1, f"y = torch.randn(4, 4, device='cuda', dtype=torch.{self.random.choice(('float32', 'float16'))})")
        self.block(1, self.random.randint(5, 10), False)
        return HEAD + "\n".join(self.lines) + "\n\n\nmain()\n"
