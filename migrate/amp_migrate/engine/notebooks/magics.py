"""IPython's own lines in a cell (`%matplotlib inline`, `!pip install x`, `model?`) as Python, and back.

They are no Python, so that a cell with them does not parse. Each is replaced by a statement that does nothing and names
the line it stands for.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings

# Cell magics whose cell is still Python; the body of any other (`%%bash`, `%%html`) is not.
_PYTHON_CELLS = frozenset({"capture", "prun", "time", "timeit"})
_CELL_MAGIC = re.compile(r"\s*%%(\w*)([^\n]*)\n?")
# Cell magics that write their cell to a file instead of running it.
_WRITING_CELLS = frozenset({"file", "writefile"})
_LINE = re.compile(
    r"(?P<indent>[ \t]*)(?:(?P<target>[\w.,\[\] \t]+=[ \t]*)?[%!].*|\?{1,2}[\w.]+[ \t]*$|[\w.]+\?{1,2}[ \t]*$)",
    re.DOTALL,
)
# Line magics that IPython takes without a `%`, too, where the line is no Python (`automagic`, which is on at first).
_AUTOMAGIC = re.compile(
    r"(?P<indent>)(?P<target>)(?:cat|cd|conda|cp|env|less|ll|load_ext|ls|man|matplotlib|mkdir|more|mv|pip|pylab|pwd"
    r"|reload_ext|rm|rmdir|run|time|timeit)[ \t]+(?!(?:and|if|in|is|not|or)\b)(?:-\w|[\w/~.\"'*]).*",
    re.DOTALL,
)
_MARK = "  # amp-migrate: magic "
_PLACEHOLDER = re.compile(rf"(?:pass|None){_MARK}(\d+)")
_BLANKS = "  # amp-migrate: blanks "
_FIRST_LINE = re.compile(r"(?P<before>(?:[ \t]*\r?\n)*)(?P<blanks>[ \t]+)(?P<code>[^\r\n]+)")
_WITHOUT_BLANKS = re.compile(rf"^(?P<code>.*){_BLANKS}(?P<number>\d+)", re.MULTILINE)


def is_python(cell: str) -> bool:
    """Whether a cell holds Python, magics apart."""
    return _other_magic(cell) is None


def written_script(cell: str) -> tuple[str, str] | None:
    """The name and the text of the Python file that a cell writes (`%%writefile train.py`); None for any other cell."""
    magic = _other_magic(cell)
    words = magic[2].split() if magic is not None and magic[1] in _WRITING_CELLS else []
    name = words[-1].strip("\"'") if words else ""
    return (name, cell[magic.end() :]) if magic is not None and name.endswith(".py") else None


def _other_magic(cell: str) -> re.Match[str] | None:
    """The magic of a cell that is run as no Python here; None where all of it is Python."""
    start = 0
    while (magic := _CELL_MAGIC.match(cell, start)) is not None:
        if magic[1] not in _PYTHON_CELLS:
            return magic
        start = magic.end()  # what follows is a cell of its own: `%%time`, then `%%bash`
    return None


def hide(cell: str, kept: list[str]) -> str:
    """A cell with a placeholder for every line that is IPython's; what they stand for is added to `kept`.

    So are the blanks before its first line, which IPython does not mind.
    """
    if _parses(cell):
        return cell
    hidden = _without_magics(cell, kept)
    first = _FIRST_LINE.match(hidden)
    if first is None or not _is_statement_start(first["code"]) or _parses(hidden):
        return hidden
    plain = f"{first['before']}{first['code']}{_BLANKS}{len(kept)}{hidden[first.end() :]}"
    if not _parses(plain):
        return hidden
    kept.append(first["blanks"])
    return plain


def _without_magics(cell: str, kept: list[str]) -> str:
    out: list[str] = []
    lines = iter(cell.splitlines(keepends=True))
    for line in lines:
        match = _LINE.match(line) or (None if _parses(line) else _AUTOMAGIC.match(line))
        if match is None or not _is_statement_start("".join(out)):
            out.append(line)
            continue
        whole = line
        while whole.rstrip("\r\n").endswith("\\") and (more := next(lines, "")):
            whole += more  # a shell command goes on in the next line
        body = whole.rstrip("\r\n")
        # IPython does not mind blanks before the first line of a cell.
        indent = match["indent"] if "".join(out).strip() or match["target"] else ""
        head = indent + (match["target"] or "")
        out.append(f"{head}{'None' if match['target'] else 'pass'}{_MARK}{len(kept)}{whole[len(body) :]}")
        kept.append(body[len(head) :])
    return "".join(out)


def show(cell: str, kept: list[str]) -> str:
    """The inverse of `hide`.

    Raises:
        ValueError: a placeholder was changed.
    """

    def with_blanks(line: re.Match[str]) -> str:
        is_first = not cell[: line.start()].strip()
        return f"{kept[int(line['number'])] if is_first else ''}{line['code']}"

    shown = _PLACEHOLDER.sub(lambda match: kept[int(match[1])], _WITHOUT_BLANKS.sub(with_blanks, cell))
    if _MARK in shown or _BLANKS in shown:
        raise ValueError("a line that is IPython's was changed")
    return shown


def _is_statement_start(before: str) -> bool:
    """Whether a line that follows `before` begins a statement, and does not go on with a string or a bracket."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(before).readline):
            pass
    except (tokenize.TokenError, SyntaxError) as error:
        return "EOF in multi-line" not in str(error) and "unterminated" not in str(error)
    return not before.rstrip("\r\n").endswith("\\")


def _parses(cell: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
