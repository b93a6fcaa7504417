"""Where an Apex script said what single functions compute in: `float_function`, `disable_casts`, registered names.

What torch computes needs no word for what autocast does with it anyway, nor for float16 or a common type: what autocast
chooses is no less precise. What is not torch's takes the type that it is given, and an `autograd.Function` keeps it for
its backward: there the casts are torch's own, inside which autocast is off, so that nothing with float32 weights may be
called there in float16.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from enum import Enum

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.steps.apex.uses.apex_calls import amp_name
from amp_migrate.tables.apex_names import AS_REGISTERED
from amp_migrate.trees.nodes import Statement, find, last_word, written_string

_MODULES = ("torch", "torch.nn.functional", "torch.Tensor")
_REGISTERED = "register_"
_OF_TORCH = frozenset({"torch", "math", *dir(builtins)})
# torch.amp.custom_fwd with a device, and the region that switches autocast off for one.
_CUSTOM_FWD, _REGION = (2, 4), (1, 12)


class CastForm(Enum):
    """What one use becomes."""

    REGION = "a region without autocast"
    CAST = "a cast of what comes in"
    PUT = "a function that casts what comes in, put where the other was"
    GONE = "left to autocast"


_CASTS = frozenset({"float_function", "half_function", "promote_function", "disable_casts", *AS_REGISTERED})


def form_of(
    project: Project, file: File, node: cst.Name | cst.Attribute, target_torch: tuple[int, int]
) -> CastForm | None:
    """What a use of a name of `apex.amp` that says what something computes in becomes; None where torch has no form."""
    name = amp_name(file, node) or ""
    call = file.tree.parents[node]
    if name in AS_REGISTERED:
        if is_needless(file, file.tree.statement(node)) or _is_left(project, file, name, call):
            return CastForm.GONE
        is_cast = name == "register_float_function" and target_torch >= _CUSTOM_FWD
        return CastForm.PUT if is_cast and registered_path(file, call) is not None else None
    if name == "disable_casts":
        is_called = isinstance(call, cst.Call) and call.func is node and not call.args
        is_entered = is_called and isinstance(file.tree.parents[call], cst.WithItem)
        return CastForm.REGION if is_entered and target_torch >= _REGION else None
    is_call = isinstance(call, cst.Call) and call.func is node and [arg.keyword for arg in call.args] == [None]
    if name not in _CASTS or not (is_call or isinstance(call, cst.Decorator)):
        return None
    function = _cast(project, file, call)
    is_kernel = function is None or _is_of_autograd(function)
    if name != "float_function" and function is not None and not is_kernel and _is_of_torch(project, function):
        return CastForm.GONE
    is_cast = name == "float_function" or (name == "half_function" and is_kernel)
    return CastForm.CAST if is_cast and target_torch >= _CUSTOM_FWD else None


def is_needless(file: File, statement: Statement) -> bool:
    """Whether a statement registers a function of torch for what autocast does with it anyway."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    registered = None if call is None else _registered(call)
    if registered is None or not isinstance(call, cst.Call) or file.names.full(registered[0]) not in _MODULES:
        return False
    return registered[1] in AS_REGISTERED.get(amp_name(file, call.func) or "", ())


def said_of(file: File, node: cst.Name | cst.Attribute, form: CastForm | None) -> str:
    """What native AMP does differently where a use becomes something; empty where that is nothing."""
    name = (amp_name(file, node) or "").removeprefix(_REGISTERED)
    if form in (CastForm.CAST, CastForm.PUT):
        return f"inside a function that was {name}, Apex went on casting and torch does not"
    is_said = form is CastForm.GONE and name == "half_function" and not is_needless(file, file.tree.statement(node))
    return "what half_function made float16 is left to autocast, which may keep it in float32" if is_said else ""


def cast_functions(file: File) -> list[cst.Name | cst.Attribute]:
    """The uses that cast for single functions: all but `disable_casts`."""
    return [node for node in cast_uses(file) if amp_name(file, node) != "disable_casts"]


def cast_uses(file: File) -> Iterator[cst.Name | cst.Attribute]:
    """The uses of names that say what something computes in."""
    local = {
        name
        for scope in file.scopes.all()
        for name, bindings in scope.bindings.items()
        if any(binding.imported.rpartition(".")[2] in _CASTS for binding in bindings)
    }
    for word in sorted({*_CASTS, *local}):
        for node in file.uses.get(word, ()):
            if amp_name(file, node) in _CASTS:
                yield node


def _registered(call: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
    """The module and the name that a call registers a function by."""
    if not isinstance(call, cst.Call) or len(call.args) != 2 or any(arg.star or arg.keyword for arg in call.args):
        return None
    name = written_string(call.args[1].value)
    return None if name is None else (call.args[0].value, name)


def registered_path(file: File, call: cst.CSTNode) -> str | None:
    """The function that a statement registers by its path, `ops.distance`; None for one of torch, or of no module."""
    registered = _registered(call) if isinstance(call, cst.Call) else None
    if registered is None or not isinstance(file.tree.parents[call], cst.Expr):
        return None
    module, name = registered
    full = file.names.full(module)
    is_known = bool(full) and full.partition(".")[0] not in ("torch", "sys")
    return f"{file.tree.code(module)}.{name}" if is_known and dotted(module) is not None else None


def _is_left(project: Project, file: File, name: str, call: cst.CSTNode) -> bool:
    """Whether a function is registered for a type that autocast chooses no worse by itself."""
    registered = _registered(call) if isinstance(call, cst.Call) else None
    is_alone = isinstance(file.tree.parents[call], cst.Expr)
    if registered is None or not is_alone or name == "register_float_function":
        return False
    module, function = registered
    full = file.names.full(module)
    if full in _MODULES:
        return True
    where = project.module_of(file, f"{full}.{function}")
    bindings = [] if where is None else where.scopes.module.bindings.get(function, [])
    nodes = [each.node for each in bindings if isinstance(each.node, cst.FunctionDef)]
    is_one = where is not None and len(nodes) == len(bindings) == 1
    return is_one and where is not None and _is_of_torch(project, FunctionRef(where, nodes[0], None))


def _cast(project: Project, file: File, at: cst.CSTNode) -> FunctionRef | None:
    """The function of the project that is decorated, or given; None for one of somebody else."""
    if isinstance(at, cst.Decorator):
        return project.reference(file, cst.ensure_type(file.tree.parents[at], cst.FunctionDef))
    found = project.definition(file, cst.ensure_type(at, cst.Call).args[0].value)
    return project.reference(found[0], found[1]) if found and isinstance(found[1], cst.FunctionDef) else None


def _is_of_torch(project: Project, function: FunctionRef, seen: frozenset[cst.FunctionDef] = frozenset()) -> bool:
    """Whether all that a function calls is torch's, or computes by torch: autocast knows which types go together."""
    file, seen = function.file, seen | {function.node}
    for call in find(function.node.body, cst.Call):
        known = project.called(file, call)
        root = (file.names.full(call.func) or last_word(call.func)).partition(".")[0]
        is_method = isinstance(call.func, cst.Attribute) and not file.names.full(call.func)
        if known is not None:
            if known.node not in seen and not _is_of_torch(project, known, seen):
                return False
        elif last_word(call.func) == "apply" or not (is_method or root in _OF_TORCH):
            return False
    return True


def _is_of_autograd(function: FunctionRef) -> bool:
    """Whether a function is the forward of an `autograd.Function`."""
    bases = [] if function.owner is None else [function.file.names.full(base.value) for base in function.owner.bases]
    return any(base in ("torch.autograd.Function", "torch.autograd.function.Function") for base in bases)
