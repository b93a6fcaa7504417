"""What the hazard rules take for float16 under autocast is what PyTorch computes in float16."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from amp_migrate.hazards.seen import halves
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="needs CUDA's autocast")
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "div": (2.0,),
    "expand": (4, 4),
    "mul": (2.0,),
    "permute": (1, 0),
    "reshape": (2, 8),
    "softmax": (0,),
    "transpose": (0, 1),
    "unsqueeze": (0,),
    "view": (2, 8),
}


@pytest.fixture
def product() -> Iterator[torch.Tensor]:
    """A product of matrices under autocast, on a GPU that is not there."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        with FakeTensorMode():
            x = torch.ones(4, 4, device="cuda")
            yield x @ x
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_what_is_taken_to_keep_the_dtype_keeps_it(product: torch.Tensor) -> None:
    given = {**ARGUMENTS, "masked_fill": (product > 0, 1.0)}
    found = {name: getattr(product, name)(*given.get(name, ())).dtype for name in halves.KEEPS_DTYPE}
    for name in halves.FUNCTIONS_THAT_KEEP:
        home = torch.nn.functional if ".functional." in name else torch
        found[name] = getattr(home, name.rpartition(".")[2])(product).dtype
    assert {name: dtype for name, dtype in found.items() if dtype is not torch.float16} == {}


def test_what_autocast_computes_in_float32_is_not_taken_for_that(product: torch.Tensor) -> None:
    names = {"sum", "norm", "exp", "log", "square", "softmax"}
    assert {getattr(product, name)(*ARGUMENTS.get(name, ())).dtype for name in names} == {torch.float32}
    assert not names & (halves.KEEPS_DTYPE | {each.rpartition(".")[2] for each in halves.FUNCTIONS_THAT_KEEP})
