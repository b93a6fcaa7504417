"""What a script says of the type that single functions compute in: left to autocast, or torch's own casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

_LEFT = "what half_function made float16 is left to autocast, which may keep it in float32"
_INSIDE = "inside a function that was half_function, Apex went on casting and torch does not"


@pytest.mark.parametrize(("name", "said"), [("half_function", [_LEFT]), ("promote_function", [])])
def test_function_of_what_torch_computes_is_left_to_autocast(name: str, said: list[str], rewrites: Check) -> None:
    plan = rewrites(
        f"""
        ~ APEX
          # Mixes.
        - @amp.{name}
          def mix(a, b):
              return joined(a, b).relu() + max(1, 2)

          def joined(a, b):
              return torch.cat([a @ b, b])

          MODEL
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(mix(model(x), y), y)
        ~     APEX_STEP
        """
    )
    assert [each.message for each in plan.findings if each.code == "AMP210"] == said


@pytest.mark.parametrize("decorators", ["@amp.{}\n@torch.no_grad()\n", "@torch.no_grad()\n# Halves.\n@amp.{}\n"])
def test_other_decorators_and_comments_stay(decorators: str, migrate: Check) -> None:
    text = f"APEX\n{decorators.format('half_function')}def mix(a, b):\n    return a @ b\n\n{_TRAINS}"
    after = migrate(text).after
    assert "@torch.no_grad()\n" in after
    assert ("# Halves." in text) is ("# Halves." in after)
    assert "apex" not in after


_TRAINS = """\
MODEL
INITIALIZE
for x, y in loader:
    loss = nn.functional.mse_loss(mix(model(x), y), y)
    APEX_STEP
"""


def test_function_that_is_given_is_itself(migrate: Check) -> None:
    plan = migrate(f"APEX\ndef own(a, b):\n    return a @ b\n\nmix = amp.half_function(own)\n{_TRAINS}")
    assert "\nmix = own\n" in plan.after


@pytest.mark.parametrize("registered", ['half_function(torch, "cdist")', 'promote_function(torch, "hypot")'])
def test_function_of_torch_that_is_registered_is_left_to_autocast(registered: str, migrate: Check) -> None:
    plan = migrate(f"APEX\nfrom torch import cdist as mix\namp.register_{registered}\n{_TRAINS}")
    assert "amp.register" not in plan.after
    assert "apex" not in plan.after
    assert (_LEFT in {each.message for each in plan.findings}) is ("half" in registered)


def test_function_of_the_project_that_is_registered_is_left_to_autocast(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "ops.py": "  def mix(a, b):\n      return (a @ b).relu()\n",
            "train.py": """
                  import ops
                  import torch
                  from torch import nn
                - from apex import amp
                -
                - amp.register_half_function(ops, "mix")

                  MODEL
                ~ INITIALIZE
                  for x, y in loader:
                ~     loss = nn.functional.mse_loss(ops.mix(model(x), y), y)
                ~     APEX_STEP
                """,
        }
    )


def test_function_of_the_project_that_is_registered_for_float32_is_cast_where_it_stands(rewrites_files: Check) -> None:
    found = rewrites_files(
        {
            "ops.py": "  def distance(a, b):\n      return (a - b).pow(2).sum(-1)\n",
            "train.py": """
                  import ops
                  import torch
                  from torch import nn
                - from apex import amp

                - amp.register_float_function(ops, "distance")
                + ops.distance = torch.amp.custom_fwd(ops.distance, device_type="cuda", cast_inputs=torch.float32)
                  MODEL
                ~ INITIALIZE
                  for x, y in loader:
                ~     loss = ops.distance(model(x), y).mean()
                ~     APEX_STEP
                """,
        }
    )
    assert [each.message for each in found if each.code == "AMP210"] == [_INSIDE.replace("half", "float")]
    assert not [each for each in found if each.code == "AMP504"]


_FUNCTION = """\
class Mix(torch.autograd.Function):
    @staticmethod
    {}
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.t(), a.t() @ grad

mix = Mix.apply
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_function_that_keeps_its_inputs_for_a_backward_is_cast(dtype: str, migrate: Check) -> None:
    plan = migrate(
        f"APEX\n{_FUNCTION.format('@amp.half_function')}\n{_TRAINS}", "fp16" if dtype == "float16" else "bf16"
    )
    assert f'@torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.{dtype})\n' in plan.after
    assert _INSIDE in {each.message for each in plan.findings}


def test_kernel_of_somebody_else_is_cast(migrate: Check) -> None:
    plan = migrate(f"APEX\nfrom kernels import _C\nmix = amp.half_function(_C.mix)\n{_TRAINS}")
    assert 'mix = torch.amp.custom_fwd(_C.mix, device_type="cuda", cast_inputs=torch.float16)\n' in plan.after


_REGISTERS = """
      import torch
    - from apex import amp
    -
    - amp.register_half_function(torch, "einsum")

      def predict(model, loader):
          with torch.no_grad():
              return [model(x) for x in loader]
"""


def test_script_that_only_registers_functions_stays_in_float32_beside_one_that_trains(rewrites_files: Check) -> None:
    called = f"{_REGISTERS}\n      predict(torch.nn.Linear(3, 1).cuda(), [torch.randn(4, 3).cuda()])\n"
    train = """
          import torch
          from torch import nn
        - from apex import amp

          MODEL
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     APEX_STEP
    """
    rewrites_files({"predict.py": called, "train.py": train})


def test_who_initializes_puts_the_calls_of_what_registers_functions_into_a_region(rewrites_files: Check) -> None:
    train = """
          import torch
          from torch import nn
        - from apex import amp
          from predict import predict

          MODEL
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     APEX_STEP
        - predict(model, loader)
        + with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +     predict(model, loader)
    """
    rewrites_files({"predict.py": _REGISTERS, "train.py": train})


@pytest.mark.parametrize(
    ("used", "why"),
    [
        (_FUNCTION.format("@amp.promote_function"), "promote_function"),
        ("from kernels import _C\nmix = amp.promote_function(_C.mix)", "promote_function"),
        ("from kernels import _C\n@amp.half_function\ndef mix(a, b):\n    return _C.mix(a, b)", "half_function"),
        ("@amp.half_function\ndef mix(a, b):\n    return Own.apply(a, b)", "half_function"),
        ("from torch import cdist as mix\namp.register_float_function(torch, 'sigmoid')", "register_float_function"),
        (
            "import sys\ndef mix(a, b):\n    return a + b\namp.register_float_function(sys.modules[__name__], 'mix')",
            "register_float_function",
        ),
        ("import kernels\nmix = kernels.mix\namp.register_half_function(kernels, 'mix')", "register_half_function"),
        ("from torch import cdist as mix\nregister = amp.register_half_function(torch, 'cdist')", "register_half"),
    ],
)
def test_what_takes_the_types_that_it_is_given_stays(used: str, why: str, migrate: Check) -> None:
    plan = migrate(f"APEX\n{used}\n{_TRAINS}")
    assert "from amp_shim import amp" in plan.after, plan.after
    assert [each for each in plan.findings if each.code == "AMP290" and f"amp.{why}" in each.message], plan.findings
