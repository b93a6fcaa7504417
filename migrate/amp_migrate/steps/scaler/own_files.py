"""Optimizers' states in files of their own: the scaler's goes into one beside, and comes from there where there is one.

torch.save(self.optimizer.state_dict(), path + "_optimizer")

So it does beside an optimizer that is saved as a whole, if nobody is seen to load one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import code, plain
from amp_migrate.plan.edit import Edit
from amp_migrate.steps.scaler.checkpoint_entries import asked
from amp_migrate.steps.scaler.made_late import MadeLate, may_be_repeated, may_change, tests_of
from amp_migrate.trees.nodes import Statement, find
from amp_migrate.write.editor import Editor, guarded

_OPTIMIZER = re.compile(r"(?<![a-z])opt(?:im(?:izer)?)?(?![a-z])")


@frozen
class OwnFile:
    """A statement that saves an optimizer's state, and nothing else, to a file, or restores it from there.

    Attributes:
        call: that of `torch.save` or `torch.load`.
        given: the argument that says which file.
        path: the same, or what the variable stands for that it is.
        name: the literal in it by which the file is the optimizer's.
        is_whole: whether it is the optimizer itself that is saved.
    """

    optimizer: cst.BaseExpression
    statement: cst.Expr
    call: cst.Call
    given: cst.BaseExpression
    path: cst.BaseExpression
    name: str
    is_whole: bool

    @property
    def ending(self) -> str:
        """What the file is called, whichever folder it is in, and however that is quoted."""
        return self.name.rpartition("/")[2].strip("\"'")

    def of_scaler(self, file: File) -> str:
        """The path of the scaler's file."""
        before, _, after = file.tree.code(self.path).rpartition(self.name)
        return before + _of_scaler(self.name) + after


def _of_scaler(name: str) -> str:
    *_, last = _OPTIMIZER.finditer(name)
    return f"{name[: last.start()]}scaler{name[last.end() :]}"


def saved_alone(file: File) -> Iterator[OwnFile]:
    """Every statement of the form `torch.save(optimizer.state_dict(), path + "_optimizer")`, or with all of it."""
    for call in file.calls:
        is_saved = file.names.callee(call) == "torch.save" and len(call.args) > 1 and call.args[1].keyword is None
        if is_saved and all(may_be_repeated(file, each.value) for each in call.args[2:]):
            yield from _own_file(file, call.args[0].value, "state_dict", call, call.args[1].value, call)


def restored_alone(file: File) -> Iterator[OwnFile]:
    """Every statement of the form `optimizer.load_state_dict(torch.load(path + "_optimizer"))`."""
    for call in file.calls:
        loaded = call.args[0].value if len(call.args) == 1 else None
        if isinstance(loaded, cst.Call) and file.names.callee(loaded) == "torch.load" and loaded.args:
            yield from _own_file(file, call, "load_state_dict", loaded, loaded.args[0].value, call)


def _own_file(
    file: File, of_state: cst.BaseExpression, method: str, call: cst.Call, given: cst.BaseExpression, whole: cst.Call
) -> Iterator[OwnFile]:
    optimizer = _owner(file, of_state, method)
    statement = file.tree.parents[whole]
    if optimizer is None or not isinstance(statement, cst.Expr):
        return
    path = _written_out(file, given, statement)
    texts = [each.value for each in find(path, cst.SimpleString)]
    texts += [each.value for each in find(path, cst.FormattedStringText)]
    names = [each for each in texts if _OPTIMIZER.search(each)]
    is_plain = names and all(not each.star for each in call.args) and call.args[0].keyword is None
    is_plain = is_plain and may_be_repeated(file, path)
    # Somebody else's scaler, as that of a data set, may have the name.
    if is_plain and is_optimizer(file, optimizer) and _of_scaler(names[-1]) not in _strings(file):
        yield OwnFile(optimizer, statement, call, given, path, names[-1], optimizer is of_state)


def _owner(file: File, of_state: cst.BaseExpression, method: str) -> cst.BaseExpression | None:
    """The object whose method is called, or that stands there itself; None for any other call.

    Options may be called `opt`, too, and be saved; but they do not step.
    """
    if not isinstance(of_state, cst.Call):
        return of_state if {"zero_grad", "step"} & file.called_on(of_state) else None
    func = of_state.func
    return func.value if isinstance(func, cst.Attribute) and func.attr.value == method else None


