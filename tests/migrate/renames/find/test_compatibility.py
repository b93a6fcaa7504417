"""Code that serves old and new PyTorch at once keeps working on both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]


@pytest.mark.parametrize("head", ["", "import torch\n\n"])
def test_new_import_with_the_old_as_a_fallback(rewrites: Check, head: str) -> None:
    rewrites(
        """
        - try:
        -     from torch.amp import GradScaler
        - except ImportError:
        -     from torch.cuda.amp import GradScaler
        + from torch.amp import GradScaler

          scaler = GradScaler()
        """,
        head=head,
    )


def test_new_class_with_the_old_as_a_fallback(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     autocast = torch.amp.autocast
        - except AttributeError:
        -     autocast = torch.cuda.amp.autocast
        + autocast = torch.amp.autocast
          with autocast("cuda"):
              pass
        """
    )


def test_fallback_for_a_call_stays(leaves: Check) -> None:
    leaves(
        """
        try:
            scaler = torch.amp.GradScaler(device=device)
        except (AttributeError, TypeError):
            scaler = torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_own_import_with_the_old_as_a_fallback_stays(leaves: Check) -> None:
    leaves(
        """
        try:
            from mine import autocast
        except ImportError:
            from torch.cuda.amp import autocast

        with autocast():
            pass
        """,
        "stands for different things",
    )


TESTS = [
    'version.parse(torch.__version__) >= version.parse("2.4")',
    'LooseVersion(torch.__version__.split("+")[0]) >= "2.4.0"',
    'torch.__version__ > "2.3"',
    'torch.__version__.startswith("2")',
    "not torch.__version__.startswith('1.')",
    "torch.__version__ >= (2, 4)",
    'tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)',
    'tuple(int(v) for v in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 4)',
    'hasattr(torch.amp, "custom_fwd")',
    'not version.parse(torch.__version__) < version.parse("2.4") and hasattr(torch, "amp")',
    'hasattr(torch.amp, "custom_fwd") or anything()',
    'digit_version(torch.__version__) >= digit_version("2.4")',
    'utils.parse_version(torch.__version__) >= utils.parse_version("2.4.0")',
    'TORCH_VERSION != "parrots" and digit_version(TORCH_VERSION) >= digit_version("2.4.0")',
    '"parrots" not in TORCH_VERSION and digit_version(TORCH_VERSION) > digit_version("2.3")',
    "not (TORCH_VERSION == 'parrots' or digit_version(TORCH_VERSION) < digit_version('2.4'))",
    "TORCH_VERSION >= (2, 4)",
    "utils.TORCH_VERSION >= (2, 4)",
]
VERSIONS = """\
import torch
from packaging import version
from distutils.version import LooseVersion
import utils
from utils import TORCH_VERSION, digit_version

print(version, LooseVersion, utils, TORCH_VERSION, digit_version)
"""


@pytest.mark.parametrize("test", TESTS)
def test_branch_for_an_old_pytorch_goes(rewrites: Check, test: str) -> None:
    rewrites(
        f"""
        - if {test}:
        -     from torch.amp import autocast, custom_fwd
        - else:
        -     from torch.cuda.amp import autocast, custom_fwd
        + from torch.amp import autocast, custom_fwd

          with autocast("cuda"):
              pass
        """,
        head=VERSIONS,
    )


@pytest.mark.parametrize("test", TESTS)
def test_branch_stays_where_the_old_pytorch_is_written_for(test: str) -> None:
    text = f"{VERSIONS}if {test}:\n    f = torch.amp.custom_fwd\nelse:\n    f = torch.cuda.amp.custom_fwd\n"
    assert migrate_text(text, Settings(target_torch=(2, 3))).after == text
    assert "torch.cuda" not in migrate_text(text, Settings(target_torch=(2, 4))).after


@pytest.mark.parametrize(
    "test",
    [
        'version.parse(torch.__version__) >= version.parse("2.99")',
        'torch.__version__.startswith("3")',
        'torch.__version__.startswith("2.1")',
        'version.parse(torchvision.__version__) >= version.parse("0.4")',
        'torch.__version__[:3] >= "1.6"',
        "float(torch.__version__[:3]) >= 1.6",
        'torch.__version__.split(".") >= ["1", "6"]',
        "tuple(map(int, torch.__version__.split('.')[:2])) >= (1, 6, 0)",
        'version.parse(torch.__version__) == version.parse("2.4")',
        "check_version(torch.__version__, '1.6')",
        'hasattr(torch.amp, "something_new")',
        'hasattr(torch.amp, "GradScaler") and use_new',
        'version.parse(torch.__version__) >= version.parse("2.4.1rc1")',
        "TORCH_VERSION >= '1.6'",
        "TORCH_VERSION[0] >= '2'",
        "TORCH_VERSION == '2.4'",
        "'+cu' not in TORCH_VERSION",
        "digit_version(torchvision.__version__) >= digit_version('0.4')",
        "digit_version(torch.__version__) >= '1.6' and MODE != 'parrots'",
    ],
)
def test_branch_stays_where_the_test_is_not_certain(leaves: Check, test: str) -> None:
    leaves(
        f"""
        import torchvision
        from packaging import version
        if {test}:
            scaler = torch.amp.GradScaler("cuda")
        else:
            scaler = torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_import_that_only_the_test_needed_goes_with_it(rewrites: Check) -> None:
    rewrites(
        """
          import os
        - from packaging import version
        - from distutils.version import LooseVersion, StrictVersion
        + from distutils.version import StrictVersion
          from utils import digit_version, log
          from mine import Version

        - if version.parse(torch.__version__) >= version.parse("2.4"):
        -     scaler = torch.amp.GradScaler("cuda")
        - else:
        -     scaler = torch.cuda.amp.GradScaler()
        - if digit_version(torch.__version__) >= digit_version("2.4") and LooseVersion(torch.__version__) > "2.3":
        -     scaler = torch.amp.GradScaler("cuda")
        - else:
        -     log(os)
        -     scaler = torch.cuda.amp.GradScaler()
        + scaler = torch.amp.GradScaler("cuda")
        + scaler = torch.amp.GradScaler("cuda")

          def f(v: "Version") -> None:
              log(v, StrictVersion)
        """,
        prove=True,
    )


@pytest.mark.parametrize("use", ["print(version)", "__all__ = ['version']", "def f(v: 'version.Version'): pass"])
def test_import_that_something_else_needs_stays(migrate: Check, use: str) -> None:
    text = 'scaler = torch.amp.GradScaler("cuda") if TEST else torch.cuda.amp.GradScaler()\n'
    test = 'version.parse(torch.__version__) >= version.parse("2.4")'
    after = migrate(f"from packaging import version\n{text.replace('TEST', test)}{use}\n").after
    assert "from packaging import version\n" in after
    assert test not in after


def test_test_that_is_kept_in_a_variable(rewrites: Check) -> None:
    rewrites(
        """
          VERSION = version.parse(torch.__version__)
          NEW = VERSION >= version.parse("2.3")

          def make(flag):
        -     return (torch.amp.GradScaler("cuda", enabled=flag) if NEW else torch.cuda.amp.GradScaler(enabled=flag))
        +     return torch.amp.GradScaler("cuda", enabled=flag)
        """,
        head=VERSIONS,
    )


def test_old_side_that_comes_first(rewrites: Check) -> None:
    rewrites(
        """
        - if torch.__version__ < "2.3":
        -     scaler = torch.cuda.amp.GradScaler()
        - else:
        -     scaler = torch.amp.GradScaler("cuda")  # new
        - if torch.__version__ < "2.3":
        -     print(torch.get_autocast_gpu_dtype())
        + scaler = torch.amp.GradScaler("cuda")  # new
        """
    )


def test_stand_in_for_a_pytorch_without_amp(rewrites: Check) -> None:
    rewrites(
        """
        - if version.parse(torch.__version__) >= version.parse("1.6.0"):
        -     from torch.cuda.amp import autocast
        - else:
        -     class autocast:
        -         def __init__(self, enabled):
        -             pass
        + from torch.amp import autocast

        - with autocast(True):
        + with autocast(device_type="cuda", dtype=torch.float16, enabled=True):
              pass
        """,
        head=VERSIONS,
    )


def test_elif_stays(leaves: Check) -> None:
    leaves(
        """
        if cpu:
            scaler = None
        elif torch.__version__ < "2.3":
            scaler = torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_test_that_does_not_depend_on_amp_stays(ignores: Check) -> None:
    ignores(
        """
        if torch.__version__ >= "1.9":
            torch.use_deterministic_algorithms(True)
        else:
            torch.set_deterministic(True)
        """
    )


def test_branch_with_a_name_that_is_to_stay(ignores: Check) -> None:
    ignores(
        """
        if torch.__version__ >= "2.3":
            scaler = torch.amp.GradScaler("cuda")
        else:
            scaler = torch.cuda.amp.GradScaler()  # amp-migrate: ignore[AMP103]
        """
    )


def test_version_test(leaves: Check) -> None:
    leaves(
        """
        if VERSION >= (2, 3):
            scaler = torch.amp.GradScaler("cuda")
        else:
            scaler = torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_conditional_expression(leaves: Check) -> None:
    leaves(
        """
        scaler = torch.amp.GradScaler("cuda") if NEW else torch.cuda.amp.GradScaler()
        """,
        "chooses between the old PyTorch and the new",
    )


def test_probe_of_the_old_name(ignores: Check) -> None:
    ignores(
        """
        available = hasattr(torch.cuda.amp, "autocast")
        """
    )
