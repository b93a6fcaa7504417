"""What is written runs on today's PyTorch, and PyTorch has nothing to say about it; about the old code it has."""

from __future__ import annotations

import warnings
from textwrap import dedent

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

HEAD = "import torch\nfrom contextlib import nullcontext\n"
CONSTRUCTS = {
    "region": "with torch.cuda.amp.autocast():\n    pass",
    "region with positional arguments": "with torch.cuda.amp.autocast(False, torch.bfloat16, True):\n    pass",
    "region on the CPU": "with torch.cpu.amp.autocast(True):\n    torch.ones(2, 2) @ torch.ones(2, 2)",
    "decorator": "@torch.cuda.amp.autocast(enabled=False)\ndef f(x):\n    return x\n\nf(1)",
    "region for later": "region = torch.cuda.amp.autocast(enabled=False)\nwith region:\n    pass",
    "scaler": "scaler = torch.cuda.amp.GradScaler(1024.0, 2.0, 0.5, 10, False)\nscaler.scale(torch.ones(1))",
    "scaler on the CPU": "torch.cpu.amp.GradScaler(enabled=True).get_scale()",
    "starred keywords": "options = dict(init_scale=8.0)\ntorch.cuda.amp.GradScaler(**options)",
    "custom function": """
        class Square(torch.autograd.Function):
            @staticmethod
            @torch.cuda.amp.custom_fwd
            def forward(ctx, x):
                return x * x

            @staticmethod
            @torch.cuda.amp.custom_bwd
            def backward(ctx, g):
                return g

        Square.apply(torch.ones(1, requires_grad=True)).backward()
    """,
    "custom function with a cast": """
        @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            return x

        forward(type("Context", (), {})(), torch.ones(1))
    """,
    "decorator as a function": "f = torch.cuda.amp.custom_fwd(lambda ctx, x: x)",
    "dtype of the GPU": "torch.set_autocast_gpu_dtype(torch.get_autocast_gpu_dtype())",
    "dtype of the CPU": "torch.set_autocast_cpu_dtype(torch.get_autocast_cpu_dtype())",
    "switch of the CPU": "torch.set_autocast_cpu_enabled(torch.is_autocast_cpu_enabled())",
    "cast": "torch.cuda.amp.autocast_mode._cast([torch.ones(1)], torch.float16)",
    "module under a variable": "amp = torch.cuda.amp\namp.GradScaler(enabled=False)",
    "module by import": "from torch.cuda import amp\nwith amp.autocast(True):\n    amp.GradScaler(2.0)",
    "submodule": "from torch.cuda.amp import autocast_mode\nwith autocast_mode.autocast(False):\n    pass",
    "star": "from torch.cuda.amp import *\nwith autocast(False):\n    GradScaler(2.0)",
    "class as a value": "region = torch.cuda.amp.autocast if 1 else nullcontext\nwith region(enabled=False):\n    pass",
    "class that is returned": "def f():\n    return torch.cuda.amp.autocast\n\nwith f()(enabled=False):\n    pass",
    "partial": "import functools\nmake = functools.partial(torch.cuda.amp.GradScaler, 8.0)\nmake(enabled=False)",
    "subclass": """
        class Scaler(torch.cuda.amp.GradScaler):
            def __init__(self):
                super().__init__(8.0, enabled=False)

        Scaler()
    """,
    "subclass that names its base": """
        class Scaler(torch.cuda.amp.GradScaler):
            def __init__(self, scale):
                torch.cuda.amp.GradScaler.__init__(self, scale, enabled=False)

        Scaler(8.0)
    """,
    "test of the version": """
        if torch.__version__ >= "1.6":
            from torch.cuda.amp import GradScaler
        else:
            GradScaler = None
        GradScaler(8.0)
    """,
    "stand-in": """
        try:
            from torch.cuda.amp import autocast
        except ImportError:
            autocast = nullcontext
        with autocast(False):
            pass
    """,
}


def complaints(text: str) -> list[str]:
    """What PyTorch says about deprecated names while a text runs."""
    switches = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cuda"), torch.get_autocast_dtype("cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(text, "script.py", "exec"), {"__name__": "script"})
    assert switches == (
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cuda"),
        torch.get_autocast_dtype("cpu"),
    )
    said = [str(each.message) for each in caught if issubclass(each.category, (FutureWarning, DeprecationWarning))]
    return [each for each in said if "deprecated" in each and ("amp" in each or "autocast" in each)]


@pytest.mark.parametrize("construct", CONSTRUCTS.values(), ids=CONSTRUCTS)
def test_pytorch_complains_of_the_old_code_and_not_of_the_new(construct: str) -> None:
    text = HEAD + dedent(construct).removeprefix("\n") + "\n"
    after = migrate_text(text, Settings()).after
    assert complaints(text)
    assert complaints(after) == []
    assert "cuda.amp" not in after
    assert "cpu.amp" not in after
