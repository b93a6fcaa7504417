"""Every way in which a file fails to parse is one line with a place."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.engine.source import Source, SourceError
from amp_migrate.engine.texts.parse import parse
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings


def source(text: str) -> Source:
    return Source(Path("train.py"), "train.py", text)


def failure(text: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        parse(source(text))
    assert "\n" not in caught.value.message
    return caught.value


def test_a_good_file_gives_its_tree() -> None:
    text = "def f(x):\n    return x  # done\n"
    assert parse(source(text)).code == text


def test_a_syntax_error_is_told_with_line_and_column() -> None:
    error = failure("import torch\nx = (1,\n")
    assert (error.line, error.column) == (2, 5)
    assert error.message.startswith("does not parse: ")


@pytest.mark.parametrize(
    "text",
    [
        "print 'loss', loss\n",
        "print loss\n",
        "try:\n    pass\nexcept ValueError, e:\n    pass\n",
        "try:\n    pass\nexcept (A, B), e:\n    pass\n",
        "raise ValueError, 'bad'\n",
        "exec 'x = 1'\n",
    ],
)
def test_python_2_is_recognised(text: str) -> None:
    error = failure(text)
    assert error.message.startswith("looks like Python 2: ")
    assert "Python 3" in error.hint
    assert error.line > 0


@pytest.mark.parametrize("text", ["print(x\n", "printer x\n", "except_ = 1, 2 3\n"])
def test_other_errors_are_not_taken_for_python_2(text: str) -> None:
    assert failure(text).message.startswith("does not parse: ")


def test_a_syntax_newer_than_the_running_python_parses() -> None:
    # Python 3.14 lets the brackets go; LibCST knows it on every Python.
    text = "try:\n    pass\nexcept ValueError, TypeError:\n    pass\n"
    assert parse(source(text)).code == text


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 10_000 + ")" * 10_000,
        "x = " + "[" * 10_000 + "]" * 10_000,
        "x = " + "-" * 10_000 + "1",
        "x = a" + ".b" * 50_000,
        "try:\n    pass\nexcept A, B:\n    x = " + "(" * 10_000 + ")" * 10_000,
    ],
    ids=["brackets", "lists", "signs", "attributes", "behind newer syntax"],
)
def test_deep_nesting_is_refused_instead_of_ending_the_process(text: str) -> None:
    assert failure(text).message == "nested too deeply to be parsed"


@pytest.mark.parametrize(
    "text",
    ["def f():\n        if x:\n    \t    pass\n", "def f():\n    if x:\n\t    pass\n    return x\n"],
    ids=["in one line", "in two lines"],
)
def test_an_indent_that_only_python_understands_is_named_by_its_line(text: str) -> None:
    compile(text, "train.py", "exec")
    found = failure(text)
    assert (found.message, found.line) == ("indents are of tabs and of spaces", 3)
    assert found.hint == "expand the tabs of this file"


MIXED = (
    "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n\tdef __init__(self):\n\t\tsuper().__init__()\n"
    "\t\tself.layers = nn.Sequential(\n\t\t \tnn.Linear(2, 2),\n\t\t)\n\n\tdef cost(self, x, y):\n"
    "                return nn.functional.mse_loss(self.layers(x), y)\n\n\ndef build():\n\treturn Net().cuda()\n\n\n"
    "def stepped(optimizer):\n\toptimizer.step()\n"
)
OF_MIXED = """\
import torch
import net


def train(loader):
    learner = net.build()
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = learner.cost(x.cuda(), y.cuda())
        loss.backward()
        {step}


train([])
"""


@pytest.mark.parametrize(("step", "is_moved"), [("optimizer.step()", True), ("net.stepped(optimizer)", False)])
def test_a_file_with_indents_that_only_python_understands_is_read_and_not_written(
    step: str, is_moved: bool, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(MIXED)
    (tmp_path / "train.py").write_text(OF_MIXED.format(step=step))
    outcome = migrate([tmp_path], Settings())
    assert [Path(each.source.name).name for each in outcome.changed] == (["train.py"] if is_moved else [])
    (error,) = [each for each in outcome.findings if each.kind is Kind.ERROR]
    assert (error.line, error.message) == (13, "indents are of tabs and of spaces")
    left = [each.message for each in outcome.findings if each.kind is Kind.LEFT]
    assert is_moved or any("net.py, its indents are of tabs and of spaces" in each for each in left), left
