"""The project's own defaults, and what is said of those that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.cli import command
from click.testing import CliRunner, Result

pytestmark = pytest.mark.usefixtures("toy_planner")
OLD, NEW = "amp, old_amp = 1, 2\n", "amp, new_amp = 1, 2\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str, config: str | None = None) -> Result:
    if config is not None:
        Path("pyproject.toml").write_text(config)
    return CliRunner().invoke(command, args)


def make(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(OLD)


def test_a_project_sets_the_defaults() -> None:
    make("a.py", "vendor/b.py", "pkg/c.py", "pkg/vendor.py")
    run(".", config='[tool.amp-migrate]\nexclude = ["vendor/", "pkg/c.py"]\n')
    assert [path.as_posix() for path in sorted(Path().rglob("*.py")) if path.read_text() == NEW] == [
        "a.py",
        "pkg/vendor.py",
    ]


def test_the_command_line_goes_before_the_project() -> None:
    make("a.py", "b.py")
    run(".", "--exclude", "b.py", config='[tool.amp-migrate]\nexclude = ["a.py"]\n')
    assert (Path("a.py").read_text(), Path("b.py").read_text()) == (NEW, OLD)


def test_patterns_are_relative_to_the_project_wherever_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    make("pkg/a.py", "pkg/sub/a.py")
    Path("pyproject.toml").write_text('[tool.amp-migrate]\nexclude = ["/pkg/a.py"]\n')
    monkeypatch.chdir("pkg")
    run(".")
    assert (Path("a.py").read_text(), Path("sub/a.py").read_text()) == (OLD, NEW)


def test_the_nearest_project_with_a_table_counts() -> None:
    make("inner/a.py", "inner/b.py")
    Path("inner/pyproject.toml").write_text("[tool.other]\nexclude = 1\n")
    run("inner/a.py", "inner", config='[tool.amp-migrate]\nexclude = ["b.py"]\n')
    assert (Path("inner/a.py").read_text(), Path("inner/b.py").read_text()) == (NEW, OLD)


def test_paths_in_two_projects_take_the_settings_of_what_they_share() -> None:
    make("one/a.py", "two/a.py", "two/b.py")
    Path("one/pyproject.toml").write_text('[tool.amp-migrate]\ndtype = "no such"\n')
    assert run("one", "two", config='[tool.amp-migrate]\nexclude = ["two/b.py"]\n').exit_code == 0
    assert [Path(name).read_text() for name in ("one/a.py", "two/a.py", "two/b.py")] == [NEW, NEW, OLD]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[tool.amp-migrate]\ndtyp = 'bf16'\n", "[tool.amp-migrate] dtyp: unknown key; did you mean dtype?"),
        (
            "[tool.amp-migrate]\nzzz = 1\n",
            "[tool.amp-migrate] zzz: unknown key; the keys are add-flag, annotate, apex, ",
        ),
        ("[tool.amp-migrate]\ndtype = 'fp8'\n", "[tool.amp-migrate] dtype: 'fp8' is not one of 'fp16', 'bf16', 'auto'"),
        ("[tool.amp-migrate]\ndtype = 16\n", "[tool.amp-migrate] dtype: must be a string"),
        ("[tool.amp-migrate]\nexclude = 'x'\n", "[tool.amp-migrate] exclude: must be a list of strings"),
        ("[tool.amp-migrate]\ntarget-torch = 2.1\n", "[tool.amp-migrate] target-torch: must be a string"),
        ("[tool.amp-migrate]\ntarget-torch = '1.4'\n", "[tool.amp-migrate] target-torch: torch.amp came with PyTorch"),
        ("[tool.amp-migrate]\nlist-rules = true\n", "[tool.amp-migrate] list-rules: is for the command line only"),
        ("[tool.amp-migrate]\nannotate = 1\n", "[tool.amp-migrate] annotate: must be true or false"),
        ("[tool.amp-migrate]\ngitignore = 'no'\n", "[tool.amp-migrate] gitignore: must be true or false"),
        ("[tool.amp-migrate]\nformat = 'xml'\n", "[tool.amp-migrate] format: 'xml' is not one of 'text', "),
        (
            "[tool.amp-migrate]\nper-path-ignores = ['a']\n",
            "[tool.amp-migrate] per-path-ignores: must be a table of lists",
        ),
        ("[tool.amp-migrate.per-path-ignores]\na = 'b'\n", "[tool.amp-migrate] per-path-ignores: must be a table of "),
        ("[tool.amp-migrate]\ndiff = true\n", "[tool.amp-migrate] diff: is for the command line only"),
        ("[tool]\namp-migrate = 1\n", "tool.amp-migrate is not a table; write [tool.amp-migrate]"),
        ("[tool.amp-migrate\n", "not TOML: "),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(config: str, message: str) -> None:
    make("a.py")
    result = run("a.py", config=config)
    assert result.exit_code == 2
    assert f"{Path('pyproject.toml').absolute()}: {message}" in result.stderr
    assert Path("a.py").read_text() == OLD


def test_standard_input_belongs_to_the_project_of_the_current_folder() -> None:
    assert run("-", config="[tool.amp-migrate]\ndtype = 1\n").exit_code == 2
