"""Names that files and packages import from each other, and from themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import show

from .conftest import Texts, Told

Tell = Callable[..., Any]
PARTS = "def size():\n    return 7\n"


def analysed(**texts: str) -> Told:
    """Files by their paths, `___` for `/`; the program is `main`."""
    named = {name.replace("___init", "/__init__").replace("___", "/") + ".py": text for name, text in texts.items()}
    return Told(Analysis(Texts(named), ["main.py"]).run(), "main.py")


@pytest.mark.parametrize(
    "imported",
    [
        "from tools import parts\n",
        "from . import parts\n",
        "from tools import parts as parts\n",
        "from tools import inner as parts\n",
        "import tools.parts\nparts = tools.parts\n",
        "import tools.parts as parts\n",
        "from tools.between import parts\n",
        "from tools.star import *\n",
        "from tools.parts import size\nfrom tools import parts\n",
    ],
)
def test_a_package_imports_its_own_files_by_its_full_name(imported: str) -> None:
    answer = analysed(
        main="import tools\nfrom tools import parts\nx, y, z = tools.size_of(), parts.size(), tools.parts.size()\n",
        tools___init=f"{imported}def size_of():\n    return parts.size()\n",
        tools___parts=PARTS,
        tools___inner=PARTS,
        tools___between="from tools import parts\n",
        tools___star="from tools import parts\n",
    )
    assert [show(answer.value(name)) for name in "xyz"] == ["7"] * 3


@pytest.mark.parametrize(
    ("package", "wanted"),
    [
        ("def parts():\n    return tools\n", "parts"),
        ("from tools.parts import parts\n", "1"),
        ("try:\n    from tools import missing as parts\nexcept ImportError:\n    parts = None\n", "None"),
    ],
)
def test_what_a_package_binds_is_not_its_file_of_that_name(package: str, wanted: str) -> None:
    answer = analysed(main="import tools\nx = tools.parts\n", tools___init=package, tools___parts="parts = 1\n")
    assert wanted in show(answer.value("x"))
    assert "parts.py" not in show(answer.value("x"))


def test_what_a_package_imports_from_itself_and_has_no_file_is_unknown_and_the_program_goes_on() -> None:
    answer = analysed(
        main="import tools\nx = tools.run()\ny = 1\n",
        tools___init="from tools import compiled\ndef run():\n    return compiled.run()\n",
    )
    assert (show(answer.value("x")).split()[0], show(answer.value("y"))) == ("unknown", "1")


def test_files_that_import_each_other_know_what_the_other_has() -> None:
    answer = analysed(
        main="import first, second\nx, y = first.f(), second.g()\n",
        first="from second import h\ndef f():\n    return h()\n",
        second="import first\nfrom first import f\ndef h():\n    return 's'\ndef g():\n    return first.f(), f()\n",
    )
    assert [show(answer.value(name)) for name in "xy"] == ["'s'", "('s', 's')"]


def test_files_that_import_a_name_from_each_other_alone_do_not_end_the_program() -> None:
    answer = analysed(
        main="from first import f\nx = f()\ny = 1\n",
        first="from second import f\n",
        second="from first import f\n",
    )
    assert (show(answer.value("x")).split()[0], show(answer.value("y"))) == ("unknown", "1")


def test_stars_of_files_that_import_each_other_are_searched_once() -> None:
    names = [f"part{n}" for n in range(6)]
    stars = "".join(f"from {name} import *\n" for name in names)
    texts = dict.fromkeys(names, stars) | {"part5": f"{stars}def f():\n    return 2\n"}
    answer = analysed(main="from part0 import *\nx, y = f(), missing\n", **texts)
    assert (show(answer.value("x")), show(answer.value("y")).split()[0]) == ("2", "unknown")


def test_a_name_of_another_package_is_of_the_one_star_import_that_may_bring_it() -> None:
    answer = analysed(main="from apex.fp16_utils import *\nfrom mine import *\nx, y = FP16_Optimizer, build\n")
    assert show(answer.value("x")).split()[0] == "unknown"
    assert show(answer.value("y")) == "mine.build"
    alone = analysed(main="from apex.fp16_utils import *\nx, y = FP16_Optimizer, build\n")
    assert show(alone.value("x")) == "apex.fp16_utils.FP16_Optimizer"
    assert show(alone.value("y")).split()[0] == "unknown"
