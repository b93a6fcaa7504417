"""Flat training scripts put together from parts, most of which people write and some of which they should not.

Every part is ordinary by itself; what is unusual is which of them meet. The scripts are float32, run on the CPU within
milliseconds, and print what they see, so that two runs can be compared.
"""

from __future__ import annotations

from random import Random

HEAD = """
import asyncio
import contextlib
import copy
import functools
import io

import torch
from torch import nn
from torch.nn import functional as F
"""

# A model on a GPU, where there is one: a program that cannot use one is left as it is.
_TO_DEVICE = '.to("cuda" if torch.cuda.is_available() else "cpu")'
MODELS = {
    "linear": "model = nn.Linear(4, 2)",
    "mlp": "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))",
    "norm": "model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))",
    "dropout": "model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.25), nn.Linear(8, 2))",
    "batch": "model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))",
    "tied": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))))


model = Net()
""",
    "class": """
class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Linear(4, width)
        self.head = nn.Linear(width, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        return self.head(hidden) * self.scale


model = Net()
""",
    "loss inside": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x, y=None):
        out = self.body(x)
        return out if y is None else (F.mse_loss(out, y) if y.dtype.is_floating_point else F.cross_entropy(out, y))


model = Net()
""",
}
OPTIMIZERS = (
    "torch.optim.SGD({}, lr=0.05)",
    "torch.optim.SGD({}, lr=0.05, momentum=0.9)",
    "torch.optim.AdamW({}, lr=0.01)",
    "torch.optim.Adam({}, lr=0.01, weight_decay=0.01)",
)
REGRESSION = (
    "F.mse_loss(out, y)",
    "(out - y).pow(2).mean()",
    "F.smooth_l1_loss(out, y)",
    "(out - y).abs().mean()",
    "criterion(out, y)",
)
CLASSES = ("F.cross_entropy(out, y)", "F.nll_loss(F.log_softmax(out, dim=1), y)", "criterion(out, y)")

# What may come between `backward()` and `step()`.
GRADIENTS = (
    "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)\nprint('norm', norm.item())",
    "nn.utils.clip_grad_value_(model.parameters(), 0.5)",
    "print('grad', sum(float(p.grad.norm()) for p in model.parameters() if p.grad is not None))",
    "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.mul_(0.5)",
    "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.add_(p.detach(), alpha=0.01)",
    "kept = [p.grad.clone() for p in model.parameters() if p.grad is not None]",
    "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nif not torch.isfinite(norm):\n    continue",
    "if not all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None):\n    break",
)
# What may come after it.
AFTER = (
    "scheduler.step()",
    "with torch.no_grad():\n    for slow, fast in zip(ema.parameters(), model.parameters()):\n"
    "        slow.mul_(0.9).add_(fast, alpha=0.1)",
    "buffer = io.BytesIO()\ntorch.save({'model': model.state_dict(), 'opt': opt.state_dict(), 'step': i}, buffer)",
    "opt.load_state_dict(copy.deepcopy(opt.state_dict()))",
    "with torch.no_grad():\n    print('eval', model(x).sum().item())",
    "total += loss.item()",
    "plateau.step(loss.item())",
    "if i == 1:\n    saved = copy.deepcopy({'model': model.state_dict(), 'opt': opt.state_dict()})\n"
    "elif i == 3:\n    model.load_state_dict(saved['model'])\n    opt.load_state_dict(saved['opt'])",
    "losses.append(loss.detach())",
    "print('loss', loss.item())",
    "if loss.item() < 0.05:\n    break",
)
# What may come between the loss and `backward()`.
LOSSES = (
    "loss = loss + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())",
    "(slope,) = torch.autograd.grad(loss, [next(model.parameters())], create_graph=True)\n"
    "loss = loss + 0.01 * slope.pow(2).sum()",
    "if torch.isnan(loss):\n    continue",
    "assert torch.isfinite(loss)",
    "loss = loss * 0.5",
)
HOOKS = (
    "seen = []\nnext(model.parameters()).register_hook(lambda grad: seen.append(grad.norm().item()))",
    "next(model.parameters()).register_hook(lambda grad: grad * 0.5)",
    "model.register_full_backward_hook(lambda module, into, out: print('out', out[0].norm().item()))",
    "next(model.parameters()).register_post_accumulate_grad_hook(lambda p: print('hook', p.grad.norm().item()))",
    "next(model.parameters()).register_hook(lambda grad: grad.clamp(-1.0, 1.0))",
)


