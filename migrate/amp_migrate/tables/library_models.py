"""What models of other packages are made of, where scripts take them apart: torchvision's VGG, for its features."""

from __future__ import annotations

from collections.abc import Iterator

_CONVOLUTIONS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
_CLASSIFIER = ("Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear")


def parts(name: str) -> dict[str, tuple[str, ...]]:
    """The chains of layers of `torch.nn` in a model, by the attributes that they are; none of one that is not known.

    Args:
        name: the full name of what makes it, as `torchvision.models.vgg16`.
    """
    package, _, model = name.rpartition(".")
    blocks = _CONVOLUTIONS.get(model.removesuffix("_bn"), ())
    if not blocks or package not in ("torchvision.models", "torchvision.models.vgg"):
        return {}
    return {"features": tuple(_features(blocks, is_normalised=model.endswith("_bn"))), "classifier": _CLASSIFIER}


def _features(blocks: tuple[int, ...], *, is_normalised: bool) -> Iterator[str]:
    for convolutions in blocks:
        for _ in range(convolutions):
            yield from ("Conv2d", "BatchNorm2d", "ReLU") if is_normalised else ("Conv2d", "ReLU")
        yield "MaxPool2d"
