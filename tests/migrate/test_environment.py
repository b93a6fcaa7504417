"""Where an environment has its packages, as its folders say."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest
from amp_migrate.environment import NoEnvironment, environment_of


def made(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(
    "sites",
    ["lib/python3.11/site-packages", "lib/pypy3.10/site-packages", "Lib/site-packages", "lib/python3/dist-packages"],
)
def test_the_packages_of_an_environment_are_found_in_its_folder(tmp_path: Path, sites: str) -> None:
    site = made(tmp_path / "env" / sites)
    assert environment_of(tmp_path / "env").folders == (str(site),)
    assert environment_of(site).folders == (str(site),) or site.name == "dist-packages"


@pytest.mark.parametrize("name", ["bin/python", "bin/python3.11", "Scripts/python.exe", "python.exe"])
def test_an_interpreter_stands_for_its_environment(tmp_path: Path, name: str) -> None:
    site = made(tmp_path / "lib/python3.11/site-packages")
    python = tmp_path / name
    python.parent.mkdir(exist_ok=True)
    python.touch()
    assert environment_of(python).folders == (str(site),)


def test_the_environment_is_that_of_the_name_and_else_that_of_what_it_is_a_link_to(tmp_path: Path) -> None:
    base, own = made(tmp_path / "base/lib/python3.11/site-packages"), made(tmp_path / "own/bin")
    made(tmp_path / "base/bin")
    (tmp_path / "base/bin/python3.11").touch()
    (own / "python").symlink_to(tmp_path / "base/bin/python3.11")
    assert environment_of(own / "python").folders == (str(base),)
    site = made(tmp_path / "own/lib/python3.11/site-packages")
    assert environment_of(own / "python").folders == (str(site),)


def test_of_several_pythons_it_is_the_one_that_is_said_and_else_the_newest(tmp_path: Path) -> None:
    old, new = (made(tmp_path / f"lib/python3.{minor}/site-packages") for minor in (9, 12))
    made(tmp_path / "bin")
    (tmp_path / "bin/python3.9").touch()
    assert environment_of(tmp_path / "bin/python3.9").folders == (str(old),)
    assert environment_of(tmp_path).folders == (str(new),)
    (tmp_path / "pyvenv.cfg").write_text("home = /nowhere/bin\nversion = 3.9.18\n")
    assert environment_of(tmp_path).folders == (str(old),)


@pytest.mark.parametrize(("said", "is_seen"), [("true", True), ("false", False)])
def test_what_it_was_made_with_is_read_where_it_says_so(tmp_path: Path, said: str, is_seen: bool) -> None:
    own, base = (made(tmp_path / name / "lib/python3.11/site-packages") for name in ("own", "base"))
    (tmp_path / "own/pyvenv.cfg").write_text(
        f"home = {tmp_path}/base/bin\ninclude-system-site-packages = {said}\nversion = 3.11.4\n"
    )
    assert environment_of(tmp_path / "own").folders == ((str(own), str(base)) if is_seen else (str(own),))


def test_editable_packages_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    site, here = made(tmp_path / "env/lib/python3.11/site-packages"), made(tmp_path / "work/src")
    made(here / "tool")
    (site / "one.pth").write_text(f"# a comment\nimport one; one.run()\n{here}\nmissing\n")
    (site / "two.pth").write_text("import __editable___tool_finder; __editable___tool_finder.install()\n")
    (site / "__editable___tool_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'tool': {str(here / 'tool')!r}, 'gone': '/no/such'}}\n"
    )
    found = environment_of(tmp_path / "env")
    assert found.folders == (str(site), str(here))
    assert found.editable == (("tool", str(here / "tool")),)


@pytest.mark.parametrize("name", ["nothing", "empty", "empty/python", "broken"])
def test_what_has_no_packages_is_told(tmp_path: Path, name: str) -> None:
    made(tmp_path / "empty")
    (tmp_path / "empty/python").touch()
    (tmp_path / "broken").symlink_to(tmp_path / "broken")
    with pytest.raises(NoEnvironment):
        environment_of(tmp_path / name)


def test_the_layout_is_what_an_interpreter_says_of_a_real_environment(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    (folder,) = environment_of(tmp_path / "env").folders
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert folder in (str(tmp_path / f"env/lib/{version}/site-packages"), str(tmp_path / "env/Lib/site-packages"))
