"""A class of sigmoids that computes in float32 is PyTorch's, but for its precision."""

from __future__ import annotations

import pytest

from .conftest import Check

BEFORE = """
from torch import nn

model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
"""
AFTER = '''
from torch import nn


class Fp32Sigmoid(nn.Sigmoid):
    """In float32."""

    def forward(self, input):
        return input.float().sigmoid()


model = nn.Sequential(nn.Linear(4, 1), Fp32Sigmoid())
'''


def test_its_objects_are_the_same_but_for_their_precision(wrong: Check) -> None:
    assert not wrong(BEFORE, AFTER)
    assert not wrong(AFTER, AFTER.replace("(4, 1), Fp32Sigmoid()", "(4, 1), nn.Sigmoid()"))
    assert not wrong(AFTER, AFTER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class Fp32Sigmoid(nn.Sigmoid)", "class Fp32Sigmoid(nn.Tanh)"),
        ("class Fp32Sigmoid(nn.Sigmoid)", "class Fp32Sigmoid(nn.Sigmoid, Mixin)"),
        (".float().sigmoid()", ".float().tanh()"),
        (".float().sigmoid()", ".half().sigmoid()"),
        (".float().sigmoid()", ".float().sigmoid().square()"),
        ("return input", "return -input"),
        ("        return", "        input = input * 2\n        return"),
        ("    def forward", "    scale = 2\n\n    def forward"),
        ("    def forward", "    @cached\n    def forward"),
        ("def forward(self, input)", "def forward(self, input, *others)"),
        ("def forward", "def reverse"),
        ("class Fp32Sigmoid", "@registered\nclass Fp32Sigmoid"),
        ("\nmodel", "\nFp32Sigmoid = nn.Tanh\nmodel"),
        ("\nmodel", "\nif x:\n    class Fp32Sigmoid(nn.Tanh):\n        pass\nmodel"),
        ("(4, 1), Fp32Sigmoid()", "(4, 1), Fp32Sigmoid(), Fp32Sigmoid()"),
        ("nn.Linear(4, 1), Fp32Sigmoid()", "Fp32Sigmoid()"),
    ],
)
def test_what_computes_something_else_is_another_program(old: str, new: str, wrong: Check) -> None:
    assert old in AFTER
    assert "another program" in wrong(BEFORE, AFTER.replace(old, new))


def test_it_stands_below_the_import_of_its_base(wrong: Check) -> None:
    above = AFTER.replace("from torch import nn\n", "").replace("\nmodel", "\nfrom torch import nn\n\nmodel")
    assert "another program" in wrong(BEFORE, above)
    tried = "try:\n    from torch import nn\nexcept ImportError:\n    raise\n"
    old, new = (each.replace("from torch import nn\n", tried) for each in (BEFORE, AFTER))
    assert not wrong(old, new)


def test_a_parameter_of_the_name_is_no_such_class(wrong: Check) -> None:
    make = "\n\ndef make({}):\n    return {}()\n"
    assert "another program" in wrong(
        BEFORE + make.format("Sigmoid", "nn.Sigmoid"), AFTER + make.format("Sigmoid", "Sigmoid")
    )
