"""The script's own switch for mixed precision (`args.fp16`), as native code can ask for it at one place or another."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted, module_and_name
from amp_migrate.analysis.files import File
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.names.scopes import Scope
from amp_migrate.analysis.project import Project
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.put_in import put_in
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement, find, method_of

VARIABLE = "amp_enabled"
_BUILTINS = frozenset(dir(builtins))
# What answers with True or False, by name, and whatever it is a method or function of.
_ANSWERS = frozenset({"bool", "isinstance", "issubclass", "hasattr", "callable", "any", "all"})
_QUESTIONS = frozenset({"is_available", "is_initialized", "is_bf16_supported", "exists", "startswith", "endswith"})


def switch_code(initialize: Initialize) -> str | None:
    """The condition under which a script uses mixed precision, as a boolean; None where it always does."""
    if not initialize.switch:
        return None
    if "False" in initialize.switch:
        return "False"
    return " and ".join(_boolean(initialize, part) for part in initialize.switch)


def is_off(initializes: Sequence[Initialize]) -> bool:
    """Whether a script asks Apex for float32 alone: `opt_level="O0"`."""
    return bool(initializes) and all(switch_code(each) == "False" for each in initializes)


def has_name(initialize: Initialize) -> bool:
    """Whether a condition is given a name where Apex was initialized: it is long, or something else later."""
    code = switch_code(initialize)
    return code is not None and (not is_short(code) or _is_bound_anew(initialize))


def sees(initialize: Initialize, file: File, at: cst.CSTNode) -> bool:
    """Whether a name that is given a value where Apex was initialized has it at a place."""
    tree = file.tree
    may_be_later = tree.function(initialize.home) is None and tree.function(at) is not None
    if file is not initialize.file or (tree.order[at] < tree.order[initialize.home] and not may_be_later):
        return False
    home, scope = file.scopes.of(initialize.home), file.scopes.of(at)
    while scope is not home and scope.parent is not None:
        scope = scope.parent
    return scope is home


def _is_bound_anew(initialize: Initialize) -> bool:
    """Whether what a condition is read from may be another object behind the call: `model = DDP(model)`."""
    file, tree = initialize.file, initialize.file.tree
    parts = [build.expression(each) for each in initialize.switch]
    paths = {*reads(parts), *(dotted(node) or "" for part in parts for node in find(part, cst.Attribute))}
    gone = {initialize.home, initialize.statement, *initialize.handed_back}
    return any(
        gone.isdisjoint((each.node, *tree.ancestors(each.node))) and not _is_copy(file, each, path)
        for path in paths
        for each in _bound_behind(file, initialize.home, path)
    )


def _bound_behind(file: File, home: Statement, path: str) -> Iterator[Binding]:
    """Where a name, or an attribute, may be given another value than it has at a statement.

    What another method does comes behind a constructor; what the constructor does comes before any other.
    """
    tree = file.tree
    function, owner = tree.function(home), tree.owner_class(home)
    if owner is None or not path.startswith("self."):
        bindings = (each for each in file.scopes.of(home).lookup(path) if tree.function(each.node) is function)
        yield from (each for each in bindings if tree.order[each.node] > tree.order[home])
        return
    known = [*file.attribute_bindings(owner, path)]
    made = method_of(owner, "__init__")
    for each in known:
        if tree.function(each.node) is function:
            is_behind = tree.order[each.node] > tree.order[home]
        else:
            is_behind = tree.function(each.node) is not made and (function is made or len(known) > 1)
        if is_behind:
            yield each


def is_short(code: str) -> bool:
    """Whether a condition can be repeated where it is needed, rather than be given a name."""
    return re.fullmatch(r"[\w.]+|bool\([\w.]+\)", code) is not None


def is_visible(project: Project, initialize: Initialize, file: File, at: cst.CSTNode) -> bool:
    """Whether the names of the condition mean at a place what they mean where Apex was initialized."""
    if _is_bound_anew(initialize) and not sees(initialize, file, at):
        return False
    home, here = initialize.file.scopes.of(initialize.home), file.scopes.of(at)
    condition = " and ".join(initialize.switch)
    names = reads([build.expression(condition)]) if condition else frozenset()
    scope = here if file is initialize.file else None
    while scope is not None:
        if scope is home and all(here.find(name) is home.find(name) for name in names):
            return True
        scope = scope.parent
    names = frozenset(name for name in names if not is_builtin(name, home, here))
    own_class = None if file is not initialize.file else file.tree.owner_class(initialize.home)
    if own_class is not None and file.tree.owner_class(at) is own_class and here.find("self") is not None:
        # `self.amp` is the same in every method that has an object.
        names = frozenset(name for name in names if not name.startswith("self."))
    if file is initialize.file:  # `global args`, and what else is one of the module's names in both places
        module = file.scopes.module
        names = frozenset(name for name in names if not (home.find(name) is module is here.find(name)))
    return all(_is_same_import(project, initialize, file, at, n) or _is_handed_on(project, file, at, n) for n in names)


def in_words_of(project: Project, initialize: Initialize, file: File, at: cst.CSTNode) -> str | None:
    """The condition as a place says it that has what it asks by another name; None where it has not.

    That is a parameter that every caller fills with it, or an attribute that `__init__` keeps such a one as, or its own
    parameter where it is what initializes.
    """
    code = switch_code(initialize)
    home, here = initialize.file.scopes.of(initialize.home), file.scopes.of(at)
    names = reads([build.expression(code)]) if code is not None else frozenset()
    said: dict[str, cst.BaseExpression] = {}
    for name in names:
        is_global = file is initialize.file and home.find(name) is file.scopes.module is here.find(name)
        if is_global or is_builtin(name, home, here) or _is_same_import(project, initialize, file, at, name):
            continue
        own = next((each for each in _given(file, at) if _is_handed_on(project, file, at, each, name)), None)
        own = own or next(_kept(project, initialize, file, at, name), None)
        if own is None:
            return None
        said[name] = build.expression(own)
    return put_in(code, said) if code is not None and said else None


def _given(file: File, at: cst.CSTNode) -> list[str]:
    """The parameters of the function that a place stands in."""
    node = file.tree.function(at)
    bindings = {} if node is None else file.scopes.inside(node).bindings
    return [name for name, own in bindings.items() if all(each.kind is BindingKind.PARAMETER for each in own)]


def _kept(project: Project, initialize: Initialize, file: File, at: cst.CSTNode, name: str) -> Iterator[str]:
    """The attributes of the object of a method that are given a variable where the object is made, and nothing else."""
    owner, node = file.tree.owner_class(at), file.tree.function(at)
    if owner is None or node is None or node not in owner.body.body:
        return
    for method in (each for each in find(owner.body, cst.FunctionDef) if each.name.value == "__init__"):
        for path, bindings in file.scopes.inside(method).bindings.items():
            value = bindings[0].value
            if not path.startswith("self.") or len(bindings) != 1 or not isinstance(value, cst.Name):
                continue
            is_only = file.class_attribute(owner, path) == (bindings[0].node,)
            is_own = (
                value.value == name and file.tree.function(initialize.home) is method and _is_parameter(file, value)
            )
            if is_only and (is_own or _is_handed_on(project, file, value, value.value, name)):
                yield path


def _is_parameter(file: File, name: cst.Name) -> bool:
    """Whether a name is what its function is given, and never anything else."""
    return [each.kind for each in file.scopes.of(name).lookup(name.value)] == [BindingKind.PARAMETER]


def _is_same_import(project: Project, initialize: Initialize, file: File, at: cst.CSTNode, name: str) -> bool:
    """Whether a name is of one module of the project in both places: `config`, or what is imported from that."""
    there = initialize.file.scopes.of(initialize.home).lookup(name)
    here = file.scopes.of(at).lookup(name)
    if [each.kind for each in (*there, *here)] != [BindingKind.IMPORT] * 2:
        return False
    (first,), (second,) = there, here
    of_first, of_second = _imported(project, initialize.file, first), _imported(project, file, second)
    return of_first is not None and of_first == of_second


def _imported(project: Project, file: File, binding: Binding) -> tuple[str, str] | None:
    """The file of the project that an import is of, by its name, and what of it."""
    whole = project.library.name_of_module(binding.imported, file)
    if whole is not None:
        return whole, ""
    module, name = module_and_name(binding.imported)
    of = project.library.name_of_module(module, file) if module else None
    return None if of is None else (of, name)


def is_builtin(name: str, *scopes: Scope) -> bool:
    """Whether a name means what Python does by it in all of some scopes: `False`, `bool`."""
    return name in _BUILTINS and all(scope.find(name) is None for scope in scopes)


def _is_handed_on(
    project: Project, file: File, at: cst.CSTNode, name: str, wanted: str | None = None, depth: int = 0
) -> bool:
    """Whether `name` is a parameter that every caller fills with a variable of the same name (`args=args`).

    Args:
        wanted: the name further out, where one on the way is another: a caller's parameter that is filled with it.
    """
    wanted = wanted or name
    bindings = [each for each in file.scopes.of(at).lookup(name) if not _is_copy(file, each, name)]
    scope = file.scopes.of(at).find(name)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER or scope is None:
        return False
    if not isinstance(scope.node, cst.FunctionDef):
        return False
    function = project.reference(file, scope.node)
    sites = project.running(function)
    if not sites:
        return False
    for site in sites:
        value = function.given(site.call, name)
        if not isinstance(value, cst.Name) or depth == MAX_HOPS:
            return False
        if value.value != wanted and not _is_handed_on(project, site.file, site.call, value.value, wanted, depth + 1):
            return False
    return True


def _is_copy(file: File, binding: Binding, name: str) -> bool:
    """Whether a name is given a copy of itself, to change other things there: `args = copy.deepcopy(args)`."""
    value = binding.value
    if not isinstance(value, cst.Call) or file.names.callee(value) not in ("copy.copy", "copy.deepcopy"):
        return False
    return len(value.args) == 1 and isinstance(given := value.args[0].value, cst.Name) and given.value == name


def _boolean(initialize: Initialize, code: str) -> str:
    """A condition as a bool: autocast takes nothing else, and a flag may be a string or a number."""
    return code if _is_boolean(initialize, build.expression(code), frozenset()) else f"bool({code})"


def _is_boolean(initialize: Initialize, node: cst.BaseExpression, seen: frozenset[str]) -> bool:
    """Whether an expression is True or False, whatever the run; `seen` are the names that are being followed."""
    if isinstance(node, (cst.Comparison, cst.UnaryOperation)):
        return True
    if isinstance(node, cst.BooleanOperation):
        return all(_is_boolean(initialize, each, seen) for each in (node.left, node.right))
    name = dotted(node.func if isinstance(node, cst.Call) else node)
    if name is None:
        return False
    if isinstance(node, cst.Call):
        return name in _ANSWERS or name.rpartition(".")[2] in _QUESTIONS
    if name in ("True", "False"):
        return True
    if isinstance(node, cst.Name) and name not in seen:
        bindings = initialize.file.scopes.of(initialize.home).lookup(name)
        values = [each.value for each in bindings if each.kind is BindingKind.ASSIGNMENT]
        if values and len(values) == len(bindings):
            return all(value is not None and _is_boolean(initialize, value, seen | {name}) for value in values)
    return _is_declared(initialize.file.tree.text, name.rpartition(".")[2])


def _is_declared(text: str, name: str) -> bool:
    """Whether a file says somewhere that what has a name is boolean: in an option, an annotation or a default."""
    flag, option = re.escape(name), re.escape(name).replace("_", "[-_]")
    declared = (
        rf"add_argument\(\s*(['\"]-[^)]*)?['\"]--{option}['\"][^)]*store_(true|false)",
        rf"\b{flag}\b\s*(:\s*bool\s*)?=\s*(True|False)\b",
        rf"\b{flag}\s*:\s*bool\b(?!\s*=\s*None)",
    )
    return any(re.search(each, text) for each in declared)
