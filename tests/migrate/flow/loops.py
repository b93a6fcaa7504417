"""Random training loops with a scaler, on the CPU: what each call meets is noted while it runs.

Each parameter is one number, and each loss is the sum of some of them: its true gradient is one for each loss, so what
is in a gradient shows how it was scaled. `see(k)` notes the gradients of all parameters.
"""

from __future__ import annotations

from random import Random

HEAD = """\
import torch
from elsewhere import GradScaler, fail, flag, see

a = torch.nn.Parameter(torch.ones(()))
b = torch.nn.Parameter(torch.ones(()))
opt = torch.optim.SGD([a], lr=0.0)
opt2 = torch.optim.SGD([b], lr=0.0)
scaler = GradScaler("cpu", init_scale=1024.0)
free = torch.zeros((), requires_grad=True)


def train_step(loss, optimizer):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def clear(optimizer):
    optimizer.zero_grad()


class Trainer:
    def __init__(self, scaler, optimizer):
        self.scaler = scaler
        self.optimizer = optimizer

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def finish(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()


trainer = Trainer(scaler, opt)


"""
_ACTS = (
    "scaler.scale({loss}).backward()", "scaler.scale({loss}).backward()", "scaler.scale({loss}).backward()",
    "{loss}.backward()",
    "scaler.unscale_({opt})", "scaler.unscale_({opt})", "scaler.step({opt})", "scaler.step({opt})",
    "scaler.step({opt})", "scaler.update()",
    "scaler.update()", "{opt}.step()", "{opt}.zero_grad()", "{opt}.zero_grad()", "clear({opt})",
    "train_step({loss}, {opt})",
    "trainer.backward({loss})", "trainer.finish()", "free.grad = None",
    "(scaler.scale({loss}) / scaler.get_scale()).backward()",
)  # fmt: skip
_LOSSES = ("(a * 1)", "(b * 1)", "(a + b)", "(a + free)", "(free * 1)")


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def act(self, depth: int) -> None:
        text = self.random.choice(_ACTS).format(
            loss=self.random.choice(_LOSSES), opt=self.random.choice(("opt", "opt", "opt2"))
        )
        self.count += 1
        self.lines.append("    " * depth + f"see({self.count})")
        self.lines.append("    " * depth + text)

    def block(self, depth: int, size: int, in_loop: bool) -> None:
        for _ in range(size):
            kind = self.random.random()
            pad = "    " * depth
            if depth > 4 or kind < 0.62:
                self.act(depth)
            elif kind < 0.78:
                self.lines.append(f"{pad}if {self.random.choice(('flag()', 'flag()', 'clip', 'not clip'))}:")
                self.block(depth + 1, self.random.randint(1, 2), in_loop)
                if self.random.random() < 0.4:
                    self.lines.append(f"{pad}else:")
                    self.block(depth + 1, 1, in_loop)
            elif kind < 0.88:
                self.lines.append(f"{pad}for i in range(2):")
                self.block(depth + 1, self.random.randint(1, 4), True)
            elif kind < 0.94:
                self.lines.append(f"{pad}try:")
                self.block(depth + 1, 1, in_loop)
                self.lines.append(f"{pad}    fail()")
                self.block(depth + 1, 1, in_loop)
                self.lines.append(f"{pad}except ValueError:")
                self.block(depth + 1, 1, in_loop)
                if self.random.random() < 0.3:
                    self.lines.append(f"{pad}finally:")
                    self.block(depth + 1, 1, False)
            elif in_loop:
                self.lines += [f"{pad}if flag():", f"{pad}    {self.random.choice(('break', 'continue'))}"]
            else:
                self.act(depth)

    def text(self) -> str:
        """The whole program."""
        self.lines.append("def main(clip):")
        self.block(1, self.random.randint(3, 7), False)
        self.lines.append(f"    see({self.count + 1})")
        return HEAD + "\n".join(self.lines) + "\n\n\nmain(flag())\n"
