"""Takes the precision out of a program: what is left computes the same with autocast and the scaler switched off.

Regions become their bodies, `scaler.scale(x)` becomes `x`, `scaler.step(opt)` `opt.step()`, and what only carries a
scaler, its state or its scale goes. Apex's calls become what they wrap, names become what they resolve to, and choices
that nothing depends on any more are gone. What is not understood stays, as it is: both sides are treated alike.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeAlias, TypeVar

from amp_migrate.prove.code.arguments import arguments, bound
from amp_migrate.prove.code.atoms import CONTEXT, ENTERED, FP16_OPTIMIZER, NONE, SCALE, SCALER, Value, is_carrier
from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.public_names import (
    FP16_OPTIMIZERS,
    HALVES,
    REGISTRIES,
    SCALERS,
    STATE_FUNCTIONS,
    WRAPPERS,
    of_torch,
)
from amp_migrate.prove.code.scopes import FUNCTIONS, Function, Scope, heads, imported_name, parameters
from amp_migrate.prove.code.trees import Same, dump, is_quiet, is_same
from amp_migrate.prove.code.values import Values
from amp_migrate.prove.erasure.calls_of_torch import native_call
from amp_migrate.prove.erasure.choices import parts_of
from amp_migrate.prove.erasure.clips_in_step import CLIP, KEYWORD, Limits, clips, named_alike
from amp_migrate.prove.erasure.entered import entered_loss, given_loss, scaled_loss
from amp_migrate.prove.erasure.float32_sigmoids import sigmoids_in_float32
from amp_migrate.prove.erasure.simplify import IS_ON, PARAMETERS, is_method, simplified
from amp_migrate.prove.erasure.simplify import SCALER as MARK
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.apex_names import CLIPS_IN_STEP
from amp_migrate.tables.signatures import argument
from amp_migrate.tables.torch_names import SIGMOID_CLASS

MayGo: TypeAlias = "Callable[[ast.expr, Scope], bool]"
_Node = TypeVar("_Node", bound=ast.AST)
_MARKS = {SCALER: MARK, SCALE: "<scale>"}
# What changes a tensor in place by others, which are of its type.
_PUTS = frozenset(
    (
        "scatter_ scatter_add_ scatter_reduce_ index_copy_ index_add_ index_put_ masked_scatter_ addmm_ addbmm_ "
        "baddbmm_ addmv_ addr_ scatter scatter_add scatter_reduce index_copy index_add index_put masked_scatter "
        "index_reduce_ index_reduce"
    ).split()
)
_ZERO_GRAD = {"set_grads_to_None": "set_to_none"}  # what Apex's optimizers call otherwise
_LEAST = -3.4e38  # of float32, and of bfloat16
_CAST = "torch.amp.autocast_mode._cast"  # its old form has no device
_TELLS = re.compile(r"install|import|available|found|missing|requir|need", re.IGNORECASE)
_PACKAGE = re.compile(r"(nvidia('s|/| )*)?\bapex\b(\.amp\b)?|amp-migrate\[shim\]", re.IGNORECASE)
_ADDRESS = re.compile(
    r"(,?( please)? (from|at|see|via|visit|(refer|go) to):?)? ?[(<]?https?://[^\s'\"]*apex[\w/#-]*(\.git)?[)>]?",
    re.IGNORECASE,
)
_MODULES = frozenset({"apex", "apex.amp", "torch.amp"})
_NO_STATEMENTS = frozenset({"unscale_", "update", "load_state_dict"})
_NO_FUNCTIONS = frozenset({"apex.amp.load_state_dict", "apex.amp.init", *REGISTRIES})


class Eraser:
    """Takes the precision out of one file.

    Attributes:
        switches: what decides whether each region and scaler of the file is on, in order, as code.
    """

    def __init__(
        self,
        file: File,
        values: Values,
        limits: Limits,
        same: Mapping[ast.stmt, str],
        may_be_halved: MayGo,
    ) -> None:
        """
        Args:
            same: the statements that need not be looked into, with their texts.
            may_be_halved: whether `x = x.half()` does nothing but to change the precision of this x in a scope.
        """
        self._limits = limits
        self._may_be_halved = may_be_halved
        self._file = file
        self._values = values
        self._same = same
        self._scope: Scope = file.scopes.module
        self._sigmoids = sigmoids_in_float32(file, self._name)
        self.switches: list[str] = []

    def run(self) -> ast.Module:
        """The file without its precision."""
        return simplified(ast.Module(self._block(self._file.tree.body), []))

    # -- statements

    def _block(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [each for statement in body for each in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> Iterator[ast.stmt]:
        if node in self._same:
            yield ast.copy_location(Same(self._same[node], node), node)
            return
        for head in heads(node) if self._limits.are_known else ():
            yield from (
                clip for each in nodes_in(head) if isinstance(each, ast.Call) for clip in self._clips(each, node)
            )
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            yield from method(node)
        else:
            yield self._rebuilt(node)

    def _rebuilt(self, node: _Node) -> _Node:
        """A node with all that is below it erased."""
        new = type(node)(**{name: self._part(value) for name, value in ast.iter_fields(node)})
        return ast.copy_location(new, node)

    def _part(self, value: object) -> object:
        if isinstance(value, ast.expr):
            return self.expression(value)
        if isinstance(value, list):
            if value and isinstance(value[0], ast.stmt):
                return self._block(value)
            return [self._part(each) for each in value]
        return self._rebuilt(value) if isinstance(value, ast.AST) else value

    def _inside(self, node: ast.AST) -> Scope:
        """Go into the scope of a node; hands back the one around it."""
        around, self._scope = self._scope, self._values.inside(node, self._scope)
        return around

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
        if self._given_loss(node):
            return
        decorators = [self.expression(each) for each in node.decorator_list if not self._is_wrapper(each)]
        args, returns = self._parameters(node), self._annotation(node.returns)
        around = self._inside(node)
        body = self._block(node.body)
        self._scope = around
        new = type(node)(node.name, args, body, decorators, returns)
        new.type_params = []  # type: ignore[union-attr]  # since Python 3.12
        yield ast.copy_location(new, node)

    _AsyncFunctionDef = _FunctionDef

    def _is_wrapper(self, node: ast.expr) -> bool:
        func = node.func if isinstance(node, ast.Call) else node
        names = WRAPPERS | FP16_OPTIMIZERS
        is_context = bool(value := self._of(node)) and all(each == CONTEXT for each in value)
        if is_context:
            self._switches(node)
        return is_context or self._name(func) in names or is_carrier(self._of(func))

    def _parameters(self, node: Function) -> ast.arguments:
        """The parameters of a function without those that carry precision."""
        inner = self._values.inside(node, self._scope)
        old = node.args
        new = ast.arguments([], [], None, [], [], None, [])
        positional = [*old.posonlyargs, *old.args]
        defaults = [None] * (len(positional) - len(old.defaults)) + list(old.defaults)
        for parameter, default in zip(positional, defaults, strict=True):
            if not is_carrier(self._values.at(inner, parameter.arg)):
                new.args.append(self._parameter(parameter))
                if default is not None:
                    new.defaults.append(self.expression(default))
        for parameter, default in zip(old.kwonlyargs, old.kw_defaults, strict=True):
            if not is_carrier(self._values.at(inner, parameter.arg)):
                new.kwonlyargs.append(self._parameter(parameter))
                new.kw_defaults.append(None if default is None else self.expression(default))
        new.vararg = old.vararg and self._parameter(old.vararg)
        new.kwarg = old.kwarg and self._parameter(old.kwarg)
        return new

    def _parameter(self, node: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(node.arg, self._annotation(node.annotation)), node)

    def _annotation(self, node: ast.expr | None) -> ast.expr | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return node
        return node and self.expression(node)

    def _ClassDef(self, node: ast.ClassDef) -> Iterator[ast.stmt]:
        if self._sigmoids.get(node.name) is node:
            return
        bases = [self.expression(each) for each in node.bases]
        decorators = [self.expression(each) for each in node.decorator_list]
        keywords = [self._rebuilt(each) for each in node.keywords]
        around = self._inside(node)
        body = self._block(node.body)
        self._scope = around
        new = ast.ClassDef(node.name, bases, keywords, body, decorators)
        new.type_params = []  # type: ignore[attr-defined]  # since Python 3.12
        yield ast.copy_location(new, node)

    def _Return(self, node: ast.Return) -> Iterator[ast.stmt]:
        value = None if node.value is None or is_carrier(self._of(node.value)) else self.expression(node.value)
        if isinstance(value, ast.Constant) and value.value is None:
            value = None
        yield ast.copy_location(ast.Return(value), node)

    def _Assign(self, node: ast.Assign) -> Iterator[ast.stmt]:
        targets: list[tuple[ast.expr, ast.expr]] = []
        value = self._of(node.value)
        if _is_of_precision(value):
            self._switches(node.value)
            return
        model = halved(node.value)
        if model is not None and is_same([model], node.targets) and self._may_be_halved(model, self._scope):
            return
        kept = entered_loss(node.value, self._name) if all(self._of(e) == {ENTERED} for e in node.targets) else None
        erased = self.expression(node.value if kept is None else kept)
        if len(node.targets) == 1:
            erased = _without_casts(self.expression(node.targets[0]), erased)
        for target in node.targets:
            kept = self._target(target, value)
            put = f"{self._name(target.value)}.{target.attr}" if isinstance(target, ast.Attribute) else ""
            is_put_back = isinstance(erased, ast.Name) and erased.id == put  # `ops.f = ops.f`, of a module
            if kept is not None and not is_put_back and not is_same(kept, erased):
                targets += _pairs(kept, erased)
        if not targets:
            yield ast.copy_location(ast.Expr(erased), node)
            return
        for target, given in targets:
            yield ast.copy_location(ast.Assign([target], given), node)

    def _target(self, node: ast.expr, value: Value) -> ast.expr | None:
        """A target without what only carries precision; None where that is all of it."""
        if isinstance(node, (ast.Tuple, ast.List)):
            shapes = [each[1] for each in value if isinstance(each, tuple) and each[0] == "tuple"]
            gone = {
                index
                for index in range(len(node.elts))
                if shapes and all(len(shape) == len(node.elts) and is_carrier(shape[index]) for shape in shapes)
            }
            return _unpacked(node, [self.expression(e) for i, e in enumerate(node.elts) if i not in gone], bool(gone))
        stored = self._stored(node)
        if (value <= {NONE} and is_carrier(stored)) or (isinstance(node, ast.Attribute) and stored == {SCALE}):
            return None
        return self.expression(node)

    def _stored(self, node: ast.expr) -> Value:
        """All that is ever put where an assignment puts something."""
        return self._of(node) if isinstance(node, (ast.Name, ast.Attribute)) else frozenset()

    def _AnnAssign(self, node: ast.AnnAssign) -> Iterator[ast.stmt]:
        if is_carrier(self._stored(node.target)):
            if node.value is not None:
                self._switches(node.value)
            return
        if node.value is not None:
            yield from self._Assign(ast.copy_location(ast.Assign([node.target], node.value), node))
            return
        yield self._rebuilt(node)

    def _AugAssign(self, node: ast.AugAssign) -> Iterator[ast.stmt]:
        if self._of(node.value) == {SCALE} and isinstance(node.op, (ast.Mult, ast.Div)):
            return
        yield self._rebuilt(node)

    def _If(self, node: ast.If) -> Iterator[ast.stmt]:
        if not self._restores_own_file(node):
            yield self._rebuilt(node)

    def _restores_own_file(self, node: ast.If) -> bool:
        """Whether a scaler's state is restored from a file of its own, where there is one, and nothing else is done."""
        restored = node.body[0].value if len(node.body) == 1 and isinstance(node.body[0], ast.Expr) else None
        *first, test = parts_of(node.test)
        if not all(self._asks_for_scaler(each) or is_quiet(self.expression(each)) for each in first):
            return False
        if node.orelse or not (isinstance(test, ast.Call) and isinstance(restored, ast.Call) and restored.args):
            return False
        loaded = restored.args[0]
        return (
            self._scaler_method(restored) == "load_state_dict"
            and self._name(test.func) == "os.path.exists"
            and isinstance(loaded, ast.Call)
            and self._name(loaded.func) == "torch.load"
            and is_same(loaded.args[:1], test.args)
            and is_quiet(self.expression(test))
        )

    def _asks_for_scaler(self, test: ast.expr) -> bool:
        """Whether a test only asks whether there is a scaler: `scaler is not None`."""
        match test:
            case ast.Compare(ast.Name() | ast.Attribute() as asked, [ast.IsNot()], [ast.Constant(None)]):
                return is_carrier(self._of(asked)) and is_quiet(self.expression(asked))
        return False

    def _Expr(self, node: ast.Expr) -> Iterator[ast.stmt]:
        value = node.value
        if isinstance(value, ast.Constant):
            return  # a docstring, or nothing
        if isinstance(value, ast.Call):
            method = self._scaler_method(value)
            # What is made half without its value being kept is a module.
            if halved(value) is not None or method in _NO_STATEMENTS or self._name(value.func) in _NO_FUNCTIONS:
                # Reading a state from the disk is no less done for what becomes of it.
                is_state = isinstance(value.func, ast.Attribute) and value.func.attr == "load_state_dict"
                for each in map(self.expression, value.args if is_state else ()):
                    if not is_quiet(each):
                        yield ast.copy_location(ast.Expr(each), node)
                return
            if self._name(value.func) == "torch.save" and len(value.args) == 2 and is_carrier(self._of(value.args[0])):
                return  # its state, in a file of its own
        yield ast.copy_location(ast.Expr(self.expression(value)), node)

    def _clips(self, call: ast.Call, node: ast.stmt) -> Iterator[ast.stmt]:
        """What a step does first, if its optimizer clips in it."""
        if not isinstance(call.func, ast.Attribute) or (FP16_OPTIMIZER, "step") not in self._of(call.func):
            return
        for limit in self._limits.of(call.func.value, self._scope):
            test = None if limit.test is None else self.expression(limit.test)
            if test is not None and limit.scope is not self._scope and isinstance(limit.norm, ast.Constant):
                test = ast.Call(ast.Name(IS_ON, ast.Load()), [], [])  # what asked for it there makes the scaler
                yield clips(self.expression(call.func.value), self.expression(limit.norm), test, node)
            elif limit.is_read_alike(self._scope):
                yield clips(self.expression(call.func.value), self.expression(limit.norm), test, node)
            else:
                yield ast.copy_location(ast.Assert(ast.Name(KEYWORD, ast.Load())), node)

    def _For(self, node: ast.For) -> Iterator[ast.stmt]:
        yield named_alike(self._rebuilt(node))

    def _Delete(self, node: ast.Delete) -> Iterator[ast.stmt]:
        kept = [self.expression(each) for each in node.targets if not is_carrier(self._stored(each))]
        if kept:
            yield ast.copy_location(ast.Delete(kept), node)

    def _Global(self, node: ast.Global | ast.Nonlocal) -> Iterator[ast.stmt]:
        kept = sorted(name for name in node.names if not _is_of_precision(self._values.at(self._scope, name)))
        if kept:
            yield ast.copy_location(type(node)(kept), node)

    _Nonlocal = _Global

    def _Import(self, node: ast.Import) -> Iterator[ast.stmt]:
        for alias in node.names:
            if alias.name.partition(".")[0] not in _NO_EFFECT:
                yield ast.copy_location(ast.Import([ast.alias(alias.name)]), node)

    def _ImportFrom(self, node: ast.ImportFrom) -> Iterator[ast.stmt]:
        if node.level == 0 and (node.module or "").partition(".")[0] in _NO_EFFECT:
            return
        for alias in node.names:
            name = alias.asname or alias.name
            value = self._values.at(self._scope, name)
            functions = (each[1] for each in value if isinstance(each, tuple) and each[0] == "function")
            if alias.name == "*" or not (_is_of_precision(value) or any(map(self._given_loss, functions))):
                yield ast.copy_location(ast.ImportFrom(node.module, [ast.alias(alias.name)], node.level), node)

    def _With(self, node: ast.With | ast.AsyncWith) -> Iterator[ast.stmt]:
        items: list[ast.withitem] = []
        before: list[ast.stmt] = []
        for item in node.items:
            loss = self._scaled_loss(item.context_expr)
            value = self._of(item.context_expr)
            if loss is not None:
                if isinstance(item.optional_vars, ast.Name):
                    given = ast.Assign([item.optional_vars], self.expression(loss))
                    before.append(ast.copy_location(given, item.context_expr))
            elif value and all(each == CONTEXT for each in value):
                self._switches(item.context_expr)
            else:
                items.append(self._rebuilt(item))
        body = self._block(node.body)
        if items:
            body = [ast.copy_location(type(node)(items, body), node)]
        yield from (*before, *body)

    _AsyncWith = _With

    def _scaled_loss(self, node: ast.expr) -> ast.expr | None:
        """The loss that `amp.scale_loss` is given, or which it was by the time that its context is opened here."""
        if isinstance(node, ast.Name):
            return node if self._of(node) == {ENTERED} else None
        runs = [*self._values.called(node, self._scope)] if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Call) and len(runs) == 1 and runs[0][2]:
            function, skipped, _ = runs[0]
            return dict(bound(function, node, skipped)).get(self._given_loss(function))
        return scaled_loss(node, self._name)

    def _given_loss(self, function: ast.AST) -> str:
        """The parameter whose scaled loss a function gives, and which is an argument wherever that is entered."""
        if not isinstance(function, ast.FunctionDef):
            return ""
        return given_loss(function, partial(self._values.name, scope=self._values.scope_of(function)))

    # -- expressions

    def expression(self, node: ast.expr) -> ast.expr:
        """An expression without its precision."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is not None:
            found = method(node)
            assert isinstance(found, ast.expr)
            return found
        return self._rebuilt(node)

    def _of(self, node: ast.expr) -> Value:
        return self._values.of(node, self._scope)

    def _name(self, node: ast.expr) -> str:
        return self._values.name(node, self._scope)

    def _scaler_method(self, node: ast.Call) -> str:
        """The method of a scaler that is called; empty for any other call."""
        values = [each for each in self._of(node.func) if each != NONE]
        is_method = bool(values) and all(isinstance(each, tuple) and each[0] == SCALER for each in values)
        return str(values[0][1]) if is_method else ""

    def _mark(self, node: ast.expr) -> ast.expr | None:
        """What stands for a value that carries precision, where it is used as any other."""
        value = self._of(node)
        if value == {SCALE}:
            return ast.copy_location(ast.Name(_MARKS[SCALE], ast.Load()), node)
        if is_carrier(value):
            return ast.copy_location(ast.Name(_MARKS[SCALER], ast.Load()), node)
        return None

    def _named(self, node: ast.expr) -> ast.expr | None:
        """What an expression stands for that names something, or is always the same constant."""
        value = self._of(node)
        if len(value) != 1:
            return None
        (each,) = value
        if isinstance(each, tuple) and each[0] == "name" and each[1] in STATE_FUNCTIONS:
            new, device = STATE_FUNCTIONS[each[1]]
            call = ast.Call(
                ast.Name("functools.partial", ast.Load()), [ast.Name(new, ast.Load()), ast.Constant(device)], []
            )
            return ast.copy_location(call, node)
        if isinstance(each, tuple) and each[0] == "name" and self._is_import(node, each[1]):
            return ast.copy_location(ast.Name(of_torch(each[1]), ast.Load()), node)
        if (
            isinstance(each, tuple)
            and each[0] == "constant"
            and isinstance(node, ast.Name)
            and not self._is_given(node.id)
        ):
            return ast.copy_location(ast.Constant(each[1]), node)
        return None

    def _is_given(self, name: str) -> bool:
        """Whether a name is a parameter, which a caller outside of the files may fill."""
        found = self._scope.find(name)
        return (
            found is not None and isinstance(found.node, FUNCTIONS) and name in map(_name, parameters(found.node.args))
        )

    def _is_import(self, node: ast.expr, full: str) -> bool:
        """Whether an expression names something by an import, and not by a variable that holds it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        found = self._scope.find(node.id) if isinstance(node, ast.Name) else None
        if found is None:
            return isinstance(node, ast.Name) and bool(self._scope.module.stars) and full != node.id
        return (isinstance(node, ast.Name) and node.id in found.imports) or full.startswith("torch.amp")

    def _Name(self, node: ast.Name) -> ast.expr:
        found = None
        if isinstance(node.ctx, ast.Load):
            found = self._mark(node) or self._named(node) or self._answered(node)
            if node.id in self._sigmoids and self._scope.find(node.id) is self._file.scopes.module:
                found = ast.copy_location(ast.Name(SIGMOID_CLASS, ast.Load()), node)
        return found or ast.copy_location(ast.Name(node.id, node.ctx), node)

    def _answered(self, node: ast.Name) -> ast.expr | None:
        """The answer that a module's name always has: `HAS_AMP` of `HAS_AMP = amp is not None`."""
        test = self._constant_of(node)
        if not isinstance(test, ast.Compare):
            return None
        around, self._scope = self._scope, self._file.scopes.module
        answer = self.expression(test)
        self._scope = around
        return ast.copy_location(answer, node) if isinstance(answer, ast.Constant) else None

    def _Attribute(self, node: ast.Attribute) -> ast.expr:
        found = None
        if isinstance(node.ctx, ast.Load):
            found = self._mark(node) or self._named(node)
            if node.attr == "loss_scale" and (FP16_OPTIMIZER, node.attr) in self._of(node):
                found = ast.copy_location(ast.Name(_MARKS[SCALE], ast.Load()), node)
            if node.attr == "optimizer" and (FP16_OPTIMIZER, node.attr) in self._of(node):  # what it wraps
                return self.expression(node.value)
        return found or ast.copy_location(ast.Attribute(self.expression(node.value), node.attr, node.ctx), node)

    def _Constant(self, node: ast.Constant) -> ast.expr:
        """A constant; a text that tells to install Apex, or what stands in for it, without the name and address."""
        value = node.value
        if isinstance(value, str) and _TELLS.search(value):
            value = _PACKAGE.sub("<package>", _ADDRESS.sub("", value))
        return ast.copy_location(ast.Constant(value, node.kind), node)

    def _Subscript(self, node: ast.Subscript) -> ast.expr:
        found = self._mark(node) if isinstance(node.ctx, ast.Load) else None
        new = ast.Subscript(self.expression(node.value), self.expression(node.slice), node.ctx)
        return found or ast.copy_location(new, node)

    def _Tuple(self, node: ast.Tuple | ast.List) -> ast.expr:
        kept = [self.expression(each) for each in node.elts if not is_carrier(self._of(each))]
        return _unpacked(node, kept, len(kept) < len(node.elts)) or ast.copy_location(ast.Constant(None), node)

    _List = _Tuple

    def _Dict(self, node: ast.Dict) -> ast.expr:
        kept = [(k, v) for k, v in zip(node.keys, node.values, strict=True) if not is_carrier(self._of(v))]
        keys = [None if key is None else self.expression(key) for key, _ in kept]
        return ast.copy_location(ast.Dict(keys, [self.expression(value) for _, value in kept]), node)

    def _Lambda(self, node: ast.Lambda) -> ast.expr:
        args = self._parameters(node)
        around = self._inside(node)
        body = self.expression(node.body)
        self._scope = around
        return ast.copy_location(ast.Lambda(args, body), node)

    def _ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> ast.expr:
        first = self.expression(node.generators[0].iter)
        around = self._inside(node)
        new = self._rebuilt(node)
        self._scope = around
        new.generators[0].iter = first
        return _parameters_of(new) or new

    _SetComp = _GeneratorExp = _DictComp = _ListComp

    def _Compare(self, node: ast.Compare) -> ast.expr:
        new = self._rebuilt(node)
        if len(new.ops) != 1:
            return new
        left, right, operator = new.left, new.comparators[0], new.ops[0]
        if is_same(left, right) and is_scale(left):
            found = isinstance(operator, (ast.Eq, ast.LtE, ast.GtE))
            return ast.copy_location(ast.Constant(found), node)
        asks = isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
        if asks and isinstance(right, ast.Constant) and right.value is None:
            value = self._of(node.left)
            is_none = value == {NONE} or (isinstance(left, ast.Constant) and left.value is None)
            if is_none or (NONE not in value and _is_of_precision(value)):
                return ast.copy_location(ast.Constant(is_none == isinstance(operator, (ast.Is, ast.Eq))), node)
            if _is_of_precision(value - {NONE}):  # there is one where it is on
                is_on = ast.copy_location(ast.Call(ast.Name(IS_ON, ast.Load()), [], []), node)
                is_off = ast.UnaryOp(ast.Not(), is_on)
                return is_on if isinstance(operator, (ast.IsNot, ast.NotEq)) else ast.copy_location(is_off, node)
        return new

    def _BoolOp(self, node: ast.BoolOp) -> ast.expr:
        new = self._rebuilt(node)
        for index, each in enumerate(node.values):
            value = self._of(each)
            if NONE not in value and _is_of_precision(value):  # `amp`, for `amp is not None`
                new.values[index] = ast.copy_location(ast.Constant(True), each)
        return new

    def _BinOp(self, node: ast.BinOp) -> ast.expr:
        new = self._rebuilt(node)
        if isinstance(new.op, (ast.Mult, ast.Div)) and is_scale(new.right):
            return new.left
        return new.right if isinstance(new.op, ast.Mult) and is_scale(new.left) else new

    def _truth(self, node: ast.Call) -> ast.expr | None:
        """Whether precision is on, for `bool(amp)`."""
        value = self._of(node.args[0]) if len(node.args) == 1 and not node.keywords else frozenset()
        is_truth = isinstance(node.func, ast.Name) and node.func.id == "bool" and self._scope.find("bool") is None
        if not is_truth or not _is_of_precision(value - {NONE}):
            return None
        is_on = ast.Call(ast.Name(IS_ON, ast.Load()), [], []) if NONE in value else ast.Constant(True)
        return ast.copy_location(is_on, node)

    def _least(self, node: ast.Call) -> ast.expr | None:
        """`x` for `max(x, torch.finfo(t.dtype).min)`, which only float16 cannot tell from it."""
        if not (
            isinstance(node.func, ast.Name) and node.func.id == "max" and len(node.args) == 2 and not node.keywords
        ):
            return None
        limit, number = node.args[1], _number(self._constant_of(node.args[0]))
        if not isinstance(limit, ast.Attribute) or limit.attr != "min" or number is None or number < _LEAST:
            return None
        call = limit.value
        is_finfo = isinstance(call, ast.Call) and self._name(call.func) == "torch.finfo"
        return self.expression(node.args[0]) if is_finfo else None

    def _constant_of(self, node: ast.expr) -> ast.expr:
        """The one value that the module gives a name; any other expression as it is."""
        scopes = self._file.scopes
        given = scopes.given.get(node.id, []) if isinstance(node, ast.Name) else []
        is_one = isinstance(node, ast.Name) and len(given) == 1 and self._scope.find(node.id) is scopes.module
        return given[0] if is_one else node

    def _Call(self, node: ast.Call) -> ast.expr:
        least = self._least(node) or self._truth(node)
        if least is not None:
            return least
        found = self._mark(node)
        if found is not None:
            self._switches(node)
            return found
        method = self._scaler_method(node)
        if method:
            return self._of_scaler(node, method)
        answer = self._answer_of(node)
        if answer is not None:
            return answer
        name = self._name(node.func)
        of_apex = self._of_apex(node, name) if name else None
        if of_apex is not None:
            return of_apex
        wrapped = self._fp16_optimizer(node)
        if wrapped is not None:
            return wrapped
        if self._is_base_of_scaler(node):
            return ast.copy_location(ast.Call(self.expression(node.func), [], []), node)
        if name in CLIPS_IN_STEP and self._limits.are_known:
            rest = [each for each in node.keywords if each.arg != KEYWORD]  # every step says it
            node = ast.copy_location(ast.Call(node.func, node.args, rest), node)
        gone = self._carried(node)
        buffer = _put_into(node, name)
        given = [_without_cast(buffer, each) for each in node.args]
        args = [self.expression(each) for index, each in enumerate(given) if index not in gone]
        keywords = [self._rebuilt(each) for each in node.keywords if each.arg is None or each.arg not in gone]
        for each in keywords:
            each.value = _without_cast(buffer, each.value)
        call = ast.copy_location(ast.Call(self.expression(node.func), args, keywords), node)
        if name in STATE_FUNCTIONS:
            call.func = ast.Name(STATE_FUNCTIONS[name][0], ast.Load())
            call.args.insert(0, ast.Constant(STATE_FUNCTIONS[name][1]))
        elif name == _CAST and len(call.args) == 2:
            call.args.insert(1, ast.Constant("cuda"))
        return native_call(call, name, is_held=bool(name) and not self._is_import(node.func, name))

    def _answer_of(self, node: ast.Call) -> ast.expr | None:
        """The answer of a function that does nothing but always give it: `is_apex_available()`."""
        functions = [each[1] for each in self._of(node.func) if isinstance(each, tuple) and each[0] == "function"]
        value = self._of(node) if len(functions) == 1 and not node.args and not node.keywords else frozenset()
        (each,) = value if len(value) == 1 else (None,)
        if not isinstance(each, tuple) or each[0] != "constant" or not isinstance(functions[0], ast.FunctionDef):
            return None
        return ast.copy_location(ast.Constant(each[1]), node) if _only_answers(functions[0].body) else None

    def _is_base_of_scaler(self, node: ast.Call) -> bool:
        """Whether a class that inherits from a scaler hands it its arguments."""
        func, owner = node.func, self._scope.owner
        if not (isinstance(func, ast.Attribute) and func.attr == "__init__"):
            return False
        base = func.value.func if isinstance(func.value, ast.Call) else None
        is_super = isinstance(base, ast.Name) and base.id == "super"
        return (
            (is_super or self._name(func.value) in SCALERS)
            and owner is not None
            and any(self._name(base) in SCALERS for base in owner.bases)
        )

    def _carried(self, node: ast.Call) -> set[int | str]:
        """The arguments of a call, by place or keyword, that go into parameters which are gone."""
        may_be: dict[ast.expr, int | str] = {each: index for index, each in enumerate(node.args)}
        may_be.update((each.value, each.arg) for each in node.keywords if each.arg)
        values = {each: self._of(each) for each in may_be}
        carried = {each: at for each, at in may_be.items() if values[each] == {NONE} or _is_of_precision(values[each])}
        if not carried:
            return set()
        if self._name(node.func) == "dict":
            return {at for each, at in carried.items() if is_carrier(values[each])}
        gone: set[int | str] = set()
        outside = self._values.outside(node.func, self._scope)
        if outside is not None and outside.args.kwarg is not None:
            return {at for each, at in carried.items() if isinstance(at, str) and _is_of_precision(values[each])}
        for function, skipped, _ in self._values.called(node, self._scope):
            inner = self._values.scope_of(function)
            for parameter, given in bound(function, node, skipped):
                if given in carried and is_carrier(self._values.at(inner, parameter)):
                    gone.add(carried[given])
            if function.args.kwarg is not None:
                names = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
                others = {each: at for each, at in carried.items() if _is_of_precision(values[each])}
                gone |= {at for at in others.values() if isinstance(at, str) and at not in names}
        return gone

    def _of_scaler(self, node: ast.Call, method: str) -> ast.expr:
        if method == "scale" and len(node.args) == 1:
            return self.expression(node.args[0])
        if method == "step" and node.args:
            func = ast.Attribute(self.expression(node.args[0]), "step", ast.Load())
            rest, keywords = map(self.expression, node.args[1:]), map(self._rebuilt, node.keywords)
            return ast.copy_location(ast.Call(func, list(rest), list(keywords)), node)
        return ast.copy_location(ast.Call(ast.Name(f"{MARK}.{method}", ast.Load()), [], []), node)

    def _of_apex(self, node: ast.Call, name: str) -> ast.expr | None:
        """What is left of a call of Apex's."""
        first = node.args[0] if node.args else None
        if name == "apex.amp.initialize":
            given = [self.expression(each) for each in arguments(node, ("models", "optimizers")).values()]
            if not given or isinstance(given[-1], ast.Constant):
                given = given[:1]
            return given[0] if len(given) == 1 else ast.copy_location(ast.Tuple(given, ast.Load()), node)
        if first is None:
            return None
        if name == "apex.amp.master_params":
            return ast.copy_location(ast.Call(ast.Name(PARAMETERS, ast.Load()), [self.expression(first)], []), node)
        if name in HALVES and isinstance(first, ast.Call) and is_method(first, "half") and not first.args:
            first = first.func.value  # type: ignore[attr-defined]
        if name in HALVES or name in FP16_OPTIMIZERS or (name in WRAPPERS and len(node.args) == 1):
            return self.expression(first)
        return None

    def _fp16_optimizer(self, node: ast.Call) -> ast.expr | None:
        """A method that only Apex's wrapper of an optimizer has."""
        func = node.func
        if not isinstance(func, ast.Attribute) or (FP16_OPTIMIZER, func.attr) not in self._of(func):
            return None
        first = self.expression(node.args[0]) if node.args else None
        if func.attr == "backward" and first is not None:
            keywords = [self._rebuilt(each) for each in node.keywords if each.arg != "update_master_grads"]
            return ast.copy_location(ast.Call(ast.Attribute(first, "backward", ast.Load()), [], keywords), node)
        if func.attr == "clip_master_grads" and first is not None:
            params = ast.Call(ast.Name(PARAMETERS, ast.Load()), [self.expression(func.value)], [])
            ast.copy_location(params, node)
            clip = ast.Call(ast.Name(CLIP, ast.Load()), [params, first], [])
            return native_call(ast.copy_location(clip, node), CLIP)
        if func.attr == "zero_grad":
            given = [self._rebuilt(each) for each in node.keywords]
            given = [ast.keyword(_ZERO_GRAD.get(each.arg or "", each.arg), each.value) for each in given]
            return ast.copy_location(
                ast.Call(self.expression(func), list(map(self.expression, node.args)), given), node
            )
        return ast.copy_location(ast.Constant(None), node) if func.attr == "update_master_grads" else None

    # -- switches

    def _switches(self, node: ast.expr) -> None:
        """Note what decides whether the regions and scalers in an expression are on."""
        calls = (each for each in nodes_in(node) if isinstance(each, ast.Call))
        given = (argument(each, imported_name(each.func, self._scope), "enabled") for each in calls)
        self.switches += (dump(self.expression(each)) for each in given if each is not None)


