"""Transforms of other packages that compute in half precision under autocast, and with no weights: torchaudio's."""

from __future__ import annotations

# How the names begin of classes whose objects have no parameters, but for those of what they are made of, and call.
TRANSFORMS = ("torchvision.transforms.", "torchaudio.transforms.")

# What multiplies a power spectrum by a bank of filters, or what comes of that by a matrix of cosines
# (https://docs.pytorch.org/audio/stable/transforms.html).
OF_SPECTRA = frozenset(f"torchaudio.transforms.{name}" for name in "MelSpectrogram MelScale MFCC LFCC".split())
# What moves a window of weighed samples over a wave.
OF_WAVES = frozenset(f"torchaudio.transforms.{name}" for name in "Resample Speed SpeedPerturbation PitchShift".split())


def operator(name: str) -> str:
    """The operator that a transform computes in half precision; empty where there is none, or it is not known."""
    return "matmul" if name in OF_SPECTRA else "conv1d" if name in OF_WAVES else ""
