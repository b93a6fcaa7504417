"""Which files can matter at all, decided on bytes: reading is cheap, parsing is not.

A file without any of these words holds nothing to migrate. A file with one of them may still hold nothing; that is
found out after parsing.
"""

from __future__ import annotations

import mmap
import re

# Every word earns its place:
WORDS = (
    r"amp",  # torch.cuda.amp, torch.cpu.amp, apex.amp, and whatever is imported from them
    r"apex",  # apex.parallel, apex.optimizers, apex.fp16_utils
    r"autocast\w*|GradScaler|custom_(?:fwd|bwd)",  # re-exported through a module of the project, without `amp` in sight
    r"\w*autocast_(?:mode|(?:cpu|gpu)_dtype)",  # torch.get_autocast_gpu_dtype and its kin stand beside torch.cuda.amp
    r"FP16_Optimizer|network_to_half|scale_loss|master_params",  # Apex names behind a star import
    r"backward(?=[ \t]*\()",  # a training step in float32; only as a call, the word alone stands in many docstrings
    r"no_grad|inference_mode|eval(?=[ \t]*\()",  # an evaluation forward, which takes a region and no scaler
)
_WORDS = re.compile(rb"(?<![A-Za-z0-9_])(?:" + "|".join(WORDS).encode() + rb")(?![A-Za-z0-9_])")


def may_matter(data: bytes | mmap.mmap) -> bool:
    """Whether the bytes of a file hold any word that a migration could begin from."""
    return _WORDS.search(data) is not None


def word(identifier: str) -> re.Pattern[bytes]:
    """A pattern for `identifier` as a whole word in UTF-8 bytes."""
    # Bytes above 0x7f belong to non-ASCII letters: they continue an identifier.
    edge = rb"[A-Za-z0-9_\x80-\xff]"
    return re.compile(rb"(?<!" + edge + rb")" + re.escape(identifier.encode()) + rb"(?!" + edge + rb")")
