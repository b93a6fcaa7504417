"""What transforms of other packages multiply is float32, or told: torchaudio's by name, others as they are used."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import ears, torch
from torch import nn
from torchaudio import transforms as T

model = nn.Conv1d(1, 1, 9, padding=4).cuda()
optimizer = torch.optim.Adam(model.parameters())
mel, wave = {made}, torch.ones(4, 1, 999).cuda()
for audio in loader:
    audio = audio.cuda()
{lines}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OFF = 'with torch.amp.autocast(device_type="cuda", enabled=False):'
MEL = "T.MelSpectrogram(n_fft=2048).cuda()"
CHAIN = "nn.Sequential(T.Spectrogram(), T.MelScale(), T.AmplitudeToDB()).cuda()"
LOSS = "loss = nn.functional.mse_loss({}, {})"
SPECTRA = "a bank of filters is multiplied with spectra"
DATA = "a product of data alone"
UNREAD = "what runs under autocast could not be read: ears.Mel"


def migrated(made: str, *lines: str) -> tuple[list[str], list[str]]:
    """The lines of the result that are in regions without autocast, and what the findings of risky numerics say."""
    plan = migrate_text(TEXT.format(made=made, lines=indent("\n".join(lines), "    ")), Settings())
    assert "GradScaler" in plan.after
    after = plan.after.splitlines()
    inside = [after[at + 1].strip() for at, line in enumerate(after) if line.strip() == OFF]
    return inside, [each.message for each in plan.findings if each.code == "AMP504"]


@pytest.mark.parametrize(
    ("made", "before", "after", "what"),
    [
        (MEL, "a = mel(model(audio) * 2)", "", SPECTRA),
        (MEL, "b = model(audio)\na = mel(b)", "a = mel(b.float())", SPECTRA),
        (MEL, "b = model(audio)\na = mel(waveform=b)", "a = mel(waveform=b.float())", SPECTRA),
        (CHAIN, "b = model(audio)\na = mel(b)", "", SPECTRA),
        ("T.Resample(48000, 16000).cuda()", "b = model(audio)\nc = mel(audio)\na = b + c", "c = mel(audio)", DATA),
    ],
)
def test_what_torchaudio_multiplies_is_float32_or_told(made: str, before: str, after: str, what: str) -> None:
    inside, told = migrated(made, *before.splitlines(), LOSS.format("a", "wave"))
    assert inside == ([after] if after else [])
    assert [what in each for each in told] == [True]


@pytest.mark.parametrize(
    ("made", "before"),
    [
        (MEL, "a = model(audio)\nmel.eval()"),
        ("T.Spectrogram().cuda()", "a = mel(model(audio))"),
        ("T.FrequencyMasking(9)", "a = mel(model(audio))"),
        ("T.Resample(48000, 16000).cuda()", "a = mel(model(audio))"),  # as a layer of the model would
    ],
)
def test_what_torchaudio_does_not_multiply_with_spectra_or_data_is_as_it_was(made: str, before: str) -> None:
    assert migrated(made, *before.splitlines(), LOSS.format("a", "wave")) == ([], [])


@pytest.mark.parametrize(
    ("made", "guess", "told"),
    [
        ("ears.Mel().cuda()", "mel(model(audio))", [UNREAD]),
        ("ears.Mel().to('cuda')", "model(mel(audio))", [UNREAD]),
        ("ears.Mel()", "model(mel(audio))", []),  # a tokenizer as well as a transform
        ("ears.mel", "model(mel(audio))", []),
    ],
)
def test_a_transform_that_nobody_has_read_is_told_where_it_is_moved_as_modules_are(
    made: str, guess: str, told: list[str]
) -> None:
    assert migrated(made, f"a = {guess}", LOSS.format("a", "wave"))[1] == told
