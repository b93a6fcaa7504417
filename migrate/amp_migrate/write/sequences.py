"""Lists of arguments, parameters and dictionary entries with other items, in the layout that they have already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import libcst as cst

Item = TypeVar("Item", cst.Arg, cst.Param, cst.BaseDictElement, cst.BaseElement, cst.WithItem)

_SPACED = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
# Where an item keeps the white space between itself and a closing bracket on a line of its own.
_TRAILING_SPACE = {cst.Arg: "whitespace_after_arg", cst.Param: "whitespace_after_param"}


def insert_after(
    items: Sequence[Item], index: int, new: Item, opening: cst.BaseParenthesizableWhitespace | None = None
) -> list[Item]:
    """`items` with `new` behind the one at `index`; line breaks and trailing commas as its neighbours have them.

    Args:
        opening: the white space behind the opening bracket, which tells how a single item is laid out.
    """
    out = list(items)
    current = out[index]
    # Where a line has several, the new one is on that of the one before it.
    beside = next((each.comma for each in out[:index] if not _is_broken(each.comma)), None)
    if index + 1 < len(out):
        new = new.with_changes(comma=_without_comment(current.comma) if beside is None else current.comma)
        current = current if beside is None else current.with_changes(comma=beside)
    else:
        before = beside or (out[index - 1].comma if index else _comma_like(opening))
        separator = before if isinstance(before, cst.Comma) else _SPACED
        new = new.with_changes(comma=_without_comment(current.comma) if _is_broken(separator) else current.comma)
        if not isinstance(current.comma, cst.Comma):
            current = current.with_changes(comma=_without_comment(separator))
        else:
            current = current.with_changes(comma=_with_break_of(current.comma, separator))
        space = _TRAILING_SPACE.get(type(current))
        if space is not None:
            new = new.with_changes(**{space: getattr(current, space)})
            current = current.with_changes(**{space: cst.SimpleWhitespace("")})
    out[index : index + 1] = [current, new]
    return out


def _is_broken(comma: cst.Comma | cst.MaybeSentinel) -> bool:
    return isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace)


def _comma_like(opening: cst.BaseParenthesizableWhitespace | None) -> cst.Comma:
    """A comma with the line break of an opening bracket behind it, if it has one."""
    if not isinstance(opening, cst.ParenthesizedWhitespace):
        return _SPACED
    comma = _without_comment(cst.Comma(whitespace_after=opening))
    assert isinstance(comma, cst.Comma)
    return comma


def _without_comment(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma | cst.MaybeSentinel:
    """The same break, without a comment that belongs to the item in front."""
    if isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace):
        first = comma.whitespace_after.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
        return comma.with_changes(
            whitespace_after=comma.whitespace_after.with_changes(first_line=first, empty_lines=[])
        )
    return comma


def _with_break_of(comma: cst.Comma, separator: cst.Comma) -> cst.Comma:
    """A trailing comma turned into one between items: a comment behind it stays with its item."""
    after = comma.whitespace_after
    if isinstance(after, cst.ParenthesizedWhitespace) and isinstance(
        separator.whitespace_after, cst.ParenthesizedWhitespace
    ):
        between = separator.whitespace_after.with_changes(first_line=after.first_line, empty_lines=[])
        return comma.with_changes(whitespace_after=between)
    return comma.with_changes(whitespace_after=separator.whitespace_after)


def remove_at(items: Sequence[Item], index: int) -> list[Item]:
    """`items` without the one at `index`; the one that becomes the last ends as the old last did, its comment kept."""
    out = list(items)
    removed = out.pop(index)
    if index == len(out) and out:
        comment = _comment_behind(out[-1].comma)
        comma = removed.comma
        if isinstance(comma, cst.Comma):
            comma = comma.with_changes(whitespace_after=_with_comment(comma.whitespace_after, comment))
        changes: dict[str, cst.CSTNode | cst.MaybeSentinel] = {"comma": comma}
        space = _TRAILING_SPACE.get(type(removed))
        if space is not None:
            after = getattr(removed, space)
            changes[space] = after if isinstance(comma, cst.Comma) else _with_comment(after, comment)
        out[-1] = out[-1].with_changes(**changes)
    return out


def _comment_behind(comma: cst.Comma | cst.MaybeSentinel) -> cst.TrailingWhitespace | None:
    """The end of the line behind a comma, where a comment stands there."""
    after = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    has_comment = isinstance(after, cst.ParenthesizedWhitespace) and after.first_line.comment is not None
    return after.first_line if has_comment and isinstance(after, cst.ParenthesizedWhitespace) else None


def _with_comment(
    space: cst.BaseParenthesizableWhitespace, comment: cst.TrailingWhitespace | None
) -> cst.BaseParenthesizableWhitespace:
    """White space with a line break that has a comment before it; any other has no room for one."""
    if comment is None or not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=comment)


def laid_out(new: Sequence[tuple[cst.Arg, cst.Arg | None]], old: Sequence[cst.Arg]) -> list[cst.Arg]:
    """New arguments of a call with commas as it had them: one argument a line stays one a line, as does a last comma.

    Args:
        new: the arguments, each with the one that it was; None for one that is new.
        old: all that there were.
    """
    if not old:
        return [*(arg.with_changes(comma=_SPACED) for arg, _ in new[:-1]), *(arg for arg, _ in new[-1:])]
    separator = _break(old[0].comma)
    end = old[-1]
    out: list[cst.Arg] = []
    for arg, was in new[:-1]:
        keeps = (
            was is not None and isinstance(arg.comma, cst.Comma) and not (was is end and not _comment_behind(end.comma))
        )
        comma = arg.comma if keeps else separator
        out.append(arg.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace("")))
    last, was = new[-1]
    if was is not end:  # a new argument ends the call as the old last one did; comments stay where they were
        trailing = _break(end.comma) if isinstance(end.comma, cst.Comma) else end.comma
        last = last.with_changes(comma=trailing, whitespace_after_arg=end.whitespace_after_arg)
    return [*out, last]


def _break(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma:
    """A comma with the line break of another, and without its comment."""
    bare = _without_comment(comma)
    is_broken = isinstance(bare, cst.Comma) and isinstance(bare.whitespace_after, cst.ParenthesizedWhitespace)
    return cst.Comma(whitespace_after=bare.whitespace_after) if is_broken and isinstance(bare, cst.Comma) else _SPACED
