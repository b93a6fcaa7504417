"""`apex.parallel`, on `torch.nn.parallel` and `torch.nn.SyncBatchNorm`."""

from torch.distributed import ReduceOp

from amp_shim.parallel.distributed import DistributedDataParallel, Reducer
from amp_shim.parallel.larc import LARC
from amp_shim.parallel.sync_batchnorm import SyncBatchNorm, convert_syncbn_model, create_syncbn_process_group

__all__ = [
    "LARC",
    "DistributedDataParallel",
    "ReduceOp",
    "Reducer",
    "SyncBatchNorm",
    "convert_syncbn_model",
    "create_syncbn_process_group",
]
