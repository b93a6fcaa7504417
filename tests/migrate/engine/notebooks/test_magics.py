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
    ],
)
def test_lines_that_are_no_python_are_hidden_and_shown_again(cell: str, hidden: str) -> None:
    kept: list[str] = []
    assert hide(cell, kept) == hidden
    ast.parse(hidden)
    assert show(hidden, kept) == cell


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
