"""The command line: what goes where, and with which exit code."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import amp_migrate
import pytest
from amp_migrate.cli import command
from amp_migrate.engine.planner import plan as real_plan
from click.testing import CliRunner, Result

pytestmark = pytest.mark.usefixtures("toy_planner")
OLD, NEW = "amp, old_amp = 1, 2\n", "amp, new_amp = 1, 2\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str, stdin: bytes = b"", **files: str) -> Result:
    for name, text in files.items():
        Path(f"{name}.py").write_text(text)
    return CliRunner().invoke(command, args, input=stdin)


def test_files_are_rewritten_and_the_report_is_the_output() -> None:
    result = run(".", a=OLD, b="amp = 1\nleave = 2\n")
    assert result.exit_code == 0
    assert Path("a.py").read_text() == NEW
    assert result.stderr == ""
    assert result.stdout == (
        "a.py:1:6 AMP101 old_amp is now new_amp\n"
        "b.py:2:1 AMP590 step left as it was: a closure\n"
        "    write it by hand\n"
        "2 files read, 1 changed, 1 place migrated, 1 left as it was.\n"
        "More about a code: amp-migrate --explain AMP590\n"
    )


def test_a_second_run_finds_nothing_to_do() -> None:
    run("a.py", a=OLD)
    result = run("a.py")
    assert (result.exit_code, result.stdout) == (
        0,
        "1 file read, 0 changed, 0 places migrated, 0 left as they were.\n",
    )


def test_the_report_comes_in_the_form_that_was_asked_for() -> None:
    result = run("--format", "json", "a.py", a=OLD)
    assert json.loads(result.stdout)["changed"] == ["a.py"]
    assert Path("a.py").read_text() == NEW


def test_diff_prints_the_change_and_writes_nothing() -> None:
    result = run("--diff", "a.py", a=OLD)
    assert result.exit_code == 0
    assert result.stdout == f"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-{OLD}+{NEW}"
    assert "1 would change" in result.stderr
    assert Path("a.py").read_text() == OLD


def test_diff_of_an_absolute_path_below_the_current_folder_is_relative() -> None:
    result = run("--diff", str(Path("a.py").absolute()), a=OLD)
    assert result.stdout.startswith("--- a/a.py\n")


@pytest.mark.parametrize(("text", "code"), [(OLD, 1), ("amp = 1\n", 0), ("amp = leave = 1\n", 0), ("amp = (\n", 2)])
def test_check_writes_nothing_and_tells_by_its_exit_code(text: str, code: int) -> None:
    result = run("--check", "a.py", a=text)
    assert result.exit_code == code
    assert Path("a.py").read_text() == text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--check --fail-on left", 1),
        ("--check --fail-on hazard", 0),
        ("--check --fail-on hazard,left", 1),
        ("--check --fail-on hazard --fail-on change", 1),
        ("--check --fail-on note", 0),
        ("--fail-on left", 1),
        ("--fail-on change", 1),
        ("--diff --fail-on change", 1),
        ("--diff", 0),
    ],
)
def test_the_findings_that_fail_a_run_can_be_chosen(words: str, code: int) -> None:
    assert run(*words.split(), ".", a=OLD, b="amp = leave = 1\n").exit_code == code


def test_an_error_goes_before_what_was_chosen() -> None:
    assert run("--fail-on", "left", ".", a=OLD, b="amp = leave = 1\n", c="amp = (\n").exit_code == 2


def test_a_project_chooses_the_findings_that_fail_a_run() -> None:
    Path("pyproject.toml").write_text('[tool.amp-migrate]\nfail-on = ["left"]\n')
    assert run("--check", ".", a="amp = leave = 1\n").exit_code == 1
    assert run("--check", "--fail-on", "hazard", ".").exit_code == 0


def test_quiet_prints_errors_and_nothing_else() -> None:
    result = run("-q", ".", a=OLD, b="amp = leave = 1\n")
    assert (result.exit_code, result.output, Path("a.py").read_text()) == (0, "", NEW)
    result = run("-q", "--diff", ".", a=OLD, c="amp = (\n")
    assert (result.exit_code, result.stderr) == (2, "c.py:1:7 AMP001 does not parse: '(' was never closed\n")
    assert result.stdout.startswith("--- a/a.py\n")


def test_the_rules_come_as_json_and_as_markdown() -> None:
    rules = json.loads(run("--list-rules", "--format", "json").stdout)
    shown = {each["code"]: each for each in rules}
    assert shown["AMP101"]["before"] != shown["AMP101"]["after"]
    assert shown["AMP101"]["page"] == run("--explain", "AMP101").stdout
    assert list(shown) == re.findall(r"^(AMP\d+) ", run("--list-rules").stdout, re.M)
    assert run("--format", "markdown", "--list-rules").stdout.count("\n| [AMP") == len(rules)
    assert "has no form sarif" in run("--list-rules", "--format", "sarif").stderr


def test_check_with_diff_does_both() -> None:
    result = run("--check", "--diff", "a.py", a=OLD)
    assert (result.exit_code, result.stdout[:3]) == (1, "---")


def test_the_plan_of_a_file_is_explained_edit_by_edit_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amp_migrate.engine.migrate.plan", real_plan)
    text = "import torch\nwith torch.cuda.amp.autocast():\n    pass\n"
    result = run("--explain-plan", "a.py", a=text)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "a.py:2:6: AMP101 replace: torch.cuda.amp.autocast -> torch.amp.autocast",
        'a.py:2:6: AMP101 arguments of torch.cuda.amp.autocast() -> (device_type="cuda", dtype=torch.float16)',
    ]
    assert "1 would change" in result.stderr
    assert Path("a.py").read_text() == text
    piped = run("--explain-plan", "-", "--check", stdin=text.encode())
    assert (piped.exit_code, piped.stdout) == (1, result.stdout.replace("a.py", "<stdin>"))


def test_what_cannot_be_read_is_one_line_each_and_the_others_are_done() -> None:
    Path("binary.py").write_bytes(b"amp\0")
    Path("latin.py").write_bytes(b"amp = 1\nx = '\xe9'\n")
    result = run("missing.py", ".", a=OLD, broken="amp = 1\nx = (\n", two="amp = 1\nprint 'loss', amp\n")
    assert result.exit_code == 2
    assert Path("a.py").read_text() == NEW
    lines = [line for line in result.stdout.splitlines() if " AMP001 " in line]
    assert lines == [
        "binary.py:1:4 AMP001 binary: the file holds a NUL byte",
        "broken.py:2:5 AMP001 does not parse: '(' was never closed",
        "latin.py:2:6 AMP001 not UTF-8: byte 0xe9",
        "missing.py AMP001 no such file or folder",
        "two.py:2:1 AMP001 looks like Python 2: Missing parentheses in call to 'print'. Did you mean print(...)?",
    ]


def test_standard_input_goes_to_standard_output() -> None:
    result = run("-", stdin=b"\xef\xbb\xbfamp, old_amp = 1, 2\r\n")
    assert result.stdout_bytes == b"\xef\xbb\xbfamp, new_amp = 1, 2\r\n"
    assert "<stdin>:1:6 AMP101 old_amp is now new_amp" in result.stderr


def test_standard_input_with_nothing_to_do_passes_through() -> None:
    assert run("-", stdin=b"x = 1").stdout_bytes == b"x = 1"


@pytest.mark.parametrize("stdin", [b"amp = (\n", b"amp = '\xff'\n"])
def test_standard_input_that_cannot_be_read_gives_no_output(stdin: bytes) -> None:
    result = run("-", stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "<stdin>:1:" in result.stderr


def test_standard_input_goes_by_the_name_it_is_given() -> None:
    Path("pkg").mkdir()
    Path("pkg/pyproject.toml").write_text('[tool.amp-migrate]\nignore = ["AMP590"]\n')
    result = run("--stdin-filename", "pkg/train.py", "-", stdin=(OLD + "leave = 1\n").encode())
    assert result.stdout == NEW + "leave = 1\n"
    assert result.stderr.startswith("pkg/train.py:1:6 AMP101 ")
    assert "AMP590" not in result.stderr  # its project does not want to hear of it
    assert not Path("pkg/train.py").exists()


def test_standard_input_can_be_a_notebook() -> None:
    notebook = {"cells": [{"cell_type": "code", "source": OLD}], "metadata": {}, "nbformat": 4}
    result = run("-", "--stdin-filename", "x.ipynb", stdin=json.dumps(notebook).encode())
    assert json.loads(result.stdout)["cells"][0]["source"] == NEW


def test_standard_input_takes_diff_and_check() -> None:
    assert run("-", "--diff", stdin=OLD.encode()).stdout.startswith("--- a/<stdin>\n")
    result = run("-", "--check", stdin=OLD.encode())
    assert (result.exit_code, result.stdout) == (1, "")


def test_output_leaves_the_originals_alone() -> None:
    result = run(".", "-o", "out", a=OLD, b="x = 1\n")
    assert result.exit_code == 0
    assert (Path("a.py").read_text(), Path("out/a.py").read_text(), Path("out/b.py").read_text()) == (
        OLD,
        NEW,
        "x = 1\n",
    )
    assert run(".", "-o", "out").exit_code == 0
    assert not Path("out/out").exists()  # what the first run wrote is not taken for a source


def test_undo_gives_the_files_back() -> None:
    run("a.py", "b.py", a=OLD, b=OLD)
    Path("b.py").write_text("edited\n")
    result = run("--undo")
    assert (Path("a.py").read_text(), Path("b.py").read_text()) == (OLD, "edited\n")
    assert result.exit_code == 2
    assert result.stdout.splitlines()[0] == "a.py: restored"
    assert result.stdout.splitlines()[1].startswith("b.py: left as it is: changed since it was migrated; its original")
    assert result.stdout.splitlines()[2].startswith("1 restored, 1 left as they are, of the run of 20")
    assert " in . (record: /" in result.stdout.splitlines()[2]


def test_undo_of_one_file_tells_which_other_belongs_with_it() -> None:
    run(".", a="import b\n" + OLD, b=OLD, c=OLD)
    result = run("--undo", "b.py")
    assert (result.exit_code, Path("b.py").read_text(), Path("c.py").read_text()) == (0, OLD, NEW)
    assert result.stdout.splitlines()[:2] == [
        "b.py: restored",
        "a.py: still migrated, and b.py belongs with it; --undo takes it back as well",
    ]


def test_undo_shows_what_it_would_do() -> None:
    run("a.py", "b.py", a=OLD, b=OLD)
    result = run("--undo", "--diff", "a.py")
    assert result.stdout == f"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-{NEW}+{OLD}"
    assert result.stderr.startswith("1 of 2 would be restored, of the run of 20")
    assert Path("a.py").read_text() == NEW


def test_undo_works_from_any_folder_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("a.py", a=OLD)
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    assert run("--undo").exit_code == 0
    assert (tmp_path / "a.py").read_text() == OLD


def test_a_folder_without_python_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run("--check", "empty")
    assert (result.exit_code, result.stderr) == (0, "note: no Python file in empty\n")


def test_undo_with_nothing_to_undo_says_so() -> None:
    result = run("--undo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("nothing to undo in ")


def test_a_run_that_changes_nothing_leaves_no_record() -> None:
    run("a.py", a="amp = 1\n")
    run("--diff", "a.py", a=OLD)
    run("a.py", "-o", "b.py")
    assert run("--undo").stderr.startswith("nothing to undo in ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--undo", "--check"], "--undo goes with files and folders"),
        (["--undo", "-o", "x"], "--undo goes with files and folders"),
        ([], "name a file or a folder"),
        (["--only-deprecated", "--select", "AMP5", "a.py"], "--only-deprecated is --select AMP1: name one of the two"),
        (["--quiet", "--format", "json", "a.py"], "--quiet leaves the report out"),
        (["--fail-on", "warning", "a.py"], "'warning' is not one of change, hazard, left, note"),
        (["-", "a.py"], "`-` stands alone"),
        (["-", "-o", "x"], "`-` stands alone"),
        (["a.py", "--stdin-filename", "b.py"], "--stdin-filename goes with `-`"),
        (["a.py", "-o", "x", "--diff"], "--output writes files"),
        (["a.py", "-o", "x", "--check"], "--output writes files"),
        (["a.py", "-o", "x", "--explain-plan"], "--output writes files"),
        (["a.py", "--diff", "--explain-plan"], "take one"),
        (["--undo", "--explain-plan"], "--undo goes with files and folders"),
        (["a.py", "-o", "./a.py"], "--output names the original"),
        (["a.py", "--dtype", "fp8"], "'fp8' is not one of"),
        (["a.py", "--dif"], "No such option"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(args: list[str], message: str) -> None:
    result = run(*args, a=OLD)
    assert result.exit_code == 2
    assert message in result.stderr
    assert Path("a.py").read_text() == OLD


def test_version_is_printed() -> None:
    assert run("--version").stdout == f"amp-migrate {amp_migrate.__version__}\n"


def in_a_process(*args: str, code: str = "", **options: object) -> subprocess.CompletedProcess[str]:
    code = code or "from amp_migrate.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command_line = [sys.executable, "-c", code, *args]
    return subprocess.run(command_line, env=environment, capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "amp_migrate", "--version"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.check_output(command, env=environment, text=True) == run("--version").stdout


SLOW_MODULES = """
import sys
from amp_migrate.cli import main
try:
    main()
