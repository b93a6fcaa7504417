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


def test_type_in_a_comment(rewrites: Check) -> None:
    rewrites(
        """
        - scaler = None  # type: torch.cuda.amp.GradScaler
        + scaler = None  # type: torch.amp.GradScaler
        - def train(scaler, region):  # type: (torch.cuda.amp.GradScaler, torch.cpu.amp.autocast) -> None
        -     made = []  # type: List[torch.cuda.amp.GradScaler]  # torch.cuda.amp
        + def train(scaler, region):  # type: (torch.amp.GradScaler, torch.amp.autocast) -> None
        +     made = []  # type: List[torch.amp.GradScaler]  # torch.cuda.amp

          def step(
              loss,
        -     scaler=None,  # type: torch.cuda.amp.GradScaler
        -     last=None  # type: Union[torch.cuda.amp.GradScaler, torch.cpu.amp.GradScaler]
        +     scaler=None,  # type: torch.amp.GradScaler
        +     last=None  # type: Union[torch.amp.GradScaler, torch.amp.GradScaler]
          ):
        -     # type: (...) -> torch.cuda.amp.GradScaler
        +     # type: (...) -> torch.amp.GradScaler
              if scaler is None:
                  return last
        """
    )


def test_comment_that_is_no_type(ignores: Check) -> None:
    ignores(
        """
        scaler = None  # a torch.cuda.amp.GradScaler
        scaler = None  # type: ignore[torch.cuda.amp.GradScaler]
        scaler = None  # type: mytorch.cuda.amp.GradScaler

        def f(torch):
            scaler = None  # type: torch.cuda.amp.GradScaler
        """
    )


def test_region_as_a_type(rewrites: Check) -> None:
    rewrites(
        """
        - def train(region: torch.cuda.amp.autocast):
        -     assert isinstance(region, torch.cuda.amp.autocast)
        + def train(region: torch.amp.autocast):
        +     assert isinstance(region, torch.amp.autocast)
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
