"""AMP602 to AMP605: what a scaler does for one optimizer between two updates, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_unscaling_twice_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                norm = model.weight.grad.norm()
                scaler.unscale_(optimizer)  # AMP602
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        """
    )


def test_unscaling_after_the_step_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loss):
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.unscale_(optimizer)  # AMP602
            norm = model.weight.grad.norm()
            scaler.update()
        """
    )


def test_unscaling_once_for_each_way_and_each_optimizer_is_right(clean: Check) -> None:
    clean(
        """
        def by_branch(model, optimizer, scaler, loader, args):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                if args.clip is not None:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), args.clip)
                else:
                    scaler.unscale_(optimizer)
                    norm = model.weight.grad.norm()
                scaler.step(optimizer)
                scaler.update()

        def by_test(model, optimizer, scaler, loader, args):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                if args.log:
                    scaler.unscale_(optimizer)
                    norm = model.weight.grad.norm()
                if args.clip and not args.log:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), args.clip)
                scaler.step(optimizer)
                scaler.update()

        def two(model, optimizer_g, optimizer_d, scaler, loss):
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer_g)
            scaler.unscale_(optimizer_d)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer_g)
            scaler.step(optimizer_d)
            scaler.update()

        def accumulated(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y)).backward()
                if (i + 1) % 4 == 0:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    scaler.step(optimizer)
                    scaler.update()
        """
    )


def test_stepping_twice_without_an_update_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.scale(F.mse_loss(model(y), x)).backward()
                scaler.step(optimizer)  # AMP603
                scaler.update()
        """
    )


def test_a_loop_that_never_updates_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)  # AMP603
        """
    )


def test_updating_only_after_the_loop_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)  # AMP603
            scaler.update()
        """
    )


def test_an_update_that_may_be_elsewhere_is_not_missed(clean: Check) -> None:
    clean(
        """
        def step(optimizer, scaler):
            scaler.step(optimizer)

        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                step(optimizer, scaler)
                scaler.update()

        class Trainer:
            def __init__(self):
                self.scaler = torch.amp.GradScaler("cuda")

            def train(self, loader):
                for x, y in loader:
                    self.scaler.scale(F.mse_loss(self.model(x), y)).backward()
                    self.scaler.step(self.optimizer)
                    self.finish()

            def finish(self):
                self.scaler.update()

        def branches(model, optimizer, scaler, loader, args):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                if args.clip:
                    scaler.unscale_(optimizer)
                    scaler.step(optimizer)
                else:
                    scaler.step(optimizer)
                scaler.update()
        """
    )


def test_one_update_for_each_step_is_right(clean: Check) -> None:
    clean(
        """
        def other_optimizer(optimizer_g, optimizer_d, scaler, loader):
            for x in loader:
                scaler.scale(x.mean()).backward()
                scaler.step(optimizer_g)
                scaler.step(optimizer_d)
                scaler.update()

        def leaves_early(model, optimizer, scaler, loader):
            for x in loader:
                scaler.scale(model(x)).backward()
                if not x.isfinite().all():
                    scaler.step(optimizer)
                    scaler.update()
                    continue
                scaler.step(optimizer)
                scaler.update()

        def each_of_several(optimizers, scaler, loader):
            for x in loader:
                scaler.scale(x.mean()).backward()
                for optimizer in optimizers:
                    scaler.unscale_(optimizer)
                for i in range(len(optimizers)):
                    scaler.step(optimizers[i])
                scaler.update()

        def one_by_one(make, scaler, loss):
            scaler.scale(loss).backward()
            optimizer = make("first")
            scaler.step(optimizer)
            optimizer = make("second")
            scaler.step(optimizer)
            scaler.update()

        def once(optimizer, scaler, loss):
            scaler.scale(loss).backward()
            scaler.step(optimizer)

        def on_some_ways(optimizer, scaler, loader, every):
            for i, x in enumerate(loader):
                scaler.scale(x.mean()).backward()
                scaler.step(optimizer)
                if every or i:
                    scaler.update()
        """
    )


def test_a_second_update_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
                scaler.update()  # AMP604
        """
    )


def test_what_nobody_knows_of_losses_does_not_hide_an_update_without_a_step(marked: Check) -> None:
    marked(
        """
        from losses import AdversarialLoss

        def train(loader):
            g, d = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
            optimizer_g, optimizer_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
            criterion = AdversarialLoss()
            scaler = torch.amp.GradScaler("cuda")
            for i, (x, y) in enumerate(loader):
                for p in d.parameters():
                    p.requires_grad = True
                for p in g.parameters():
                    p.requires_grad = False
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss_d = criterion(d(g(x).detach()), 1 - y) / 4
                if torch.isnan(loss_d):
                    scaler.update()  # AMP604
                    optimizer_d.zero_grad()
                    continue
                scaler.scale(loss_d).backward()
                if (i + 1) % 4 == 0:
                    scaler.step(optimizer_d)
                    optimizer_d.zero_grad()
                for p in d.parameters():
                    p.requires_grad = False
                for p in g.parameters():
                    p.requires_grad = True
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss_g = criterion(d(g(x)), y) / 4
                if torch.isnan(loss_g):
                    scaler.update()
                    optimizer_g.zero_grad()
                    continue
                scaler.scale(loss_g).backward()
                if (i + 1) % 4 == 0:
                    scaler.step(optimizer_g)
                    scaler.update()
                    optimizer_g.zero_grad()
        """
    )


def test_one_update_for_each_round_of_steps_is_right(clean: Check) -> None:
    clean(
        """
        def gan(optimizer_g, optimizer_d, scaler, loader, loss_d, loss_g):
            for x in loader:
                scaler.scale(loss_d(x)).backward()
                scaler.step(optimizer_d)
                scaler.update()
                scaler.scale(loss_g(x)).backward()
                scaler.step(optimizer_g)
                scaler.update()

        def one_for_both(optimizer_g, optimizer_d, scaler, loader, loss_d, loss_g):
            for x in loader:
                scaler.scale(loss_d(x)).backward()
                scaler.step(optimizer_d)
                scaler.scale(loss_g(x)).backward()
                scaler.step(optimizer_g)
                scaler.update()

        def two_scalers(optimizer_g, optimizer_d, loader, loss_d, loss_g):
            scaler_g, scaler_d = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
            for x in loader:
                scaler_d.scale(loss_d(x)).backward()
                scaler_g.scale(loss_g(x)).backward()
                scaler_d.step(optimizer_d)
                scaler_g.step(optimizer_g)
                scaler_d.update()
                scaler_g.update()

        def only_updates(scaler):
            scaler.update()
        """
    )


def test_an_update_before_the_step_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.update()
                scaler.step(optimizer)  # AMP605
        """
    )
    assert found[0].hint == "move scaler.update() behind the last step of the iteration"


