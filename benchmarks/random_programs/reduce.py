"""A program that came out wrong, made as short as it can be while it still does."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping

from random_programs.judge import Judged

_BODIES = ("body", "orelse", "finalbody", "handlers")


def kind(judged: Judged) -> str:
    """What went wrong, without the figures: one word for the precision, and the first of what is said of it."""
    first = next(iter(judged.wrong.items()), None)
    if first is None:
        return "left, as an error of the tool" if judged.errors else ""
    precision, text = first
    what, _, rest = text.partition(":")
    if what == "error":
        what += rest.rpartition("/")[2].rstrip("0123456789")[:100]
    return f"{precision.value} {what.split()[0] if what.startswith('gradient') else what}"


def reduced(files: Mapping[str, str], judge: Callable[[Mapping[str, str]], Judged]) -> Mapping[str, str]:
    """The program without all that is not needed for it to go wrong in the same way."""
    wanted = kind(judge(files))
    assert wanted, "nothing is wrong with it"
    going_on = True
    while going_on:
        going_on = False
        for shorter in _shorter(files):
            if kind(judge(shorter)) == wanted:
                files, going_on = shorter, True
                break
    return files


def _shorter(files: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Programs that lack one statement, or one block around statements; the largest pieces first."""
    for name, text in files.items():
        if name != "train.py" and len(text.splitlines()) < 2:
            continue
        count = sum(1 for _ in _places(ast.parse(text)))
        for drop in (True, False):
            for number in range(count):
                module = ast.parse(text)
                owner, field, at = list(_places(module))[number]
                body = getattr(owner, field)
                node = body[at]
                inner = [*getattr(node, "body", []), *getattr(node, "finalbody", [])]
                if not drop and (not inner or not isinstance(node, (ast.If, ast.With, ast.Try, ast.For))):
                    continue
                body[at : at + 1] = [] if drop else copy.deepcopy(inner)
                if not body and field == "body" and not isinstance(owner, ast.Module):
                    body.append(ast.Pass())
                try:
                    shorter = ast.unparse(ast.fix_missing_locations(module)) + "\n"
                    compile(shorter, name, "exec")
                except (SyntaxError, ValueError):
                    continue
                if shorter != text:
                    yield {**files, name: shorter}


def _places(module: ast.Module) -> Iterator[tuple[ast.AST, str, int]]:
    for node in ast.walk(module):
        for field in _BODIES:
            body = getattr(node, field, None)
            if isinstance(body, list):
                for at, each in enumerate(body):
                    if isinstance(each, (ast.stmt, ast.excepthandler)):
                        yield node, field, at
