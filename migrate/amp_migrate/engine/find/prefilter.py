"""Which files can matter at all, decided on their text: reading is cheap, parsing is not.

A file with none of these words holds nothing to migrate, and neither does one that has them only in its comments and
docstrings. What is left may still hold nothing; that is found out after parsing. Evaluation code alone (`no_grad`,
`eval`) is no reason to parse: it changes only beside a training step, and half of all model code has it.
"""

from __future__ import annotations

import mmap
import re
from typing import TypeAlias

Bytes: TypeAlias = "bytes | mmap.mmap"

# Too short to be searched for within other words (`example`): torch.cuda.amp, apex.amp, and what comes from them.
WORDS = (b"amp", b"apex")
# Rare enough to be searched for anywhere, as in torch.get_autocast_gpu_dtype. They reach a file without `amp` in
# sight through a re-export of the project or a star import.
PARTS = (
    b"autocast",
    b"GradScaler",
    b"custom_fwd",
    b"custom_bwd",
    b"ApexMixedPrecisionPlugin",
    b"ApexOptimWrapper",
    b"FP16_Optimizer",
    b"network_to_half",
    b"scale_loss",
    b"master_params",
    b"fp16_opt_level",
)
# A training step in float32. Only as a call: the word alone stands in many docstrings, and what defines a `backward`
# is an operator, not a step.
_BACKWARD = re.compile(rb"(?<!def )\bbackward[ \t]*\(")
# One that gives gradients by hand, which `torch.autograd.grad` has taken.
_GIVING = re.compile(rb"\.grad[ \t]*=(?!=)")
# And only beside one of these: turtles and text cursors go backward, too.
_TRAINING = (b"torch", b"loss", b".step", b"zero_grad")
_STRINGS_AND_COMMENTS = re.compile(
    r"""(?P<comment>\#[^\n]*)
    | \"{3} [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* \"{3}
    | \'{3} [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* \'{3}
    | (?P<string> " [^"\\\n]* (?: \\. [^"\\\n]* )* " | ' [^'\\\n]* (?: \\. [^'\\\n]* )* ' )
    """,
    re.VERBOSE | re.DOTALL,
)
# What a string may name that is code all the same: an annotation, the attribute of a `getattr`, a lazy import.
_NAMED = re.compile(r"autocast|Apex|GradScaler|custom_[fb]wd|FP16_Optimizer|\bc(?:uda|pu)\.amp\b|\bapex\b")
_ATTRIBUTE = re.compile(r"getattr\([^()]*,\s*['\"]amp['\"]")
_TYPE_COMMENT = re.compile(r"#[ \t]*type:")
# A byte above 0x7f is a part of a letter beyond ASCII, and continues an identifier like any other letter.
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") | frozenset(range(0x80, 0x100))
# A file without any of these has no part in a step of another file that imports it; it may have old names to change.
STEP_SIGN = re.compile(r"\bbackward\s*\(|GradScaler|scale_loss|amp\.initialize|FP16_Optimizer")


def may_matter(data: Bytes) -> bool:
    """Whether the bytes of a file hold any word that a migration could begin from."""
    # `find` runs at the speed of memory; one regular expression of all the words would take thirty times as long.
    return (
        any(data.find(part) >= 0 for part in PARTS)
        or any(has_word(data, word) for word in WORDS)
        or (
            data.find(b"backward") >= 0
            and any(data.find(word) >= 0 for word in _TRAINING)
            and _BACKWARD.search(data) is not None
        )
        or (data.find(b"autograd") >= 0 and data.find(b".step") >= 0 and _GIVING.search(data) is not None)
    )


def holds_code(text: str) -> bool:
    """Whether a text that passed `may_matter` did so for its code, not for what it tells its reader."""
    named = False

    def without(match: re.Match[str]) -> str:
        nonlocal named
        if match["comment"]:
            named = named or _TYPE_COMMENT.match(match["comment"]) is not None
        elif match["string"]:
            named = named or _NAMED.search(match["string"]) is not None
        return ""

    code = _STRINGS_AND_COMMENTS.sub(without, text)
    return named or _ATTRIBUTE.search(text) is not None or may_matter(code.encode("utf-8", "surrogatepass"))


def has_word(data: Bytes, word: bytes) -> bool:
    """Whether `word` stands in the bytes as a whole identifier."""
    end = len(data)
    start = data.find(word)
    while start >= 0:
        after = start + len(word)
        if (start == 0 or data[start - 1] not in _LETTERS) and (after == end or data[after] not in _LETTERS):
            return True
        start = data.find(word, start + 1)
    return False
