"""Checkpoints: the scaler's state is saved beside the optimizer's, and restored where that is, old files included."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import code, plain
from amp_migrate.plan.edit import AddArgument, AddEntry, Edit
from amp_migrate.steps.model.route import SCALER_NAMES
from amp_migrate.steps.scaler.made_late import MadeLate, may_be_repeated, tests_of
from amp_migrate.trees.nodes import Statement, find, is_constant, subscript_key, written_string
from amp_migrate.write.editor import Editor, guarded

KEY = "scaler"
_STATE_OF_OPTIMIZER = re.compile(r"(?:optimizer|optim|opt)(_?state(?:_?dict)?)", re.IGNORECASE)


@frozen
class SavedEntry:
    """A place where an optimizer's state goes into a checkpoint.

    Attributes:
        optimizer: the optimizer.
        holder: the dictionary display, the `dict(...)` call, or the assignment `state["optimizer"] = ...`.
        index: the entry's place in the holder; 0 for an assignment.
        place: what tells checkpoints apart: the holder, or for an assignment the block and the name assigned into.
        around: what stands before and behind a state that is saved at times, as `None if is_last else `.
    """

    optimizer: cst.BaseExpression
    holder: cst.Dict | cst.Call | cst.Assign
    index: int
    place: object
    around: tuple[str, str] = ("", "")

    @property
    def key(self) -> str:
        """The key that the optimizer's state is saved by; empty where it is computed."""
        if isinstance(self.holder, cst.Assign):
            return written_string(subscript_key(cst.ensure_type(self.holder.targets[0].target, cst.Subscript))) or ""
        if isinstance(self.holder, cst.Call):
            keyword = self.holder.args[self.index].keyword
            return "" if keyword is None else keyword.value
        return written_string(cst.ensure_type(self.holder.elements[self.index], cst.DictElement).key) or ""


@frozen
class RestoredEntry:
    """A statement that restores an optimizer from an entry of a checkpoint, and the checkpoint."""

    optimizer: cst.BaseExpression
    statement: Statement
    checkpoint: cst.BaseExpression
    string: cst.SimpleString

    @property
    def key(self) -> str:
        """The key that the optimizer's state is restored by."""
        return written_string(self.string) or ""


def key_beside(
    optimizers: Iterable[str],
    files: Iterable[File] = (),
    keyed: Iterable[File] = (),
    names: Sequence[str] = SCALER_NAMES,
) -> str:
    """The scaler's key, ended as those of all optimizers are: `scaler_state_dict` beside `optimizer_state_dict`.

    Where entries may become attributes by their keys, it is no name of theirs: the state would take the scaler's place.
    Nor is it what something else, as a loss that is called a scaler, is saved by.

    Args:
        files: those that make the scaler, save it or load it.
        keyed: those in which checkpoints have keys.
        names: what the scaler may be called.
    """
    ends = {found[1] if (found := _STATE_OF_OPTIMIZER.fullmatch(key)) else "" for key in optimizers}
    end = ends.pop() if len(ends) == 1 else ""  # one key for all, or what is saved is not what is restored
    end = end or ("_state" if any(map(_sets_attributes_by_key, files)) else "")
    taken = set().union(*map(_keys, keyed))
    return next((name + end for name in names if name + end not in taken), names[0] + end)


def _keys(file: File) -> Iterator[str]:
    """What may be a key in a file: every string, and the keywords of `dict(...)`."""
    yield from filter(None, map(written_string, file.tree.every(cst.SimpleString)))
    for call in file.calls:
        if isinstance(call.func, cst.Name) and call.func.value == "dict":
            yield from (arg.keyword.value for arg in call.args if arg.keyword is not None)


def _sets_attributes_by_key(file: File) -> bool:
    """Whether a file may give an object attributes whose names it does not say: `setattr(self, key, value)`."""
    named = (call for call in file.calls if isinstance(call.func, cst.Name) and call.func.value == "setattr")
    return "__dict__" in file.uses or any(len(each.args) > 1 and not _is_written(each.args[1]) for each in named)


def _is_written(arg: cst.Arg) -> bool:
    return written_string(arg.value) is not None


def saved_entries(file: File) -> Iterator[SavedEntry]:
    """Every entry of the form `"optimizer": optimizer.state_dict()`, or of a name that stands for that state."""
    for call in file.calls:
        optimizer = _state_owner(file, call, "state_dict")
        if optimizer is None or call.args:
            continue
        for state in (call, *uses_of_name(file, call)):
            around = _around(file, state)
            entry = _saved_entry(file, optimizer, state if around is None else file.tree.parents[state])
            if entry is not None:
                yield entry if around is None else replace(entry, around=around)


