"""What stands in the way of a step: of its regions, or of a scaler."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.looped import chosen_in, is_alone
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.training_step import Backward, Extraction, OptimizerStep
from amp_migrate.steps.regions.extract import extractions
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.amp_signs import uses_amp
from amp_migrate.steps.statements.bodies import backward_calls
from amp_migrate.trees.nodes import Statement, block_of, is_constant
from amp_migrate.trees.own_calls import calls_of

_BF16 = "run with --dtype bf16, which needs no scaler"


class Obstacles:
    """Looks for what stands in the way of the steps of one file.

    Args:
        is_mixed: whether the process runs in mixed precision already, and means to.
    """

    def __init__(self, file: File, roles: Roles, regions: RegionFinder, *, is_mixed: bool) -> None:
        self.file = file
        self.tree = file.tree
        self.roles = roles
        self.regions = regions
        self.is_mixed = is_mixed

    def without_forward(
        self,
        backward: Backward,
        unknown: cst.Call | None,
        tensor: str | None = None,
        within: tuple[FunctionRef, cst.Call] | None = None,
    ) -> Refusal:
        """What to say where the forward pass behind a loss is not to be seen.

        Args:
            unknown: what the loss is computed by that may be it, if anything is.
            tensor: what a tensor is that it is computed of, if that is trained by itself.
            within: what a function that computes the loss calls, and that may be it, with that function.
        """
        loss = self.tree.quote(backward.loss)
        reason = f"the forward pass behind `{loss}` is not in this function"
        callee = "" if unknown is None else self.tree.quote(unknown.func)
        if unknown is not None and self.roles.applies_function(self.file, unknown.func):
            reason = f"`{loss}` is computed by `{callee}`, an autograd function, and by no module"
        elif unknown is None and tensor is not None:
            reason = f"no module with weights computes `{loss}`: {tensor}"
        elif unknown is not None and (base := self._unread_base(unknown)) is not None:
            reason = f"the forward pass behind `{loss}` cannot be seen: nothing says what `{base}` does with a call"
        elif unknown is not None:
            reason = f"the forward pass behind `{loss}` cannot be seen: nothing says what `{callee}` is"
        elif within is not None:
            function, call = within
            given = (dotted(call.func) or "").partition(".")[0]
            what = f"what {function.name}() is given as `{given}`"
            reason = f"the forward pass behind `{loss}` cannot be seen: nothing says {what}"
        hint = "put forward and loss into a torch.amp.autocast region by hand, and scale the loss before backward()"
        return Refusal(self.file, backward.statement, reason, hint)

    def _unread_base(self, call: cst.Call) -> str | None:
        """What the class around a call of `self` inherits from that is not among the files."""
        owner = self.tree.owner_class(call) if dotted(call.func) == "self" else None
        unseen = () if owner is None else self.roles.project.unseen_bases(self.file, owner)
        return next((file.tree.code(base) for file, base in unseen if dotted(base) != "object"), None)

    def extractions(self, members: set[Statement]) -> tuple[Extraction, ...] | Refusal:
        """The forwards that have to be taken out of losses which must stay outside every region."""
        found: list[Extraction] = []
        for statement in sorted(members, key=lambda each: self.tree.order[each]):
            banned = self.regions.banned_calls(statement)
            if banned and self.regions.runs_forward(statement):
                taken = extractions(self.file, self.roles, statement, banned)
                if taken is None:
                    return self.without_name(statement)
                found.extend(taken)
        return tuple(found)

    def without_name(self, statement: Statement) -> Refusal:
        """What to say where a forward inside a refused loss cannot get a name."""
        return Refusal(
            self.file,
            statement,
            "BCELoss cannot run under autocast, and forward and loss share one statement",
            "give the forward's result a name of its own, so that the loss can stay outside the region",
        )

    def yielding(self, members: Iterable[Statement]) -> Refusal | None:
        """Why no region can hold a statement that computes for a step, if one gives a value while it does."""
        for statement in sorted(members, key=lambda each: self.tree.order[each]):
            if self.regions.gives(statement) and self.regions.runs_forward(statement):
                return Refusal(
                    self.file,
                    statement,
                    "a generator would leave its autocast region open between two values",
                    "move forward, loss and backward into a function that returns",
                )
        return None

    def scaling(self, steps: list[OptimizerStep]) -> Refusal | None:
        """Why an optimizer cannot be stepped by a scaler, if one cannot."""
        for step in steps:
            if step.call.args and step.part is None:
                return self._with_arguments(step)
            chosen = chosen_in(step.statement)
            is_chosen = chosen is not None and step.part is None and step.call in (chosen.body, chosen.orelse)
            if not (is_alone(step.statement, step.call) or is_chosen or self._keeps_result_of_part(step)):
                code = self.tree.quote(step.call)
                if isinstance(step.statement, cst.Expr):
                    hint = f"make it a statement of its own, or {_BF16}"
                    return Refusal(self.file, step.statement, f"{code} is part of a longer expression", hint)
                return Refusal(self.file, step.statement, f"the result of {code} is used", _BF16)
            if step.part is None and self._is_module(step.optimizer):
                optimizer = self.tree.quote(step.optimizer)
                reason = f"{optimizer} is a module, and has no param_groups that a loss scaler could unscale"
                return Refusal(self.file, step.statement, reason, f"divide the gradients by hand, or {_BF16}")
        return None

    def _keeps_result_of_part(self, step: OptimizerStep) -> bool:
        """Whether a statement assigns what a function that steps gives back: that goes on giving it."""
        return step.part is not None and isinstance(step.statement, cst.Assign) and step.statement.value is step.call

    def _with_arguments(self, step: OptimizerStep) -> Refusal:
        """What to say of a step that is given something: a closure, or what the optimizer's own class takes."""
        code = self.tree.quote(step.call)
        if any(self._may_be_closure(each, len(step.call.args)) for each in step.call.args):
            hint = f"an optimizer that evaluates a closure reads several losses per step; {_BF16}"
            return Refusal(self.file, step.statement, f"{code} cannot be used with a loss scaler", hint)
        owner = self.tree.quote(step.optimizer)
        hint = f"write scaler.step({owner}, ...) by hand, which hands them on, or {_BF16}"
        return Refusal(self.file, step.statement, f"{code} takes arguments of its own, and may do more than step", hint)

    def _may_be_closure(self, argument: cst.Arg, number: int) -> bool:
        """Whether an argument is a function, as far as anybody can tell: one that stands alone is a closure."""
        value = argument.value
        if argument.keyword is not None and argument.keyword.value == "closure":
            return not is_constant(value, "None")
        if isinstance(value, cst.Lambda):
            return True
        kinds = {each.kind for each in object_bindings(self.file, value)}
        is_unknown = not kinds or BindingKind.PARAMETER in kinds
        return BindingKind.FUNCTION in kinds or (number == 1 and is_unknown and dotted(value) is not None)

    def goes_backward_itself(self, step: OptimizerStep) -> bool:
        """Whether an optimizer steps on what a closure takes backward for it: a step of its own, told of there."""
        bound = [each for argument in step.call.args for each in object_bindings(self.file, argument.value)]
        closures = [each.node for each in bound if isinstance(each.node, cst.FunctionDef)]
        return len(closures) == len(bound) > 0 and all(any(backward_calls(block_of(each))) for each in closures)

    def _is_module(self, optimizer: cst.BaseExpression) -> bool:
        """Whether what steps is seen to be a module that learns to optimize, without what an optimizer has."""
        return any(
            self.roles.is_module_class(file, owner) and "param_groups" not in file.tree.code(owner)
            for file, owner in self.roles.classes(self.file, optimizer)
        )

    def without_step(self, function: cst.FunctionDef | None, backwards: list[Backward]) -> Refusal:
        """What to say where no optimizer steps on the gradients of some backwards."""
        if function is not None and self.is_closure(function):
            return Refusal(
                self.file,
                function,
                f"optimizer.step({function.name.value}) cannot be used with a loss scaler",
                f"an optimizer that evaluates a closure reads several losses per step; {_BF16}",
            )
        return Refusal(
            self.file,
            backwards[0].statement,
            "no optimizer.step() belongs to this backward() in the same function",
            f"scale the loss and step through one GradScaler by hand, or {_BF16}",
        )

    def mixed_elsewhere(self, members: set[Statement]) -> Refusal | None:
        """Whether a function that computes for the step, or stands around such a one, is in mixed precision already."""
        if self.is_mixed:
            return None
        for statement in sorted(members, key=lambda each: self.tree.order[each]):
            for call in calls_of(statement):
                function = self.roles.project.called(self.file, call)
                if function is not None and uses_amp(function.file, block_of(function.node), function.node):
                    return Refusal(
                        self.file,
                        call,
                        f"{self.tree.quote(call.func)}() is in mixed precision already",
                        "migrate what is left by hand",
                    )
        return None

    def is_closure(self, function: cst.FunctionDef | None) -> bool:
        """Whether a function is what an optimizer evaluates in its step."""
        name = None if function is None else function.name.value
        return name is not None and any(
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "step"
            and any(dotted(arg.value) == name for arg in call.args)
            for call in self.file.calls
        )