ADVERSARIES = f"""
gen = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)){_TO_DEVICE}
disc = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
model = gen
opt = torch.optim.Adam(gen.parameters(), lr=0.01)
opt2 = torch.optim.Adam(disc.parameters(), lr=0.01)
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
"""
DUEL = (
    "fake = gen(x)",
    "loss2 = F.binary_cross_entropy_with_logits(disc(y), ones) "
    "+ F.binary_cross_entropy_with_logits(disc(fake.detach()), zeros)",
    "opt2.zero_grad()",
    "loss2.backward()",
    "opt2.step()",
    "loss = F.binary_cross_entropy_with_logits(disc(fake), ones)",
    "opt.zero_grad()",
    "loss.backward()",
    "opt.step()",
)
CLOSURE = """
def closure():
    opt.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    return loss
"""


def base(rng: Random) -> str:
    """The text of a script; whether it runs is for whoever asks to find out."""
    if rng.random() < 0.08:
        return _duel(rng)
    return _training(rng)


def _duel(rng: Random) -> str:
    """Two models that train each other."""
    before = [f"torch.manual_seed({rng.randrange(1000)})", ADVERSARIES.strip()]
    before.append(f"data = [(torch.randn(8, 4), torch.randn(8, 2)) for _ in range({rng.randint(3, 6)})]")
    loop = list(DUEL)
    for at in (8, 4):  # before each step, the later one first
        loop[at:at] = _some(rng, GRADIENTS, 0.2)
    loop += _some(rng, AFTER, 0.4)
    before += _needed("\n".join(loop))
    return _whole(rng, before, loop)


def _training(rng: Random) -> str:
    """One loss, or two of one model."""
    kind = rng.choice(list(MODELS))
    classes = rng.random() < 0.4
    batches = rng.randint(3, 6)
    target = "torch.randint(0, 2, (8,))" if classes else "torch.randn(8, 2)"
    before = [f"torch.manual_seed({rng.randrange(1000)})", MODELS[kind].strip("\n") + _TO_DEVICE]
    before.append(f"data = [(torch.randn(8, 4), {target}) for _ in range({batches})]")
    before.append("criterion = nn.CrossEntropyLoss()" if classes else "criterion = nn.MSELoss()")
    steps, zeros = _optimizers(rng, before)
    if rng.random() < 0.04:
        loop = [CLOSURE.strip(), "loss = opt.step(closure)", *_some(rng, AFTER, 0.5)]
        return _whole(rng, before + _needed("\n".join(loop)), loop)
    loop = [*zeros]
    if rng.random() < 0.12:
        loop.append("x.requires_grad_(True)")
    has_head = any(line.startswith("head =") for line in before)
    loop += _forward(rng, kind, classes, has_head)
    loop += _some(rng, LOSSES, 0.15)
    every = rng.choice((2, 3)) if rng.random() < 0.2 else 0
    loop.append(_backward(rng, every))
    ending = _some(rng, GRADIENTS, 0.4) + steps
    if "x.requires_grad_(True)" in loop and rng.random() < 0.7:
        ending.insert(0, "print('input', x.grad.abs().max().item())")
    if every:
        zeros_too = zeros if rng.random() < 0.7 else []
        loop = [line for line in loop if line not in zeros] if zeros_too else loop
        ending = [_under(f"if (i + 1) % {every} == 0:", ending + zeros_too)]
    loop += ending
    if rng.random() < 0.12:
        loop += [*_second(rng), *(zeros if rng.random() < 0.3 else []), "loss2.backward()", *steps]
    loop += _some(rng, AFTER, 0.5)
    if "out = out + bias" in loop:
        loop.append("with torch.no_grad():\n    bias -= 0.1 * bias.grad\nbias.grad = None")
    before += _needed("\n".join(loop))
    before += _some(rng, HOOKS, 0.12)
    return _whole(rng, before, loop)


