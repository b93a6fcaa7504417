from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from amp_migrate.verify.recorder.process.imports import after_import, load_instead


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `lib_old` on the search path, and `new.py` beside its folder."""
    package = tmp_path / "path" / "lib_old"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "loop.py").write_text("NAME = 'old'\n")
    (package / "other.py").write_text("from .loop import NAME\n")
    (tmp_path / "new.py").write_text("NAME = 'new'\n")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "lib_old"]:
        del sys.modules[name]


def test_a_module_is_loaded_from_another_file_and_others_are_not(library: Path) -> None:
    load_instead({str(library / "loop.py"): str(library.parents[1] / "new.py")})
    loop = importlib.import_module("lib_old.loop")
    assert (loop.NAME, loop.__file__) == ("new", str(library.parents[1] / "new.py"))
    assert importlib.import_module("lib_old.other").NAME == "new"
    assert importlib.import_module("lib_old.other").__file__ == str(library / "other.py")


def test_a_package_loaded_from_another_file_still_has_its_modules(library: Path) -> None:
    load_instead({str(library / "__init__.py"): str(library.parents[1] / "new.py")})
    assert importlib.import_module("lib_old").NAME == "new"
    assert importlib.import_module("lib_old.loop").NAME == "old"


def test_what_is_to_happen_after_an_import_happens_after_that_of_another_file(library: Path) -> None:
    seen: list[str] = []
    load_instead({str(library / "loop.py"): str(library.parents[1] / "new.py")})
    after_import("lib_old.loop", lambda module: seen.append(module.NAME))
    importlib.import_module("lib_old.loop")
    assert seen == ["new"]
