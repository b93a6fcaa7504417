"""Comments by which a file says what is not to be touched in it.

`# amp-migrate: ignore[AMP501]` at the end of a line, or on a line of its own above it, leaves the statement as it is;
`# amp-migrate: ignore` does so for all rules; `# amp-migrate: skip-file` leaves the whole file.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache

from amp_migrate.frozen import frozen
from amp_migrate.settings import matches

_PRAGMA = re.compile(r"#\s*amp-migrate:\s*(?:(?P<skip>skip-file)\b|ignore\b(?:\[(?P<codes>[^\]]*)\])?)")
# The comment above the code of each cell, where a notebook is one module.
CELL = "# amp-migrate: cell "
_ALL = ("AMP",)
_LAYOUT = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING})


@frozen
class Pragmas:
    """What the comments of one file ask for.

    Attributes:
        skips_file: whether the whole file is to be left as it is.
        ignored: for each line, the codes (or beginnings of codes) that do not apply to it.
    """

    skips_file: bool = False
    ignored: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def ignores(self, code: str, line: int) -> bool:
        """Whether the rule with this code is to leave the statement on a line alone."""
        return any(matches(code, prefix) for prefix in self.ignored.get(line, ()))


@lru_cache(maxsize=8)  # one file is asked about many times in a row
def read_pragmas(text: str) -> Pragmas:
    """The pragmas in the comments of a text; a string that looks like one is none."""
    if not _PRAGMA.search(text):
        return Pragmas()
    skips_file = False
    ignored: dict[int, tuple[str, ...]] = {}
    for first, last, comments in _statements(text):
        codes: tuple[str, ...] = ()
        for comment in comments:
            for pragma in _PRAGMA.finditer(comment):
                if pragma["skip"]:
                    skips_file = True
                elif pragma["codes"] is None:
                    codes += _ALL
                else:
                    codes += tuple(code.strip() for code in pragma["codes"].split(",") if code.strip())
        if codes:
            ignored.update((line, codes) for line in range(first, last + 1))
    return Pragmas(skips_file, ignored)


def _statements(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """First and last line of every logical line, with the comments in it and on the lines directly above it."""
    first = 0
    comments: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.append(token.string)
            if token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
                # The comment at the end of a line comes before the token that ends it.
                yield first or token.start[0], token.start[0], comments
                first, comments = 0, []
            elif token.type not in _LAYOUT and not first:
                first = token.start[0]
    except (tokenize.TokenError, SyntaxError):  # a syntax that is newer than the running Python
        return
