"""Where an optimizer comes from, as far as the text of one file shows."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.values.looped import collection, items, values_of
from amp_migrate.steps.model.route import Creation
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees.nodes import Statement, arms, find, is_constant


def container(node: cst.BaseExpression) -> cst.BaseExpression:
    """`optimizers` for `optimizers["d"]`: a scaler is kept beside the collection."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def is_parameter(bindings: list[Binding]) -> bool:
    """Whether a name may hold what a caller passes."""
    return any(binding.kind is BindingKind.PARAMETER for binding in bindings)


def is_same_object(name: str, bindings: list[Binding]) -> bool:
    """Whether a parameter is only ever wrapped: `optimizer = Wrapper(optimizer)`, not `optimizer or SGD(...)`."""
    for binding in bindings:
        value = binding.value if binding.value is not None else binding.source
        if binding.kind is not BindingKind.PARAMETER and not (isinstance(value, cst.Call) and name in reads([value])):
            return False
    return True


def is_made_anew(bindings: list[Binding]) -> bool:
    """Whether a parameter only gets what a call makes: where an optimizer is given, its scaler serves the next, too."""
    others = [each for each in bindings if each.kind is not BindingKind.PARAMETER]
    return all(each.kind is BindingKind.ASSIGNMENT and isinstance(each.value, cst.Call) for each in others)


def makes(binding: Binding) -> bool:
    """Whether a binding may make an object: it calls something, and does not only name what there is already.

    So does an empty dictionary, which is to be filled.
    """
    value = binding.value if binding.value is not None else binding.source
    return binding.kind is BindingKind.ASSIGNMENT and (value is None or _calls(value))


def _calls(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.IfExp):
        made = [each for each in (value.body, value.orelse) if not is_constant(each, "None")]
        return bool(made) and all(map(_calls, made))
    return any(find(value, cst.Call)) or (isinstance(value, cst.Dict) and not value.elements)


def other_names(name: str, bindings: list[Binding]) -> list[cst.BaseExpression]:
    """What a name is another name for: `self.optimizer` for `optimizer = self.optimizer`; nothing where it is none.

    For what a loop takes out of a collection, that is the collection, which the scaler is kept beside; so it is for
    what is unpacked from one. A name that is given one of several is another name for each: see `displayed`.
    """
    looped = [collection(binding.node, name) for binding in bindings]
    if looped and looped[0] is not None and len({dotted(each) for each in looped}) == 1:
        return [looped[0]]
    values = [value for each in bindings if not is_constant(value := _named(each), "None")]
    held = [inner for each in values if each is not None for inner in displayed(each)]
    return held if None not in values and all(dotted(container(each)) is not None for each in held) else []


def _named(binding: Binding) -> cst.BaseExpression | None:
    """What a binding gives a name of that has one itself, alone or beside others."""
    value = None if binding.value is None else _gathered(binding.value) or binding.value
    return binding.source if value is None and dotted(binding.source) is not None else value


def is_display(bindings: list[Binding]) -> bool:
    """Whether a name is given a dictionary that is written out, and nothing else."""
    return bool(bindings) and all(isinstance(each.value, cst.Dict) for each in bindings)


def displayed(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What stands in a tuple or list that is written out, or in the arms of a choice.

    Beside what has a name there, a scaler may be kept.
    """
    found: list[cst.BaseExpression] = []
    for each in arms(value):
        inside = each.elements if isinstance(each, (cst.Tuple, cst.List)) else ()
        found += [one.value for one in inside] or [each]
    return found


def _gathered(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """The collection of which all is put into a list: `self.optimizers` for `list(self.optimizers.values())`."""
    if isinstance(value, cst.Call) and dotted(value.func) in ("list", "tuple") and len(value.args) == 1:
        over = values_of(value.args[0].value)
        return over if dotted(over) is not None else None
    if not isinstance(value, cst.ListComp) or value.for_in.inner_for_in is not None:
        return None
    target = dotted(value.for_in.target)
    over = values_of(value.for_in.iter) if dotted(value.elt) == target else container(value.elt)
    path = dotted(over)
    return None if target is None or path is None or path.partition(".")[0] == target else over


def is_anew(creation: Creation, at: cst.CSTNode) -> bool:
    """Whether a scaler would be made as often as the step runs at `at`, so that its scale would never adapt."""
    tree = creation.file.tree
    loop, around = tree.loop(creation.home), tree.loop(at)
    while isinstance(around, cst.For) and dotted(at) in items(around):  # `for each in optimizers: each.step()`
        around = tree.loop(around)
    if loop is not around or tree.function(creation.home) is not tree.function(at):
        return False
    # Without a loop, a function that makes its optimizer runs once; one that asks somebody for it runs for every step.
    return loop is not None or (tree.function(at) is not None and _asks(creation.home))


def _asks(statement: Statement) -> bool:
    """Whether a statement gets an object that is kept elsewhere: `optimizer = self.optimizers()`."""
    calls = list(find(statement, cst.Call))
    return len(calls) == 1 and not calls[0].args and isinstance(calls[0].func, cst.Attribute)
