"""The scaler's class as a type moves with its constructor; as a value it stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_type_test(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import GradScaler
        + from torch.amp import GradScaler

        - scaler = GradScaler()
        + scaler = GradScaler("cuda")
          assert isinstance(scaler, GradScaler)
        """
    )


def test_annotation(rewrites: Check) -> None:
    rewrites(
        """
        - def train(scaler: torch.cuda.amp.GradScaler) -> torch.cuda.amp.GradScaler:
        -     assert isinstance(scaler, torch.cuda.amp.GradScaler)
        + def train(scaler: torch.amp.GradScaler) -> torch.amp.GradScaler:
        +     assert isinstance(scaler, torch.amp.GradScaler)
              return scaler
        """
    )


def test_annotation_inside_another(rewrites: Check) -> None:
    rewrites(
        """
          from typing import Optional
        - from torch.cuda.amp import GradScaler
        + from torch.amp import GradScaler

          def train(scaler: Optional[GradScaler] = None) -> None: ...
        """
    )


def test_class_made_with_positional_arguments(leaves: Check) -> None:
    leaves(
        """
        class Scaler(torch.cuda.amp.GradScaler):
            pass

        scaler = Scaler(1024.0)
        """,
        "a class derives from it",
    )


def test_argument(leaves: Check) -> None:
    leaves(
        """
        scaler = build(torch.cuda.amp.GradScaler)
        """,
        "used as a value",
    )


def test_entry_of_a_dictionary(leaves: Check) -> None:
    leaves(
        """
        SCALERS = {"native": torch.cuda.amp.GradScaler}
        """,
        "used as a value",
    )
