"""Reads calls of `amp.initialize`: what they initialize, at which level, and under which switch of the script."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.catalog.apex_rules import MODELS_CAST
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Apex
from amp_migrate.steps.apex.initialize.branches import (
    Branch,
    before,
    branch_of,
    branches_of,
    choice_of,
    chosen_scale,
    chosen_switch,
    grouped,
    is_said_before,
    place_of,
)
from amp_migrate.steps.apex.initialize.results import chosen_by, handed_back, rebinds_of
from amp_migrate.steps.apex.uses.amp_tests import settled
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.apex.uses.apex_guards import alone_in_guard, is_apex_import
from amp_migrate.steps.apex.uses.import_flags import says_apex_is_there
from amp_migrate.steps.apex.uses.loss_scale import setting_after
from amp_migrate.tables.apex_names import DYNAMIC_SCALE, INITIALIZE, NOT_NATIVE, USE_SHIM
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement, find, is_constant, statements, written_string
from amp_migrate.trees.own_calls import named_arguments

_WITH_SCALE = ", with a loss scale"
STAYED = "a static loss_scale stayed for good: now an overflow skips its step and halves the scale"
_NO_LIMIT = 2.0**24
_LARGEST_POWER = 64
# What may be said in settings that are not seen, with what is asked for where it is not.
_SETTINGS = (("enabled", ", True"), ("opt_level", ""), ("loss_scale", ""))
_UNSEEN = "what else {} says of casts and of limits to the loss scale is gone: native AMP has its own casts"
_INTERVAL = "growth_interval"
# Arguments of GradScaler for a scale that stays as it is said, unless gradients overflow: no training takes more steps.
NEVER = "2**31 - 1"
STATIC = ((_INTERVAL, NEVER),)
_USUAL_INTERVAL = "2000"  # of GradScaler, and of Apex
_IS_DYNAMIC = ' in (None, "dynamic")'
_IF_DYNAMIC = f"{_IS_DYNAMIC} else "


@frozen
class Initialize:
    """One call of `amp.initialize`.

    Attributes:
        file: where it is.
        call: the call.
        statement: the statement it makes up.
        home: the outermost statement that is there for Apex's sake: the same, or the `if args.fp16:` around it.
        replaces_home: whether nothing else is left in `home`.
        switch: the expressions that must all be true for mixed precision, as code.
        init_scale: the loss scale to begin with, as code; None where it is that of Apex and torch alike.
        setting: the statement behind the call that sets it; None where the call does, or nobody.
        optimizers: what it prepares to step; None for a model alone.
        handed_back: the statements behind it that only put the models and optimizers where they came from.
        rebinds: lines that stay: what the script made of the models and optimizers that the call gave back.
        notes: what native AMP does differently, in a sentence each.
        what: what is called.
        limits: the least and the greatest scale, as code; None where there is none.
        growth: arguments of GradScaler about how the scale grows, with their values as code.
        has_masters: whether the weights were float16, and others of float32 stepped for them.
        keeps_weights: whether these are float32 for certain, and PyTorch's functions cast: O1.
        is_late: whether an object may train without it: its scaler is off until then, and says whether it is on.
    """

    file: File
    call: cst.Call
    statement: Statement
    home: Statement
    replaces_home: bool
    switch: tuple[str, ...]
    init_scale: str | None
    setting: cst.Assign | None
    optimizers: cst.BaseExpression | None
    rebinds: tuple[str | Code, ...]
    notes: tuple[str, ...]
    handed_back: tuple[Statement, ...] = ()
    what: str = "amp.initialize"
    limits: tuple[str | None, str | None] = (None, None)
    growth: tuple[tuple[str, str], ...] = ()
    has_masters: bool = False
    keeps_weights: bool = False
    is_late: bool = False

    @property
    def is_static(self) -> bool | None:
        """Whether the loss scale stays as it is said, and knows no limits; None where only the run knows."""
        interval = dict(self.growth).get(_INTERVAL, _USUAL_INTERVAL)
        return True if interval == NEVER else None if NEVER in interval else False


def casts_prepared_alone(initializes: Sequence[Initialize]) -> bool:
    """Whether only what is prepared computes in float16, by its weights: O2 and O3 patch no functions of PyTorch."""
    return bool(initializes) and all(each.has_masters for each in initializes)


def read_initialize(file: File, call: cst.Call, apex_o2: Apex = Apex.NATIVE) -> Initialize | Refusal:
    """Understand one call of `amp.initialize`, or say why the shim has to serve it.

    Args:
        apex_o2: whether a level with float16 weights may become one with float32 weights.
    """
    statement = file.tree.statement(call)
    arguments = named_arguments(call, INITIALIZE) or _with_settings(file, call)
    if arguments is None:
        return Refusal(file, call, "the arguments of amp.initialize are starred", USE_SHIM)
    level = _level(file, arguments)
    refused = _without_native_form(file, call, arguments, level, apex_o2)
    if refused is not None:
        return refused
    rebinds = rebinds_of(file, statement, call, arguments)
    if rebinds is None:
        return Refusal(
            file, call, "the result of amp.initialize is taken apart in a way that is not understood", USE_SHIM
        )
    stands = alone_in_guard(file, statement)
    home, conditions = place_of(file, stands, arguments.get("optimizers"))
    conditions = (*conditions, *chosen_by(file, statement, call, arguments))
    for name in ("enabled", "opt_level", "loss_scale"):
        said = before(file, home, arguments[name], statement) if name in arguments else None
        if said is not None:
            arguments[name] = said
        elif name in arguments:
            return Refusal(
                file, arguments[name], f"what {name} is cannot be said where the scaler would be made", USE_SHIM
            )
    limits = _limit(file, arguments.get("min_loss_scale")), _limit(file, arguments.get("max_loss_scale"))
    is_lower = limits[1] is not None and float(limits[1]) < float(DYNAMIC_SCALE)
    init_scale = scale_to_begin_with(file, arguments.get("loss_scale"), limits[1] if is_lower else None)
    growth = growth_of(file, arguments.get("loss_scale"))
    notes = tuple(_notes(file, arguments, level, growth))
    if call.args[-1].star and not isinstance(call.args[-1].value, cst.Dict):
        notes = (*notes, _UNSEEN.format(file.tree.quote(call.args[-1].value)))
    setting = setting_after(file, statement)
    back = handed_back(file, statement, stands, arguments)
    return Initialize(
        file=file,
        call=call,
        statement=stands,
        home=home,
        replaces_home=home is stands or _only_for_apex(file, home, (stands, setting, *back)),
        switch=_switch(file, conditions, arguments),
        init_scale=init_scale if setting is None else file.tree.code(setting.value),
        setting=setting,
        optimizers=arguments.get("optimizers"),
        rebinds=() if back else tuple(rebinds),
        handed_back=back,
        notes=notes,
        limits=limits,
        growth=growth if setting is None else (),
        has_masters=level in ("O2", "O3"),
        keeps_weights=level == "O1",
    )


def _with_settings(file: File, call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """The arguments of a call that ends with `**settings`: what a native form has is asked of that by its key.

    Returns:
        None where something else is starred, or where it is not said whether there is an optimizer.
    """
    plain, last = call.args[:-1], call.args[-1] if call.args else None
    named = named_arguments(call.with_changes(args=plain), INITIALIZE)
    if last is None or last.star != "**" or named is None or "optimizers" not in named:
        return None
    if isinstance(last.value, cst.Dict):
        pairs = [each for each in last.value.elements if isinstance(each, cst.DictElement)]
        said = {str(e.key.evaluated_value): e.value for e in pairs if isinstance(e.key, cst.SimpleString)}
        return named | said if len(said) == len(last.value.elements) else None
    if dotted(last.value) is None:
        return None
    settings = file.tree.code(last.value)
    asked = {name: f'{settings}.get("{name}"{default})' for name, default in _SETTINGS if name not in named}
    return named | {name: build.expression(code) for name, code in asked.items()}


def _level(file: File, arguments: Mapping[str, cst.BaseExpression]) -> str | None:
    """The opt level; None where it is known only at run time."""
    level = arguments.get("opt_level")
    if isinstance(level, cst.Name) and (bindings := file.scopes.of(level).lookup(level.value)):
        said = {written_string(each.value) for each in bindings}
        return said.pop() if len(said) == 1 else None
    return "O1" if level is None else written_string(level)


def _levels_of(file: File, level: cst.BaseExpression | None) -> set[str | None]:
    """The opt levels that an expression may be, None among them where it may be anything."""
    if isinstance(level, cst.IfExp):
        return _levels_of(file, level.body) | _levels_of(file, level.orelse)
    if isinstance(level, cst.Name) and (bindings := file.scopes.of(level).lookup(level.value)):
        values = [each.value for each in bindings]
        # What is made of itself, and what is no plain assignment, is left to be anything.
        if all(isinstance(each, (cst.SimpleString, cst.IfExp)) for each in values):
            return set().union(*(_levels_of(file, each) for each in values))
    return {written_string(level)}


def _without_native_form(
    file: File, call: cst.Call, arguments: Mapping[str, cst.BaseExpression], level: str | None, apex_o2: Apex
) -> Refusal | None:
    for name, value in arguments.items():
        if name in NOT_NATIVE and not _is_none(value):
            return Refusal(file, value, f"{name}= of amp.initialize has no native form", USE_SHIM)
    if level not in (None, "O0", "O1", "O2", "O3"):
        return Refusal(file, call, f"opt_level {level!r} has no native form", USE_SHIM)
    if apex_o2 is Apex.SHIM and level not in ("O0", "O1"):
        reason = "the opt level is known only at run time" if level is None else f"opt_level is {level!r}"
        return Refusal(file, call, f"{reason}, and float16 weights were asked to stay", USE_SHIM)
    return None


def _switch(file: File, conditions: Sequence[str], arguments: Mapping[str, cst.BaseExpression]) -> tuple[str, ...]:
    """What must be true for mixed precision: the conditions around the call, and what its arguments say."""
    switch: list[str] = []
    enabled = arguments.get("enabled")
    if enabled is not None and not is_constant(enabled, "True"):
        switch.append(file.tree.code(enabled))
    level = arguments.get("opt_level")
    if written_string(level) == "O0":
        switch.append("False")
    elif level is not None and written_string(level) is None:  # a name is asked, whatever it stands for today
        is_on = _is_mixed(file, level)
        switch.append(is_on)
    return (*conditions, *asked_beside(conditions, switch))


def asked_beside(conditions: Sequence[str], switch: Sequence[str]) -> Iterator[str]:
    """What else is asked beside some conditions, each once; what is written out and does not hold is `False`."""
    for code in dict.fromkeys(switch):
        truth = _truth(build.expression(code))
        if truth is not True and code not in conditions:
            yield code if truth is None else "False"


def _truth(node: cst.BaseExpression) -> bool | None:
    """Whether a text, or what two texts are compared with each other for, holds; None of anything else."""
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        (compared,) = node.comparisons
        one, other = written_string(node.left), written_string(compared.comparator)
        is_equal = isinstance(compared.operator, cst.Equal)
        is_known = one is not None and other is not None and isinstance(compared.operator, (cst.Equal, cst.NotEqual))
        return (one == other) is is_equal if is_known else None
    text = written_string(node)
    return None if text is None else bool(text)


def _is_mixed(file: File, level: cst.BaseExpression) -> str:
    """Code that asks whether a level which only the run knows is one with mixed precision."""
    if isinstance(level, cst.IfExp):
        chosen = [written_string(each) for each in (level.body, level.orelse)]
        if None not in chosen and (chosen[0] == "O0") != (chosen[1] == "O0"):
            return f"not {_operand(file, level.test)}" if chosen[0] == "O0" else f"bool({file.tree.code(level.test)})"
    return f'{_operand(file, level)} != "O0"'


def _operand(file: File, node: cst.BaseExpression) -> str:
    """Code that an operator may stand before or behind."""
    code = file.tree.code(node)
    is_one = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or bool(node.lpar)
    return code if is_one else f"({code})"


def _notes(
    file: File, arguments: Mapping[str, cst.BaseExpression], level: str | None, growth: tuple[tuple[str, str], ...]
) -> Iterator[str]:
    """What native AMP does differently from this call, in a sentence each; `growth` is that of its loss scale."""
    said = {level} if level is not None else _levels_of(file, arguments.get("opt_level"))
    if said & MODELS_CAST.keys():
        is_scaled = level == "O3" and _has_optimizers(arguments)
        yield MODELS_CAST[level if len(said) == 1 else None] + (_WITH_SCALE if is_scaled else "")
    if not _is_none(arguments.get("keep_batchnorm_fp32")):
        yield "keep_batchnorm_fp32 is gone: under autocast batch norm keeps float32 weights and statistics"
    yield from notes_on_scale(growth)
    for name in ("min_loss_scale", "max_loss_scale"):
        limit = arguments.get(name)
        if limit is not None and not _is_none(limit) and _number(file.tree.code(limit)) is None:
            yield f"{name} is gone: what it is cannot be seen here, and GradScaler knows no limits"
    if "num_losses" in arguments:
        yield "num_losses is gone: one scaler serves all losses, and an overflow in one lowers the scale of all"


def _has_optimizers(arguments: Mapping[str, cst.BaseExpression]) -> bool:
    given = arguments.get("optimizers")
    return not _is_none(given) and not (isinstance(given, (cst.List, cst.Tuple)) and not given.elements)


def read_initializes(
    file: File, apex_o2: Apex, wrapped: Iterable[Initialize | Refusal]
) -> Iterator[Initialize | Refusal]:
    """Every initialization of a file; that of which each branch of an `if` has its own form is one.

    Args:
        wrapped: what wrappers of optimizers say, which is the same in other words.
    """
    found = [*(read_initialize(file, call, apex_o2) for call in amp_calls(file, "initialize")), *wrapped]
    found = list(_whichever_branch(file, found))
    chains: dict[cst.If, list[Initialize]] = {}
    for each in found:
        branch = None if isinstance(each, Refusal) else branch_of(file, each.statement)
        if isinstance(each, Initialize) and branch is not None:
            chains.setdefault(branch.chain, []).append(each)
        else:
            yield each
    for chain, forms in chains.items():
        if len({file.tree.block(each.statement) for each in forms}) == 1:
            yield from forms
        else:
            yield from _joined(file, chain, forms)


def _whichever_branch(file: File, found: Sequence[Initialize | Refusal]) -> Iterator[Initialize | Refusal]:
    """The initializations, without the tests of an `if` that initializes alike in each of its branches."""
    homes: dict[cst.CSTNode, list[Initialize]] = {}
    for each in found:
        if isinstance(each, Initialize):
            homes.setdefault(each.home, []).append(each)
    asked: dict[cst.CSTNode, tuple[str, ...]] = {
        home: _alike_in_branches(file, home, forms) for home, forms in homes.items() if isinstance(home, cst.If)
    }
    for each in found:
        own = () if isinstance(each, Refusal) else asked.get(each.home, ())
        yield replace(each, switch=own, replaces_home=False) if own and isinstance(each, Initialize) else each


def _alike_in_branches(file: File, chain: cst.If, forms: Sequence[Initialize]) -> tuple[str, ...]:
    """What the initializations in an `if` ask in its branches; nothing where they do not all do the same."""
    branches = branches_of(chain)
    are_alike = len({(each.init_scale, each.limits, each.growth) for each in forms}) == 1
    is_every = branches[-1][0] is None and len(forms) == len(branches)
    if not (is_every and are_alike and all(each.statement in file.tree.parents for each in forms)):
        return ()
    asked: set[tuple[str, ...]] = set()
    for index, (test, block) in enumerate(branches):
        failed = tuple(each for each, _ in branches[:index] if each is not None)
        condition = Branch(chain, block, failed, test).condition(file)
        # What stands in a branch itself is joined with the others.
        inside = [each for each in forms if block in file.tree.ancestors(file.tree.block(each.statement))]
        if len(inside) != 1 or inside[0].setting is not None or inside[0].switch[: len(condition)] != condition:
            return ()
        asked.add(inside[0].switch[len(condition) :])
    own = asked.pop()
    return own if not asked and is_said_before(file, chain, (*own, forms[0].init_scale or "None")) else ()


def _joined(file: File, chain: cst.If, forms: list[Initialize]) -> Iterator[Initialize | Refusal]:
    """The initializations that stand in the branches of an `if`, under one switch: one where nothing else stands there.

    Where more does, each goes from its own branch, and what they share is said before the `if`.
    """
    choice = choice_of(file, chain, [each.statement for each in _one_of_each_branch(file, forms)])
    if choice is None and sum(each.optimizers is not None for each in forms) <= 1:
        yield from forms  # there is one scaler at the most, and nothing that they share
        return
    every = _told_apart(forms)
    forms = _one_of_each_branch(file, every)
    first = forms[0]
    own = [each.switch[len(place_of(file, each.statement, each.optimizers)[1]) :] for each in forms]
    are_alike = all((each.limits, each.setting) == (first.limits, None) for each in every)
    are_alike = are_alike and len({_of_growth(each) for each in forms if each.growth and each.growth != STATIC}) <= 1
    if choice is None or not are_alike or not _alike_in_each_branch(file, every):
        yield Refusal(file, chain, "amp.initialize stands in one of several branches", USE_SHIM)
        return
    optimizers = next((each.optimizers for each in forms if each.optimizers is not None), None)
    home, conditions = place_of(file, chain, optimizers)
    switch = chosen_switch(file, chain, own) if len(set(own)) > 1 else (*choice, *own[0])
    shared = replace(
        first,
        statement=chain,
        home=home,
        replaces_home=home is chain or _only_for_apex(file, home, (chain,)),
        switch=(*conditions, *(map(grouped, switch) if conditions else switch)),
        init_scale=chosen_scale(file, chain, [each.init_scale for each in forms]),
        optimizers=optimizers,
        notes=tuple(dict.fromkeys(note for each in forms for note in each.notes)),
        growth=_chosen_growth(file, chain, [each.growth for each in forms]),
    )
    is_all = all(len(block.body) == 1 for _, block in branches_of(chain))
    if is_all and all(each.rebinds == first.rebinds for each in forms) and not (choice and first.rebinds):
        yield shared
    elif is_said_before(file, chain, (*shared.switch, shared.init_scale or "None")):
        for each in every:
            yield replace(
                each,
                home=home,
                replaces_home=False,
                switch=shared.switch,
                init_scale=shared.init_scale,
                growth=shared.growth,
            )
    else:
        yield Refusal(file, chain, "amp.initialize stands in one of several branches", USE_SHIM)


def _one_of_each_branch(file: File, forms: Sequence[Initialize]) -> list[Initialize]:
    """The first initialization of each block that has some."""
    return [*{file.tree.block(each.statement): each for each in reversed(forms)}.values()][::-1]


def _alike_in_each_branch(file: File, forms: Sequence[Initialize]) -> bool:
    """Whether the initializations of one branch ask for the same: the scaler is that of the first as of the others."""
    said = {(file.tree.block(each.statement), each.switch, each.init_scale, each.growth) for each in forms}
    return len(said) == len(_one_of_each_branch(file, forms))


def _chosen_growth(
    file: File, chain: cst.If, growths: Sequence[tuple[tuple[str, str], ...]]
) -> tuple[tuple[str, str], ...]:
    """How a scale grows, where it stays as it is said in some branches of an `if` alone."""
    if not any(growths):
        return ()
    adapting = next((each for each in growths if each and each != STATIC), ())
    intervals = [dict(each).get(_INTERVAL, _USUAL_INTERVAL) for each in growths]
    code = chosen_scale(file, chain, intervals) or _USUAL_INTERVAL
    return tuple((dict(adapting) | {_INTERVAL: code}).items())


def _of_growth(initialize: Initialize) -> frozenset[tuple[str, str]]:
    """What is said of how a scale grows, but for how often."""
    return frozenset(each for each in initialize.growth if each[0] != _INTERVAL)


def _told_apart(forms: list[Initialize]) -> list[Initialize]:
    """Initializations that need not ask whether their scale is dynamic, where the script has a branch for that."""
    if all(each.growth for each in forms):
        return forms
    asked = [(each.init_scale or "").partition(_IF_DYNAMIC)[2] for each in forms]
    return [
        replace(each, init_scale=scale, growth=STATIC) if scale else each
        for each, scale in zip(forms, asked, strict=True)
    ]


def scale_to_begin_with(file: File, scale: cst.BaseExpression | None, first: str | None = None) -> str | None:
    """A loss scale as GradScaler's `init_scale`; None where Apex chose it. A dynamic one begins with `first`."""
    if scale is None or is_constant(scale, "None") or written_string(scale) == "dynamic":
        return first
    if isinstance(scale, (cst.Integer, cst.Float, cst.SimpleString)):
        return str(float(str(scale.evaluated_value)))
    if isinstance(scale, cst.IfExp):
        arms = [scale_to_begin_with(file, arm, first) or DYNAMIC_SCALE for arm in (scale.body, scale.orelse)]
        return f"{arms[0]} if {file.tree.code(scale.test)} else {arms[1]}"
    code = file.tree.code(scale)
    if isinstance(file.tree.parents.get(scale), cst.IfExp):  # the script tells the dynamic scale by another value
        return f"float({code})"
    return f"{first or DYNAMIC_SCALE} if {code}{_IF_DYNAMIC}float({code})"


