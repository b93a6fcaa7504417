"""One file being rewritten: its edits, and what the new code needs at the top of the file."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.settings import Dtype, Settings
from amp_migrate.tables.signatures import forms, spelled
from amp_migrate.trees import build
from amp_migrate.trees.edits import Edits, apply
from amp_migrate.trees.nodes import Line, Statement, statements

_AUTO_NAMES = ("amp_dtype", "autocast_dtype", "low_precision_dtype")
# One name for all regions of a file, worked out once: the GPU does not change while a script runs.
_AUTO_VALUE = (
    "(",
    "{indent}{torch}.bfloat16",
    "{indent}if {torch}.cuda.is_available() and {torch}.cuda.{has_bfloat16}",
    "{indent}else {torch}.float16",
    ")",
)
_HAS_BFLOAT16 = "is_bf16_supported(including_emulation=False)"
# Before PyTorch 2.4 `is_bf16_supported()` was also true of GPUs that only emulate it.
_OLDER_HAS_BFLOAT16 = "get_device_capability() >= (8, 0)"


class Draft:
    """Collects the edits of one file.

    Attributes:
        file: the file as it was read.
        settings: the PyTorch and the device that the new code is for.
        edits: what changes in it.
    """

    def __init__(self, file: File, settings: Settings) -> None:
        self.file = file
        self.settings = settings
        self.edits = Edits()
        self._needs_torch = False
        self._needed: list[str] = []
        self._needs_auto_dtype = False

    def torch(self, at: cst.CSTNode) -> str:
        """How torch is written at a place: the name the user gave it, or `torch`, which is then imported."""
        name = self.file.spelling.local("torch", at)
        if name is None:
            self._needs_torch = True
        return name or "torch"

    def module(self, name: str, at: cst.CSTNode) -> str:
        """How a module such as `functools` is written at a place; it is imported where it is not."""
        local = self.file.spelling.local(name, at)
        if local is None and name not in self._needed:
            self._needed.append(name)
        return local or name

    def amp(self, name: str, at: cst.CSTNode) -> str:
        """How `torch.amp.<name>` is written at a place, in the target's spelling, through whatever is bound there."""
        full = spelled(f"torch.amp.{name}", self.settings.target_torch)
        return self.file.spelling.local(full, at) or self.torch(at) + full.removeprefix("torch")

    def new_scaler(self, at: cst.CSTNode, *arguments: str) -> str:
        """The call that makes a GradScaler, as it is written at a place."""
        name = self.amp("GradScaler", at)
        takes_device = forms("torch.amp.GradScaler", self.settings.target_torch)
        device = (f'"{self.settings.device_type}"',) if takes_device else ()
        return f"{name}({', '.join((*device, *arguments))})"

    def dtype(self, dtype: Dtype, at: cst.CSTNode) -> str:
        """How the low-precision dtype is written at a place."""
        torch = self.torch(at)
        if dtype is Dtype.AUTO:
            self._needs_auto_dtype = True
            return self.auto_dtype
        return f"{torch}.float16" if dtype is Dtype.FP16 else f"{torch}.bfloat16"

    @cached_property
    def auto_dtype(self) -> str:
        """The name of the dtype that is chosen at run time, which nothing else in the file is called by."""
        name = self.file.scopes.free(_AUTO_NAMES)
        assert name is not None, f"the names {', '.join(_AUTO_NAMES)} are all taken"
        return name

    def line(self, code: str) -> Line:
        """One new statement, in the style of the file."""
        return build.line(code, self.file.tree.module)

    def guarded(self, head: str, body: str) -> Line:
        """A compound statement with one statement below it: `if x:` and `y()`."""
        module = self.file.tree.module
        return build.line(
            f"{head}{module.default_newline}{module.default_indent}{body}{module.default_newline}", module
        )

    def code(self, node: cst.CSTNode) -> str:
        """The source text of a node of this file."""
        return self.file.tree.code(node)

    @property
    def changes_nothing(self) -> bool:
        """Whether the file stays as it is."""
        return not (self.edits or self._needs_torch or self._needed or self._needs_auto_dtype)

    def finish(self) -> str:
        """The new text of the file."""
        imports = self._imports()
        own = [s for s in imports if not (isinstance(s, cst.ImportFrom) and dotted(s.module) == "__future__")]
        for line in (self.line(f"import {name}") for name in self._needed):
            if own:
                self.edits.before(own[0], line)
            else:
                self._at_top(imports, line)
        if self._needs_torch:
            new = self.line("import torch")
            first = next((s for s in imports if _imports_torch(s)), None)
            if first is not None:
                self.edits.before(first, new)
            else:
                self._at_top(imports, new)
        if self._needs_auto_dtype:
            torch = self.file.spelling.local("torch", self.file.tree.module) or "torch"
            module = self.file.tree.module
            is_told = self.settings.target_torch >= (2, 4)
            value = module.default_newline.join(_AUTO_VALUE).format(
                torch=torch,
                indent=module.default_indent,
                has_bfloat16=_HAS_BFLOAT16 if is_told else _OLDER_HAS_BFLOAT16,
            )
            line = self.line(f"{self.auto_dtype} = {value}")
            self._at_top(imports, line.with_changes(leading_lines=[cst.EmptyLine(indent=False)]) if imports else line)
        return apply(self.file.tree, self.edits).code

    def _imports(self) -> list[Statement]:
        return [s for s in statements(self.file.tree.module) if isinstance(s, (cst.Import, cst.ImportFrom))]

    def _at_top(self, imports: list[Statement], line: Line) -> None:
        if imports:
            self.edits.after(imports[-1], line)
            return
        top = statements(self.file.tree.module)
        has_docstring = isinstance(top[0], cst.Expr) and isinstance(top[0].value, cst.SimpleString)
        if has_docstring:
            self.edits.after(top[0], line)
        else:
            self.edits.before(top[0], line)


def _imports_torch(statement: Statement) -> bool:
    if isinstance(statement, cst.Import):
        return any((dotted(alias.name) or "").partition(".")[0] == "torch" for alias in statement.names)
    return isinstance(statement, cst.ImportFrom) and (dotted(statement.module) or "").partition(".")[0] == "torch"