finally:
    print(sorted({name.split(".")[0] for name in sys.modules} & {"libcst", "torch", "rich"}))
"""


def test_help_names_the_exit_codes_and_imports_no_parser() -> None:
    result = in_a_process("--help", code=SLOW_MODULES)
    assert "Exit codes:" in result.stdout
    assert result.stdout.endswith("[]\n")


@pytest.mark.parametrize(("text", "slow"), [("import torch\n\nprint(torch.ones(2))\n", []), (OLD, ["libcst"])])
def test_the_parser_is_imported_only_where_there_is_something_to_migrate(text: str, slow: list[str]) -> None:
    Path("a.py").write_text(text)
    result = in_a_process(".", code=SLOW_MODULES)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith(f"{slow}\n")


IMPORTED = """
import sys
from amp_migrate.cli import main
try:
    main()
finally:
    print(sorted(sys.modules))
"""
# For writing, for other forms of the report, for several processes, for patterns of files.
UNUSED = {"asyncio", "ctypes", "hashlib", "multiprocessing", "pathspec", "pygls", "rich", "secrets", "torch"}


def test_a_run_on_one_file_that_writes_nothing_imports_nothing_that_it_does_not_use() -> None:
    Path("a.py").write_text("import torch\n\nscaler = torch.cuda.amp.GradScaler()\n")
    result = in_a_process("--check", "a.py", code=IMPORTED)
    assert (result.returncode, result.stderr) == (1, "")
    imported = set(ast.literal_eval(result.stdout.splitlines()[-1]))
    assert imported & UNUSED == set()
    assert imported & {f"amp_migrate.report.forms.{each}" for each in ("json_report", "sarif", "github")} == set()


COLLECTIONS = """
import gc
from amp_migrate.cli import main
from amp_migrate.engine.parts import in_parts

