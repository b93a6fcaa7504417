"""Hazards whose evidence, or whose place, is in another file than the scaler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

BASE = """
    import torch

    class Base:
        def __init__(self, model, optimizer, loader):
            self.model, self.optimizer, self.loader = model, optimizer, loader

        def train(self):
            for epoch in range(10):
                self.train_epoch()
                self.save()

        def save(self):
            torch.save({{"epoch": 1, "optimizer": self.optimizer.state_dict(){more}}}, "a.pt"){mark}
"""
AMP = """
    import torch
    from base import Base

    class AmpTrainer(Base):
        def __init__(self, model, optimizer, loader):
            super().__init__(model, optimizer, loader)
            self.scaler = torch.amp.GradScaler("cuda")

        def train_epoch(self):
            for x, y in self.loader:
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = (self.model(x) - y).square().mean()
                self.optimizer.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
"""
MAIN = """
    import torch
    from amp import AmpTrainer

    net = torch.nn.Linear(4, 1).cuda()
    trainer = AmpTrainer(net, torch.optim.AdamW(net.parameters()), [])
    trainer.train()
"""


@pytest.mark.parametrize("files", [{"main": MAIN}, {}], ids=["made by a script", "made by nobody in sight"])
def test_a_base_class_that_saves_the_optimizer_is_told_of_its_subclass_scaler(
    marked_files: Check, files: dict[str, str]
) -> None:
    found = marked_files(base=BASE.format(more="", mark="  # AMP611"), amp=AMP, **files)
    assert found[0].message == "the checkpoint holds self.optimizer and not self.scaler of amp.py"


def test_a_base_class_that_saves_the_scaler_as_well_is_right(marked_files: Check) -> None:
    marked_files(base=BASE.format(more=', "scaler": self.scaler.state_dict()', mark=""), amp=AMP, main=MAIN)


def test_what_a_subclass_overrides_is_not_what_it_does(marked_files: Check) -> None:
    own = '\n        def save(self):\n            torch.save(self.model.state_dict(), "a.pt")\n'
    marked_files(base=BASE.format(more="", mark=""), amp=AMP + own)


EPOCH = """
    import torch

    def train_one_epoch(model, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda"){mark}
        for x, y in loader:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
EPOCHS = """
    import torch
    from epoch import train_one_epoch

    def main(loader):
        model = torch.nn.Linear(4, 1).cuda()
        {first}
            {second}
            train_one_epoch(model, optimizer, loader)
"""
MAKING = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


def test_a_scaler_that_the_loop_of_another_file_makes_anew(marked_files: Check) -> None:
    loop = EPOCHS.format(first=f"{MAKING}\n        for epoch in range(10):", second="pass")
    marked_files(epoch=EPOCH.format(mark="  # AMP614"), main=loop)


def test_another_loop_that_is_over_says_nothing_of_the_first_call(marked_files: Check) -> None:
    loop = "for name in loader:\n            print(name)\n        for epoch in range(10):"
    marked_files(
        epoch=EPOCH.format(mark="  # AMP614"), main=EPOCHS.format(first=f"{MAKING}\n        {loop}", second="pass")
    )


def test_a_scaler_that_is_made_when_it_is_first_needed_is_right(marked_files: Check) -> None:
    lazy = """
        import torch

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer, self.scaler = model, optimizer, None

            def train_one_epoch(self, loader):
                if self.scaler is None:
                    self.scaler = torch.amp.GradScaler("cuda")
                for x, y in loader:
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = (self.model(x) - y).square().mean()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
    """
    main = """
        import torch
        from lazy import Trainer

        def main(loader):
            model = torch.nn.Linear(4, 1).cuda()
            trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
            for name in loader:
                print(name)
            for epoch in range(10):
                trainer.train_one_epoch(loader)
    """
    marked_files(lazy=lazy, main=main)


@pytest.mark.parametrize(
    ("first", "second"), [("for fold in range(5):", MAKING), (f"{MAKING}\n        if loader:", "pass")]
)
def test_a_scaler_that_is_as_old_as_its_optimizer_is_right(marked_files: Check, first: str, second: str) -> None:
    marked_files(epoch=EPOCH.format(mark=""), main=EPOCHS.format(first=first, second=second))


def test_a_helper_of_another_file_that_saves_the_optimizer(marked_files: Check) -> None:
    helper = """
        import torch

        def save(model, optimizer):
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "a.pt")  # AMP611
    """
    train = """
        import torch
        from helper import save

        def train(loader):
            model = torch.nn.Linear(4, 1).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = (model(x) - y).square().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            save(model, optimizer)
    """
    marked_files(helper=helper, train=train)


ACCUMULATOR = """
    class Accumulator:
        def __init__(self, steps, scaler):
            self.steps, self.scaler, self.count = steps, scaler, 0

        def add(self, loss):
            loss = loss / self.steps
            {backward}
            self.count += 1
            return self.count % self.steps == 0
"""
ACCUMULATED = """
    import torch
    from accumulator import Accumulator

    def train(loader):
        model = torch.nn.Linear(4, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", enabled={enabled})
        accumulator = Accumulator(4, scaler)
        for x, y in loader:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            if accumulator.add(loss):
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
"""


def test_a_plain_backward_of_another_file_that_a_scaler_divides(marked_files: Check) -> None:
    accumulator = ACCUMULATOR.format(backward="loss.backward()  # AMP607")
    found = marked_files(accumulator=accumulator, train=ACCUMULATED.format(enabled=True))
    assert found[0].message.endswith("scaler.unscale_(optimizer) (in train.py) unscales")


@pytest.mark.parametrize(
    ("backward", "enabled"), [("self.scaler.scale(loss).backward()", True), ("loss.backward()", False)]
)
def test_a_backward_of_another_file_that_is_scaled_or_that_nothing_divides_is_right(
    marked_files: Check, backward: str, enabled: bool
) -> None:
    train = ACCUMULATED.format(enabled=enabled).replace("float16", "float16" if enabled else "bfloat16")
    marked_files(accumulator=ACCUMULATOR.format(backward=backward), train=train)


CALLEE = """
    def step(model, optimizer, scaler, x, y):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward(){mark}
        scaler.step(optimizer)
        scaler.update()
"""
CALLER = """
    import contextlib
    import torch
    from callee import step

    class Precision:
        def __init__(self, is_on):
            self.is_on = is_on

        @contextlib.contextmanager
        def region(self):
            if self.is_on:
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    yield
            else:
                yield

    def train(loader, is_on):
        model = torch.nn.Linear(4, 1).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        precision = Precision(is_on)
        for x, y in loader:
            {call}
"""


def test_a_backward_of_another_file_in_a_region_of_its_caller(marked_files: Check) -> None:
    call = "with precision.region():\n                step(model, optimizer, scaler, x, y)"
    marked_files(callee=CALLEE.format(mark="  # AMP620"), caller=CALLER.format(call=call))


def test_a_backward_of_another_file_behind_a_region_is_right(marked_files: Check) -> None:
    call = "with precision.region():\n                model(x)\n            step(model, optimizer, scaler, x, y)"
    marked_files(callee=CALLEE.format(mark=""), caller=CALLER.format(call=call))


FACTORY = """
    import torch

    class Wrapped({base}):
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.param_groups = optimizer.param_groups

        def step(self, closure=None):
            return self.optimizer.step(closure)

        def zero_grad(self, set_to_none=True):
            self.optimizer.zero_grad()

        def state_dict(self):
            return self.optimizer.state_dict()

    def build(args, model):
        if args.look:
            return {wrapped}
        return torch.optim.Adam(model.parameters(), lr=0.1)
"""
CLIPPING = """
    import argparse
    import torch
    from solver import build

    def train(args, model, loader):
        optimizer = build(args, model)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            {unscale}
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0){mark}
            scaler.step(optimizer)
            scaler.update()

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--look", action="store_true")
        parser.add_argument("--opt", default="SGD")
        train(parser.parse_args(), torch.nn.Linear(4, 1).cuda(), [])
"""
MADE = "torch.optim.SGD(model.parameters(), lr=0.1)"


@pytest.mark.parametrize(
    ("base", "wrapped"),
    [
        ("object", f"Wrapped({MADE})"),
        ("torch.optim.Optimizer", f"Wrapped({MADE})"),
        ("torch.optim.Optimizer", f"Wrapped(Wrapped({MADE}))"),
        ("object", "getattr(torch.optim, args.opt)(model.parameters(), lr=0.1)"),
    ],
)
def test_a_clipping_of_scaled_gradients_is_told_whichever_optimizer_a_factory_gives(
    marked_files: Check, base: str, wrapped: str
) -> None:
    solver = FACTORY.format(base=base, wrapped=wrapped)
    marked_files(train=CLIPPING.format(unscale="pass", mark="  # AMP601"), solver=solver)
    marked_files(train=CLIPPING.format(unscale="scaler.unscale_(optimizer)", mark=""), solver=solver)


def test_a_scaler_is_pytorchs_where_a_handler_has_a_class_for_want_of_it(marked_files: Check) -> None:
    optional = """
    try:
        from torch.cuda.amp import GradScaler
        HAS_AMP = True
    except Exception:
        HAS_AMP = False

        class GradScaler:
            def scale(self, loss): return loss
            def step(self, optimizer): optimizer.step()
            def update(self): pass
    """
    train = """
    import torch
    from optional import GradScaler

    def train(loader):
        model = torch.nn.Linear(8, 3).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        scaler = GradScaler()
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # AMP601
            scaler.step(optimizer)
            scaler.update()
    """
    marked_files(train=train, optional=optional)


OPTIONAL = """
    import torch
    from gradients import clip, stepped

    def train(model, loader, uses_amp):
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.amp.GradScaler("cuda") if uses_amp else None
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=uses_amp):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            clip(model, optimizer, scaler)
            {step}
            if scaler is not None:
                scaler.update()
"""
GRADIENTS = """
    import torch

    def clip(model, optimizer, scaler=None):
        if scaler is not None:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    def stepped(optimizer, scaler):
        if scaler is not None:
            scaler.step(optimizer)
        else:
            optimizer.step()
"""


@pytest.mark.parametrize(
    "step",
    [
        "optimizer.step()  # AMP606",
        "stepped(optimizer, scaler)",
        "scaler.step(optimizer) if scaler is not None else optimizer.step()",
    ],
)
def test_a_step_past_an_optional_scaler_is_told_behind_a_helper_that_unscales(marked_files: Check, step: str) -> None:
    marked_files(train=OPTIONAL.format(step=step), gradients=GRADIENTS)


def test_a_plain_backward_of_another_file_beside_a_scaled_one_is_told_there(marked_files: Check) -> None:
    penalties = """
    def regularize(model, weight):
        penalty = weight * sum(p.square().sum() for p in model.parameters())
        penalty.backward()  # AMP607
        return penalty.item()
    """
    train = """
    import torch
    from penalties import regularize

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            regularize(model, 1e-4)
            scaler.step(optimizer)
            scaler.update()
    """
    (found,) = marked_files(train=train, penalties=penalties)
    assert "scaler.step(optimizer) (in train.py) unscales it with what is" in found.message
