"""Who calls a function that something has to be handed to."""

from __future__ import annotations

import ast
from collections.abc import Collection
from textwrap import dedent

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import fits
from amp_migrate.analysis.exports import takers
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.steps.scaler.stale_calls import is_fit, stale_calls
from amp_migrate.steps.statements.amp_signs import names_amp
from amp_migrate.syntax import is_keeping, keeps_arguments


def every_call(
    project: Project, function: FunctionRef, seen: Collection[cst.CSTNode], optimizer: str | None = None
) -> tuple[CallSite, ...] | str:
    """All calls that run a function, or the reason why they are not known.

    Args:
        seen: the functions on the way so far: one that comes back to itself ends nowhere.
        optimizer: the parameter that is given one, by which a call that may be of the function is known.
    """
    if function.node in seen:
        return f"{function.name}() calls itself"
    sites = project.call_sites(function)
    if sites is None:
        return f"{function.name}() is also passed around as a value, so not every call is known"
    stale = {each.call for each in stale_calls(function, sites)}
    sites = tuple(each for each in sites if each.call not in stale)
    unfit = next((each for each in sites if not is_fit(function, each)), None)
    if unfit is not None:
        return f"`{unfit.file.tree.quote(unfit.call)}` does not fit the parameters of {function.name}(), as it is"
    doubtful = None if optimizer is None else _possible_call(project, function, optimizer)
    if doubtful is not None:
        code = doubtful.file.tree.quote(doubtful.call.func)
        why = (
            "as another thing is called so, too"
            if function.owner is None
            else "on an object whose class cannot be seen"
        )
        return f"{code}() may call {function.name}(), {why}"
    return sites or uncalled(function)


def changed_by(project: Project, function: FunctionRef) -> str | None:
    """Why a function of a module cannot be given one argument more: a decorator may call it in its own way."""
    is_changed = function.owner is None and not all(
        _keeps(project, function.file, each.decorator) for each in function.node.decorators
    )
    return f"a decorator may change what {function.name}() takes" if is_changed else None


def _keeps(project: Project, file: File, decorator: cst.BaseExpression) -> bool:
    """Whether a function under a decorator is still called with the same arguments."""
    if is_keeping(ast.parse(file.tree.code(decorator), mode="eval").body) or names_amp(file, decorator):
        return True
    found = project.definition(file, decorator)
    if found is None or not isinstance(found[1], cst.FunctionDef):
        return False
    return keeps_arguments(ast.parse(dedent(found[0].tree.code(found[1]))).body[0])


def uncalled(function: FunctionRef) -> str:
    """What is said of a function that nobody calls."""
    if function.name == "__init__" and function.owner is not None:
        return f"no call of {function.owner.name.value}() is among the files that were given"
    return f"no call of {function.name}() is among the files that were given"


def with_overriding(project: Project, function: FunctionRef) -> dict[FunctionRef, tuple[CallSite, ...]]:
    """A method and those that calls of it may run by the class of its object, each with all calls that it takes.

    Returns:
        The method alone where some call of one of them is not known.
    """
    family = (function, *project.overriding(function))
    known = [project.call_sites(each) for each in family]
    sites = {site.call: site for found in known for site in found or ()}.values()
    is_doubtful = None in known or any(True for each in family for _ in project.possible_calls(each))
    if is_doubtful or len(family) == 1:
        return {function: ()}
    taken = {
        each: tuple(site for site in sites if fits(each.node, site.call, bound=each.is_bound + site.filled))
        for each in family
        if not each.is_to_be_filled_in
    }
    return {each: found for each, found in taken.items() if found}


def unfilled(project: Project, function: FunctionRef) -> tuple[FunctionRef, ...]:
    """The methods that only say what one is to do, by the class of the object: they take what that takes."""
    return tuple(each for each in project.overriding(function) if each.is_to_be_filled_in)


def is_uncalled(project: Project, site: CallSite) -> bool:
    """Whether a call stands in a function that nobody calls, or only such functions."""
    node = site.file.tree.function(site.call)
    return node is not None and is_unused(project, project.reference(site.file, node))


def is_unused(project: Project, function: FunctionRef) -> bool:
    """Whether nobody calls a function, or only functions that nobody calls."""
    waiting, seen = [function], {function.node}
    while waiting:
        called = waiting.pop()
        sites = project.call_sites(called)
        if sites is None or _is_called_unseen(project, called) or any(True for _ in project.possible_calls(called)):
            return False
        for site in sites:
            caller = site.file.tree.function(site.call)
            if caller is None:
                return False
            if caller not in seen:
                seen.add(caller)
                waiting.append(project.reference(site.file, caller))
    return True


def is_offered(project: Project, function: FunctionRef) -> bool:
    """Whether a function is there for others: a package hands it on, a string names it, or it may be looked up.

    A constructor is if its class is.
    """
    name, file, owner = function.name, function.file, function.owner
    if name == "__init__" and owner is not None:
        name, owner = owner.name.value, None
    module = file.name.rpartition("/")[2].removesuffix(".py")
    naming = project.library.mentioning(name)
    if any(each.raw_value == name for other in naming for each in other.tree.every(cst.SimpleString)):
        return True  # in `__all__`, or where it is looked up
    taking = (file, *takers(project, file, name)) if owner is None else ()
    if any(each.name.endswith("__init__.py") for each in taking):
        return True
    own = "globals" in file.uses or any(file.names.full(each) == "sys.modules" for each in file.uses.get("modules", ()))
    beside = project.library.mentioning("getattr", module)
    is_method = owner is not None
    return own or any(_looks_up(project, each, file, is_method=is_method) for each in (file, *beside))


def _looks_up(project: Project, other: File, file: File, *, is_method: bool) -> bool:
    """Whether a file asks the module `file`, or an object, for what it only knows the name of at run time."""
    for node in other.uses.get("getattr", ()):
        call = other.tree.parents[node]
        if isinstance(call, cst.Call) and len(call.args) > 1 and not isinstance(call.args[1].value, cst.SimpleString):
            full = other.names.full(call.args[0].value)
            is_module = bool(full) and project.library.module(full, other) is file
            if is_module or (is_method and not full):
                return True
    return False


def hands_all_on(site: CallSite) -> bool:
    """Whether a call is given what its function is, whatever that is: `super().__init__(*args, **kwargs)`."""
    node = site.file.tree.function(site.call)
    params = () if node is None else (node.params.star_arg, node.params.star_kwarg)
    own = {each.name.value for each in params if isinstance(each, cst.Param)}
    starred = [each.value for each in site.call.args if each.star]
    return bool(starred) and all(isinstance(each, cst.Name) and each.value in own for each in starred)


def _is_called_unseen(project: Project, function: FunctionRef) -> bool:
    """Whether something may call a function that is none of the files: who decorates it, a framework, pytest."""
    owner = function.owner
    decorated = (*function.node.decorators, *(() if owner is None else owner.decorators))
    if decorated or function.name.startswith("test"):
        return True
    bases = () if owner is None or function.name == "__init__" else owner.bases
    return any(project.definition(function.file, each.value) is None for each in bases)


def _possible_call(project: Project, function: FunctionRef, optimizer: str) -> CallSite | None:
    """A call that may be of a function, as nobody can tell, and passes an optimizer where one goes."""
    for site in project.possible_calls(function):
        value = function.given(site.call, optimizer)
        if value is not None and is_optimizer(site.file, value):
            return site
    return None