def with_known_scale(initialize: Initialize) -> Initialize:
    """An initialization that need not ask whether its loss scale is dynamic, where that is written out by now."""
    scale = initialize.init_scale or ""
    tree = ast.parse(scale, mode="eval").body if _IF_DYNAMIC in scale else None
    if not isinstance(tree, ast.IfExp) or not isinstance(tree.test, ast.Compare):
        return initialize
    asked, first = tree.test.left, ast.unparse(tree.body)
    if not isinstance(asked, ast.Constant):
        return initialize
    if asked.value in (None, "dynamic"):
        return replace(initialize, init_scale=None if first == DYNAMIC_SCALE else first, growth=())
    return replace(initialize, init_scale=str(float(str(asked.value))), growth=STATIC)


def _limit(file: File, limit: cst.BaseExpression | None) -> str | None:
    """A limit of the loss scale that is written out; None where there is none, as Apex's own 2**24 is to float16."""
    number = None if limit is None else _number(file.tree.code(limit))
    return None if number is None or number >= _NO_LIMIT else str(number)


def notes_on_scale(growth: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """What native AMP does differently with a loss scale that may be static."""
    if growth:
        yield STAYED


def growth_of(file: File, scale: cst.BaseExpression | None) -> tuple[tuple[str, str], ...]:
    """Arguments of GradScaler about growth for a loss scale: one that is static stays as it is."""
    interval = _interval(file, scale)
    return () if interval is None else ((_INTERVAL, interval),)


def _interval(file: File, scale: cst.BaseExpression | None) -> str | None:
    """How often a loss scale grows, as code; None where it does as Apex's and torch's alike."""
    static = dict(STATIC)[_INTERVAL]
    begins = scale_to_begin_with(file, scale)
    if scale is None or begins is None:
        return None
    if isinstance(scale, cst.IfExp):
        arms = [_interval(file, arm) or _USUAL_INTERVAL for arm in (scale.body, scale.orelse)]
        chosen = f"{arms[0]} if {file.tree.code(scale.test)} else {arms[1]}"
        return chosen if arms[0] != arms[1] else None if arms[0] == _USUAL_INTERVAL else arms[0]
    return static_unless(f"{file.tree.code(scale)}{_IS_DYNAMIC}", {})[_INTERVAL] if _IF_DYNAMIC in begins else static


def static_unless(dynamic: str, growth: Mapping[str, str]) -> dict[str, str]:
    """Arguments of GradScaler about growth, where the run says whether the scale is dynamic."""
    interval = f"{growth.get(_INTERVAL, _USUAL_INTERVAL)} if {dynamic} else {dict(STATIC)[_INTERVAL]}"
    return {**growth, _INTERVAL: interval}


def _number(code: str) -> float | None:
    """The value of a number that is written out: of `512`, `128.0`, `2.**14`."""
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except SyntaxError:
        return None
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow):
        left, right = (_number(ast.unparse(side)) for side in (tree.left, tree.right))
        return None if left is None or right is None or abs(right) > _LARGEST_POWER else left**right
    is_written = isinstance(tree, ast.Constant) and type(tree.value) in (int, float)
    return float(code) if is_written else None


