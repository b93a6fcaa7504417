"""Apex as a script sees it when mixed precision is off: everything passes through."""

from . import amp as amp
from . import fp16_utils as fp16_utils
from . import normalization as normalization
from . import optimizers as optimizers
from . import parallel as parallel
