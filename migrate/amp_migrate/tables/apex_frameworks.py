"""How training frameworks are told to use Apex, and what to write instead: data."""

from __future__ import annotations

_LIGHTNING = 'drop amp_backend= and amp_level=: precision="16-mixed" (precision=16 before Lightning 2) is native AMP'
_TRANSFORMERS = "drop it and fp16_opt_level=: fp16=True is native AMP"

# Keyword arguments that ask for Apex where their value is "apex".
KEYWORDS = {
    "amp_backend": _LIGHTNING,
    "fp16_backend": _TRANSFORMERS,
    "half_precision_backend": _TRANSFORMERS,
}
# Methods of a package's objects that ran Apex behind keyword arguments of their own, by the package.
METHODS = {
    "sentence_transformers": ("fit", ("fp16", "fp16_opt_level"), "use_amp=True in their place is native AMP"),
}
# Classes that run a training step through Apex, by name or by the name in a configuration.
CLASSES = {
    "ApexMixedPrecisionPlugin": _LIGHTNING,
    "ApexOptimWrapper": 'use AmpOptimWrapper, with loss_scale="dynamic" and without opt_level=',
}
