"""IPython's own lines become Python, and come back as they were."""

from __future__ import annotations

import ast

import pytest
from amp_migrate.engine.notebooks.magics import hide, is_python, show


@pytest.mark.parametrize(
    ("cell", "hidden"),
    [
        ("%matplotlib inline\nx = 1\n", "pass  # amp-migrate: magic 0\nx = 1\n"),
        ("!pip install -q apex", "pass  # amp-migrate: magic 0"),
        ("%%time\nx = 1\n", "pass  # amp-migrate: magic 0\nx = 1\n"),
        ("files = !ls *.py\n", "files = None  # amp-migrate: magic 0\n"),
        ("a, b = %sx ls\n", "a, b = None  # amp-migrate: magic 0\n"),
        (
            "model?\nmodel.fit??\n?model\n",
            "pass  # amp-migrate: magic 0\npass  # amp-migrate: magic 1\npass  # amp-migrate: magic 2\n",
        ),
        ("if x:\n    !ls\n    %cd ..\n", "if x:\n    pass  # amp-migrate: magic 0\n    pass  # amp-migrate: magic 1\n"),
        ("!pip install \\\n    apex\nx = 1\n", "pass  # amp-migrate: magic 0\nx = 1\n"),
        (" !pip install \\\n    apex\n", "pass  # amp-migrate: magic 0\n"),
        ("\n  %cd ..\nx = 1\n", "\npass  # amp-migrate: magic 0\nx = 1\n"),
        ("!ls\r\nx = 1\r\n", "pass  # amp-migrate: magic 0\r\nx = 1\r\n"),
        ("x = (1\n% 2)\n!ls\n", "x = (1\n% 2)\npass  # amp-migrate: magic 0\n"),
        ("x = '''\n%s\n'''\n!ls\n", "x = '''\n%s\n'''\npass  # amp-migrate: magic 0\n"),
        ("mv a b\nrm -r c\n", "pass  # amp-migrate: magic 0\npass  # amp-migrate: magic 1\n"),
        ("rm = (1\n)\nrm -rm\n!ls\n", "rm = (1\n)\nrm -rm\npass  # amp-migrate: magic 0\n"),
        ("x = 5 \\\n% 2\n!ls\n", "x = 5 \\\n% 2\npass  # amp-migrate: magic 0\n"),
        ("   x = 1\n\ny = 2\n", "x = 1  # amp-migrate: blanks 0\n\ny = 2\n"),
        ("\n \n\tx = 1\r\ny = 2\r\n", "\n \nx = 1  # amp-migrate: blanks 0\r\ny = 2\r\n"),
        ("  x = 1  # it\n!ls\n", "x = 1  # it  # amp-migrate: blanks 1\npass  # amp-migrate: magic 0\n"),
        ("   x = 1", "x = 1  # amp-migrate: blanks 0"),
    ],
)
def test_lines_that_are_no_python_are_hidden_and_shown_again(cell: str, hidden: str) -> None:
    kept: list[str] = []
    assert hide(cell, kept) == hidden
    ast.parse(hidden)
    assert show(hidden, kept) == cell


@pytest.mark.parametrize(
    "cell",
    [
        "  x = 1\n  y = 2\n",
        "  x = '''a\n b'''\ny = 1\n",
        "  x = [1,\n2]\ny = 2\n",
        "  x = 1 + \\\n 2\ny = 1\n",
        "  x y\n",
    ],
)
def test_blanks_of_more_than_a_first_line_that_is_whole_stay(cell: str) -> None:
    kept: list[str] = []
    assert (hide(cell, kept), kept) == (cell, [])


def test_blanks_come_back_to_what_is_the_first_line_alone() -> None:
    kept: list[str] = []
    hidden = hide("   x = f()\ny = x\n", kept)
    assert show(hidden.replace("f()", "g()"), kept) == "   x = g()\ny = x\n"
    assert show(f"with z:\n    {hidden}", kept) == "with z:\n    x = f()\ny = x\n"


@pytest.mark.parametrize("cell", ["x = 1 \\\n% 2\n", "x = '''\n!ls\n'''\n", "x = (5\n% 2)\n", ""])
def test_python_is_left_as_it_is(cell: str) -> None:
    kept: list[str] = []
    assert (hide(cell, kept), kept) == (cell, [])


def test_a_placeholder_that_was_changed_is_refused() -> None:
    kept: list[str] = []
    hidden = hide("!ls\n", kept)
    with pytest.raises(ValueError, match="IPython"):
        show(hidden.replace("pass", "x"), kept)


@pytest.mark.parametrize(
    ("cell", "answer"),
    [
        ("x = 1", True),
        ("%%time\nx", True),
        ("%%capture out\nx", True),
        ("%%bash\nls", False),
        ("\n%%html\n<b>", False),
        ("%%time\n%%bash\nls", False),
        ("%%time\n\n%%capture\nx", True),
        ("%%time", True),
        ("x = 5\n%%bash\n", True),
    ],
)
def test_a_cell_in_another_language_is_recognised(cell: str, answer: bool) -> None:
    assert is_python(cell) is answer
