"""A name is rewritten only where it can mean nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_parameter_called_torch(ignores: Check) -> None:
    ignores(
        """
        def cast(torch):
            with torch.cuda.amp.autocast():
                pass
        """
    )


def test_variable_called_torch(ignores: Check) -> None:
    ignores(
        """
        def cast():
            torch = fake()
            with torch.cuda.amp.autocast():
                pass
        """
    )


def test_loop_variable_called_torch(leaves: Check) -> None:
    leaves(
        """
        for torch in modules:
            with torch.cuda.amp.autocast():
                pass
        """,
        "stands for different things",
    )


def test_comprehension_variable_called_torch(ignores: Check) -> None:
    ignores(
        """
        casts = [torch.cuda.amp.autocast() for torch in modules]
        """
    )


def test_function_called_autocast(ignores: Check) -> None:
    ignores(
        """
        def autocast(enabled=True):
            return nothing()

        with autocast():
            pass
        """,
        head="",
    )


def test_package_with_the_same_ending(ignores: Check) -> None:
    ignores(
        """
        from mypackage.cuda.amp import autocast, GradScaler

        with autocast():
            scaler = GradScaler(1024.0)
        """,
        head="",
    )


def test_method_called_autocast(ignores: Check) -> None:
    ignores(
        """
        class Model:
            def autocast(self): ...

        Model().autocast()
        """
    )


def test_names_that_are_new_already(ignores: Check) -> None:
    ignores(
        """
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        with torch.amp.autocast("cuda", dtype=torch.float16):
            pass
        """
    )


def test_names_in_texts_and_comments(ignores: Check) -> None:
    ignores(
        '''
        """torch.cuda.amp.autocast()"""
        text = "from torch.cuda.amp import autocast"
        # with torch.cuda.amp.autocast():
        '''
    )


def test_function_without_a_successor_is_told(leaves: Check) -> None:
    leaves(
        """
        from torch.cuda.amp.common import amp_definitely_not_available

        off = amp_definitely_not_available()
        """,
        "torch.amp has nothing that asks the same",
        head="",
    )


def test_import_inside_a_function(rewrites: Check) -> None:
    rewrites(
        """
          def cast():
        -     from torch.cuda.amp import autocast
        -     with autocast():
        +     from torch.amp import autocast
        +     with autocast(device_type="cuda", dtype=torch.float16):
                  pass
        """
    )


def test_class_attribute(rewrites: Check) -> None:
    rewrites(
        """
          class Model:
        -     cast = torch.cuda.amp.autocast(enabled=True)
        +     cast = torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=True)

              def forward(self):
                  with self.cast:
                      pass
        """
    )


def test_same_import_on_every_branch(rewrites: Check) -> None:
    rewrites(
        """
          import torch

          if fast:
        -     from torch.cuda.amp import autocast
        +     from torch.amp import autocast
          else:
        -     from torch.cuda.amp import autocast
        +     from torch.amp import autocast

        - with autocast():
        + with autocast(device_type="cuda", dtype=torch.float16):
              pass
        """,
        head="",
    )


def test_name_with_a_context_variable(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import autocast as amp_autocast
        + from torch.amp import autocast as amp_autocast

        - with amp_autocast(False) as context:
        + with amp_autocast(device_type="cuda", enabled=False) as context:
              pass
        """,
        head="",
    )


def test_region_named_in_the_with(rewrites: Check) -> None:
    rewrites(
        """
        - with (cast := torch.cuda.amp.autocast()):
        + with (cast := torch.amp.autocast(device_type="cuda", dtype=torch.float16)):
              pass
        """
    )


def test_value_of_a_lambda(rewrites: Check) -> None:
    rewrites(
        """
        - cast = lambda: torch.cuda.amp.autocast(enabled=True)
        + cast = lambda: torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=True)
        """
    )


def test_one_of_several_contexts(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.no_grad(), torch.cuda.amp.autocast(enabled=on):
        + with torch.no_grad(), torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=on):
              pass
        """
    )


def test_argument_of_a_call(rewrites: Check) -> None:
    rewrites(
        """
        - setattr(self, f"scaler{i}", torch.cuda.amp.GradScaler(enabled=on))
        + setattr(self, f"scaler{i}", torch.amp.GradScaler("cuda", enabled=on))
        """
    )


def test_arm_of_a_conditional_expression(rewrites: Check) -> None:
    rewrites(
        """
        - scaler = torch.cuda.amp.GradScaler() if args.amp else None
        + scaler = torch.amp.GradScaler("cuda") if args.amp else None
        """
    )


def test_comment_behind_an_import(rewrites: Check) -> None:
    rewrites(
        """
          import torch
        - from torch.cuda.amp import autocast  # casts
        + from torch.amp import autocast  # casts

        - with autocast():
        + with autocast(device_type="cuda", dtype=torch.float16):
              pass
        """,
        head="",
    )


def test_import_over_several_lines(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import (
        + import torch
        + from torch.amp import (
              autocast,  # casts
              GradScaler,
              custom_fwd,
          )
        - with autocast():
        -     s = GradScaler()
        - @custom_fwd
        + with autocast(device_type="cuda", dtype=torch.float16):
        +     s = GradScaler("cuda")
        + @custom_fwd(device_type="cuda")
          def f(ctx): pass
        """,
        head="",
    )


def test_import_of_which_one_name_stays(rewrites: Check) -> None:
    rewrites(
        """
          import torch
        - from torch.cuda.amp import autocast, GradScaler
        + from torch.cuda.amp import autocast
        + from torch.amp import GradScaler

          run(autocast)
        - scaler = GradScaler()
        + scaler = GradScaler("cuda")
        """,
        head="",
    )


def test_dotted_import(rewrites: Check) -> None:
    rewrites(
        """
        - import torch.cuda.amp
        + import torch.amp

        ~ with torch.cuda.amp.autocast():
              pass
        """,
        head="",
    )


def test_name_that_the_module_offers(leaves: Check) -> None:
    leaves(
        """
        from torch.cuda.amp import autocast

        __all__ = ["autocast"]
        """,
        "other files import it from here",
        head="",
    )


@pytest.mark.parametrize(
    "use",
    [
        "with torch.cuda.amp.autocast(enabled=x): ...",
        "x = torch.cuda.amp.GradScaler(1024.0)",
        "x = torch.cpu.amp.autocast()",
        "x = torch.cuda.amp.custom_fwd(x)",
        "x = torch.get_autocast_gpu_dtype()",
        "x = torch.cuda.amp.autocast",
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        "def f(torch):\n    {}",
        "def f(*torch):\n    {}",
        "def f(**torch):\n    {}",
        "def f(x=1, *, torch):\n    {}",
        "def f(torch):\n    def g():\n        {}",
        "def f():\n    torch = 1\n    {}",
        "def f():\n    {}\n    torch = 1",
        "def f():\n    for torch in y:\n        {}",
        "def f():\n    with y as torch:\n        {}",
        "def f():\n    def torch(): ...\n    {}",
        "def f():\n    class torch: ...\n    {}",
        "def f():\n    from fakes import torch\n    {}",
        "def f():\n    import fakes as torch\n    {}",
        "class C:\n    torch = 1\n    {}",
    ],
)
def test_local_name_torch_is_not_the_module(ignores: Check, around: str, use: str) -> None:
    ignores(f"{around.format(use)}\n")
