"""Frameworks that are told to use Apex: the finding names their own switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "what", "instead"),
    [
        ('trainer = Trainer(amp_backend="apex", amp_level="O2", precision=16)', 'amp_backend="apex"', "16-mixed"),
        ("args = TrainingArguments(fp16=True, fp16_backend='apex')", 'fp16_backend="apex"', "fp16=True is native"),
        ('args = TrainingArguments(half_precision_backend="apex")', 'half_precision_backend="apex"', "fp16_opt_level"),
        ("plugin = ApexMixedPrecisionPlugin(amp_level='O2')", "ApexMixedPrecisionPlugin", "16-mixed"),
        ('optim_wrapper = dict(type="ApexOptimWrapper", opt_level="O1")', "ApexOptimWrapper", "AmpOptimWrapper"),
        (
            "from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer('base')\n"
            "model.fit(epochs=1, fp16=True, fp16_opt_level='O2')",
            "fit(fp16=, fp16_opt_level=)",
            "use_amp=True",
        ),
        ("from mmengine.optim import ApexOptimWrapper\n\nw = ApexOptimWrapper(opt)", "ApexOptimWrapper", "AmpOptim"),
    ],
)
def test_switch_that_asks_for_apex(leaves: Check, text: str, what: str, instead: str) -> None:
    finding = leaves(f"{text}\n", f"{what} asks the framework for Apex")
    assert finding.code == "AMP392"
    assert instead in finding.hint


@pytest.mark.parametrize(
    "text",
    [
        'trainer = Trainer(amp_backend="native", precision=16)',
        'trainer = Trainer(amp_backend=backend)  # "apex" or "native"',
        'args = TrainingArguments(fp16=True, half_precision_backend="auto")  # not apex',
        'optim_wrapper = dict(type="AmpOptimWrapper", loss_scale="dynamic")',
        'wrapper = "ApexOptimWrapper"',
        "model = keras.Model(x, y)\nmodel.fit(epochs=1, fp16=True, fp16_opt_level='O2')",
        'team = "apex"',
    ],
)
def test_other_switches_are_no_matter(ignores: Check, text: str) -> None:
    ignores(f"{text}\n")
