"""The examples on the page about policies run, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

PAGE = (Path(__file__).parents[2] / "docs/policies.md").read_text(encoding="utf-8")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def library() -> Iterator[None]:
    """The operator of another library that the page names."""
    with torch.library._scoped_library("mylib", "DEF") as library:
        library.define("scan(Tensor x) -> Tensor")
        library.impl("scan", lambda x: x.cumsum(0), "CompositeExplicitAutograd")
        yield


@pytest.mark.usefixtures("library")
def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {
        "model": nn.Sequential(nn.Linear(8, 8), nn.GELU()).to(DEVICE),
        "images": torch.ones(4, 8, device=DEVICE),
        "labels": torch.ones(4, 8, device=DEVICE),
        "criterion": nn.MSELoss(),
    }
    examples = re.findall(r"```python\n(.+?)```", PAGE, re.S)
    for example in examples:
        exec(example.replace('"cuda"', f'"{DEVICE}"'), names)
    assert names["loss"].dtype == torch.float32
    ran = re.findall(r"^(\w+) +(float\d+)", capsys.readouterr().out, re.M)
    assert ran == [("addmm", "float16"), ("gelu", "float32")]
    with names["autocast"](names["policy"], DEVICE, dtype=torch.float16):
        assert torch.ops.mylib.scan(names["images"]).dtype == torch.float16
        with pytest.raises(RuntimeError, match="bans prod"):
            names["images"].prod()