_NO_EFFECT = frozenset(
    "torch apex amp_shim amp_C apex_C functools contextlib importlib argparse packaging distutils warnings os".split()
)


def _name(node: ast.arg) -> str:
    return node.arg


def _is_of_precision(value: Value) -> bool:
    """Whether a value carries precision, or is a module of it."""
    are_modules = all(isinstance(each, tuple) and each[0] == "name" and each[1] in _MODULES for each in value)
    return is_carrier(value) or (bool(value) and are_modules)


def _number(node: ast.expr) -> float | None:
    """A number as it is written, `float("-1e20")` as well."""
    is_float = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float"
    if is_float and isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    try:
        value = float(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError):
        return None
    return value


def _put_into(call: ast.Call, name: str | None) -> ast.expr | None:
    """The tensor that a call puts values into of its own type only: `buffer.scatter_(0, index, value)`.

    Args:
        name: the full name of a function, as `torch.scatter(buffer, 0, index, value)` is one.
    """
    module, _, last = (name or "").rpartition(".")
    named = (each.value for each in call.keywords if each.arg == "input")
    if module in ("torch", "torch.Tensor") and last in _PUTS:
        return next(iter((*call.args, *named)), None)
    func = call.func
    return func.value if isinstance(func, ast.Attribute) and func.attr in _PUTS else None


