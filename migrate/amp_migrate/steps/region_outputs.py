"""What leaves a region in low precision for where that cannot go: buffers, NumPy, the CPU, products with float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.settings import Dtype
from amp_migrate.steps.cpu_outputs import float_for_cpu
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.held_outputs import HeldOutputs
from amp_migrate.steps.model import Region
from amp_migrate.steps.numpy_outputs import float_for_numpy
from amp_migrate.steps.product_arguments import float_for_products
from amp_migrate.steps.regions import RegionFinder
from amp_migrate.steps.stored_outputs import cast_for_storage


def cast_outputs(
    draft_of: Callable[[File], Draft], file: File, roles: Roles, regions: Sequence[Region], dtype: Dtype
) -> None:
    """Cast the outputs of the regions that are written into one file, there and in functions that are handed them."""
    if not regions:
        return
    outputs = HeldOutputs(RegionFinder(file, roles), regions)
    cast_for_storage(draft_of(file), outputs)
    if dtype is not Dtype.FP16:
        float_for_numpy(draft_of, outputs)
    float_for_cpu(draft_of(file), outputs)
    float_for_products(draft_of(file), outputs)
