"""A sigmoid that is a module, made one of a class that computes in float32: what it is given has no name to be cast.

The class is derived from PyTorch's, for code that asks which modules are sigmoids, and has no state either.
"""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.plan.code import plain
from amp_migrate.plan.edit import Edit, NewLine
from amp_migrate.tables.torch_names import SIGMOID_CLASS
from amp_migrate.trees.nodes import Statement, find, statements
from amp_migrate.write.editor import Editor

_NAME = "Fp32Sigmoid"
_TEXT = (
    "class Fp32Sigmoid({base}):",
    '{indent}"""In float32: half precision makes 1 of large logits, which leaves them no gradient."""',
    "",
    "{indent}def forward(self, input):",
    "{indent}{indent}return input.float().sigmoid()",  # TorchScript has no `super().forward(...)`
)


def in_float32(call: cst.BaseExpression, editor: Editor) -> tuple[Edit, ...]:
    """The edits for the call that makes a sigmoid; none where that has another name, or something else has this one.

    All sigmoids of a file share a class. It stands below the imports, which have to bring what it is derived from.
    """
    file = editor.file
    if not _makes_sigmoid(call, file):
        return ()
    top, module = statements(file.tree.module), file.tree.module
    first = next(each for each in file.calls if _makes_sigmoid(each, file))
    above = top[: top.index(file.tree.lift(first, module))]
    end = next((at for at in range(len(above), 0, -1) if _imports(above[at - 1])), 0)
    base = editor.named(SIGMOID_CLASS, top[end])
    text = module.default_newline.join(_TEXT).format(base=base, indent=module.default_indent)
    named = editor.replace(call.func, _NAME)
    if any(isinstance(each, cst.ClassDef) and file.tree.code(each).strip() == text for each in above):
        return (named,)
    if (
        not end
        or base.needs
        or any(each.value == _NAME and not file.tree.is_attribute(each) for each in file.tree.every(cst.Name))
    ):
        return ()
    return editor.after(above[end - 1], NewLine(plain(text), blank=2)), named


def _imports(statement: Statement) -> bool:
    """Whether a statement at the top of a file imports something, be it in a `try` or an `if`."""
    if isinstance(statement, cst.ImportFrom) and dotted(statement.module) == "__future__":
        return False
    is_definition = isinstance(statement, (cst.FunctionDef, cst.ClassDef))
    return not is_definition and any(True for kind in (cst.Import, cst.ImportFrom) for _ in find(statement, kind))


def _makes_sigmoid(node: cst.BaseExpression, file: File) -> TypeGuard[cst.Call]:
    return (
        isinstance(node, cst.Call)
        and not node.args
        and isinstance(node.func, cst.Attribute)
        and file.names.callee(node) == SIGMOID_CLASS
    )