def _without_casts(target: ast.expr, value: ast.expr) -> ast.expr:
    """What an assignment gives its target, or each of several, but for casts of what is put into tensors."""
    if isinstance(target, ast.Subscript):
        return _without_cast(target.value, value)
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return value
    elements = [_without_casts(*each) for each in zip(target.elts, value.elts, strict=True)]
    return ast.copy_location(ast.Tuple(elements, value.ctx), value)


def _without_cast(buffer: ast.expr | None, value: ast.expr) -> ast.expr:
    """What `buffer[i] = value.to(buffer.dtype)` assigns: what is put into a tensor takes its type anyway."""
    if buffer is None or not isinstance(value, ast.Call) or not is_method(value, "to"):
        return value
    dtype = value.args[0] if len(value.args) == 1 and not value.keywords else None
    is_own = isinstance(dtype, ast.Attribute) and dtype.attr == "dtype" and is_same(dtype.value, buffer)
    return value.func.value if is_own and isinstance(value.func, ast.Attribute) else value


def _only_answers(body: Iterable[ast.stmt]) -> bool:
    """Whether statements do nothing but import what carries precision, and give an answer."""
    for each in body:
        if isinstance(each, ast.Try):
            handled = (statement for handler in each.handlers for statement in handler.body)
            if not _only_answers([*each.body, *handled, *each.orelse, *each.finalbody]):
                return False
        elif isinstance(each, (ast.Return, ast.Expr)):
            if not isinstance(each.value, (ast.Name, ast.Constant)):
                return False
        elif isinstance(each, ast.Import):
            if not all(alias.name.partition(".")[0] in _NO_EFFECT for alias in each.names):
                return False
        elif not isinstance(each, ast.ImportFrom) or (each.module or "").partition(".")[0] not in _NO_EFFECT:
            return False
    return True