def loads_whole(file: File, endings: Collection[str]) -> bool:
    """Whether a file may load an optimizer as a whole: by the name of a file that has one, or by what it is called."""
    for call in file.calls:
        if file.names.callee(call) == "torch.load" and call.args:
            holder = file.tree.parents[call]
            targets = [each.target for each in holder.targets] if isinstance(holder, cst.Assign) else []
            path = file.tree.code(_written_out(file, call.args[0].value, file.tree.statement(call)))
            if any(each in path for each in endings) or any(is_optimizer(file, each) for each in targets):
                return True
    return False


def _written_out(file: File, path: cst.BaseExpression, statement: Statement) -> cst.BaseExpression:
    """What a variable stands for that is bound once, before it in its function, to what is the same at a statement."""
    bindings, tree = file.scopes.of(path).lookup(path.value) if isinstance(path, cst.Name) else [], file.tree
    if len(bindings) != 1 or bindings[0].value is None or tree.function(bindings[0].node) is not tree.function(path):
        return path
    assigned = tree.statement(bindings[0].node)
    if tree.order[assigned] > tree.order[statement] or tree.block(assigned) not in tree.ancestors(statement):
        return path
    again = [each for each in tree.loops(statement) if each not in tree.ancestors(assigned)]
    until = again[-1] if again else statement
    return path if may_change((bindings[0].value,), file, assigned, until) else bindings[0].value


def _strings(file: File) -> set[str]:
    plain_ones = {each.value for each in file.tree.every(cst.SimpleString)}
    return plain_ones | {each.value for each in file.tree.every(cst.FormattedStringText)}


def is_followed(file: File, entry: OwnFile, later: OwnFile) -> bool:
    """Whether a later place always follows one, and another optimizer, which may share the scaler, has it there."""
    code_of = file.tree.code
    if file.tree.block(later.statement) not in file.tree.ancestors(entry.statement):
        return False
    if code_of(entry.path) != code_of(later.path) and code_of(entry.optimizer) == code_of(later.optimizer):
        return False
    return not may_change((entry.path,), file, entry.statement, later.statement)


def write_saved_alone(editor: Editor, entry: OwnFile, scaler: str, *, is_spared: bool = False) -> Edit:
    """The edit that saves the scaler's state behind the optimizer's: one that is off has none, nor has None."""
    save, path = editor.text(entry.call.func), entry.of_scaler(editor.file)
    others = [(each.keyword, editor.text(each.value)) for each in entry.call.args[2:]]
    path += "".join(f", {text}" if word is None else f", {word.value}={text}" for word, text in others)
    test = f"if {asked(scaler, is_spared=is_spared)}{scaler}.is_enabled():"
    return editor.after(entry.statement, guarded(test, f"{save}({scaler}.state_dict(), {path})"))


def write_restored_alone(
    editor: Editor,
    entry: OwnFile,
    scaler: str,
    *,
    is_spared: bool = False,
    late: MadeLate | None = None,
) -> Edit:
    """The edit that restores the scaler behind the optimizer, if its state was saved, and there is one."""
    path = entry.of_scaler(editor.file)
    load = editor.text(entry.call).replace(editor.text(entry.given), path, 1)
    first = tests_of(late) + asked(scaler, is_spared=is_spared)
    where = entry.statement if late is None else late.home
    exists = code("if {}{}.path.exists({}):", plain(first), editor.module("os", where), plain(path))
    return editor.after(where, guarded(exists, f"{scaler}.load_state_dict({load})"))


def asks_for(file: File, entry: OwnFile, test: cst.BaseExpression) -> bool:
    """Whether a test asks for the file of an optimizer."""
    if not (isinstance(test, cst.Call) and file.names.callee(test) in ("os.path.isfile", "os.path.exists")):
        return False
    asked_for = [file.tree.code(each.value) for each in test.args]
    return asked_for in ([file.tree.code(entry.given)], [file.tree.code(entry.path)])
