"""Makes the edits of one file: new code is spelled with the names that are bound where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code, Definition, Hole, ImportedModule, Piece, code, listed, plain
from amp_migrate.plan.edit import After, Before, Cast, Change, Edit, NewLine, Replace, Splice, Substitute, Wrap
from amp_migrate.settings import Dtype, Settings
from amp_migrate.tables.signatures import forms, spelled
from amp_migrate.trees.nodes import Block, Statement

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


@frozen
class Editor:
    """Makes edits of one file for one rule. To ask how something is spelled changes nothing.

    Attributes:
        file: the file.
        settings: the PyTorch and the device that new code is for.
        rule: the code of the rule that asks for the edits.
    """

    file: File
    settings: Settings
    rule: str

    def of(self, file: File) -> Editor:
        """The editor of another file, for the same rule."""
        return replace(self, file=file)

    # How things are spelled.

    def module(self, name: str, at: cst.CSTNode) -> Code:
        """How a module is written at a place: by the name the user gave it, or by its own, to be imported."""
        local = self.file.spelling.local(name, at)
        return Code((name,), frozenset({ImportedModule(name)})) if local is None else plain(local)

    def torch(self, at: cst.CSTNode) -> Code:
        """How torch is written at a place."""
        return self.module("torch", at)

    def named(self, full: str, at: cst.CSTNode) -> Code:
        """How something of a package is written at a place, through whatever is bound there."""
        local, package = self.file.spelling.local(full, at), full.partition(".")[0]
        return code("{}{}", self.module(package, at), full.removeprefix(package)) if local is None else plain(local)

    def amp(self, name: str, at: cst.CSTNode) -> Code:
        """How `torch.amp.<name>` is written at a place, in the target's spelling."""
        return self.named(spelled(f"torch.amp.{name}", self.settings.target_torch), at)

    def new_scaler(self, at: cst.CSTNode, arguments: Iterable[Piece]) -> Code:
        """The call that makes a GradScaler, as it is written at a place."""
        takes_device = forms("torch.amp.GradScaler", self.settings.target_torch)
        device = (f'"{self.settings.device_type}"',) if takes_device else ()
        return code("{}({})", self.amp("GradScaler", at), listed((*device, *arguments)))

    def no_autocast(self, at: cst.CSTNode) -> Code:
        """The call that makes a region in which autocast is off, as it is written at a place."""
        return code('{}(device_type="{}", enabled=False)', self.amp("autocast", at), self.settings.device_type)

    def dtype(self, dtype: Dtype, at: cst.CSTNode) -> Code:
        """How the low-precision dtype is written at a place."""
        if dtype is Dtype.AUTO:
            return self._auto_dtype()
        return code("{}.{}", self.torch(at), "float16" if dtype is Dtype.FP16 else "bfloat16")

    def is_float16(self, at: cst.CSTNode) -> Code:
        """The condition that the script has chosen float16 when it started."""
        return code("{} == {}.float16", self._auto_dtype(), self.torch(at))

    def _auto_dtype(self) -> Code:
        """The name of the dtype that is chosen at run time, which nothing else in the file is called by."""
        name = self.file.scopes.free(_AUTO_NAMES)
        assert name is not None, f"the names {', '.join(_AUTO_NAMES)} are all taken"
        module = self.file.tree.module
        torch = self.torch(module)
        is_told = self.settings.target_torch >= (2, 4)
        value = module.default_newline.join(_AUTO_VALUE).format(
            torch=torch,
            indent=module.default_indent,
            has_bfloat16=_HAS_BFLOAT16 if is_told else _OLDER_HAS_BFLOAT16,
        )
        return Code((name,), torch.needs | {Definition(name, value)})

    def text(self, node: cst.CSTNode) -> str:
        """The source text of a node of the file."""
        return self.file.tree.code(node)

    # Edits.

    def edit(self, node: cst.CSTNode, change: Change) -> Edit:
        """An edit of any kind."""
        return Edit(self.file.tree, node, change, self.rule)

    def replace(self, node: cst.CSTNode, new: Code | str) -> Edit:
        """Something else in the place of an expression."""
        return self.edit(node, Replace(_code(new)))

    def as_float(self, node: cst.BaseExpression) -> Edit:
        """`x.float()` in the place of `x`."""
        return self.edit(node, Cast(code("{}.float()", node)))

    def cast(self, node: cst.BaseExpression, *, like: str = "", is_floating: bool = True) -> Edit:
        """An expression as float32, as far as it is floating; or in the dtype of another."""
        if like:
            return self.edit(node, Cast(code("{}.to({}.dtype)", node, like)))
        if is_floating:
            return self.as_float(node)
        return self.edit(node, Cast(code("{x}.float() if {x}.is_floating_point() else {x}", x=node)))

    def before(self, statement: Statement, *lines: NewLine | Code | str) -> Edit:
        """Lines before a statement."""
        return self.edit(statement, Before(tuple(map(_line, lines))))

    def after(self, statement: Statement, *lines: NewLine | Code | str) -> Edit:
        """Lines behind a statement."""
        return self.edit(statement, After(tuple(map(_line, lines))))

    def substitute(self, statement: Statement, *lines: NewLine | Code | str) -> Edit:
        """Lines in the place of a statement."""
        return self.edit(statement, Substitute(tuple(map(_line, lines))))

    def remove(self, statement: Statement) -> Edit:
        """Nothing in the place of a statement."""
        return self.edit(statement, Substitute())

    def splice(self, statement: Statement, block: Block) -> Edit:
        """The statements of one of its blocks in the place of a compound statement."""
        return self.edit(statement, Splice(block))

    def wrap(self, first: Statement, last: Statement, context: Code, tail: Iterable[NewLine | Code | str] = ()) -> Edit:
        """A run of statements, and the lines behind it, in the body of a `with`."""
        return self.edit(first, Wrap(last, context, tuple(map(_line, tail))))


def guarded(head: Code | str, body: Code | str | cst.BaseSmallStatement) -> NewLine:
    """A compound statement with one statement below it: `if x:` and `y()`."""
    inner = Code((Hole(body),)) if isinstance(body, cst.BaseSmallStatement) else _code(body)
    return NewLine(_code(head), (inner,))


def _code(new: Code | str) -> Code:
    return plain(new) if isinstance(new, str) else new


def _line(new: NewLine | Code | str) -> NewLine:
    return new if isinstance(new, NewLine) else NewLine(_code(new))
