"""Complex numbers: what makes them and what makes real numbers of them, beside what PyTorch's own operators do."""

from __future__ import annotations

import re
from itertools import product

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.domain.tensor import COMPLEX, FLOATING, LOW
from amp_migrate.settings import Settings

from .test_sound_precision import known, run, said

_TEXT = """\
import torch
from elsewhere import fail, flag, note
from torch.amp import autocast

a, b = (torch.rand(4, 4, 2).cuda() for _ in range(2))
with autocast("cuda", torch.float16):
    low = a.transpose(1, 2) @ b
with autocast("cuda", torch.float16, enabled={on}):
    note(0, {of})
"""
_COMPLEX = [
    "torch.fft.rfft(a)", "torch.fft.fft2(low.float())", "torch.fft.ifft(torch.fft.fft(a))", "torch.view_as_complex(a)",
    "torch.complex(a, b)", "torch.polar(a, b)", "torch.fft.rfft(a) * torch.rand(4, 4, 2).cuda()",
    "torch.fft.rfft(a) * low[:, :1, :2]", "torch.conj(torch.fft.rfft(a))", "torch.fft.fft(a) @ torch.fft.fft(a).mT",
    "torch.einsum('nij,nkj->nik', torch.fft.fft(a), torch.fft.fft(b))", "torch.cat([torch.fft.fft(a)] * 2)",
    "torch.stft(a.reshape(1, -1), 8, window=torch.ones(8).cuda(), return_complex=True)",
]  # fmt: skip
_REAL = [
    "torch.fft.irfft(torch.fft.rfft(a))", "torch.fft.fft(a).abs()", "torch.fft.fft(a).real", "torch.fft.fft(a).imag",
    "torch.angle(torch.fft.fft(a))", "torch.view_as_real(torch.fft.fft(a))", "torch.fft.hfft(torch.fft.fft(a))",
    "torch.fft.irfft2(torch.fft.rfft2(a) * 2)", "torch.fft.fft(a).abs().pow(2).mean()",
    "low[:1, :1, :1] * torch.view_as_real(torch.stft(a.reshape(1, -1), 8, return_complex=True))",
]  # fmt: skip


@pytest.mark.parametrize("of", [*_COMPLEX, *_REAL])
def test_what_pytorchs_own_give_is_never_denied(of: str) -> None:
    for on, text in ((on, _TEXT.format(of=of, on=on)) for on in (True, False)):
        tensor = known(said(text)[0])
        assert tensor is not None
        for bits, _ in run(text, 0)[0]:
            assert tensor.precision & bits, (on, bits, tensor.precision)
        assert bool(tensor.precision & COMPLEX) == (of in _COMPLEX)
        assert bool(tensor.precision & FLOATING) == (of in _REAL)
        assert not tensor.precision & LOW


_LOSS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3)
        self.weights = nn.Parameter(torch.rand(8, 8, dtype=torch.cfloat), requires_grad=False)

    def forward(self, x):
        h = self.body(x)
        found = {transformed}
        {used}
        return {back}


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("transformed", "used", "back"),
    list(
        product(
            ["torch.fft.rfft({})", "torch.fft.fft({}, dim=1)", "torch.view_as_complex({}.reshape(2, -1, 2))"],
            ["found = found * torch.conj(found)", "found = found * load()", "found = torch.stack([found, found])"],
            ["torch.fft.irfft(found)", "torch.fft.ifft(found).real", "found.abs()", "torch.view_as_real(found)"],
        )
    ),
)
def test_a_transform_reads_in_float32_and_nothing_behind_it_is_cast(transformed: str, used: str, back: str) -> None:
    """To cast complex numbers to float32 drops what is imaginary."""
    text = _LOSS.format(transformed=transformed.format("h"), used=used, back=back)
    after = migrate_text(text, Settings()).after
    assert after.count(".float()") == 1
    assert re.search(r"found = torch\.\S+\(h.*\.float\(\)|found = torch\.\S+\(h\.float\(\)", after)
    assert "is_floating_point" not in after
