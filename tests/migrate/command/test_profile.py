"""`--profile`: what left float16's range in a run of the original is kept in float32 before anything fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.cli import command
from amp_migrate.command.profile import read_profile
from click.testing import CliRunner, Result

UNIT = """\
class Unit(nn.Module):
    def forward(self, x):
        return x / (x * x).sum(1, keepdim=True).sqrt()
"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 64)
        self.unit = Unit()
        self.last = nn.Linear(64, 1)

    def forward(self, x):
        h = self.first(x)
        big = h * h * 3
        return self.last(self.unit(h)) + self.last(big / 1000000)
"""
ENERGY = """\
def energy(x):
    square = x * x * 900
    return square / (1 + square.mean())
"""
STEP = """\
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    out = energy(model(x.cuda()))
    loss = nn.functional.mse_loss(out, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEAD = "import torch\nfrom torch import nn\n"
SCRIPT = "\n\n".join((HEAD, UNIT, NET, ENERGY, STEP))
ISLAND = 'with torch.amp.autocast(device_type="cuda", enabled=False):\n'
DECORATOR = '    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n'
SQUARE = "square = x * x * 900"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()


def measured(text: str, *, file: str = "train.py", **changes: Any) -> dict[str, Any]:
    """A range of the line of a file that has a text."""
    lines = [each.strip() for each in Path(file).read_text().splitlines()]
    found = {"file": file, "line": lines.index(text) + 1, "text": text, "operation": "mul", "owner": ""}
    return {**found, "largest": 2e6, "smallest": 1e-3, **changes}


def profiled(*ranges: dict[str, Any], words: tuple[str, ...] = ("train.py",)) -> Result:
    Path("run.json").write_text(json.dumps({"ranges": ranges}))
    return CliRunner().invoke(command, ["--profile", "run.json", *words])


def test_a_line_of_a_function_and_one_of_a_model_are_kept_in_float32() -> None:
    Path("train.py").write_text(SCRIPT)
    result = profiled(measured(SQUARE), measured("big = h * h * 3"))
    text = Path("train.py").read_text()
    assert f"    {ISLAND}        square = x.float() * x.float() * 900\n    return square" in text
    assert f"        {ISLAND}            big = h.float() * h.float() * 3\n" in text
    assert text.count("enabled=False") == 2
    assert "AMP504 kept in float32: mul gave values up to 2e+06, and float16 ends at 65504" in result.stdout
    again = profiled(measured("big = h.float() * h.float() * 3"), words=("train.py", "--check"))
    assert again.exit_code == 0, again.output


def test_a_part_of_a_model_is_kept_by_its_class() -> None:
    Path("train.py").write_text(SCRIPT)
    line = measured("return x / (x * x).sum(1, keepdim=True).sqrt()", owner="Unit")
    profiled(line)
    text = Path("train.py").read_text()
    assert f"class Unit(nn.Module):\n{DECORATOR}" in text
    assert "enabled=False" not in text


def test_for_an_older_pytorch_the_part_s_line_is_kept() -> None:
    Path("train.py").write_text(SCRIPT)
    line = measured("return x / (x * x).sum(1, keepdim=True).sqrt()", owner="Unit")
    profiled(line, words=("train.py", "--target-torch", "2.3"))
    text = Path("train.py").read_text()
    assert "custom_fwd" not in text
    assert f"        {ISLAND}            return x.float() / (x.float() * x.float())" in text


def test_the_line_may_be_in_another_file() -> None:
    Path("parts.py").write_text("\n\n".join((HEAD, UNIT, NET, ENERGY)))
    Path("train.py").write_text(f"{HEAD}\nfrom parts import Net, energy\n\n{STEP}")
    profiled(measured(SQUARE, file="parts.py"), words=(".",))
    assert f"    {ISLAND}        square = x.float() * x.float() * 900\n" in Path("parts.py").read_text()


def test_a_line_that_cannot_be_written_so_is_told() -> None:
    Path("train.py").write_text(SCRIPT)
    result = profiled(measured("h = self.first(x)", operation="linear", largest=1e5))
    assert "enabled=False" not in Path("train.py").read_text()
    assert "linear gave values up to 1e+05, and float16 ends at 65504" in result.stdout
    assert "--dtype bf16" in result.stdout


@pytest.mark.parametrize(
    "changes",
    [
        {"largest": 65504.0},
        {"largest": 0.5},
        {"largest": 0.0, "smallest": 0.0},
        {"operation": "pow"},  # autocast computes it in float32 by itself
        {"operation": "vector_norm"},
        {"operation": "masked_fill"},  # what it fills with is asked of the text
        {"operation": "reshape"},  # what it looks at was computed elsewhere
    ],
)
def test_what_stays_in_float16_s_range_needs_nothing(changes: dict[str, Any]) -> None:
    Path("train.py").write_text(SCRIPT)
    profiled(measured(SQUARE, **changes))
    assert "enabled=False" not in Path("train.py").read_text()


def test_what_is_all_below_float16_s_normal_numbers_leaves_its_range() -> None:
    Path("train.py").write_text(SCRIPT)
    result = profiled(measured(SQUARE, largest=3e-5))
    assert "square = x.float()" in Path("train.py").read_text()
    assert "mul gave nothing above 3e-05, and float16 has fewer digits below 6.1e-05" in result.stdout


def test_what_no_region_computes_in_half_precision_is_left() -> None:
    Path("train.py").write_text(
        SCRIPT.replace("    optimizer.zero_grad()", "    big = y * y\n    optimizer.zero_grad()")
    )
    profiled(measured("big = y * y"))
    assert "enabled=False" not in Path("train.py").read_text()


def test_bfloat16_has_the_range_of_float32() -> None:
    Path("train.py").write_text(SCRIPT)
    profiled(measured(SQUARE), words=("train.py", "--dtype", "bf16"))
    assert "enabled=False" not in Path("train.py").read_text()


def test_a_line_that_has_changed_since_is_told_and_left() -> None:
    Path("train.py").write_text(SCRIPT)
    line = measured(SQUARE)
    Path("train.py").write_text(SCRIPT.replace("* 900", "* 901"))
    result = profiled(line)
    assert (
        result.stderr == f"note: --profile: train.py:{line['line']} is another line by now; measure the script again\n"
    )
    assert "enabled=False" not in Path("train.py").read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "no ranges in it"),
        (b'{"verdict": "PASS"}', "no ranges in it"),
        (b'{"ranges": [{"file": "train.py", "line": "7"}]}', "no ranges in it"),
    ],
)
def test_a_file_that_is_no_record_of_a_run_is_wrong_usage(content: bytes | None, said: str) -> None:
    Path("train.py").write_text(SCRIPT)
    if content is not None:
        Path("run.json").write_bytes(content)
    result = CliRunner().invoke(command, ["train.py", "--profile", "run.json"])
    assert (result.exit_code, Path("train.py").read_text()) == (2, SCRIPT)
    line = result.stderr.splitlines()[-1]
    assert line == f"Error: --profile run.json: {said}; `amp-verify profile train.py --output run.json` writes one"


def test_places_are_read_once_from_wherever_the_run_was(tmp_path: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    one = measured(SQUARE)
    Path("run.json").write_text(json.dumps({"ranges": [one, one, {**one, "file": "../elsewhere.py"}]}))
    assert [each.file for each in read_profile(Path("run.json"))] == [
        str(tmp_path / "train.py"),
        str(tmp_path.parent / "elsewhere.py"),
    ]
