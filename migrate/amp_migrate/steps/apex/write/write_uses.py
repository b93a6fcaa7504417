"""What a script says to `apex.amp` beside its steps, as native code: tests, reads of the scale, casts, imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.project import Project
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import DropDecorator, Edit, Imported, Reimport, Remove
from amp_migrate.steps.apex.initialize.switch import is_short
from amp_migrate.steps.apex.uses.amp_tests import AmpTest
from amp_migrate.steps.apex.uses.apex_calls import amp_name, handed_on
from amp_migrate.steps.apex.uses.apex_guards import is_apex_import
from amp_migrate.steps.apex.uses.cast_functions import CastForm, cast_uses, form_of, is_needless, registered_path
from amp_migrate.steps.apex.uses.handed_amp import handed_arguments
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.tables.apex_names import AMP
from amp_migrate.trees.nodes import block_of, nested_statements
from amp_migrate.write.editor import Editor


def write_answer(editor: Editor, test: AmpTest, switch: str | None) -> Edit:
    """The edit that gives a test its answer, or lets it ask for the script's switch.

    Of an `if` that asks nothing else, what runs then stays.

    Args:
        switch: the switch as code, where the test asks for it; None where mixed precision is always on.
    """
    if switch is not None:
        asked = switch if is_short(switch) or switch.endswith(".is_enabled()") else f"({switch})"
        return editor.replace(test.node, asked if test.answer else f"not {asked}")
    around = editor.file.tree.parents[test.node]
    if isinstance(around, cst.If) and around.test is test.node and editor.file.tree.statement(around) is around:
        if test.answer:
            return editor.splice(around, block_of(around))
        if around.orelse is None:
            return editor.remove(around)
        if isinstance(around.orelse, cst.Else):
            return editor.splice(around, block_of(around.orelse))
    if isinstance(around, cst.IfExp) and around.test is test.node:
        return editor.replace(around, code("{}", around.body if test.answer else around.orelse))
    return answered(editor, test.node, answer=test.answer)


def answered(editor: Editor, question: cst.BaseExpression, *, answer: bool) -> Edit:
    """The edit that gives a question its answer: an operand that decides nothing goes, else it is a constant."""
    around = editor.file.tree.parents[question]
    if isinstance(around, cst.BooleanOperation) and answer is isinstance(around.operator, cst.And):
        rest = around.right if around.left is question else around.left
        return editor.replace(around, code("{}", rest))
    return editor.replace(question, str(answer))


def write_read(editor: Editor, read: cst.BaseExpression, scaler: str | None) -> Edit:
    """The edit that asks the scaler for its scale; without a scaler it is 1."""
    return editor.replace(read, "1.0" if scaler is None else f"{scaler}.get_scale()")


def write_functions(editor: Editor, project: Project) -> Iterator[Edit]:
    """The edits that write every use in a file as torch's own, or leave what it says to autocast."""
    for node in cast_uses(editor.file):
        form = form_of(project, editor.file, node, editor.settings.target_torch)
        parent = editor.file.tree.parents[node]
        if form is CastForm.REGION:
            yield editor.replace(parent, editor.no_autocast(node))
        elif form is CastForm.GONE:
            yield from _left_to_autocast(editor, parent)
        elif form in (CastForm.CAST, CastForm.PUT):
            is_low = amp_name(editor.file, node) == "half_function"
            dtype = editor.dtype(editor.settings.dtype, node) if is_low else code("{}.float32", editor.torch(node))
            options = code('device_type="{}", cast_inputs={}', editor.settings.device_type, dtype)
            name = editor.amp("custom_fwd", node)
            path = registered_path(editor.file, parent) if form is CastForm.PUT else None
            if path is not None:
                yield editor.substitute(
                    editor.file.tree.statement(node), code("{} = {}({}, {})", path, name, path, options)
                )
            elif isinstance(parent, cst.Call):
                yield editor.replace(parent, code("{}({}, {})", name, parent.args[0].value, options))
            else:
                yield editor.replace(node, code("{}({})", name, options))


def _left_to_autocast(editor: Editor, use: cst.CSTNode) -> Iterator[Edit]:
    """The edits that take out a decorator, or a call that hands back its function or registers one."""
    tree = editor.file.tree
    if isinstance(use, cst.Decorator):
        yield editor.edit(tree.parents[use], DropDecorator(use))
    elif isinstance(use, cst.Call) and len(use.args) == 1:
        yield editor.replace(use, code("{}", use.args[0].value))
    elif not is_needless(editor.file, tree.statement(use)):  # which goes with the imports
        yield editor.remove(tree.statement(use))


def write_handed(editor: Editor, project: Project) -> Iterator[Edit]:
    """The edits that take such parameters and arguments out of a file."""
    for node in editor.file.names.given:
        yield editor.edit(node, Remove())
    for _, arg in handed_arguments(project, editor.file):
        yield editor.edit(arg, Remove())


def drop_imports(editor: Editor, others: Iterable[tuple[cst.ImportFrom, cst.ImportAlias]] = ()) -> Iterator[Edit]:
    """The edits that take out of a file whatever only brings in `apex.amp`, once nothing uses it.

    Args:
        others: what else goes from its imports, each with the statement.
    """
    file = editor.file
    still_apex = any(
        name.startswith("apex.") and name != AMP and not name.startswith(AMP + ".")
        for node in file.uses.get("apex", ())
        for name in file.names.meanings(file.tree.parents[node])
    )
    for _, body in bodies(file):
        for statement in nested_statements(body):
            if is_apex_import(file, statement) and not (isinstance(statement, cst.Import) and still_apex):
                yield editor.remove(statement)
    for node, gone in _by_statement([*handed_on(file), *others]).items():
        assert not isinstance(node.names, cst.ImportStar)
        staying = tuple(Imported(alias) for alias in node.names if alias not in gone)
        yield editor.edit(node, Reimport(staying)) if staying else editor.remove(node)


def _by_statement(
    items: Iterable[tuple[cst.ImportFrom, cst.ImportAlias]],
) -> dict[cst.ImportFrom, list[cst.ImportAlias]]:
    found: dict[cst.ImportFrom, list[cst.ImportAlias]] = {}
    for node, alias in items:
        found.setdefault(node, []).append(alias)
    return found
