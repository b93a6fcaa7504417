"""The words that make a file worth parsing."""

from __future__ import annotations

import pytest
from amp_migrate.engine.prefilter import may_matter, word


@pytest.mark.parametrize(
    "line",
    [
        "from apex import amp",
        "import apex",
        "with torch.cuda.amp.autocast():",
        "from .compat import autocast",
        "scaler = GradScaler()",
        "@custom_fwd",
        "loss.backward()",
        "loss.backward (retain_graph=True)",
        "(a + b).backward(gradient)",
        "with torch.no_grad():",
        "@torch.inference_mode()",
        "model.eval()",
        "torch.get_autocast_gpu_dtype()",
        "with scale_loss(loss, optimizer) as scaled:",
    ],
)
def test_a_line_that_can_matter_passes(line: str) -> None:
    assert may_matter(f"x = 1\n{line}\n".encode())


@pytest.mark.parametrize(
    "line",
    [
        "# an example of sampling, step backward",
        "import numpy",
        "timestamp, lamp, camp_site = 1, 2, 3",
        "evaluate(model)",
    ],
)
def test_a_line_that_only_resembles_one_does_not(line: str) -> None:
    assert not may_matter(f"x = 1\n{line}\n".encode())


def test_a_word_is_found_only_as_a_whole() -> None:
    pattern = word("train")
    assert pattern.search(b"x = train(model)")
    assert pattern.search(b"self.train")
    assert not pattern.search(b"trainer, retrain, train_one, train1")
    assert not pattern.search("tra\u00een train\u00e9e".encode())
    assert word("entra\u00eene").search("entra\u00eene()".encode())
