"""A scaler for each optimizer of a step: where no one scale can serve them, and each loss reaches one of them alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.route import Route, Ways, own_names
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.steps.scaler.find_route import Traveller

# The way of a scaler to some optimizers, by who knows its ways.
Reach: TypeAlias = "Callable[[Traveller, File, list[cst.BaseExpression]], Route | Refusal]"


class OwnScalers:
    """The scalers that serve one optimizer each.

    Args:
        make: makes what knows the ways of a scaler, by what that may be called.

    Attributes:
        travellers: what knows the ways of each, by its name.
    """

    def __init__(self, make: Callable[[Sequence[str]], Traveller]) -> None:
        self._make = make
        self.travellers: dict[str, Traveller] = {}

    def routes(self, steps: Sequence[TrainingStep], reach: Reach, others: Ways) -> list[tuple[Traveller, Route]]:
        """The way of a scaler to each of some steps, of one optimizer each; none if some optimizer has none.

        Args:
            others: the ways of scalers that serve several, and go through no function with these.
        """
        found: dict[str, tuple[Traveller, Route]] = {}
        for step in steps:
            optimizers = [each.optimizer for each in step.optimizer_steps]
            names = own_names(step.file.tree.code(optimizers[0]))
            if not names[0].isidentifier():  # `optimizers[0]`
                return []
            traveller = self.travellers.get(names[0]) or self._make(names)
            route = reach(traveller, step.file, optimizers)
            if isinstance(route, Refusal) or names[0] in found or Ways.of([route]).crosses(others):
                return []
            found[names[0]] = traveller, route
        self.travellers.update((name, traveller) for name, (traveller, _) in found.items())
        return [*found.values()]
