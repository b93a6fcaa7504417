"""Nothing is written before it is checked here: what a migrated text must be, whatever rule made it."""

from __future__ import annotations

import builtins
import symtable
import warnings
from collections.abc import Iterator

from amp_migrate.engine.source import Source, SourceError
from amp_migrate.engine.texts.parse import parse, syntax_error

_MODULE_NAMES = frozenset(dir(builtins)) | {
    "__annotations__", "__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__",
    "__path__", "__spec__",
}  # fmt: skip


class Refused(Exception):
    """A migrated text that must not be written; the message says what is wrong with it."""


def check_text(source: Source, after: str) -> None:
    """Refuse `after` as the new text of `source` when it is not a program that the old one was.

    It must be writable in the file's encoding, parse, compile if the old text did, and use no name that is bound
    nowhere unless the old text used it so as well. All else is for `prove/` to say, of all files at once.

    Raises:
        Refused: it is not.
    """
    try:
        source.encode(after)
    except SourceError as error:
        raise Refused(error.message) from None
    except UnicodeEncodeError as error:
        raise Refused(f"{error.object[error.start]!r} cannot be written in {source.encoding}") from None
    if not _compiles(source.text, source.name):
        # The file uses a syntax that is newer than the running Python: LibCST is the only judge at hand.
        try:
            parse(source.with_text(after))
        except SourceError as error:
            raise Refused(_at_line(error)) from None
        return
    wrong = syntax_error(after)
    if wrong is not None:
        raise Refused(_at_line(wrong))
    if not _compiles(after, source.name):
        raise Refused("the result does not compile")
    new = unbound_names(after) - unbound_names(source.text)
    if new:
        raise Refused(f"the result uses {', '.join(sorted(new))}, which nothing binds")


def unbound_names(text: str) -> frozenset[str]:
    """The names that a module loads and that neither it nor Python binds.

    Names that only a star import can bind are among them: what a migration adds must be bound in plain sight.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        top = symtable.symtable(text, "<module>", "exec")
    loaded: set[str] = set()
    bound: set[str] = set(_MODULE_NAMES)
    for table in _tables(top):
        for symbol in table.get_symbols():
            at_module = table is top or symbol.is_global()
            if not at_module:
                continue
            if symbol.is_referenced():
                loaded.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported():
                bound.add(symbol.get_name())
    return frozenset(loaded - bound)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    stack = [table]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(current.get_children())


def _compiles(text: str, name: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def _at_line(error: SourceError) -> str:
    return f"the result {error.message} (line {error.line} of the result)"
