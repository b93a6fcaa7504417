"""Inputs that other tools are known to break on: each comes out right, or stays with a finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_positional_enabled(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast(False):
        + with torch.amp.autocast(device_type="cuda", enabled=False):
              pass
        """
    )


def test_all_arguments_positional(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast(True, torch.bfloat16, False):
        + with torch.amp.autocast(device_type="cuda", enabled=True, dtype=torch.bfloat16, cache_enabled=False):
              pass
        """
    )


def test_positional_arguments_on_the_cpu(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cpu.amp.autocast(True, torch.bfloat16):
        + with torch.amp.autocast(device_type="cpu", enabled=True, dtype=torch.bfloat16):
              pass
        """
    )


def test_starred_arguments(leaves: Check) -> None:
    leaves(
        """
        args = (True,)
        with torch.cuda.amp.autocast(*args):
            pass
        """,
        "its arguments are starred",
    )


def test_region_kept_for_later(rewrites: Check) -> None:
    rewrites(
        """
          class T:
              def __init__(self, args):
        -         self.ac = torch.cuda.amp.autocast(args.amp)
        +         self.ac = torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp)
        """
    )


def test_name_imported_where_torch_is_not(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import autocast
        + import torch
        + from torch.amp import autocast

        - with autocast(enabled=True):
        + with autocast(device_type="cuda", dtype=torch.float16, enabled=True):
              pass
        """,
        head="",
    )


def test_name_imported_where_torch_is(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import autocast
        + from torch.amp import autocast

        - with autocast(enabled=True):
        + with autocast(device_type="cuda", dtype=torch.float16, enabled=True):
              pass
        """
    )


def test_names_imported_under_other_names(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import autocast as ac, GradScaler as GS
        + import torch
        + from torch.amp import autocast as ac, GradScaler as GS

        - scaler = GS()
        - with ac():
        + scaler = GS("cuda")
        + with ac(device_type="cuda", dtype=torch.float16):
              pass
        """,
        head="",
    )


def test_package_imported_from_torch_cuda(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda import amp
        + import torch
        + from torch import amp

        - with amp.autocast(enabled=True):
        + with amp.autocast(device_type="cuda", dtype=torch.float16, enabled=True):
              pass
        """,
        head="",
    )


def test_package_imported_as_a_whole(rewrites: Check) -> None:
    rewrites(
        """
        - import torch.cuda.amp as amp
        + import torch
        + import torch.amp as amp

        - with amp.autocast():
        + with amp.autocast(device_type="cuda", dtype=torch.float16):
              pass
        """,
        head="",
    )


def test_package_imported_under_another_name(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda import amp as native_amp
        + from torch import amp as native_amp

        - @native_amp.autocast(enabled=False)
        + @native_amp.autocast(device_type="cuda", enabled=False)
          def f():
              pass
        """,
        head="",
    )


def test_torch_under_another_name(rewrites: Check) -> None:
    rewrites(
        """
          import torch as th

        - with th.cuda.amp.autocast():
        + with th.amp.autocast(device_type="cuda", dtype=th.float16):
              pass
        """,
        head="",
    )


def test_cuda_imported_from_torch(rewrites: Check) -> None:
    rewrites(
        """
        + import torch
          from torch import cuda

        - with cuda.amp.autocast():
        + with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
              pass
        """,
        head="",
    )


def test_cuda_under_another_name(rewrites: Check) -> None:
    rewrites(
        """
        + import torch
          import torch.cuda as tc

        - with tc.amp.autocast():
        + with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
              pass
        """,
        head="",
    )


def test_decorator_of_a_method(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import autocast
        + import torch
        + from torch.amp import autocast

          class Net:
        -     @autocast()
        +     @autocast(device_type="cuda", dtype=torch.float16)
              def forward(self, x):
                  return x
        """,
        head="",
    )


def test_device_that_depends_on_the_branch(leaves: Check) -> None:
    leaves(
        """
        if gpu:
            from torch.cuda.amp import autocast
        else:
            from torch.cpu.amp import autocast
        with autocast(True):
            pass
        """,
        "stands for different things",
        head="",
    )


def test_default_dtypes_are_written_out_inside_another_region(rewrites: Check) -> None:
    rewrites(
        """
          with torch.autocast("cpu", dtype=torch.float16):
        -     with torch.cpu.amp.autocast():
        +     with torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16):
                  pass
        ~     with torch.cuda.amp.autocast():
                  pass
        """
    )


def test_comment_in_front_of_an_argument(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import autocast
        + from torch.amp import autocast

          with autocast(
              # explain why fp16
        -     dtype=torch.float16
        +     device_type="cuda", dtype=torch.float16
          ):
              pass
        """
    )


def test_pragma_of_another_tool_changes_nothing(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast():  # noqa: TOR101
        + with torch.amp.autocast(device_type="cuda", dtype=torch.float16):  # noqa: TOR101
              pass
        """
    )


def test_scaler_with_positional_arguments(rewrites: Check) -> None:
    rewrites(
        """
        - a = torch.cuda.amp.GradScaler()
        - b = torch.cuda.amp.GradScaler(65536.0, 2.0, 0.5)
        + a = torch.amp.GradScaler("cuda")
        + b = torch.amp.GradScaler("cuda", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5)
        """
    )


def test_bare_decorators_become_calls(rewrites: Check) -> None:
    rewrites(
        """
          class F(torch.autograd.Function):
              @staticmethod
        -     @torch.cuda.amp.custom_fwd
        +     @torch.amp.custom_fwd(device_type="cuda")
              def forward(ctx, x):
                  return x
              @staticmethod
        -     @torch.cuda.amp.custom_bwd
        +     @torch.amp.custom_bwd(device_type="cuda")
              def backward(ctx, g):
                  return g
        """
    )


def test_decorator_with_arguments(rewrites: Check) -> None:
    rewrites(
        """
        - @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
        + @torch.amp.custom_fwd(cast_inputs=torch.float32, device_type="cuda")
          def forward(ctx, x):
              return x
        """
    )


def test_annotations_and_type_tests(rewrites: Check) -> None:
    rewrites(
        """
        - def f(s: torch.cuda.amp.GradScaler) -> torch.cuda.amp.GradScaler:
        -     assert isinstance(s, torch.cuda.amp.GradScaler)
        + def f(s: torch.amp.GradScaler) -> torch.amp.GradScaler:
        +     assert isinstance(s, torch.amp.GradScaler)
              return s
        """
    )


def test_class_chosen_by_an_expression(leaves: Check) -> None:
    leaves(
        """
        with (torch.cuda.amp.autocast if c else nullcontext)(False):
            pass
        """,
        "used as a value",
    )


def test_package_under_a_variable(rewrites: Check) -> None:
    rewrites(
        """
        - amp = torch.cuda.amp
        - with amp.autocast():
        + amp = torch.amp
        + with amp.autocast(device_type="cuda", dtype=torch.float16):
              pass
        """
    )


def test_class_in_its_own_module(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast_mode.autocast():
        + with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
              pass
        """
    )


def test_state_of_the_scaler_in_its_own_module(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp.grad_scaler import OptState
        + from torch.amp.grad_scaler import OptState
          x = OptState.READY
        """,
        head="",
    )


@pytest.mark.parametrize(
    "test", ["torch.cuda.is_available()", "use_gpu", 'device.type == "cuda"', "is_npu_available()", "not device.is_cpu"]
)
def test_choice_between_devices_is_none_between_versions(rewrites: Check, test: str) -> None:
    rewrites(
        f"""
          if {test}:
        -     scaler = torch.cuda.amp.GradScaler()
        +     scaler = torch.amp.GradScaler("cuda")
          else:
              scaler = torch.amp.GradScaler("cpu")
        - scaler = torch.cuda.amp.GradScaler() if {test} else torch.amp.GradScaler("cpu")
        + scaler = torch.amp.GradScaler("cuda") if {test} else torch.amp.GradScaler("cpu")
        """
    )


def test_what_torch_has_for_certain_is_no_choice(rewrites: Check) -> None:
    rewrites(
        """
          from functools import partial

          if torch.cuda.is_available() and hasattr(torch.cuda, "amp") and hasattr(torch.cuda.amp, "autocast"):
        -     region = partial(torch.cuda.amp.autocast, dtype=torch.bfloat16)
        +     region = partial(torch.amp.autocast, device_type="cuda", dtype=torch.bfloat16)
          else:
              region = nullcontext
        """
    )