def halved(node: ast.expr) -> ast.expr | None:
    """What is made float16 or bfloat16; None for any other expression."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.args or node.keywords:
        return None
    return node.func.value if node.func.attr in ("half", "bfloat16") else None


def is_scale(node: ast.expr) -> bool:
    """Whether an erased expression is the loss scale."""
    return isinstance(node, ast.Name) and node.id == _MARKS[SCALE]


def _unpacked(node: ast.Tuple | ast.List, elements: list[ast.expr], is_less: bool) -> ast.expr | None:
    """A tuple of what is left of it: what is left alone stands for itself."""
    if is_less and len(elements) < 2:
        return elements[0] if elements else None
    return ast.copy_location(type(node)(elements, node.ctx), node)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """An assignment of several things as one of each, without those of something to itself, where that is the same."""
    sequences = (ast.Tuple, ast.List)
    if isinstance(target, sequences) and isinstance(value, sequences) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
        left = [pair for pair in pairs if not is_same(*pair) and list(_pairs(*pair))]
        names = {each.id for each in target.elts if isinstance(each, ast.Name)}
        read = {each.id for each in nodes_in(value) if isinstance(each, ast.Name)}
        are_names = len(names) == len(target.elts)
        # What is put into an object is not read by names alone.
        are_own = all(isinstance(each, (ast.Name, ast.Constant)) for each in value.elts) and all(
            isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)) for each in target.elts
        )
        if len(left) < 2 or ((are_names or are_own) and names.isdisjoint(read)):
            for pair in left:
                yield from _pairs(*pair)
            return
    yield target, value


def _parameters_of(node: ast.expr) -> ast.expr | None:
    """`(p for group in optimizer.param_groups for p in group["params"])` is what an optimizer updates."""
    if not isinstance(node, (ast.GeneratorExp, ast.ListComp)) or len(node.generators) != 2:
        return None
    groups, inner = node.generators
    is_groups = isinstance(groups.iter, ast.Attribute) and groups.iter.attr == "param_groups"
    is_inner = isinstance(inner.iter, ast.Subscript) and isinstance(inner.iter.slice, ast.Constant)
    if not (is_groups and is_inner) or groups.ifs or inner.ifs:
        return None
    assert isinstance(groups.iter, ast.Attribute)
    assert isinstance(inner.iter, ast.Subscript)
    assert isinstance(inner.iter.slice, ast.Constant)
    if inner.iter.slice.value != "params" or not is_same(inner.iter.value, groups.target):
        return None
    if not is_same(node.elt, inner.target):
        return None
    found = ast.Call(ast.Name(PARAMETERS, ast.Load()), [groups.iter.value], [])
    return ast.copy_location(found, node)
