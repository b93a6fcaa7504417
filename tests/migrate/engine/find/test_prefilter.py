"""The words that make a file worth parsing."""

from __future__ import annotations

import pytest
from amp_migrate.engine.find.prefilter import has_word, holds_code, may_matter


@pytest.mark.parametrize(
    "line",
    [
        "from apex import amp",
        "import apex",
        "with torch.cuda.amp.autocast():",
        "from .compat import autocast",
        "scaler = GradScaler()",
        "@custom_fwd",
        "loss.backward()",
        "loss.backward (retain_graph=True)",
        "(a + b).backward(gradient); self.optim.step()",
        "error.backward(); model.zero_grad()",
        "p.grad = autograd.grad(loss, p)[0]; optimizer.step()",
        "torch.get_autocast_gpu_dtype()",
        "with scale_loss(loss, optimizer) as scaled:",
    ],
)
def test_a_line_that_can_matter_passes(line: str) -> None:
    assert may_matter(f"x = 1\n{line}\n".encode())


@pytest.mark.parametrize(
    "line",
    [
        "# an example of sampling, step backward",
        "import numpy",
        "timestamp, lamp, camp_site = 1, 2, 3",
        "with torch.no_grad(): model.eval()",
        "def backward(ctx, gradient):",
        "ctx.save_for_backward(x); import torch",
        "turtle.backward(100)",
        "text.search_backward(stop)",
        "if p.grad == autograd.grad(loss, p)[0]: optimizer.step()",
        "p.grad = autograd.grad(loss, p)[0]; p.data -= p.grad",
    ],
)
def test_a_line_that_only_resembles_one_does_not(line: str) -> None:
    assert not may_matter(f"x = 1\n{line}\n".encode())


@pytest.mark.parametrize(
    "line",
    [
        "loss.backward()",
        "note = 'it\\'s' # don't\nloss.backward()",
        "x = 'a\\\\'; loss.backward(); y = 'b'",
        'x = """a"b\\"""c"""; loss.backward()',
        'x = "\'"; loss.backward(); y = "\'"',
        'print(f"{names["a"]}")\nloss.backward()',
        'def f(scaler: "torch.cuda.amp.GradScaler"): ...',
        'def f(scaler: "GradScaler | None"): ...',
        'getattr(torch.cuda, "amp")',
        'importlib.import_module("apex.amp")',
        "scaler = None  # type: torch.cuda.amp.GradScaler",
    ],
)
def test_code_and_what_it_names_in_strings_counts(line: str) -> None:
    assert may_matter(line.encode())
    assert holds_code(line)


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # loss.backward()",
        '"""Use it so:\n\n    >>> loss.backward()\n"""',
        "'''apex'''",
        "parser.add_argument('--amp', help='mixed precision by native amp')",
        "raise ValueError('call loss.backward() first')",
        'x = """a"b\\""" amp """',
        "entities = {'amp': 0x26, 'gt': 0x3E}",
    ],
)
def test_what_only_the_reader_is_told_does_not_count(line: str) -> None:
    assert may_matter(line.encode())
    assert not holds_code(line)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("train", True),
        ("x = train(model)", True),
        ("self.train", True),
        ("trainer, train", True),
        ("trainer, retrain, train_one, train1", False),
        ("tra\u00een train\u00e9e", False),
    ],
)
def test_a_word_is_found_only_as_a_whole(text: str, found: bool) -> None:
    assert has_word(text.encode(), b"train") is found


def test_a_word_beyond_ascii_is_found_too() -> None:
    assert has_word("entra\u00eene()".encode(), "entra\u00eene".encode())
