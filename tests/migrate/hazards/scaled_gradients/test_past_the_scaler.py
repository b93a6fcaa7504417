"""AMP606 to AMP608: backwards and steps that pass the scaler by, and accumulation that is done by halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_a_plain_step_on_scaled_gradients_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                optimizer.step()  # AMP606
                optimizer.zero_grad()
        """
    )
    assert found[0].hint.startswith("write scaler.step(optimizer), and scaler.update()")


def test_a_plain_step_on_unscaled_gradients_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                optimizer.step()  # AMP606
                scaler.update()
        """
    )
    assert "never asked whether they are finite" in found[0].message


def test_a_plain_step_beside_a_scaler_may_be_right(clean: Check) -> None:
    clean(
        """
        def by_flag(model, optimizer, scaler, loader, use_amp):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                if use_amp:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()

        def by_other_flag(model, optimizer, scaler, loader, use_amp):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward() if scaler else loss.backward()
                if use_amp:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()

        def checked_by_hand(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                if all(torch.isfinite(p.grad).all() for p in model.parameters()):
                    optimizer.step()
                scaler.update()

        def checked_by_a_helper(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                found_inf = overflows(model)
                if not found_inf:
                    optimizer.step()
                scaler.update()

        def other_loss(model, optimizer, optimizer_d, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
                F.mse_loss(model(y), x).backward()
                optimizer_d.step()

        def schedule(model, optimizer, scheduler, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
                scheduler.step()
        """
    )


def test_a_loss_that_is_not_scaled_before_the_scaler_steps_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                loss.backward()  # AMP607
                scaler.step(optimizer)
                scaler.update()
        """
    )


def test_a_loss_may_be_scaled_in_other_words(clean: Check) -> None:
    clean(
        """
        def named(model, optimizer, scaler, loader):
            for x, y in loader:
                scaled = scaler.scale(F.mse_loss(model(x), y))
                scaled.backward()
                scaler.step(optimizer)
                scaler.update()

        def rebound(model, optimizer, scaler, loader):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                loss = scaler.scale(loss)
                loss.backward()
                scaler.step(optimizer)
                scaler.update()

        def helped(model, optimizer, scaler, loader, compute):
            for x, y in loader:
                loss = compute(model, x, y, scaler)
                loss.backward()
                scaler.step(optimizer)
                scaler.update()

        def framework(accelerator, optimizer, scaler, loader, model):
            for x, y in loader:
                accelerator.backward(F.mse_loss(model(x), y))
                scaler.step(optimizer)
                scaler.update()

        def switched(model, optimizer, scaler, loader, use_amp):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                if use_amp:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )


def test_unscaling_in_every_micro_batch_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y) / 4).backward()
                scaler.unscale_(optimizer)  # AMP608
                if (i + 1) % 4 == 0:
                    scaler.step(optimizer)
                    scaler.update()
        """
    )
    assert found[0].hint == "move it to where scaler.step(optimizer) is"


def test_updating_in_every_micro_batch_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y) / 4).backward()
                if (i + 1) % 4 == 0:
                    scaler.step(optimizer)
                scaler.update()  # AMP608
        """
    )


def test_stepping_in_every_micro_batch_and_updating_in_some_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y) / 4).backward()
                scaler.step(optimizer)  # AMP608
                if i % 4 == 3:
                    scaler.update()
        """
    )


def test_what_runs_in_some_iterations_may_be_right(clean: Check) -> None:
    clean(
        """
        def critic(optimizer_d, optimizer_g, scaler, loader, loss_d, loss_g):
            for i, x in enumerate(loader):
                scaler.scale(loss_d(x)).backward()
                scaler.step(optimizer_d)
                if i % 5 == 0:
                    scaler.scale(loss_g(x)).backward()
                    scaler.step(optimizer_g)
                scaler.update()

        def twice(optimizer_d, optimizer_g, scaler, loader, loss_d, loss_g):
            for i, x in enumerate(loader):
                scaler.scale(loss_d(x)).backward()
                scaler.step(optimizer_d)
                scaler.update()
                if i % 5 == 0:
                    scaler.scale(loss_g(x)).backward()
                    scaler.step(optimizer_g)
                    scaler.update()

        def logged(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                if i % 100 == 0:
                    print(model.weight.grad.norm())
                scaler.step(optimizer)
                scaler.update()

        def accumulated(model, optimizer, scaler, loader, clip):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y)).backward()
                if (i + 1) % 4 == 0 or i + 1 == len(loader):
                    if clip:
                        scaler.unscale_(optimizer)
                        nn.utils.clip_grad_norm_(model.parameters(), clip)
                    scaler.step(optimizer)
                    scaler.update()
        """
    )


def test_a_backward_in_a_function_that_is_handed_over_is_not_guessed_at(migrate: Check) -> None:
    plan = migrate(
        """
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        def step(go, optimizer):
            go()
            scaler.step(optimizer)
            scaler.update()

        for x in loader:
            def go():
                optimizer.zero_grad()
                model(x).mean().backward()
            step(go, optimizer)
        """
    )
    assert {finding.code for finding in plan.findings} <= {"AMP590", "AMP607"}
