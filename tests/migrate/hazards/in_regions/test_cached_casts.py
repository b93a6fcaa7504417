"""AMP633: a weight's cast that was made under no_grad(), and serves where a gradient is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

TEXT = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x)

        def guess(self, x):
            with torch.no_grad():
                return self(x)

    def loss_of(model, other, x):
        return (model(x) - {base}).square().mean()

    def train(loader):
        model, other = Net().cuda(), {other}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            optimizer.zero_grad()
            with torch.no_grad():
                before = model(x)
            with torch.amp.autocast("cuda", dtype=torch.float16{cache}):{mark}
                {first}
                loss = loss_of(model, other, x)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
PARTS = {"base": "x", "other": "Net().cuda()", "cache": "", "mark": "", "first": "pass"}


@pytest.mark.parametrize(
    "first", ["base = model.guess(x)", "with torch.no_grad():\n                    base = model(x)"]
)
def test_a_region_that_keeps_a_cast_without_a_gradient_is_told(marked: Check, first: str) -> None:
    marked(TEXT.format(**PARTS | {"first": first, "mark": "  # AMP633"}))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"first": "base = other.guess(x)"},
        {"first": "base = model.guess(x)", "cache": ", cache_enabled=False"},
        {"base": "other.guess(x)", "other": "copy.deepcopy(model)"},
    ],
)
def test_casts_that_harm_nobody_are_left_alone(clean: Check, parts: dict[str, str]) -> None:
    clean("    import copy\n" + TEXT.format(**PARTS | parts))


OF_A_LIBRARY = """
    from library import Bert, Tokenizer

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = Bert.from_pretrained("small")
            self.fc = nn.Linear(4, 4)
            self.words = Tokenizer.from_pretrained("small")

        def forward(self, x):
            {inner} = {part}
            with {context}:
                hidden = inner(x)
            self.words.split(x)
            return {outer}(hidden)

    def train(loader):
        model = Net().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):{mark}
                loss = model(x).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
OF_A_MODULE = {
    "inner": "inner",
    "part": "self.bert.encoder_of_words",
    "outer": "self.bert",
    "context": "torch.no_grad()",
}


@pytest.mark.parametrize("part", ["self.bert", "self.bert.words"])
def test_an_unknown_module_of_a_library_that_runs_both_ways_is_told(marked: Check, part: str) -> None:
    marked(OF_A_LIBRARY.format(**OF_A_MODULE | {"part": part, "mark": "  # AMP633"}))


@pytest.mark.parametrize(
    "parts",
    [
        {"context": "torch.enable_grad()"},
        {"outer": "self.fc"},
        {"outer": "self.bert.of_ids", "part": "self.bert.words"},
    ],
)
def test_an_unknown_module_that_runs_one_way_is_not(clean: Check, parts: dict[str, str]) -> None:
    clean(OF_A_LIBRARY.format(**OF_A_MODULE | {"mark": ""} | parts))


RECORDED = """
    class Guide(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                points = self.fc(x)
            with torch.enable_grad():
                return self.fc(points){end}

    guide, critic = Guide().cuda(), nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):{mark}
            with torch.no_grad():
                guided = guide(x)
            loss = critic(guided).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_weights_that_no_loss_is_computed_from_need_no_gradient(marked: Check, clean: Check) -> None:
    clean(RECORDED.format(end=".detach()", mark=""))
    marked(RECORDED.format(end="", mark="  # AMP633"))
