"""Notebooks: the code changes, every other byte stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.disk.apply import apply_in_place
from amp_migrate.engine.disk.undo import undo
from amp_migrate.engine.migrate import migrate_workspace
from amp_migrate.engine.notebooks.notebook import NotebookSource, read_source
from amp_migrate.engine.outcome import Outcome
from amp_migrate.engine.parts.in_parts import migrate_in_parts
from amp_migrate.engine.source import Source, SourceError
from amp_migrate.engine.workspace import Workspace
from amp_migrate.settings import Settings

PATH = Path("demo.ipynb")


def code(text: str) -> dict[str, Any]:
    outputs = [{"data": {"image/png": "aGVsbG8="}, "output_type": "display_data"}]
    return {"cell_type": "code", "metadata": {"x": 1}, "outputs": outputs, "source": text.splitlines(keepends=True)}


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def dump(*cells: dict[str, Any], **options: Any) -> bytes:
    document = {
        "cells": list(cells),
        "metadata": {"kernelspec": {"name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(document, **{"indent": 1, "ensure_ascii": False, **options}) + "\n").encode()


def source(data: bytes) -> NotebookSource:
    found = read_source(data, PATH)
    assert isinstance(found, NotebookSource)
    return found


DEMO = dump(
    markdown("# D\u00e9mo\n"), code("import torch\nold = 1"), code("%matplotlib inline\nold = 2\n!ls old\n"), code("")
)


def test_the_code_cells_are_one_module() -> None:
    assert source(DEMO).text == (
        "# amp-migrate: cell 0\nimport torch\nold = 1\n"
        "# amp-migrate: cell 1\npass  # amp-migrate: magic 0\nold = 2\npass  # amp-migrate: magic 1\n"
        "# amp-migrate: cell 2\n\n"
    )


@pytest.mark.parametrize(
    "data",
    [
        DEMO,
        dump(code("x = 1\n"), indent=None),
        dump(code("x = 1\n"), indent="\t", ensure_ascii=True),
        b"\xef\xbb\xbf" + DEMO,
        DEMO.replace(b"\n", b"\r\n"),
        dump(),
    ],
)
def test_a_notebook_that_does_not_change_keeps_its_bytes(data: bytes) -> None:
    notebook = source(data)
    assert notebook.encode(notebook.text) == data


def test_only_the_code_that_changed_is_written_anew() -> None:
    notebook = source(DEMO)
    after = notebook.encode(notebook.text.replace("old = 2", "new = 2\nmore = '\u00e9'"))
    assert after == DEMO.replace(b'"old = 2\\n",', b'"new = 2\\n",\n    "more = \'\xc3\xa9\'\\n",')
    assert after != DEMO


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (dump(code("old\n"), indent=None), dump(code("new\n"), indent=None)),
        (dump(code("a\nold"), indent=4), dump(code("a\nnew"), indent=4)),
        (dump(code("old = '\u00e9'"), ensure_ascii=True), dump(code("new = '\u00e9'"), ensure_ascii=True)),
        (dump({**code(""), "source": "a\nold\n"}), dump({**code(""), "source": "a\nnew\n"})),
        (dump(code("old"), code("# old\n"), markdown("old")), dump(code("new"), code("# new\n"), markdown("old"))),
    ],
)
def test_the_layout_of_the_json_stays(before: bytes, after: bytes) -> None:
    notebook = source(before)
    assert notebook.encode(notebook.text.replace("old", "new")) == after


def test_a_line_above_the_first_cell_goes_into_it() -> None:
    notebook = source(dump(markdown("x"), code("old\n")))
    assert notebook.encode("import torch\n" + notebook.text) == dump(markdown("x"), code("import torch\nold\n"))


def test_code_can_come_into_an_empty_cell() -> None:
    notebook = source(dump(code("")))
    after = notebook.encode(notebook.text + "x = 1\ny = 2\n")
    assert json.loads(after)["cells"][0]["source"] == ["\n", "x = 1\n", "y = 2"]


@pytest.mark.parametrize(
    "text",
    [
        "with x:\n    # amp-migrate: cell 0\n    a\n    # amp-migrate: cell 1\n    b\n",
        "# amp-migrate: cell 1\nb\n# amp-migrate: cell 0\na\n",
        "# amp-migrate: cell 0\na\n",
        "# amp-migrate: cell 0\na\n# amp-migrate: cell 1\nif y: pass; z  # amp-migrate: magic 0\n",
    ],
)
def test_a_change_across_cells_or_in_a_magic_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        source(dump(code("a\n"), code("!b\n"))).encode(text)


def test_a_changed_notebook_can_be_changed_again() -> None:
    notebook = source(DEMO)
    changed = notebook.with_text(notebook.text.replace("old = 1", "mid = 1"))
    assert changed.with_text(changed.text.replace("mid = 1", "old = 1")).encode(notebook.text) == DEMO


@pytest.mark.parametrize(
    ("line", "words", "shown"),
    [
        (1, "cell 2, line 1: ", '"import torch\\n",'),  # the marker counts as the line below it
        (2, "cell 2, line 1: ", '"import torch\\n",'),
        (3, "cell 2, line 2: ", '"old = 1"'),
        (6, "cell 3, line 2: ", '"old = 2\\n",'),
    ],
)
def test_a_line_is_told_by_its_cell_and_its_line_in_the_file(line: int, words: str, shown: str) -> None:
    place = source(DEMO).place(line)
    assert place[1] == words
    assert DEMO.decode().splitlines()[place[0] - 1].strip() == shown


def test_what_has_no_line_has_none_in_the_file() -> None:
    assert source(DEMO).place(0) == (0, "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not a notebook: Expecting value"),
        (b"[]", "not a notebook: '{' expected at character 0"),
        (b'{"cells": [{"cell_type": "code", "source": 3}]}', "not a notebook: a cell's source is neither"),
        (b'{"cells": {}}', "not a notebook: '[' expected"),
        (b"\xff", "not UTF-8: byte 0xff"),
    ],
)
def test_what_is_no_notebook_is_one_line(data: bytes, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_source(data, PATH)
    assert caught.value.message.startswith(message)


def test_other_files_are_python() -> None:
    assert type(read_source(b"x = 1\n", Path("a.py"))) is Source


def run(root: Path, data: bytes) -> tuple[Workspace, Outcome]:
    (root / PATH).write_bytes(data)
    workspace = Workspace.open([root])
    return workspace, migrate_workspace(workspace, Settings())


@pytest.mark.usefixtures("toy_planner")
def test_a_notebook_goes_the_way_of_any_file(tmp_path: Path) -> None:
    data = dump(markdown("amp"), code("import amp\n!pip install apex\n"), code("old_amp = 1\nleave = 1\n"))
    workspace, outcome = run(tmp_path, data)
    apply_in_place(workspace, outcome, tmp_path)
    assert (tmp_path / PATH).read_bytes() == data.replace(b"old_amp", b"new_amp")
    assert [(each.line, each.message[:17]) for each in outcome.findings] == [
        (data.decode()[: data.decode().index("old_amp")].count("\n") + 1, "cell 3, line 1: o"),
        (data.decode()[: data.decode().index("leave")].count("\n") + 1, "cell 3, line 2: s"),
    ]
    undo([tmp_path])
    assert (tmp_path / PATH).read_bytes() == data


@pytest.mark.usefixtures("toy_planner")
def test_a_cell_that_does_not_parse_is_told_by_its_place(tmp_path: Path) -> None:
    _, outcome = run(tmp_path, dump(code("import amp\n"), code("x = 1\ny = (\n")))
    (finding,) = outcome.findings
    assert finding.message.startswith("cell 2, line 2: does not parse: ")


@pytest.mark.parametrize("head", ["%%file train.py", "%%time\n%%writefile -a 'src/train.py'"])
def test_a_script_that_a_cell_writes_is_told_where_it_would_change(tmp_path: Path, head: str) -> None:
    step = "for x in loader:\n    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    script = f"import torch\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{step}"
    cells = (
        code("print(1)\n"),
        code(f"{head}\n{script}"),
        code("%%file other.py\nx = 1\n"),
        code("%%file a.txt\namp\n"),
    )
    (tmp_path / "plain.py").write_text("import torch\n")
    data = dump(markdown("# Training"), *cells)
    _, outcome = run(tmp_path, data)
    (finding,) = outcome.findings
    name = head.split()[-1].strip("'")
    line = data.decode()[: data.decode().index("%%")].count("\n") + 1
    assert (finding.code, finding.line) == ("AMP590", line)
    assert finding.message == f"cell 3, line 1: {name} left as it was: to the notebook it is text that it writes"
    assert outcome.changed == ()
    assert migrate_in_parts(Workspace.open([tmp_path]), Settings()).findings == outcome.findings
