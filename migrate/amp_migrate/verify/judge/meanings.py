"""What each check asks, in a sentence, for reports and for docs/verdict.md."""

from __future__ import annotations

MEANINGS = {
    "G1": "both scripts end well, or reach the limit of steps or seconds",
    "G0": (
        "the two scripts did not load the same code; if they did, nothing was compared, and the verdict is INCONCLUSIVE"
    ),
    "G2": "the same number of backward passes and optimizer steps, skipped ones counted",
    "G3": "matrix operations really gave half-precision results; if none did, the verdict is VACUOUS",
    "G4": "no loss is infinite or NaN where the original's is finite",
    "G5": (
        "the loss scale stays at 1 or above; after 20 steps at most 5 % are skipped, or two, those that "
        "bring the scale lower than ever not counted, and never 5 in a row; "
        "one that can never grow is a warning"
    ),
    "G6": "the same parameters received gradients",
    "G7": "trainable parameters keep their dtypes; all parameters and buffers are finite at the end",
    "G8": "no backward pass and no optimizer step runs inside an autocast region",
    "G9": "PyTorch's loss functions compute in float32",
    "G10": "float16 has a loss scale, every step goes through its scaler, and the scaler lasts",
    "G11": "who saves the optimizer saves the scaler's state too",
    "G12": (
        "at least half of the work that autocast round the forward passes would put into half precision is there, from "
        "the first step to the last; what is switched off within a region is left out, and is a warning where it is "
        "more than half"
    ),
    "G13": (
        "the half format is the one that was asked for, or else that of an original with mixed precision; without "
        "either, two formats, or a loss scale beside bfloat16, are a warning"
    ),
    "G14": "what an original in native mixed precision computes in which dtype, the migrated script does",
    "G15": (
        "no parameter loses a quarter of its gradient to zeros, beside the original in float32; what rounding alone "
        "makes zero in the original is a warning, but three quarters"
    ),
    "G16": ("where a CPU stands in for the GPU: no operation mixes tensors that would be on the CPU and on the GPU"),
    "G17": "an infinity that is put into the gradients of one step makes the loss scaler skip that step",
    "G18": (
        "with --resume-args: who goes on from a checkpoint holds what was saved, as far as the original does, and the "
        "loss scale"
    ),
    "G19": (
        "with mixed precision on, optimizers are told what they are told in the original: learning rates, weight "
        "decay; a warning behind the first 20 steps, where a schedule may follow the losses"
    ),
    "R": (
        "asked where E does not hold: the original repeats itself, or differs from itself by less than a third of what "
        "rounding makes"
    ),
    "E": "with mixed precision off it is the same program, bit for bit: what differs is the edit, not precision",
    "S": "losses of the first 20 steps stay within three times the noise that rounding makes in the original itself",
    "N": (
        "gradient and update norms of the first steps are the original's, within the same noise; a norm of zero at no "
        "more steps than rounding alone makes it, and at fewer than half"
    ),
    "C": "with --seeds: whole trainings end alike, and their optimizers are told the same on the way",
}