def _around(file: File, state: cst.CSTNode) -> tuple[str, str] | None:
    """What stands around a state that is saved at times, and None at others: `None if is_last else `."""
    chosen = file.tree.parents[state]
    if not isinstance(chosen, cst.IfExp) or not may_be_repeated(file, chosen.test):
        return None
    test = file.tree.code(chosen.test)
    if chosen.orelse is state and is_constant(chosen.body, "None"):
        return f"None if {test} else ", ""
    return ("", f" if {test} else None") if chosen.body is state and is_constant(chosen.orelse, "None") else None


def _saved_entry(file: File, optimizer: cst.BaseExpression, state: cst.CSTNode) -> SavedEntry | None:
    parent = file.tree.parents[state]
    if isinstance(parent, cst.DictElement) and parent.value is state:
        holder = file.tree.parents[parent]
        if isinstance(holder, cst.Dict):
            return SavedEntry(optimizer, holder, list(holder.elements).index(parent), holder)
    elif isinstance(parent, cst.Arg) and parent.keyword is not None:
        made = file.tree.parents[parent]
        if isinstance(made, cst.Call) and isinstance(made.func, cst.Name) and made.func.value == "dict":
            return SavedEntry(optimizer, made, list(made.args).index(parent), made)
    elif isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Subscript):
        into = file.tree.code(parent.targets[0].target.value)
        return SavedEntry(optimizer, parent, 0, (file.tree.block(parent), into))
    return None


