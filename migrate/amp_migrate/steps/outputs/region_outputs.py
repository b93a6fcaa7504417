"""What leaves a region in low precision for where that cannot go: buffers, NumPy, the CPU, products with float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.plan.edit import Edit
from amp_migrate.settings import Dtype
from amp_migrate.steps.model.training_step import Region
from amp_migrate.steps.outputs.cpu_outputs import float_for_cpu
from amp_migrate.steps.outputs.held_outputs import HeldOutputs
from amp_migrate.steps.outputs.numpy_outputs import float_for_numpy
from amp_migrate.steps.outputs.product_arguments import float_for_products
from amp_migrate.steps.outputs.stored_outputs import cast_for_storage
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.write.editor import Editor


def cast_outputs(editor: Editor, file: File, roles: Roles, regions: Sequence[Region], dtype: Dtype) -> Iterator[Edit]:
    """The edits that cast the outputs of regions in one file, there and in functions that are handed them."""
    if not regions:
        return
    outputs = HeldOutputs(RegionFinder(file, roles), regions)
    yield from cast_for_storage(editor, outputs)
    if dtype is not Dtype.FP16:
        yield from float_for_numpy(editor, outputs)
    yield from float_for_cpu(editor, outputs)
    yield from float_for_products(editor, outputs)
