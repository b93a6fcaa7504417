"""`apex.pyprof`, as far as training scripts ask for it: `pyprof.nvtx.init()` before a run under a profiler.

Its programs that read a profile (`apex.pyprof.parse`, `apex.pyprof.prof`) have no counterpart: Nsight Systems and
`torch.profiler` show the same.
"""

from __future__ import annotations

from amp_shim.pyprof import nvtx

__all__ = ["nvtx"]