def test_an_update_between_two_steps_on_one_backward_is_told(marked: Check) -> None:
    marked(
        """
        def train(optimizer_g, optimizer_d, scaler, loss):
            scaler.scale(loss).backward()
            scaler.step(optimizer_g)
            scaler.update()
            scaler.step(optimizer_d)  # AMP605
            scaler.update()
        """
    )


def test_a_step_whose_backward_is_not_to_be_seen_is_left_alone(clean: Check) -> None:
    clean(
        """
        def step(optimizer, scaler):
            scaler.update()
            scaler.step(optimizer)

        def train(optimizer_g, optimizer_d, scaler, loader, backward):
            for x in loader:
                scaler.scale(x.mean()).backward()
                scaler.step(optimizer_g)
                scaler.update()
                backward(x, scaler)
                scaler.step(optimizer_d)
                scaler.update()
        """
    )


def test_a_step_on_gradients_of_its_own_scale_is_right(clean: Check) -> None:
    clean(
        """
        def last_of_the_iteration(optimizer, scaler, loader):
            for x in loader:
                scaler.update()
                scaler.scale(x.mean()).backward()
                scaler.step(optimizer)

        def one_for_each(optimizer_g, optimizer_d, scaler, loss_g, loss_d):
            scaler.scale(loss_g).backward()
            scaler.step(optimizer_g)
            scaler.update()
            scaler.scale(loss_d).backward()
            scaler.step(optimizer_d)
            scaler.update()

        def another_scaler(optimizer, scaler_g, loss):
            scaler_d = torch.amp.GradScaler("cuda")
            scaler_d.scale(loss).backward()
            scaler_g.update()
            scaler_d.step(optimizer)
            scaler_d.update()
        """
    )


def test_scalers_of_other_kinds_are_none(clean: Check) -> None:
    clean(
        """
        from sklearn.preprocessing import StandardScaler

        def prepare(frame, autocast):
            scaler = StandardScaler()
            scaler.fit(frame)
            scaler.update(frame)
            scaler.update(frame)
            return scaler.transform(frame)

        class Scaler:
            def scale(self, loss): return loss
            def update(self): pass

        def own(frame):
            scaler = Scaler()
            scaler.scale(frame.loss).backward()
            scaler.update()
            scaler.update()
        """
    )


SKIPPING = """
        def train(model, loader, kept):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer){mark}
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if {test}:
                    {skip}
                    continue
                scaler.step(optimizer)
                scaler.update()
"""


def test_unscaling_again_behind_a_batch_that_is_skipped_without_an_update_is_told(marked: Check) -> None:
    (found,) = marked(SKIPPING.format(test="not norm.isfinite()", skip="print(norm)", mark="  # AMP608"))
    assert "behind a batch that line 17 ends" in found.message
    (found,) = marked(SKIPPING.format(test="norm > 100", skip="optimizer.zero_grad()", mark="  # AMP608"))


RETURNING = """
        class Stepper:
            def __init__(self, model, every):
                self.model, self.every = model, every
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = torch.amp.GradScaler("cuda")

            def __call__(self, loss, step):
                self.optimizer.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.unscale_(self.optimizer){mark}
                norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                if {test}:
                    {skip}
                    return None
                self.scaler.update()
                return norm

        net = nn.Linear(4, 4).cuda()
        stepper = Stepper(net, 10)
        for step, x in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = net(x).mean()
            stepper(loss, step)
"""


def test_unscaling_again_behind_a_call_that_returns_without_an_update_is_told(marked: Check) -> None:
    for test in ("step % 100", "norm > 10"):
        (found,) = marked(RETURNING.format(test=test, skip="print(norm)", mark="  # AMP608"))
        assert found.hint == "write self.scaler.update() before that return"


@pytest.mark.parametrize(("test", "skip"), [("step % 100", "self.scaler.update()"), ("self.every", "print(norm)")])
def test_a_call_that_returns_with_an_update_is_right(clean: Check, test: str, skip: str) -> None:
    clean(RETURNING.format(test=test, skip=skip, mark=""))


@pytest.mark.parametrize(("test", "skip"), [("not norm.isfinite()", "scaler.update()"), ("kept", "print(kept)")])
def test_a_batch_that_is_skipped_with_an_update_is_right(clean: Check, test: str, skip: str) -> None:
    clean(SKIPPING.format(test=test, skip=skip, mark=""))


def test_what_a_second_unscale_leaves_is_not_told_too(marked: Check) -> None:
    marked(
        """
        def step(scaler, optimizer, model):
            scaler.unscale_(optimizer)  # AMP602
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            print(max(p.grad.abs().max().item() for p in model.parameters()))
            step(scaler, optimizer, model)
        """
    )
