"""The heart: one model of a training step, a reader for each dialect, and the edits that move it.

FP32 code, Apex code and native code differ in how they say a step, not in what a step is. The readers turn each into a
`TrainingStep`; what makes its edits (`write`) knows nothing of where it came from.
"""