def uses_of_name(file: File, call: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Where a name stands, in the same function, that has this call's result and never anything else."""
    parent, scope = file.tree.parents[call], file.scopes.of(call)
    name = parent.targets[0].target if isinstance(parent, cst.Assign) and len(parent.targets) == 1 else None
    if isinstance(name, cst.Name) and len(scope.bindings.get(name.value, ())) == 1:
        yield from (use for use in file.uses.get(name.value, ()) if file.scopes.of(use) is scope)


def restored_entries(file: File) -> Iterator[RestoredEntry]:
    """Every statement of the form `optimizer.load_state_dict(checkpoint["optimizer"])`.

    Or of `if key == "optimizer": optimizer.load_state_dict(checkpoint[key])`.
    """
    for call in file.calls:
        optimizer = _state_owner(file, call, "load_state_dict")
        if optimizer is None or len(call.args) != 1:
            continue
        source = call.args[0].value
        statement = file.tree.parents[call]
        if not isinstance(source, cst.Subscript) or not isinstance(statement, cst.Expr):
            continue
        key = subscript_key(source) or _tested_key(file, source, statement)
        if key is not None and isinstance(source.value, (cst.Name, cst.Attribute)):
            yield RestoredEntry(optimizer, statement, source.value, key)


def _tested_key(file: File, source: cst.Subscript, statement: Statement) -> cst.SimpleString | None:
    """The string that a test around a statement says the key of an entry to be; None where none does."""
    index = source.slice[0].slice if len(source.slice) == 1 else None
    branch = file.tree.parents[file.tree.block(statement)]
    test = branch.test if isinstance(branch, cst.If) else None
    if not isinstance(index, cst.Index) or not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    other = test.comparisons[0]
    is_told = isinstance(other.operator, cst.Equal) and dotted(test.left) == dotted(index.value) is not None
    return other.comparator if is_told and isinstance(other.comparator, cst.SimpleString) else None


@frozen
class GivenEntry:
    """An optimizer that is passed by keyword to a function which restores all that it is passed so.

    Attributes:
        optimizer: the optimizer.
        call: the call, as `restart_from(path, model=model, optimizer=optimizer)`.
        index: the argument's place in it.
    """

    optimizer: cst.BaseExpression
    call: cst.Call
    index: int

    @property
    def key(self) -> str:
        """The keyword, by which it is restored."""
        keyword = self.call.args[self.index].keyword
        return "" if keyword is None else keyword.value


def given_entries(file: File, roles: Roles) -> Iterator[GivenEntry]:
    """Every optimizer that a function restores under the keyword it is passed by."""
    for call in file.calls:
        for index, arg in enumerate(call.args):
            if arg.keyword is not None and is_optimizer(file, arg.value):
                function = roles.project.called(file, call)
                named = {each.keyword.value for each in call.args if each.keyword is not None}
                if KEY not in named and function is not None and restores_keywords(function.file, function.node):
                    yield GivenEntry(arg.value, call, index)


def restores_keywords(file: File, function: cst.FunctionDef) -> bool:
    """Whether a function loads into each of its keyword arguments the entry of that name, if there is one."""
    rest = function.params.star_kwarg
    for loop in find(function.body, cst.For) if rest is not None else ():
        assert rest is not None
        over = loop.iter.func if isinstance(loop.iter, cst.Call) else None
        if not isinstance(loop.target, cst.Tuple) or dotted(over) != f"{rest.name.value}.items":
            continue
        key, value = (dotted(each.value) for each in loop.target.elements)
        asked = [each.body for each in find(loop.body, cst.If) if f"{key} in " in file.tree.code(each.test)]
        for call in (each for block in asked for each in find(block, cst.Call)):
            source = call.args[0].value if call.args else None
            index = source.slice[0].slice if isinstance(source, cst.Subscript) else None
            is_own = isinstance(index, cst.Index) and dotted(index.value) == key
            if is_own and dotted(call.func) == f"{value}.load_state_dict":
                return True
    return False


def write_given(editor: Editor, entry: GivenEntry, scaler: str, name: str) -> Edit:
    """The edit that passes the scaler beside the optimizer; what a checkpoint does not have is passed over."""
    return editor.edit(entry.call, AddArgument(plain(scaler), name, entry.call.args[entry.index]))


def write_saved(editor: Editor, entry: SavedEntry, scaler: str, name: str, *, is_spared: bool = False) -> Edit:
    """The edit that saves the scaler's state beside the optimizer's, by the key `name`.

    Args:
        is_spared: whether the scaler may be None at run time: nothing is saved then.
    """
    own = f"{scaler}.state_dict()" + f" if {scaler} is not None else None" * is_spared
    before, behind = entry.around
    state = plain(f"{before}({own}){behind}" if is_spared and any(entry.around) else f"{before}{own}{behind}")
    if isinstance(entry.holder, cst.Assign):
        target = cst.ensure_type(entry.holder.targets[0].target, cst.Subscript)
        key = _quoted(name, subscript_key(target))
        return editor.after(entry.holder, code("{}[{}] = {}", editor.text(target.value), key, state))
    if isinstance(entry.holder, cst.Call):
        return editor.edit(entry.holder, AddArgument(state, name, entry.holder.args[entry.index]))
    neighbour = cst.ensure_type(entry.holder.elements[entry.index], cst.DictElement)
    key = _quoted(name, neighbour.key if isinstance(neighbour.key, cst.SimpleString) else None)
    return editor.edit(entry.holder, AddEntry(key, state, neighbour))


def write_restored(
    editor: Editor,
    entry: RestoredEntry,
    scaler: str,
    name: str,
    *,
    is_spared: bool = False,
    late: MadeLate | None = None,
) -> Edit:
    """The edit that restores the scaler after the optimizer, where the checkpoint has its state.

    A checkpoint from before the migration has no entry. One saved without a GPU has an empty entry, because the scaler
    switched itself off there, and a scaler that is on refuses to load it: `get` passes over both.

    Args:
        is_spared: whether the scaler may be None at run time: nothing is restored then.
    """
    checkpoint, key = editor.text(entry.checkpoint), _quoted(name, entry.string)
    restore = f"{scaler}.load_state_dict({checkpoint}[{key}])"
    first = tests_of(late) + asked(scaler, is_spared=is_spared)
    where = entry.statement if late is None else late.home
    return editor.after(where, guarded(f"if {first}{checkpoint}.get({key}):", restore))


def asked(scaler: str, *, is_spared: bool) -> str:
    """What a test asks first of a scaler that may be None."""
    return f"{scaler} is not None and " if is_spared else ""


def _quoted(name: str, neighbour: cst.SimpleString | None) -> str:
    quote = '"' if neighbour is None else neighbour.quote[:1]
    return f"{quote}{name}{quote}"


def loads_optimizer(file: File) -> bool:
    """Whether a file loads the state of an optimizer, in whichever form."""
    return any(_state_owner(file, call, "load_state_dict") is not None for call in file.calls)


def _state_owner(file: File, call: cst.Call, method: str) -> cst.BaseExpression | None:
    """The optimizer that `method` is called on; None for any other call."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == method:
        owner = call.func.value
        return owner if is_optimizer(file, owner) else None
    return None
