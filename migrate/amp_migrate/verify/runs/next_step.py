"""What to do about a script that did not run here, where what it said tells."""

from __future__ import annotations

import re

# What the exception's class and message, or the last line of the script's error output, say; and the next step.
_STEPS = (
    (
        r"^EOFError",
        "runs have nothing to read: give the script its answers as options behind `--`",
    ),
    (
        r"^ModuleNotFoundError",
        "install it for the Python that runs the scripts, or name another one with --python",
    ),
    (
        r"Dataset not found|Couldn't find any class folder|Error downloading|URLError|HTTPError|ConnectionError|"
        r"Name or service not known|name resolution",
        "--synthetic-data makes up torchvision's data sets; other data must be on the disk",
    ),
    (
        r"^FileNotFoundError",
        "relative paths begin at the folder that amp-verify is started in; --synthetic-data makes up torchvision's "
        "data sets",
    ),
    (
        r"error: (?:the following arguments are required|unrecognized arguments|argument )|"
        r"^exit status 2: Error: (?:Missing|No such) ",
        "the script's own options go behind `--`",
    ),
)


def next_step(reason: str) -> str:
    """The next step after a failure; empty where there is none to name.

    Args:
        reason: `class: message` of an exception, or the exit status and the last line of the error output.
    """
    return next((step for pattern, step in _STEPS if re.search(pattern, reason, re.IGNORECASE)), "")