@pytest.mark.parametrize(
    "test",
    [
        "torch_version >= (1, 6) and torch.cuda.is_available()",
        "_torch_available",
        "is_amp_available()",
        'hasattr(torch.cuda, "amp_next")',
        "NEWER",
    ],
)
def test_choice_between_versions_on_a_device(leaves: Check, test: str) -> None:
    leaves(
        f"""
        if {test}:
            scaler = torch.amp.GradScaler("cuda")
        else:
            scaler = torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_import_of_which_one_name_may_be_missing(rewrites: Check) -> None:
    rewrites(
        """
          try:
        -     from torch.cuda.amp import autocast, GradScaler
        +     from torch.cuda.amp import autocast
        +     from torch.amp import GradScaler
          except ImportError:
              autocast = None
        - scaler = GradScaler()
        + scaler = GradScaler("cuda")
          with autocast():
              pass
        """,
        head="",
    )


def test_import_of_which_all_names_may_be_missing(leaves: Check) -> None:
    leaves(
        """
        try:
            from torch.cuda.amp import autocast, GradScaler
        except ImportError:
            autocast = GradScaler = None
        if autocast is not None:
            with autocast():
                pass
        """,
        "stands for different things",
        head="",
    )


def test_comment_behind_an_argument(migrate: Check) -> None:
    plan = migrate(
        """
        from torch.cuda.amp import autocast

        with autocast(
            enabled=True,  # on
            dtype=torch.float16,  # half
        ):
            pass
        """
    )
    call = plan.after[plan.after.index("with autocast(") : plan.after.index("):")].splitlines()[1:]
    assert sorted(call) == [
        '    device_type="cuda",',
        "    dtype=torch.float16,  # half",
        "    enabled=True,  # on",
    ]


def test_call_inside_a_call(migrate: Check) -> None:
    plan = migrate("with torch.cuda.amp.autocast(bool(torch.cuda.amp.autocast(False))):\n    pass\n")
    inner = 'torch.amp.autocast(device_type="cuda", enabled=False)'
    outer = f'torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool({inner}))'
    assert plan.after.endswith(f"with {outer}:\n    pass\n")


def test_base_class_whose_arguments_are_not_seen_stays(leaves: Check) -> None:
    leaves("class Scaler(torch.cuda.amp.GradScaler):\n    pass\n", "a class derives from it")


def test_apex_in_the_same_file_is_none_of_these_rules(migrate: Check) -> None:
    plan = migrate("from apex import amp\n\nmodel = amp.initialize(model, opt_level='O3')\n")
    assert not [finding for finding in plan.findings if finding.code.startswith("AMP1")]


def test_class_under_a_variable(rewrites: Check) -> None:
    rewrites(
        """
        + import functools
          import torch
        - ac = torch.cuda.amp.autocast
        + ac = functools.partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16)
          with ac():
              pass
        """,
        head="",
    )


def test_class_under_a_variable_of_its_name(rewrites: Check) -> None:
    rewrites(
        """
        - autocast = torch.cuda.amp.autocast
        - with autocast(enabled=False):
        + autocast = torch.amp.autocast
        + with autocast(device_type="cuda", enabled=False):
              pass
        """
    )


def test_partial_of_the_class(rewrites: Check) -> None:
    rewrites(
        """
          from functools import partial

        - f = partial(torch.cuda.amp.autocast, enabled=False)
        + f = partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16, enabled=False)
        """
    )


def test_positional_arguments_of_a_base(rewrites: Check) -> None:
    rewrites(
        """
        - class Scaler(torch.cuda.amp.GradScaler):
        + class Scaler(torch.amp.GradScaler):
              def __init__(self):
        -         super().__init__(1024.0)
        +         super().__init__("cuda", init_scale=1024.0)
        """
    )


def test_arguments_of_a_base_that_is_named(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import GradScaler
        + from torch.amp import GradScaler

          class Scaler(GradScaler):
              def __init__(self, init_scale, most, growth_interval=100):
        -         GradScaler.__init__(self, init_scale, growth_interval=growth_interval)
        +         GradScaler.__init__(self, "cuda", init_scale=init_scale, growth_interval=growth_interval)
                  self.most = most
        """
    )


@pytest.mark.parametrize(
    "init",
    [
        "        GradScaler.__init__(*args)",
        "        make = GradScaler.__init__\n        make(self)",
        "        self.init(2.0)",
    ],
)
def test_a_base_whose_arguments_are_not_seen(leaves: Check, init: str) -> None:
    leaves(
        "from torch.cuda.amp import GradScaler\n\n\nclass Scaler(GradScaler):\n"
        f"    def __init__(self, *args):\n{init}\n",
        "a class derives from it",
    )


def test_positional_arguments_of_a_partial(rewrites: Check) -> None:
    rewrites(
        """
          from functools import partial

        - make = partial(torch.cuda.amp.GradScaler, 1024.0)
        + make = partial(torch.amp.GradScaler, "cuda", init_scale=1024.0)
        """
    )
