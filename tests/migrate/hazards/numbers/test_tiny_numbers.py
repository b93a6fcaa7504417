"""Which files AMP627 looks at."""

from __future__ import annotations

import pytest
from amp_migrate.hazards.numbers.amp627_tiny_epsilon import may_be_added


@pytest.mark.parametrize(
    "text",
    [
        "y = x / (x.mean() + 1e-8)\n",
        "y = x / (1E-08 + x.mean())\n",
        "y = x.clamp(min=1.e-10)",
        "y = torch.clip(x, 1e-9, 1)\n",
        "y = x.clamp(\n    min=1e-8,\n)\n",
        "y = (\n    x +\n    1e-8\n)\n",
        "EPS = 1e-12\n",
        "    eps: float = 1e-12\n",
        'EPS = float("1e-12")\n',
        "self.eps = 1e-8\n",
        "def norm(x, eps=1e-8):\n",
        "def norm(\n    x, y,\n    z, eps=1e-8) -> Tensor:\n",
        "norm = lambda x, eps=1e-8: x\n",
        "layer = Norm(eps=1e-8)\ny = x + 1e-8\n",
    ],
)
def test_a_number_that_may_be_added(text: str) -> None:
    assert may_be_added(text)


@pytest.mark.parametrize(
    "text",
    [
        "y = x + 1e-5\n",
        "# a stride-8 stem + more\n",
        "layer = partial(Conv, eps=1e-8)\n",
        "optimizer = Adam(parameters, lr=1e-3, eps=1e-8)\n",
        "name8 = 'e-9'\n",
        "",
    ],
)
def test_a_number_that_is_not(text: str) -> None:
    assert not may_be_added(text)
