"""The heart: one model of a training step, a reader for each dialect, one writer for each target.

FP32 code, Apex code and native code differ in how they say a step, not in what a step is. The readers turn each into a
`TrainingStep`; the writers know nothing of where it came from.
"""
