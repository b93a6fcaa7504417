"""What only a person at a terminal gets: colour."""

from __future__ import annotations

_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def print_diff(diff: str) -> None:
    """Print a unified diff to the terminal in colours, as far as the terminal and `NO_COLOR` allow."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for line in diff.split("\n")[:-1]:
        style = next((style for start, style in _STYLES if line.startswith(start)), "")
        console.print(Text(line.rstrip("\r"), style=style), soft_wrap=True)