in_parts.PART_BYTES = 1
seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]) if phase == "start" else None)
try:
    main()
finally:
    print(seen)
"""


@pytest.mark.parametrize(("files", "collections"), [(1, []), (3, [1, 1])])
def test_garbage_is_looked_for_between_the_parts_of_a_project_alone(files: int, collections: list[int]) -> None:
    for number in range(files):
        Path(f"{number}.py").write_text(OLD)
    result = in_a_process(".", "--workers", "1", code=COLLECTIONS)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == str(collections)


def test_usage_errors_of_the_script_have_no_traceback() -> None:
    result = in_a_process("--nonsense")
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert "--nonsense" in result.stderr


@pytest.mark.parametrize(("name", "number"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("module", ["click", "amp_migrate.command.options", "libcst", "amp_migrate.engine.migrate"])
def test_a_signal_while_modules_are_imported_is_one_line(name: str, number: int, module: str) -> None:
    code = f"""
import os, signal, sys
class Asking:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{name})
sys.meta_path.insert(0, Asking())
for each in ("SIGINT", "SIGTERM", "SIGHUP"):  # as a shell starts a command in the foreground
    signal.signal(getattr(signal, each), signal.default_int_handler if each == "SIGINT" else signal.SIG_DFL)
from amp_migrate.__main__ import main
main()
"""
    Path("a.py").write_text(OLD)
    result = in_a_process(".", code=code)
    assert (result.returncode, result.stderr.strip()) == (number, "interrupted: no file was changed")
    assert Path("a.py").read_text() == OLD


def test_a_reader_that_goes_away_is_no_error_message() -> None:
    for number in range(30):
        Path(f"{'x' * 200}{number}.py").write_bytes(b"amp = '\xff'\n")
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", "from amp_migrate.cli import main; main()", "."],
        env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, "")