def _whole(rng: Random, before: list[str], loop: list[str]) -> str:
    head = "for i, (x, y) in enumerate(data):"
    whole = _under(head, loop)
    if rng.random() < 0.2:
        whole = _under("for epoch in range(2):", [whole])
    last = "print('end', [float(p.detach().double().sum()) for p in model.parameters()])"
    return "\n".join([HEAD.strip(), *before, whole, last]) + "\n"


def _optimizers(rng: Random, before: list[str]) -> tuple[list[str], list[str]]:
    """What steps the optimizers, and what sets their gradients to zero."""
    made = rng.choice(OPTIMIZERS)
    before.append(f"opt = {made.format('model.parameters()')}")
    zero = rng.choice(("opt.zero_grad()", "opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "model.zero_grad()"))
    kind = rng.random()
    if kind < 0.7:
        return ["opt.step()"], [zero]
    if kind < 0.78:  # one parameter in two optimizers
        before.append(f"opt2 = {made.format('[list(model.parameters())[-1]]')}")
        return ["opt.step()", "opt2.step()"], [zero]
    # Parameters of its own.
    before.append("head = nn.Linear(2, 2)")
    before.append(f"opt2 = {rng.choice(OPTIMIZERS).format('head.parameters()')}")
    if kind < 0.9:
        return ["opt.step()", "opt2.step()"], [zero, "opt2.zero_grad()"]
    if kind < 0.95:
        before.append("opts = [opt, opt2]")
        return ["for each in opts:\n    each.step()"], ["for each in opts:\n    each.zero_grad()"]
    before.append("opts = {'body': opt, 'head': opt2}")
    steps = ["for each in opts.values():\n    each.step()"]
    return steps, ["for each in opts.values():\n    each.zero_grad()"]


def _forward(rng: Random, kind: str, classes: bool, has_head: bool) -> list[str]:
    if kind == "loss inside" and rng.random() < 0.7:
        return ["loss = model(x, y)"]
    lines = ["out = model(x)"]
    if rng.random() < 0.08:
        lines.append("out = out + bias")
    if has_head:
        lines.append("out = head(out)" if rng.random() < 0.6 else "if i >= 2:\n    out = head(out)")
    lines.append(f"loss = {rng.choice(CLASSES if classes else REGRESSION)}")
    return lines


def _second(rng: Random) -> list[str]:
    return rng.choice((["loss2 = model(x).abs().mean()"], ["out2 = model(x)", "loss2 = out2.pow(2).mean()"]))


def _backward(rng: Random, every: int) -> str:
    plain = f"(loss / {every}).backward()" if every else "loss.backward()"
    return rng.choice((plain, plain, plain, "loss.backward(retain_graph=True)", "torch.autograd.backward(loss)"))


def _some(rng: Random, parts: tuple[str, ...], chance: float) -> list[str]:
    found: list[str] = []
    while rng.random() < chance and len(found) < 2:
        found.append(rng.choice(parts))
    return found


def _needed(text: str) -> list[str]:
    """What the loop uses and nothing has made yet."""
    found = []
    if "scheduler" in text:
        found.append("scheduler = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)")
    if "plateau" in text:
        found.append("plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1)")
    if "ema" in text:
        found.append("ema = copy.deepcopy(model)")
    if "bias" in text:
        found.append("bias = torch.zeros(2, requires_grad=True)")
    if "total" in text:
        found.append("total = 0.0")
    if "losses" in text:
        found.append("losses = []")
    return found


def _under(head: str, lines: list[str]) -> str:
    body = "\n".join(lines)
    return head + "\n" + "\n".join(f"    {line}" for line in body.splitlines())
