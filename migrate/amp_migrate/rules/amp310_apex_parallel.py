"""Data-parallel training by Apex that torch does itself."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP310",
    name="apex-parallel",
    summary="a class or function of apex.parallel that torch has itself",
    before="model = apex.parallel.DistributedDataParallel(model, delay_allreduce=True)",
    after=(
        "model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True, broadcast_buffers=False)"
    ),
    why=(
        "NVIDIA deleted apex.parallel in May 2025. Apex never synchronised buffers, so the new call says so; "
        "`delay_allreduce` let parameters go without a gradient, which torch calls `find_unused_parameters`: drop it "
        "where every parameter gets one, training is faster without. How Apex cut its buckets changes no result and "
        "goes. `Reducer`, `LARC` and sums in place of averages have no form in torch, and come from amp_shim."
    ),
)
