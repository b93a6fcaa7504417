"""Texts that tell people to install Apex where it is missing, once `amp_shim` is what they lack."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.plan.edit import Edit
from amp_migrate.trees.nodes import find
from amp_migrate.write.editor import Editor

_PACKAGE = "amp-migrate[shim]"
# What an option is said to be (`specified as apex`) is its value, which goes on being that.
_VALUE = re.compile(r"\bas (?:nvidia(?:'s|/|-| )*)?apex\b", re.IGNORECASE)
_APEX = re.compile(r"(?<![\w-])(?<!\bas )(?:nvidia(?:'s|/|-| )*)?\bapex(?:\.amp)?\b(?!-\w)", re.IGNORECASE)
_ADDRESS = re.compile(
    r"(?:,?(?: please)? (?:from|at|see|via|visit|(?:refer|go) to):?)? ?[(<]?https?://[^\s'\"]*apex[\w/#-]*(?:\.git)?[)>]?",
    re.IGNORECASE,
)
_IS_MISSING = re.compile(r"install|import|available|found|missing|requir|need", re.IGNORECASE)
# What the shim does not stand for: Apex's kernels, and the flags that it is built with.
_OF_APEX = re.compile(r"apex\.(?!amp\b)\w|Fused|LAMB| --\w", re.IGNORECASE)
# What is told of something else, too: the sentence may not be true of the shim, and it is not for us to write another.
_OF_MORE = re.compile(r"\bnative|pytorch|\btorch\b|upgrade|\bor\b", re.IGNORECASE)


def write_texts(editor: Editor) -> Iterator[Edit]:
    """The edits that name the shim's package in what is raised, asserted or printed of a missing Apex."""
    for node, text in _texts(editor.file):
        plain = _ADDRESS.sub("", text)
        is_of_more = _OF_APEX.search(plain) or _OF_MORE.search(plain)
        is_command = "apex" in _APEX.sub("", _VALUE.sub("", plain)).lower()  # `tool install-apex`, which stays so
        if _APEX.search(plain) and _IS_MISSING.search(plain) and not (is_of_more or is_command):
            yield from _rewritten(editor, node, _APEX.sub(_PACKAGE, plain))


def _rewritten(editor: Editor, node: cst.BaseExpression, text: str) -> Iterator[Edit]:
    """The edits that make a literal another; where it is written in parts, each is one still, if that says the same."""
    parts = list(find(node, cst.SimpleString))
    named = [_APEX.sub(_PACKAGE, each.raw_value) for each in parts]
    prefix, quote = parts[0].prefix, parts[0].quote
    if f"{prefix}{quote}{''.join(named)}{quote}" != text:
        yield editor.replace(node, text)
        return
    for each, new in zip(parts, named, strict=True):
        if new != each.raw_value:
            yield editor.replace(each, f"{prefix}{quote}{new}{quote}")


def _texts(file: File) -> Iterator[tuple[cst.BaseExpression, str]]:
    """The strings of a file that somebody is told while it runs, as literals; the help of an option is none."""
    for node in file.tree.every(cst.Raise, cst.Assert, cst.Expr):
        told: list[cst.CSTNode | None] = []
        if isinstance(node, cst.Raise):
            told = [node.exc]
        elif isinstance(node, cst.Assert):
            told = [node.msg]
        elif isinstance(node.value, cst.Call):
            told = [arg.value for arg in node.value.args if arg.keyword is None]
        for each in told:
            yield from () if each is None else _literals(each)


def _literals(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, str]]:
    """The plain strings in an expression; those that stand beside each other are one, if they are spelled alike."""
    parts: set[cst.CSTNode] = set()
    for whole in find(node, cst.ConcatenatedString):
        strings = list(find(whole, cst.SimpleString))
        alike = {(each.prefix, each.quote) for each in strings}
        is_plain = not any(True for _ in find(whole, cst.FormattedString))
        if whole not in parts and is_plain and len(alike) == 1:
            ((prefix, quote),) = alike
            yield whole, f"{prefix}{quote}{''.join(each.raw_value for each in strings)}{quote}"
        parts.update((*strings, *find(whole, cst.ConcatenatedString)))
    yield from ((each, each.value) for each in find(node, cst.SimpleString) if each not in parts)
