"""Texts that tell people to install Apex: where the script runs on `amp_shim`, they name that."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

Check = Callable[..., Any]

_SCRIPT = """
try:
    from apex import amp
except ImportError:
    {}

MODEL
model, optimizer = amp.initialize(model, optimizer, *options)
APEX_EPOCH
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'raise ImportError("APEX is not installed, please refer to https://www.github.com/nvidia/apex.")',
            'raise ImportError("amp-migrate[shim] is not installed.")',
        ),
        (
            'raise ImportError("Please install apex from https://www.github.com/nvidia/apex to use fp16.")',
            'raise ImportError("Please install amp-migrate[shim] to use fp16.")',
        ),
        ("print('APEX is not available')", "print('amp-migrate[shim] is not available')"),
        (
            "assert not fp16, 'AMP specified as APEX but APEX is not installed.'",
            "assert not fp16, 'AMP specified as APEX but amp-migrate[shim] is not installed.'",
        ),
        ("assert not fp16, 'NVIDIA Apex required'", "assert not fp16, 'amp-migrate[shim] required'"),
        (
            'raise ImportError(\n        "No apex: see "\n        "https://github.com/NVIDIA/apex to install"\n    )',
            'raise ImportError(\n        "No amp-migrate[shim]: to install"\n    )',
        ),
        (
            "print('apex is not available: ' \n          'install apex')",
            "print('amp-migrate[shim] is not available: ' \n          'install amp-migrate[shim]')",
        ),
        (
            'logger.warning("%s: import of apex.amp failed", e)',
            'logger.warning("%s: import of amp-migrate[shim] failed", e)',
        ),
    ],
)
def test_text_names_what_is_lacked(migrate: Check, before: str, after: str) -> None:
    plan = migrate(_SCRIPT.format(before), prove=True)
    assert plan.after == plan.source.text.replace("from apex", "from amp_shim").replace(before, after)


@pytest.mark.parametrize(
    "text",
    [
        'print("install apex with --cuda_ext")',
        'print("Apex is missing: run `tool install-nvidia-apex`")',
        'print("apex.optimizers.FusedLAMB is not available")',
        'print("Neither apex nor native AMP is available. " "Install apex or upgrade to PyTorch 1.6")',
        'raise ImportError("install apex, or PyTorch 1.6")',
        'parser.add_argument("--fp16", help="needs apex")',
        'level = "apex is missing"',
        "print(f'no apex found: {e}')",
        'print("no mixed precision is available")',
    ],
)
def test_other_text_stays(migrate: Check, text: str) -> None:
    plan = migrate(_SCRIPT.format(text))
    assert plan.after == plan.source.text.replace("from apex", "from amp_shim")


def test_text_stays_where_apex_is_still_imported(migrate: Check) -> None:
    text = dedent(
        """
        try:
            from apex import amp
            from apex.optimizers import FusedLAMB
        except ImportError:
            raise ImportError("Please install apex")

        optimizer = FusedLAMB(model.parameters())
        model, optimizer = amp.initialize(model, optimizer, *options)
        """
    )
    assert 'raise ImportError("Please install apex")' in migrate(text).after
