"""Parts of lists and chains of modules hold what the whole of them holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.flow.domain.atoms import show
from amp_migrate.flow.events import Act

Tell = Callable[..., Any]
BLOCK = "class Block(nn.Module):\n    def forward(self, x):\n        return 's'\n"
NET = """\
class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = {made}
        for _ in range(depth):
            self.blocks.append(Block())
        self.others = nn.ModuleList([nn.Linear(2, 2)])

    def forward(self, x):
        for {target} in {over}:
            y = {call}
        return y


z = Net(3)(torch.rand(2, 2))
"""
MADE = ("nn.ModuleList()", "[]", "nn.Sequential()")


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(
    ("target", "over"),
    [
        ("block", "self.blocks"),
        ("block", "self.blocks[::1]"),
        ("block", "self.blocks[:-1]"),
        ("block", "self.blocks[:-1][1:]"),
        ("block", "self.blocks[x.shape[0]:]"),
        ("block", "self.blocks[slice(1, 3)]"),
        ("block", "reversed(self.blocks)"),
        ("block", "reversed(self.blocks[1:])"),
        ("(i, block)", "enumerate(self.blocks[1:])"),
        ("(block, other)", "zip(self.blocks, self.others)"),
        ("(block, other)", "zip(self.blocks[1:], self.others[::-1])"),
    ],
)
def test_a_loop_over_a_part_runs_what_is_in_the_whole(told: Tell, made: str, target: str, over: str) -> None:
    text = NET.format(made=made, target=target, over=over, call="block(x)")
    assert show(told(f"{BLOCK}{text}").value("z")) == "'s'"


@pytest.mark.parametrize("made", ["nn.ModuleList([Block(), nn.Linear(2, 2)])", "[Block(), nn.Linear(2, 2)]"])
@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ("[:1]", "'s'"),
        ("[:-1]", "'s'"),
        ("[1:]", "Tensor(float32)"),
        ("[::-1][1:]", "'s'"),
        ("[1:][0:1]", "Tensor(float32)"),
    ],
)
def test_a_written_slice_of_modules_that_are_counted_has_these_alone(
    told: Tell, made: str, part: str, wanted: str
) -> None:
    answer = told(f"{BLOCK}blocks = {made}\nfor block in blocks{part}:\n    y = block(torch.rand(2, 2))\n")
    assert show(answer.value("y")) == wanted


@pytest.mark.parametrize("part", ["", "[:2]", "[n:]", "[slice(n)]"])
def test_a_part_of_a_chain_is_a_chain_whose_weights_are_trained(told: Tell, part: str) -> None:
    answer = told(
        "chain = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).cuda()\nn = int(input())\n"
        f"half = chain{part}\nwith torch.autocast('cuda', torch.float16):\n    y = half(torch.rand(2, 2).cuda())\n"
        "y.sum().backward()\n"
    )
    assert show(answer.value("y")).startswith("Tensor(float16)")
    assert answer.lines(Act.BACKWARD) == [6]


@pytest.mark.parametrize("given", ["{'head': Block()}", "[('head', Block())]", "zip(['head'], [Block()])"])
def test_a_dictionary_of_modules_has_those_that_it_is_made_of(told: Tell, given: str) -> None:
    answer = told(
        f"{BLOCK}blocks = nn.ModuleDict({given})\nfor name, block in blocks.items():\n    y = block(torch.rand(2, 2))\n"
        "z = blocks['head'](torch.rand(2, 2))\n"
    )
    assert (show(answer.value("y")), show(answer.value("z"))) == ("'s'", "'s'")


@pytest.mark.parametrize("part", ["['head']", "[0]", "[-1]", "[n]"])
def test_one_module_of_a_list_is_no_list(told: Tell, part: str) -> None:
    made = "nn.ModuleDict({'head': Block()})" if "head" in part else "nn.ModuleList([Block()])"
    answer = told(f"{BLOCK}n = int(input())\nblocks = {made}\ny = blocks{part}(torch.rand(2, 2))\n")
    assert show(answer.value("y")) == "'s'"
