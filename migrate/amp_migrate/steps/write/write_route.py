"""The scaler's own way as code: where it is made, and every parameter and argument it travels through."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.analysis.arguments.argument_binding import parameter
from amp_migrate.plan.code import code, listed, plain
from amp_migrate.plan.edit import AddArgument, AddParameter, Edit
from amp_migrate.settings import Dtype
from amp_migrate.steps.model.route import Creation, NewArgument, NewParameter, Route, Ways
from amp_migrate.wishes import Unwanted, Wishes
from amp_migrate.write.editor import Editor


def write_ways(ways: Ways, editor: Editor, dtype: Dtype) -> Iterator[Edit]:
    """The edits that get scalers to their steps.

    Args:
        editor: the editor of any file, for the rule that the steps are moved by.
    """
    for creation in ways.creations.values():
        yield write_creation(editor.of(creation.file), creation, dtype)
        if creation.declared is not None:
            last = creation.declared.names[-1].name
            yield editor.of(creation.file).replace(last, f"{last.value}, {creation.target}")
    for new in ways.parameters.values():
        yield _write_parameter(editor.of(new.function.file), new)
    yield from write_arguments(ways, editor)


def write_arguments(ways: Ways, editor: Editor) -> Iterator[Edit]:
    """The edits by which calls pass scalers on."""
    return (write_argument(editor.of(each.site.file), each) for each in ways.arguments.values())


def unwanted_way(route: Route, editor: Editor, wishes: Wishes) -> Unwanted | None:
    """What is to be left on the way of a scaler; None where nothing is."""
    ways = Ways.of([route])
    return wishes.unwanted(write_ways(ways, editor, Dtype.FP16)) if wishes.are_asked(ways.trees) else None


def write_creation(editor: Editor, creation: Creation, dtype: Dtype) -> Edit:
    """The edit that makes a scaler, or keeps the one that is given."""
    if creation.given is not None:
        kept = code("{} = {}", creation.target, creation.given)
        return editor.before(creation.home, kept) if creation.before else editor.after(creation.home, kept)
    conditions = [] if creation.enabled is None else [plain(creation.enabled)]
    if dtype is Dtype.AUTO:
        conditions.append(editor.is_float16(creation.home))
    switch = (code("enabled={}", listed(conditions, " and ")),) if conditions else ()
    scaler = editor.new_scaler(creation.home, (*creation.arguments, *switch))
    line = code("{} = {}", creation.target, scaler)
    return editor.before(creation.home, line) if creation.before else editor.after(creation.home, line)


def _write_parameter(editor: Editor, new: NewParameter) -> Edit:
    node = new.function.node
    after = parameter(node, new.after)
    assert after is not None, f"no parameter {new.after}"
    is_annotated = new.is_annotated or after.annotation is not None
    annotation = editor.amp("GradScaler", node) if is_annotated else None
    default = None if after.default is None else plain("None")
    return editor.edit(node, AddParameter(new.name, after, annotation, default))


def write_argument(editor: Editor, new: NewArgument) -> Edit:
    """The edit that writes an argument into a call."""
    call = new.site.call
    after = call.args[new.after] if call.args else None
    return editor.edit(call, AddArgument(plain(new.value), new.name if new.by_keyword else "", after))
