"""From a source to its LibCST tree, with every way to fail turned into one line that names the place."""

from __future__ import annotations

import ast
import io
import re
import symtable
import sys
import tokenize
import warnings
from typing import TYPE_CHECKING

from amp_migrate.engine.parts.work import Work, count, count_lines
from amp_migrate.engine.source import Source, SourceError

if TYPE_CHECKING:
    import libcst

# Lines that only Python 2 accepts (the running Python refused them already).
_PYTHON2 = re.compile(
    r"""^[ \t]*(?:
        print\b[ \t]*(?:["'\w%`]|$)       # print "x", print x
      | except[ \t]+[\w.]+[ \t]*,[ \t]*[a-z_]\w*[ \t]*:  # `except A, B:` with two classes is Python 3.14
      | except[ \t]*\([^)]*\)[ \t]*,[ \t]*\w+[ \t]*:
      | raise[ \t]+[\w.]+[ \t]*,
      | exec[ \t]+["'\w]
    )""",
    re.VERBOSE,
)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
MIXED_INDENTS = "indents are of tabs and of spaces"
_PYTHON2_FACT = "looks like Python 2"
_TOO_DEEP = "nested too deeply to be parsed"
# What CPython's own tokenizer allows; LibCST's native parser has no limit and would overflow the stack.
_BRACKETS_LIMIT = 200
# What Python 3.11 and newer say is too deep, by their limit of recursion; Python 3.10 has none for attributes, which
# LibCST takes quadratic time for.
_DEPTH_LIMIT = 2000


def parse(source: Source) -> libcst.Module:
    """The LibCST tree of a file.

    Raises:
        SourceError: the text does not parse; it says where, and that it looks like Python 2 where it does.
    """
    import libcst

    refusal = syntax_error(source.text)
    if refusal is not None:
        if refusal.message.startswith((_TOO_DEEP, _PYTHON2_FACT)):
            raise refusal
        if _bracket_depth(source.text) > _BRACKETS_LIMIT:
            raise SourceError(_TOO_DEEP, refusal.line, refusal.column)
    count(Work.LIBCST_FILES)
    count_lines(Work.LIBCST, source.text)
    try:
        # LibCST has the last word: it may know a syntax that is newer than the Python this runs on.
        return libcst.parse_module(source.text)
    except libcst.ParserSyntaxError as error:
        raise refusal or _from_libcst(error, source.text) from None
    except RecursionError:
        raise SourceError(_TOO_DEEP) from None


def parse_to_read(source: Source) -> libcst.Module | None:
    """The tree of a file that is refused for its indents alone, as if tabs were spaces: to read, and not to write."""
    import libcst

    if syntax_error(source.text) is not None:
        return None
    try:
        return libcst.parse_module(_INDENT.sub(lambda indent: indent[0].expandtabs(), source.text))
    except (libcst.ParserSyntaxError, RecursionError):
        return None


def parses(source: Source) -> bool:
    """Whether a file parses, by Python's own parser, which makes no tree of Python objects here.

    That takes half the time of `ast.parse`, and a twentieth of LibCST's. False only says that `parse` is to
    have the last word.
    """
    count_lines(Work.LOOKED_AT, source.text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(source.text, source.name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def syntax_error(text: str) -> SourceError | None:
    """Why the running Python cannot parse `text`; None when it can."""
    count_lines(Work.AST, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in the user's strings
            tree = ast.parse(text)
        if sys.version_info < (3, 11) and _is_deep(tree):
            return SourceError(_TOO_DEEP)
    except SyntaxError as error:
        line, column = error.lineno or 0, max(error.offset or 0, 0)
        if "too many nested" in error.msg:
            return SourceError(_TOO_DEEP, line, column)
        if _is_python2(text, line):
            hint = "migrate it to Python 3 first, for example with 2to3"
            return SourceError(f"{_PYTHON2_FACT}: {error.msg}", line, column, hint)
        return SourceError(f"does not parse: {error.msg}", line, column)
    except (RecursionError, MemoryError):
        return SourceError(_TOO_DEEP)
    except ValueError as error:  # lone surrogates and the like
        return SourceError(f"does not parse: {error}")
    return None


def _is_deep(tree: ast.AST) -> bool:
    """Whether a tree is deeper than Python 3.11 would have made it."""
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth > _DEPTH_LIMIT


def _is_python2(text: str, line: int) -> bool:
    lines = text.splitlines()
    return 0 < line <= len(lines) and _PYTHON2.match(lines[line - 1]) is not None


def _from_libcst(error: libcst.ParserSyntaxError, text: str) -> SourceError:
    mixed = _mixed_indent(text)
    if mixed:
        # A tab goes on to the next eighth column, for Python; for LibCST it is one character.
        return SourceError(MIXED_INDENTS, mixed, 1, "expand the tabs of this file")
    reason = str(error.message).strip().splitlines()[0]
    return SourceError(f"does not parse: {reason}", error.raw_line, error.raw_column + 1)


def _mixed_indent(text: str) -> int:
    """The first line of a block whose indent mixes the two, or begins otherwise than that of the block around; or 0."""
    around = [""]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.INDENT:
            if not token.string.startswith(around[-1]) or len(set(token.string)) > 1:
                return token.start[0]
            around.append(token.string)
        elif token.type == tokenize.DEDENT:
            around.pop()
    return 0


def _bracket_depth(text: str) -> int:
    """An upper bound of how deep brackets nest: brackets in strings and comments count as well."""
    depth = deepest = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest
