"""What is a module, and what runs one.

Nothing here runs code. A role is read from how the object is made where that can be seen, from what is done with it
(`x.parameters()` shows a module, `x.zero_grad()` together with `x.step()` an optimizer) where it comes in as an
argument, and from its name only for what people name with one word everywhere.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

import libcst as cst

from amp_migrate.analysis.arguments.passing import passed_values
from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.files import File, item_bindings, object_bindings, object_path
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.names.reaching import reaching
from amp_migrate.analysis.objects import Class, handed_back
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.analysis.values.looped import elements, held_in
from amp_migrate.analysis.values.losses import Losses, is_class_name
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.analysis.values.recursion import Recursion, Runs
from amp_migrate.tables import torch_names as table
from amp_migrate.tables.apex_names import AMP
from amp_migrate.tables.operators import LAYERS, OF_ONE_TENSOR, SATURATING
from amp_migrate.trees.nodes import (
    arms,
    block_of,
    find,
    last_word,
    method_of,
    nested_statements,
    subscript_key,
    walk,
    written_string,
)

_MODULE_NAME = re.compile(r"(^|[._])(model|net|network|ddp_model)_?\d*$", re.IGNORECASE)
# How the name of a function begins that does something with a module.
_DOES = re.compile(rf"_*({'|'.join((*table.BOOKKEEPING_PREFIXES, *table.MODULE_VERBS))})_", re.IGNORECASE)

GRAD = "torch.autograd.grad"
# Methods of a mapping, as the weights are that a checkpoint has by the name of their model: `state["model"].items()`.
_OF_MAPPINGS = frozenset("items keys values".split())
# What a class does that steps something, or reads gradients; or has by whatever name.
_OF_GRADIENTS = re.compile(r"\.(step|grad|param_groups|__dict__)\b|\b(__getattr__|getattr|param_groups|backward)\b")
# Python's own functions that call nothing of what they are given.
_ASKING = frozenset("bool getattr hasattr int isinstance issubclass len print range setattr super".split())

_Place = tuple[File, cst.BaseExpression]


class Roles:
    """The roles of objects in one project.

    Args:
        sized: see `Settings.sized`.
    """

    def __init__(self, project: Project, sized: frozenset[tuple[str, int]] = frozenset()) -> None:
        self.project = project
        self.sized = sized
        self.losses = Losses(project)
        self._forwards, self._backwards, self._gradients = Recursion(), Recursion(), Recursion()
        self._asked_for_weights: set[cst.FunctionDef] = set()
        self._modules: dict[cst.CSTNode, bool] = {}
        self._given_to_apex: dict[File, frozenset[str]] = {}

    # Modules

    def is_module(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether an expression is an `nn.Module` that is called for its forward."""
        if node not in self._modules:
            self._follow(file, node)
        return self._modules[node]

    def _follow(self, file: File, node: cst.BaseExpression) -> None:
        """Follow a value to where it is seen to be a module, along all that it may come from, each asked once.

        What comes back to itself says nothing by that: where no module is found, none of all that were asked is one.
        Where one is, all on the way to it come from it; of what lies beside the way, nothing is known yet.
        """
        asked: set[cst.BaseExpression] = {node}
        way: list[tuple[cst.BaseExpression, Iterator[_Place]]] = []
        where, each = file, node
        while True:
            known = self._modules.get(each)
            given = self._shows_module(where, each) if known is None else known
            if given is True:
                self._modules.update(dict.fromkeys((each, *(passed for passed, _ in way)), True))
                return
            way.append((each, iter(() if given is False else given)))
            while (step := next((one for one in way[-1][1] if one[1] not in asked), None)) is None:
                way.pop()
                if not way:
                    self._modules.update(dict.fromkeys(asked, False))
                    return
            where, each = step
            asked.add(each)

    def _shows_module(self, file: File, node: cst.BaseExpression) -> bool | Iterator[_Place]:
        """Whether an expression is seen to be a module, or none; where neither is seen, what it may come from."""
        if isinstance(node, cst.Attribute) and node.attr.value == "module":
            return iter([(file, node.value)])
        if isinstance(node, cst.Call):
            return self._makes_module(file, node)
        path = object_path(node)
        if path is None:
            shown = elements(node.value) if isinstance(node, cst.Subscript) else []  # `[self.first, self.second][i]`
            return iter([(file, each) for each in shown])
        if path == "self":
            owner = file.tree.owner_class(node)
            return owner is not None and self.is_module_class(file, owner)
        bindings = self.bindings(file, node)
        if self._is_loss_of_trained(file, node, bindings):
            return True
        if self._is_something_else(file, node, bindings):
            return False
        if path in self._prepared(file):
            return True
        called = file.called_on(node)
        if called & table.MODULE_EVIDENCE and not self._may_be_data(file, node, bindings, called):
            return True
        if path.startswith("self.") and not bindings and self._is_inherited_module(file, node, path):
            return True
        if not called & table.TEXT_METHODS and self._is_named_as_module(file, node, path, bindings):
            return True
        collections = [self._held(file, each) for each in held_in(file, node)]
        if any(each is None for each in collections):
            return True
        return itertools.chain(
            self._given(file, node, bindings), *filter(None, collections), self._kept(file, node, set())
        )

    @staticmethod
    def _may_be_data(file: File, node: cst.BaseExpression, bindings: Sequence[Binding], called: set[str]) -> bool:
        """Whether only `train()` speaks for a module, of what nothing calls or gets, beside an optimizer of another.

        A source of data has that method for a part of them: `tasks.train()`, and then `tasks.sample_task()`.
        """
        weak = called & table.MODULE_EVIDENCE <= table.PARTS_OF_DATA
        if not weak or not isinstance(node, cst.Name) or called & table.MODULE_BOOKKEEPING - table.PARTS_OF_DATA:
            return False
        parents, is_target = file.tree.parents, False
        for use in file.uses[node.value]:
            parent = parents[use]
            is_target |= isinstance(parent, cst.AssignTarget)
            is_asked = isinstance(parent, cst.Attribute) and isinstance(parents[parent], cst.Call)
            if isinstance(use, cst.Name) and not isinstance(parent, cst.AssignTarget) and not is_asked:
                return False
        is_made = is_target and all(isinstance(each.value, cst.Call) for each in bindings)
        return is_made and any(table.is_optimizer_name(file.names.callee(each)) for each in file.calls)

    def _prepared(self, file: File) -> frozenset[str]:
        """The models that a file gives Apex to prepare, by their names there."""
        if file not in self._given_to_apex:
            calls = [call for call in file.calls if file.names.callee(call) == f"{AMP}.initialize" and call.args]
            given = [each for call in calls for each in (elements(call.args[0].value) or [call.args[0].value])]
            self._given_to_apex[file] = frozenset(filter(None, map(object_path, given)))
        return self._given_to_apex[file]

    def _is_something_else(self, file: File, node: cst.BaseExpression, bindings: Sequence[Binding]) -> bool:
        """Whether a name is known to stand for what is no module: a function, a class, a loss, an optimizer."""
        # `net = net()` of `class net`: the name has the class above it, and the object below.
        kinds = {each.kind for each in (reaching(file.names, node) if isinstance(node, cst.Name) else ()) or bindings}
        if kinds & {BindingKind.FUNCTION, BindingKind.CLASS} or kinds == {BindingKind.IMPORT}:
            return True
        if isinstance(node, cst.Attribute) and file.names.full(node):  # `networks.print_network` is a function
            return True
        makers = [file.names.callee(each.value) for each in bindings if isinstance(each.value, cst.Call)]
        packages = {each.partition(".")[0] for each in makers}
        if packages and len(makers) == len(bindings) and packages <= table.WITHOUT_MODULES:
            return True
        return (self.losses.is_object(file, node) and not self._is_trained(file, node)) or is_optimizer(file, node)

    def _is_trained(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether what computes a loss runs the network for that which it is seen to hold, and is what is trained.

        An optimizer has its parameters. One that holds a network to judge by (a perceptual loss) is no forward.
        """
        bound = [each.node for each in self.bindings(file, node)]
        given = (passed_values(self.project, file, each) for each in bound if isinstance(each, cst.Param))
        objects = [(file, node), *itertools.chain.from_iterable(given)]
        if not any("parameters" in where.called_on(each) for where, each in objects):
            return False
        forwards = (each for place in objects for each in self.project.methods(*place, "forward"))
        return any(map(self.has_forward, forwards))

    def _is_loss_of_trained(self, file: File, node: cst.BaseExpression, bindings: Sequence[Binding]) -> bool:
        """Whether a loss of a package is made of the model that is trained, which it runs: `NPELoss(model)`."""
        made = [each.value for each in bindings if isinstance(each.value, cst.Call)]
        is_foreign = len(made) == len(bindings) == 1 and self.project.definition(file, made[0].func) is None
        if not is_foreign or not is_class_name(file.names.callee(made[0])) or not self.losses.is_object(file, node):
            return False
        return any(object_path(each.value) and "parameters" in file.called_on(each.value) for each in made[0].args)

    def _gives_module(self, file: File, call: cst.Call) -> bool:
        """Whether a call makes what is used as a module is, and computes nothing: `net = model(args)`."""
        statement = file.tree.statement(call)
        if not isinstance(statement, cst.Assign) or handed_back(statement.value) is not call:
            return False
        names = [each.target for each in statement.targets if object_path(each.target) is not None]
        return any(file.called_on(n) & table.MODULE_EVIDENCE or object_path(n) in self._prepared(file) for n in names)

    def _given(self, file: File, node: cst.BaseExpression, bindings: Sequence[Binding]) -> Iterator[_Place]:
        """What a name is given: by assignments, or by callers."""
        values = [arm for each in bindings if each.value is not None for arm in arms(each.value)]
        followed = (cst.Call, cst.Name, cst.Attribute, cst.Subscript)
        yield from ((file, each) for each in values if isinstance(each, followed))
        if isinstance(node, cst.Name) and len(bindings) == 1 and isinstance(bindings[0].node, cst.Param):
            yield from passed_values(self.project, file, bindings[0].node)

    def _held(self, file: File, node: cst.BaseExpression) -> list[_Place] | None:
        """What a collection holds that is written out; None for one of PyTorch's own for modules, filled elsewhere."""
        held: list[_Place] = []
        for binding in self.bindings(file, node):
            made = None if binding.value is None else handed_back(binding.value)
            if isinstance(made, cst.Call) and file.names.callee(made) in table.MODULE_COLLECTIONS:
                made = made.args[0].value if made.args else None
                if not elements(made):
                    return None
            held += [(file, each) for each in elements(made)]
        return held

    def _is_named_as_module(self, file: File, node: cst.BaseExpression, path: str, bindings: Sequence[Binding]) -> bool:
        """Whether something that nothing else is known of is called `model`: evidence of last resort."""
        name = written_string(subscript_key(node)) or path
        if not _MODULE_NAME.search(name):
            return False
        # `self.restore_model(path)`, `self.print_network(net)` of a class out of sight
        return bool(bindings) or not (_DOES.match(name.rpartition(".")[2]) or self._is_method(file, node, path))

    def _makes_module(self, file: File, call: cst.Call) -> bool | Iterator[_Place]:
        full = file.names.callee(call)
        if full in table.MODULE_WRAPPERS:
            return True
        if table.is_module_name(full):
            return not full.endswith(table.LOSS_CLASS_SUFFIX)
        if full in table.COPIES and call.args:
            return iter([(file, call.args[0].value)])
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in table.HANDS_BACK:
            if call.func.attr.value == "eval" and not call.args and isinstance(call.func.value, cst.Call):
                return True  # `build(args).eval()`: nothing else is told so, and handed on
            return iter([(file, call.func.value)])
        found = self.project.definition(file, call.func)
        if found is not None and isinstance(found[1], cst.ClassDef):
            return self.is_module_class(found[0], found[1])
        function = self.project.called(file, call)
        return function is not None and self._handed_back(file, call, function)

    def _handed_back(self, file: File, call: cst.Call, function: FunctionRef) -> Iterator[_Place]:
        """What a function hands back: what it gets at by itself, or what the call gives it."""
        for each in nested_statements(block_of(function.node)):
            value = each.value if isinstance(each, cst.Return) else None
            while isinstance(value, cst.Attribute) and value.attr.value == "module":
                value = value.value
            if value is None:
                continue
            value = handed_back(value)
            bindings = self.bindings(function.file, value) if isinstance(value, cst.Name) else []
            if not (isinstance(value, cst.Name) and any(isinstance(one.node, cst.Param) for one in bindings)):
                yield function.file, value
                continue
            # What one call is given says nothing of another: `to_device(model)`, `to_device(batch)`.
            argument = function.given(call, value.value)
            if argument is not None:
                yield file, argument
            made = [one.value for one in bindings if not isinstance(one.node, cst.Param)]
            yield from ((function.file, one) for one in made if one is not None)

    def is_module_class(self, file: File, node: cst.ClassDef) -> bool:
        """Whether a class derives from `nn.Module`, across files."""
        lineage = self.project.lineage(file, node)
        bases = (where.names.full(base.value) for where, each in lineage for base in each.bases)
        return any(each in table.MODULE_BASES or each.startswith("torch.nn.") for each in bases)

    def _is_inherited_module(self, file: File, node: cst.BaseExpression, path: str) -> bool:
        """Whether a class that the object's class derives from treats an attribute as a module."""
        lineage = itertools.islice(self._lineage(file, node), 1, None)
        return any(where.methods_called.get(path, set()) & table.MODULE_EVIDENCE for where, _ in lineage)

    def _kept(self, file: File, node: cst.BaseExpression, seen: set[cst.CSTNode]) -> Iterator[_Place]:
        """What an object has in an attribute by its classes, or under a key: of `nets["a"].lstm`, what `nets` has."""
        if isinstance(node, cst.Attribute):
            for each in self._standing_for(file, node.value, seen):
                for where, owner in (found for made in self.classes(*each) for found in self.project.lineage(*made)):
                    kept = where.attribute_bindings(owner, f"self.{node.attr.value}")
                    yield from ((where, binding.value) for binding in kept if binding.value is not None)
        key = written_string(subscript_key(node))
        if key is not None and isinstance(node, cst.Subscript):
            for where, held in self._standing_for(file, node.value, seen):
                put = item_bindings(where, held, key)
                yield from ((where, binding.value) for binding in put if binding.value is not None)

    def _standing_for(self, file: File, node: cst.BaseExpression, seen: set[cst.CSTNode]) -> Iterator[_Place]:
        """An expression, and those elsewhere that its value comes from: what callers pass, what an object keeps."""
        if node in seen:
            return
        seen.add(node)
        yield file, node
        for parameter in (each.node for each in self.bindings(file, node)):
            if isinstance(parameter, cst.Param) and parameter not in seen:
                seen.add(parameter)
                for place in passed_values(self.project, file, parameter):
                    yield from self._standing_for(*place, seen)
        yield from self._kept(file, node, seen)

    def _is_method(self, file: File, node: cst.BaseExpression, path: str) -> bool:
        """Whether `self.name` is a function of the class that the node stands in, or of one that it derives from."""
        name = path.removeprefix("self.")
        return any(
            each.name.value == name and not any("property" in (dotted(d.decorator) or "") for d in each.decorators)
            for _, owner in self._lineage(file, node)
            for each in find(owner.body, cst.FunctionDef)
        )

    def _lineage(self, file: File, node: cst.BaseExpression) -> Iterator[Class]:
        """The class that a node stands in, and those of the project that it derives from."""
        owner = file.tree.owner_class(node)
        return iter(()) if owner is None else self.project.lineage(file, owner)

    # Optimizers

    def is_optimizer(self, file: File, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether an expression is an optimizer: as its file shows it, or as every call hands one on."""
        if is_optimizer(file, node):
            return not self._never_steps(file, node)
        bound = [each.node for each in self.bindings(file, node)] if depth < MAX_HOPS else []
        if not isinstance(node, cst.Name) or len(bound) != 1 or not isinstance(bound[0], cst.Param):
            return False
        given = list(passed_values(self.project, file, bound[0]))
        return bool(given) and all(self.is_optimizer(where, value, depth + 1) for where, value in given)

    def _never_steps(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether what has an optimizer's name is of a class without anything of gradients: an average of weights."""
        values = [each.value for each in self.bindings(file, node)]
        found = [self.project.definition(file, each.func) if isinstance(each, cst.Call) else None for each in values]
        classes = [(each[0], each[1]) for each in found if each and isinstance(each[1], cst.ClassDef)]
        return bool(found) and len(classes) == len(found) and not any(self._has_gradients(*each) for each in classes)

    def _has_gradients(self, file: File, owner: cst.ClassDef) -> bool:
        """Whether a class, or one that it derives from, steps something or reads gradients, or may out of sight."""
        lineage, unseen = self.project.lineage(file, owner), self.project.unseen_bases(file, owner)
        return any(_OF_GRADIENTS.search(where.tree.code(each)) for where, each in lineage) or any(
            dotted(base) != "object" for _, base in unseen
        )

    # Classes

    def classes(self, file: File, node: cst.BaseExpression) -> list[tuple[File, cst.ClassDef]]:
        """The project's classes that an object may be made from, as far as the text shows."""
        found: list[tuple[File, cst.ClassDef]] = []
        for made_by in (node, *(each.value for each in self.bindings(file, node))):
            value = made_by
            while isinstance(value, cst.Call):
                made = self.project.definition(file, value.func)
                if made is not None and isinstance(made[1], cst.ClassDef):
                    found.append((made[0], made[1]))
                inner = value.func.value if isinstance(value.func, cst.Attribute) else None
                value = inner or (value.args[0].value if value.args else None)
        return found

    def applies_function(self, file: File, called: cst.BaseExpression) -> bool:
        """Whether what is called is the `apply` of an autograd function in sight, by any name: `f = Cube.apply`."""
        given = [each.value for each in self.bindings(file, called)] or [called]
        makers = [each.value for each in given if isinstance(each, cst.Attribute) and each.attr.value == "apply"]
        found = [self.project.definition(file, each) for each in makers]
        classes = [(where, node) for where, node in filter(None, found) if isinstance(node, cst.ClassDef)]
        lineages = (self.project.lineage(*each) for each in classes)
        bases = [{where.names.full(base.value) for where, node in each for base in node.bases} for each in lineages]
        return len(classes) == len(given) and all("torch.autograd.Function" in each for each in bases)

    # Forwards

    def runs_forward(self, file: File, call: cst.Call) -> bool:
        """Whether a call runs a module: by itself, or through a function of the project."""
        if self.calls_module(file, call):
            return True
        function = self.project.called(file, call) or self.project.method_of_given(file, call, is_passed=True)
        if function is None:
            run = self.project.run(file, call)
            if run is not None:
                return self._has_forward(*run)
            given = self.functions_given(file, call)
            return bool(given) and all(self._has_forward(*e) and not self._goes_backward(*e) for e in given)
        if function.name == "__init__":
            return False
        written = self.project.written(function)
        return bool(written) and all(
            self.has_forward(e) and (e is function or not self.goes_backward(e)) for e in written
        )

    def functions_given(self, file: File, call: cst.Call) -> list[tuple[File, Runs]]:
        """The functions of the project that a call of a parameter may run; none where callers may pass others."""
        is_given = isinstance(call.func, cst.Name) and any(
            each.kind is BindingKind.PARAMETER for each in self.bindings(file, call.func)
        )
        found = self._functions_meant(file, call.func, set()) if is_given else None
        return [] if found is None else [(where, node) for node, where in found.items()]

    def _functions_meant(self, file: File, node: cst.BaseExpression, seen: set[cst.CSTNode]) -> dict[Runs, File] | None:
        """The functions that an expression may stand for beside None, through names and calls; None where in doubt."""
        if isinstance(node, cst.Name) and node.value == "None":
            return {}
        if isinstance(node, cst.Lambda):
            return {node: file}
        defined = self.project.definition(file, node)
        if defined is not None:
            where, function = defined
            return {function: where} if isinstance(function, cst.FunctionDef) else None
        bindings = self.bindings(file, node) if isinstance(node, cst.Name) else []
        functions: dict[Runs, File] = {}
        for each in bindings:
            if each.node in seen:
                continue
            seen.add(each.node)
            places = [(file, each.value)] if each.kind is BindingKind.ASSIGNMENT else []
            if each.kind is BindingKind.PARAMETER and isinstance(each.node, cst.Param):
                places = [*passed_values(self.project, file, each.node)]
                places += [(file, each.node.default)] if each.node.default is not None else []
            for where, value in places:
                found = None if value is None else self._functions_meant(where, value, seen)
                if found is None:
                    return None
                functions |= found
            if not places:
                return None
        return functions if bindings else None

    def runs_weights(self, file: File, call: cst.Call) -> bool:
        """Whether a call runs a module that may have weights; not one that runs layers alone which have none."""
        if not self.runs_forward(file, call):
            return False
        function = self.project.called(file, call)
        if self.is_module(file, call.func):
            layers = self._layers(file, call.func)
            is_bare = function is not None and function.name == "forward" and not self._uses_weights(function)
            return not (is_bare or (layers and OF_ONE_TENSOR.issuperset(layers)))
        if function is None or function.owner is not None or function.node in self._asked_for_weights:
            return True
        self._asked_for_weights.add(function.node)
        found = any(self.runs_weights(function.file, each) for each in find(function.node.body, cst.Call))
        self._asked_for_weights.discard(function.node)
        return found

    def calls_module(self, file: File, call: cst.Call) -> bool:
        """Whether a call is that of a module, or of a method of one that computes."""
        if self.is_module(file, call.func):
            return not (self._gives_module(file, call) or self._saturates(file, call.func))
        if isinstance(call.func, cst.Attribute):
            method = call.func.attr.value
            receiver = call.func.value
            if dotted(receiver) == "self":
                return method == "forward" and self.is_module(file, receiver)
            is_of_mapping = method in _OF_MAPPINGS and not call.args
            computes_nothing = method in table.MODULE_BOOKKEEPING or method in table.ONLY_OF_TEXTS or is_of_mapping
            if computes_nothing or not self.is_module(file, receiver):
                return False
            if is_class_name(method) and any(b.kind is BindingKind.IMPORT for b in self.bindings(file, receiver)):
                return False  # `model = model.RNNModel(...)`, of `import model`
            return self._computes(file, call) if _is_named_so(method) else not self._is_idle(file, call)
        return False

    def _saturates(self, file: File, node: cst.BaseExpression) -> bool:
        """Whether something is a layer that only saturates, as the function does: low precision gives it nothing."""
        layers = self._layers(file, node)
        return bool(layers) and all(LAYERS.get(each) in SATURATING for each in layers)

    def _layers(self, file: File, node: cst.BaseExpression) -> list[str]:
        """The layers of PyTorch that something may be, by name; an empty name for what is none."""
        bound = [] if isinstance(node, cst.Call) else self.bindings(file, node)
        made = [node] if isinstance(node, cst.Call) else [each.value for each in bound]
        names = [file.names.callee(each) if isinstance(each, cst.Call) else "" for each in made]
        return [each.removeprefix("torch.nn.") if each.startswith("torch.nn.") else "" for each in names]

    def _is_idle(self, file: File, call: cst.Call) -> bool:
        """Whether what a call on a module may mean is in sight, and does nothing with what the module learns.

        Where it is not, it says how the module is to be: `model.add_adapter("lang")` is given no data, and gives none.
        """
        methods = self._methods(file, call)
        first = next(methods, None)
        if first is None:
            given = [each.value for each in call.args]
            is_by_itself = isinstance(file.tree.parents[call], cst.Expr)
            return bool(given) and is_by_itself and all(self._is_setting(file, each) for each in given)
        return not any(map(self._uses_weights, itertools.chain((first,), methods)))

    def _is_setting(self, file: File, node: cst.BaseExpression, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is written out, or an object that is made of what is: `AdapterConfig(reduction=16)`."""
        if isinstance(node, cst.Call):
            is_object = is_class_name(last_word(node.func))
            return is_object and all(self._is_setting(file, each.value, seen) for each in node.args)
        if isinstance(node, cst.Name) and node.value not in ("None", "True", "False"):
            values = [each.value for each in self.bindings(file, node)] if node.value not in seen else []
            is_made = len(values) == 1 and isinstance(values[0], cst.Call)
            return is_made and all(each and self._is_setting(file, each, seen | {node.value}) for each in values)
        return isinstance(node, (cst.Name, cst.BaseNumber, cst.SimpleString))

    def _methods(self, file: File, call: cst.Call, idle: frozenset[str] | None = None) -> Iterator[FunctionRef]:
        """The methods of modules that a call may mean; with `idle`, those that call only such may be left out."""
        meant = self.project.may_call(file, call, "nn", idle)
        return (each for each in meant if each.owner is not None and self.is_module_class(each.file, each.owner))

    def _uses_weights(self, function: FunctionRef, depth: int = 0) -> bool:
        """Whether a method may do anything with parameters, buffers or modules of its object."""
        parents = function.file.tree.parents
        for node in (each for each in walk(function.node.body) if _is_object(each)):
            read = parents[node]
            if not isinstance(read, cst.Attribute) or read.value is not node:
                return True
            call = parents[read]
            if not isinstance(call, cst.Call) or call.func is not read:
                if self._may_be_weights(function.file, read):
                    return True
                continue
            called = self.project.called(function.file, call)
            if called is None or depth == MAX_HOPS or self._uses_weights(called, depth + 1):
                return True
        return False

    def _may_be_weights(self, file: File, node: cst.Attribute) -> bool:
        """Whether an attribute of `self` may be more than what the constructor was told."""
        path = f"self.{node.attr.value}"
        given = [
            binding.value
            for where, owner in self._lineage(file, node)
            for binding in where.attribute_bindings(owner, path)
        ]
        plain = (cst.Name, cst.Attribute, cst.BaseNumber, cst.BaseString)
        return not given or self.is_module(file, node) or not all(isinstance(each, plain) for each in given)

    def is_seen_to_compute(self, file: File, call: cst.Call) -> bool:
        """Whether a method that a call runs is in sight, and runs a module."""
        function = self.project.called(file, call)
        if function is not None and self.has_forward(function):
            return True
        return isinstance(call.func, cst.Attribute) and self._computes(file, call)

    def _computes(self, file: File, call: cst.Call) -> bool:
        """Whether a method of a module is seen to run one: `agent.get_value(x)` may be more than bookkeeping."""
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        # One that only hands on to others of its name computes where one of these does.
        idle = _ASKING | {f".{name}"} if _is_named_so(name) else _ASKING
        return any(map(self.has_forward, self._methods(file, call, idle)))

    def has_forward(self, function: FunctionRef) -> bool:
        """Whether a function runs a module."""
        return self._has_forward(function.file, function.node)

    def _has_forward(self, file: File, function: Runs) -> bool:
        calls = find(function.body, cst.Call)
        return self._forwards.ask(function, lambda: any(self.runs_forward(file, each) for each in calls))

    def may_train(self, file: File, call: cst.Call) -> bool:
        """Whether a call may go backward, by a function of the project or an engine: no region is put round that."""
        is_of_engine = last_word(call.func) == "backward" and self.project.called(file, call) is None
        return is_of_engine or self.trains(file, call) or self._may_go_backward(file, call)

    def trains(self, file: File, call: cst.Call) -> bool:
        """Whether a call runs a function of the project that goes backward, in a file which has the word."""
        function = self.project.called(file, call) or self.project.method_of_given(file, call)
        return function is not None and "backward" in function.file.tree.text and self.goes_backward(function)

    def _may_go_backward(self, file: File, call: cst.Call) -> bool:
        may_run = itertools.chain(self.project.may_call(file, call, "backward"), self._methods_seen(file, call))
        return any(map(self.goes_backward, may_run))

    def _methods_seen(self, file: File, call: cst.Call) -> Iterator[FunctionRef]:
        """The methods that a call runs of what its object is seen to be on some way; its name may be of many, as `fit`.

        Only those that may go backward are looked for.
        """
        func = call.func
        if not isinstance(func, cst.Attribute) or "backward" not in file.tree.text:
            return
        for made in self.classes(file, func.value):
            named = ((where, method_of(owner, func.attr.value)) for where, owner in self.project.lineage(*made))
            yield from islice((self.project.reference(where, node) for where, node in named if node is not None), 1)

    def goes_backward(self, function: FunctionRef) -> bool:
        """Whether a function goes backward, calls one of the project that does, or hands on its own that does."""
        return self._goes_backward(function.file, function.node)

    def _goes_backward(self, file: File, function: Runs) -> bool:
        return self._backwards.ask(function, lambda: self._is_seen_to_go_backward(file, function))

    def _is_seen_to_go_backward(self, file: File, function: Runs) -> bool:
        calls = [*find(function.body, cst.Call)]
        given = {arg.value.value for call in calls for arg in call.args if isinstance(arg.value, cst.Name)}
        closures = [e for e in find(function.body, cst.FunctionDef) if e.name.value in given]
        return any(
            (isinstance(each.func, cst.Attribute) and each.func.attr.value == "backward")
            or any(map(self.goes_backward, self._run_by(file, each)))
            for each in (*calls, *(call for closure in closures for call in find(closure.body, cst.Call)))
        )

    def _run_by(self, file: File, call: cst.Call) -> Iterator[FunctionRef]:
        called = self.project.called(file, call)
        yield from self._methods_seen(file, call) if called is None else (called,)

    def taking_gradients(self, file: File, call: cst.Call) -> FunctionRef | None:
        """The function of the project that a call runs, by its name alone if need be, if that takes gradients."""
        function = self.project.meant(file, call, "autograd")
        return function if function is not None and self.takes_gradients(function) else None

    def takes_gradients(self, function: FunctionRef) -> bool:
        """Whether a function calls `torch.autograd.grad()`, or one of the project that does."""
        return self._has_the_words_of_grad and self._gradients.ask(
            function.node, lambda: self._is_seen_to_take_gradients(function)
        )

    def _is_seen_to_take_gradients(self, function: FunctionRef) -> bool:
        file, calls = function.file, [*find(function.node.body, cst.Call)]
        return any(file.names.callee(each) == GRAD for each in calls) or any(
            (called := self.project.called(file, each)) is not None and self.takes_gradients(called) for each in calls
        )

    @cached_property
    def _has_the_words_of_grad(self) -> bool:
        # Where none has them, what functions call need not be followed, file by file.
        return next(self.project.library.mentioning(*GRAD.split(".")[1:]), None) is not None

    def bindings(self, file: File, node: cst.CSTNode) -> list[Binding]:
        """Where an object gets its value: the name's bindings, or for `self.x` those in all methods of the class."""
        return object_bindings(file, node)


def _is_named_so(method: str) -> bool:
    """Whether a method of a module is called like one that keeps the books."""
    return method.startswith(table.BOOKKEEPING_PREFIXES) or method.endswith(table.BOOKKEEPING_SUFFIXES)


def _is_object(node: cst.CSTNode) -> bool:
    """Whether a node names the object that a method is called on."""
    return isinstance(node, cst.Name) and node.value in ("self", "super")
