"""Everything that can only be measured on a GPU: `benchmarks/gpu.sh` runs it.

Each part is a process of its own and writes its JSON as it goes, so that a run that is cut off keeps what it has.
"""
