"""`amp.initialize` in a helper (`model, optimizer = prepare(model, optimizer, args.fp16)`), as its caller sees it.

The scaler is made where the caller has its optimizer from, so that the helper's parameters become what is passed. A
method that initializes what its object has already is seen from the method that calls it: where the call is one branch
of an `if`, that is a part of the script's switch. Where that cannot be said, the object has a scaler that is off from
the first, and another one once the method is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import parameter, passed
from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.branches import place_of
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize, asked_beside, with_known_scale
from amp_migrate.steps.apex.initialize.put_in import put_in
from amp_migrate.steps.apex.initialize.switch import is_builtin, is_visible
from amp_migrate.steps.model.route import Creation
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement, is_constant, method_of


def seen_from(project: Project, initialize: Initialize, creation: Creation) -> Initialize | None:
    """The same initialization in the words of the function that makes a scaler, and calls the helper.

    Be it by other helpers, each of which has one caller.

    Returns:
        None where the helper is not called there exactly once, or where its condition is made from more than is passed.
    """
    tree = creation.file.tree
    seen, function = initialize, _function(project, initialize)
    for _ in range(MAX_HOPS):
        everywhere = () if function is None else project.call_sites(function) or ()
        sites = [
            site
            for site in everywhere
            if site.file is creation.file and tree.function(site.call) is tree.function(creation.home)
        ]
        if sites or function is None or len(everywhere) != 1:
            break
        ((home, conditions), site) = place_of_call(everywhere[0]), everywhere[0]
        above = told_to_caller(seen, function, site, home, conditions)
        if above is None:
            return None
        seen, function = above, _function(project, above)
    if function is None or len(sites) != 1:
        return None
    call, conditions = place_of_call(sites[0])
    is_asked = call not in tree.ancestors(creation.home) and not _gives_all(sites[0])
    return told_to_caller(seen, function, sites[0], creation.home, conditions if is_asked else ())


def calls_of_helper(project: Project, initialize: Initialize) -> Iterator[tuple[File, Statement]]:
    """The statements that have Apex initialized by a helper, or by one that calls it where that has one caller."""
    function = _function(project, initialize)
    for _ in range(MAX_HOPS):
        sites = () if function is None else project.call_sites(function) or ()
        yield from ((each.file, place_of_call(each)[0]) for each in sites)
        node = sites[0].file.tree.function(sites[0].call) if len(sites) == 1 else None
        function = None if node is None else project.reference(sites[0].file, node)


def _gives_all(site: CallSite) -> bool:
    """Whether the caller has nothing but None where it does not call the helper: there is no training without it."""
    tree, scopes = site.file.tree, site.file.scopes
    statement = tree.parents[site.call]
    if not isinstance(statement, cst.Assign):
        return False
    names = {each for target in statement.targets for each in reads([target.target])}
    bindings = [each for name in names for each in scopes.of(statement).bindings.get(name, ())]
    return bool(bindings) and all(b.node is statement or is_constant(b.value, "None") for b in bindings)


def seen_below(project: Project, initialize: Initialize, creation: Creation) -> Initialize | None:
    """The same initialization in the words of a function that keeps what it is given: `Trainer(args, model)`.

    Returns:
        None where some word of it means nothing there, or where it is one branch of an `if` that it is made at all.
    """
    tree = creation.file.tree
    node = tree.function(creation.home)
    if node is None or is_chosen(project, initialize):
        return None
    function = project.reference(creation.file, node)
    sites = project.call_sites(function)
    codes = [*initialize.switch, *([] if initialize.init_scale is None else [initialize.init_scale])]
    told: list[str] = []
    for code in codes:
        asked = replace(initialize, switch=(code,))
        name = code if is_visible(project, asked, creation.file, creation.home) else None
        for each in (*node.params.params, *node.params.kwonly_params) if name is None and sites else ():
            if all(_is_given(function, site, each.name.value, code, initialize) for site in sites or ()):
                name = each.name.value
        if name is None:
            return None
        told.append(name)
    asked = replace(initialize, switch=tuple(value for _, value in initialize.growth))
    if not is_visible(project, asked, creation.file, creation.home):
        return None
    switch = tuple(told[: len(initialize.switch)])
    scale = None if initialize.init_scale is None else told[-1]
    return replace(initialize, file=creation.file, home=creation.home, switch=switch, init_scale=scale)


def _is_given(function: FunctionRef, site: CallSite, name: str, code: str, initialize: Initialize) -> bool:
    """Whether a call beside an initialization passes what that asks for as the argument of a name."""
    if site.file is not initialize.file or site.file.tree.function(site.call) is not site.file.tree.function(
        initialize.home
    ):
        return False
    value = function.given(site.call, name)
    return value is not None and site.file.tree.code(value) == code


def is_chosen(project: Project, initialize: Initialize) -> bool:
    """Whether some call of the helper that an initialization stands in is one branch of an `if`."""
    function = _function(project, initialize)
    return function is not None and any(place_of_call(site)[1] for site in project.call_sites(function) or ())


def may_be_apart(project: Project, initialize: Initialize, creation: Creation) -> bool:
    """Whether a scaler is made for objects, too, which never come to an initialization: that is of a derived class."""
    own, node = _function(project, initialize), creation.file.tree.function(creation.home)
    home = None if node is None else project.reference(creation.file, node)
    if own is None or home is None or own.owner is None or home.owner in (None, own.owner):
        return False
    if home.owner not in [owner for _, owner in project.lineage(own.file, own.owner)]:
        return False
    initialized = {owner for _, owner in project.with_derived([(own.file, own.owner)])}
    sites = project.call_sites(home)
    return sites is None or any(each.file.tree.owner_class(each.call) not in initialized for each in sites)


def lifted(project: Project, initialize: Initialize) -> Initialize | Refusal:
    """An initialization of what an object has already, where a method of it calls for that under a condition."""
    file, function = initialize.file, _function(project, initialize)
    if function is None or function.owner is None or _makes_optimizer(initialize, function):
        return initialize
    own = [
        CallSite(file, call)
        for call in file.calls
        if (method := project.own_method(file, call)) is not None and method.node is function.node
    ]
    everywhere = (project.call_sites(function) or ()) if project.is_only_method(function) else ()
    sites = {site.call: site for site in (*own, *everywhere)}
    chosen = [site for site in sites.values() if place_of_call(site)[1]]
    if not chosen:
        return initialize
    site, (home, conditions) = chosen[0], place_of_call(chosen[0])
    seen = told_to_caller(initialize, function, site, home, conditions) if len(sites) == len(own) == 1 else None
    if seen is None and method_of(function.owner, "__init__") not in (None, function.node):
        return replace(initialize, is_late=True)
    if seen is None:
        reason = f"when {function.name}() initializes Apex cannot be said where its object is made"
        return Refusal(site.file, site.call, reason)
    return replace(seen, replaces_home=False)


def _function(project: Project, initialize: Initialize) -> FunctionRef | None:
    node = initialize.file.tree.function(initialize.home)
    return None if node is None else project.reference(initialize.file, node)


def place_of_call(site: CallSite) -> tuple[Statement, tuple[str, ...]]:
    """The statement that decides whether a call is made, and its conditions for that."""
    return place_of(site.file, site.file.tree.statement(site.call), None)


def _makes_optimizer(initialize: Initialize, function: FunctionRef) -> bool:
    """Whether the method has made the attributes itself that it initializes: there is no training without it."""
    file, owner = initialize.file, function.owner
    assert owner is not None
    order = file.tree.order
    names = () if initialize.optimizers is None else reads([initialize.optimizers])
    attributes = [name for name in names if name.startswith("self.")]
    return not attributes or any(
        file.tree.function(node) is function.node and order[node] < order[initialize.statement]
        for name in attributes
        for node in file.class_attribute(owner, name)
    )


def told_to_caller(
    initialize: Initialize, function: FunctionRef, site: CallSite, home: Statement, conditions: tuple[str, ...]
) -> Initialize | None:
    """The initialization in the words of its caller at `home`; None where some word means nothing there."""
    scale = [] if initialize.init_scale is None else [initialize.init_scale]
    codes = [*initialize.switch, *scale, *(code for _, code in initialize.growth)]
    scopes = initialize.file.scopes.of(initialize.home), site.file.scopes.of(home)
    names = [each for each in reads(map(build.expression, codes)) if not is_builtin(each, *scopes)]
    func = site.call.func
    owner = dotted(func.value) if function.owner is not None and isinstance(func, cst.Attribute) else None
    is_own = owner == "self"
    values: dict[str, cst.BaseExpression] = {}
    for name in names:
        if owner is not None and name.startswith("self."):  # `manager.args.fp16` for `manager.prepare(model)`
            value: cst.BaseExpression | None = build.expression(f"{owner}.{name.removeprefix('self.')}")
        else:
            value = _given(site, function, name) or (_kept(initialize, function, name) if is_own else None)
        if value is None:
            return None
        values[name] = value
    asked = [*values.values(), *map(build.expression, (*conditions, *filter(None, [owner])))]
    if not all(_is_set(site.file, value, home) for value in asked):
        return None
    told = replace(
        initialize,
        file=site.file,
        home=home,
        switch=(*conditions, *asked_beside(conditions, [put_in(code, values) for code in initialize.switch])),
        init_scale=None if initialize.init_scale is None else put_in(initialize.init_scale, values),
        growth=tuple((name, put_in(code, values)) for name, code in initialize.growth),
    )
    return with_known_scale(told)


def _given(site: CallSite, function: FunctionRef, name: str) -> cst.BaseExpression | None:
    """What a call passes for a parameter: names, attributes and constants, which mean the same a line later."""
    found, param = passed(function.node, site.call, name, bound=function.is_bound), parameter(function.node, name)
    if found is None:
        return None
    value = None if param is None else param.default
    value = value if found.argument is None else found.argument.value
    plain = (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer, cst.Float)
    return value if isinstance(value, plain) else None


def _kept(initialize: Initialize, function: FunctionRef, name: str) -> cst.BaseExpression | None:
    """The attribute that a method has a variable from: `self.params` for `params = self.params`."""
    bindings = initialize.file.scopes.inside(function.node).bindings.get(name, [])
    value = bindings[0].value if len(bindings) == 1 else None
    return value if value is not None and (dotted(value) or "").startswith("self.") else None


def _is_set(file: File, value: cst.BaseExpression, home: Statement) -> bool:
    """Whether what is read means the same already where the scaler is made."""
    tree = file.tree
    inside = tree.function(home)
    bindings = [each for name in reads([value]) for each in file.scopes.of(home).lookup(name)]
    return all(
        binding.kind is BindingKind.PARAMETER or tree.order[binding.node] < tree.order[home]
        for binding in bindings
        if tree.function(binding.node) is inside
    )
