"""Every message on the page about troubleshooting is raised by the example below it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from amp_shim.policy import NATIVE_CUDA, autocast

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.M)[1:]
EXAMPLES = {section.partition("\n")[0]: section.partition("```python\n")[2].partition("```")[0] for section in SECTIONS}
OF_APEX = {heading: code for heading, code in EXAMPLES.items() if "apex" in heading}
OF_TORCH = {heading: code for heading, code in EXAMPLES.items() if heading not in OF_APEX}


def on_this_machine(code: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The code with a CPU in place of a GPU that is not there: its scaler scales, its autocast has CUDA's bans."""
    if torch.cuda.is_available():
        return code
    monkeypatch.setattr(torch.amp, "autocast", lambda device_type, dtype: autocast(NATIVE_CUDA, "cpu", dtype=dtype))
    return code.replace('GradScaler("cuda")', 'GradScaler("cpu")')


def test_every_message_has_an_example() -> None:
    assert len(OF_TORCH) > 1 < len(OF_APEX)
    assert all(EXAMPLES.values())


@pytest.mark.parametrize("heading", OF_TORCH)
def test_the_example_raises_the_message(heading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = on_this_machine(OF_TORCH[heading], monkeypatch)
    with pytest.raises((RuntimeError, ValueError, AssertionError), match=re.escape(heading)):
        exec(compile(code, heading, "exec"), {})


def run(code: str, *starter: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the code as a script in a folder with an Apex as it is today: without `amp`."""
    (folder / "train.py").write_text(code, encoding="utf-8")
    (folder / "apex").mkdir()
    (folder / "apex/__init__.py").touch()
    command = [sys.executable, *starter, str(folder / "train.py")]
    return subprocess.run(command, cwd=ROOT / "shim", capture_output=True, text=True, check=False)


def test_without_apex_the_example_raises_the_message() -> None:
    (heading,) = (heading for heading in OF_APEX if heading.startswith("No module"))
    with pytest.raises(ModuleNotFoundError, match=heading):
        exec(OF_APEX[heading], {})


def test_with_apex_of_today_the_example_raises_the_message_and_the_shim_answers(tmp_path: Path) -> None:
    (heading,) = (heading for heading in OF_APEX if heading.startswith("cannot import"))
    (tmp_path / "alone").mkdir()
    (tmp_path / "shim").mkdir()
    assert heading in run(OF_APEX[heading], folder=tmp_path / "alone").stderr
    assert run(OF_APEX[heading], "-m", "amp_shim", folder=tmp_path / "shim").returncode == 0
