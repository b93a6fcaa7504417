"""An optimizer that a call is given in a dictionary (`train(**options)`): the scaler is passed beside that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


@pytest.mark.parametrize(
    "made",
    [
        "dict(loader=loader, model=model, optimizer=optimizer)",
        '{"loader": loader, "model": model, "optimizer": optimizer}',
    ],
)
def test_a_scaler_is_passed_beside_a_dictionary_that_is_written_out(made: str, rewrites: Check) -> None:
    rewrites(
        f"""
        - def train(epochs, model, optimizer, *, loader):
        + def train(epochs, model, optimizer, scaler, *, loader):
        ~     EPOCH

          def main():
              MODEL
        +     scaler = torch.amp.GradScaler("cuda")
              options = {made}
        -     train(epochs=2, **options)
        +     train(epochs=2, **options, scaler=scaler)
        -     train(**options, epochs=3)
        +     train(**options, scaler=scaler, epochs=3)
        """
    )


def test_a_scaler_is_passed_beside_one_that_stands_in_the_call(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer):
        + def train(model, optimizer, scaler):
        ~     EPOCH

          MODEL
        - train(**{"model": model, "optimizer": optimizer})
        + scaler = torch.amp.GradScaler("cuda")
        + train(**{"model": model, "optimizer": optimizer}, scaler=scaler)
        """
    )


def test_apex_asks_the_scaler_that_comes_so(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def train(model, optimizer, *, loader):
        + def train(model, optimizer, scaler, *, loader):
              for x in loader:
        -         loss = model(x).mean()
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
                  optimizer.zero_grad()

          def main(args):
              MODEL
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              options = dict(model=model, optimizer=optimizer, loader=loader)
        -     train(**options)
        +     train(**options, scaler=scaler)
        """
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("options = dict(model=model, optimizer=optimizer)", "fill(options)", "train(**options)"),
        ("options = dict(model=model, optimizer=optimizer)", 'options["model"] = model', "train(**options)"),
        ("options = other = dict(model=model, optimizer=optimizer)", "train(**options)"),
        ("options = dict(model=model, optimizer=optimizer)", "options |= others", "train(**options)"),
        ("options = dict(others, optimizer=optimizer)", "train(**options)"),
        ("options = dict(model=model, optimizer=optimizer)", "train(**options, **others)"),
        ("options = dict(model=model, optimizer=optimizer, scaler=1.0)", "train(**options)"),
        ('options = {"model": model, "optimizer": optimizer, **others}', "train(**options)"),
        ("options = gathered(model, optimizer)", "train(**options)"),
    ],
)
def test_what_may_be_another_dictionary_leaves_no_way(lines: tuple[str, ...], leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, **more):
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()

        def main(others):
            MODEL
            {lines}
        """.replace("{lines}", "\n            ".join(lines)),
        "the optimizer may be among starred arguments",
    )
