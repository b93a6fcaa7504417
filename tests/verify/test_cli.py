from __future__ import annotations

import importlib.util
import signal
import venv
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify import fault
from amp_migrate.verify.cli import main
from click.testing import CliRunner, Result


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments], prog_name="amp-verify")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n", encoding="utf-8")
    return path


def one_line(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    return str(lines[0])


def test_a_script_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    assert one_line(run(str(tmp_path / "no.py"))).endswith("no.py: no such file")


def test_a_folder_is_a_usage_error(tmp_path: Path) -> None:
    assert "not a file" in one_line(run(str(tmp_path)))


def test_an_interpreter_that_does_not_exist_is_a_usage_error(script: Path) -> None:
    assert "--python no-such-python: no such program" in one_line(run(str(script), "--python", "no-such-python"))


def test_a_work_folder_in_use_is_a_usage_error(script: Path, tmp_path: Path) -> None:
    assert "not empty" in one_line(run(str(script), "--work", str(tmp_path)))


def test_a_script_with_nothing_to_migrate_is_a_usage_error(script: Path) -> None:
    assert "nothing to migrate" in one_line(run(str(script)))


def test_a_script_that_does_not_parse_is_a_usage_error_at_its_place(script: Path) -> None:
    script.write_text("def train(:\n", encoding="utf-8")
    assert "train.py:1:11: does not parse: " in one_line(run(str(script)))


def test_an_unknown_option_is_refused_and_the_script_s_own_have_a_place() -> None:
    result = run("train.py", "--no-such-option", "3")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "An option of the script goes behind `--`: amp-verify run ... -- --no-such-option\n"
    ), result.stderr


def test_a_script_in_the_place_of_a_command_is_told_how_to_go_on() -> None:
    result = CliRunner().invoke(main, ["train.py"], prog_name="amp-verify")
    assert result.exit_code == 2
    assert "amp-verify run train.py" in result.stderr


def test_a_missing_torch_is_no_fault_of_the_script(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else found(name))
    for command in ("run", "trace", "localize", "profile", "doctor", "tune"):
        arguments = [str(script)] * (2 if command in ("run", "localize") else 1)
        result = CliRunner().invoke(main, [command, *arguments])
        assert "no torch in " in one_line(result)
        assert "pip install 'amp-migrate[verify]'" in one_line(result)


def test_torch_is_looked_for_in_the_interpreter_that_runs_the_scripts(script: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = str(tmp_path / "venv" / "bin" / "python")
    assert one_line(run(str(script), str(script), "--python", python)).startswith(f"amp-verify: no torch in {python}")
    assert "does not run Python 3" in one_line(run(str(script), str(script), "--python", "false"))


@pytest.mark.torch
def test_a_file_that_cannot_be_written_is_found_out_before_anything_runs(script: Path, tmp_path: Path) -> None:
    two = str(script), str(script)
    for option in ("--json", "--report", "--junit"):
        assert f"{option} {tmp_path}/no/x: No such file" in one_line(run(*two, option, f"{tmp_path}/no/x"))
    for command, option in (
        ("localize", "--json"),
        ("localize", "--sarif"),
        ("doctor", "--json"),
        ("tune", "--json"),
        ("trace", "--output"),
        ("profile", "--output"),
    ):
        result = CliRunner().invoke(main, [command, str(script), option, f"{tmp_path}/no/x"])
        assert f"{option} {tmp_path}/no/x: No such file" in one_line(result)


def test_what_follows_two_dashes_is_not_read_as_options(tmp_path: Path) -> None:
    result = run(str(tmp_path / "no.py"), "--", "--no-such-option", "--steps", "x")
    assert "no such file" in one_line(result)


def test_help_lists_every_exit_status() -> None:
    text = run("--help").stdout
    for code in range(9):
        assert f"\n    {code}  " in text


def test_a_report_that_cannot_be_made_is_refused_before_anything_runs(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "--report needs jinja2 and matplotlib: pip install" in one_line(run(str(script), "--report", "x.html"))


@pytest.mark.torch
def test_a_fault_of_the_harness_is_one_line_with_a_status_of_its_own(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise KeyError("grads")

    monkeypatch.setattr("amp_migrate.verify.commands.verify.climb", fail)
    work = tmp_path / "work"
    result = run(str(script), str(script), "--work", str(work))
    assert result.exit_code == 8
    lines = result.stderr.splitlines()
    assert lines[0] == f"logs and traces: {work}"
    assert lines[1].startswith("amp-verify: fault of amp-verify itself: KeyError: 'grads' (test_cli.py:")
    assert len(lines) == 2
    assert "Traceback" in (work / "fault.log").read_text()


@pytest.mark.torch
def test_an_error_of_the_system_names_its_file(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "/full")

    monkeypatch.setattr("amp_migrate.verify.commands.verify.climb", fail)
    result = run(str(script), str(script))
    assert result.exit_code == 8
    assert result.stderr.splitlines()[-1] == "amp-verify: No space left on device: /full"


@pytest.mark.parametrize("command", ["run", "trace", "localize", "profile", "doctor", "tune"])
def test_every_command_ends_in_order_when_it_is_asked_to(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: list[Any] = []
    set_handler, before = signal.signal, signal.getsignal(signal.SIGTERM)

    def listen(number: int, handler: Any) -> Any:
        handlers.append(handler)
        return set_handler(number, handler)

    monkeypatch.setattr("signal.signal", listen)
    assert CliRunner().invoke(main, [command, str(tmp_path / "no.py")]).exit_code == 2
    with pytest.raises(SystemExit) as ended:
        handlers[0](signal.SIGTERM, None)
    assert ended.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "/full"), "No space left on device: /full"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("odd"), "fault of amp-verify itself: OSError: odd (test_cli.py:"),
        (KeyError("a\n b"), "fault of amp-verify itself: KeyError: 'a\\n b' (test_cli.py:"),
        (ValueError("two\n lines"), "fault of amp-verify itself: ValueError: two lines (test_cli.py:"),
        (AssertionError(), "fault of amp-verify itself: AssertionError (test_cli.py:"),
    ],
)
def test_a_fault_is_described_in_one_line(error: Exception, said: str) -> None:
    with pytest.raises(type(error)) as raised:
        raise error
    assert fault.describe(raised.value).startswith(said)
    assert "\n" not in fault.describe(raised.value)