def _only_for_apex(file: File, home: Statement, gone: Collection[Statement | None], *, is_inner: bool = False) -> bool:
    """Whether an `if` does nothing but some statements where Apex is there; an inner one asks for nothing else."""
    assert isinstance(home, cst.If)
    is_there = False
    for index, (test, block) in enumerate(branches_of(home)):
        truth = True if test is None else settled(file, test)
        if truth is False or is_there:
            # That it never runs cannot be proven by a flag of the import, which may be false above it.
            if _asks_flag(file, home) and not all(isinstance(each, cst.Pass) for each in statements(block)):
                return False
            continue
        if not isinstance(truth, bool) and (index or is_inner):
            return False
        for each in statements(block):
            is_asked = isinstance(each, cst.If) and _only_for_apex(file, each, gone, is_inner=True)
            if not (each in gone or is_asked or isinstance(each, cst.Pass) or is_apex_import(file, each)):
                return False
        is_there = truth is True
    return True


def _asks_flag(file: File, home: cst.If) -> bool:
    tests = (test for test, _ in branches_of(home) if test is not None)
    return any(says_apex_is_there(file, each) for test in tests for each in find(test, cst.Name))


def _is_none(value: cst.BaseExpression | None) -> bool:
    return value is None or is_constant(value, "None")
