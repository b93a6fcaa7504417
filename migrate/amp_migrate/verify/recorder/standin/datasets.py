"""Made-up pictures for torchvision data sets that are not on disk: learnable, of the same shape and classes.

Each class has a pattern of its own under noise, so that a script learns something and a fault shows. They are made from
seeds of their own: the script's random numbers stay what they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy
import torch

_TRAINING, _TEST = 4096, 1024
_NOISE = 48.0


@dataclass(frozen=True)
class Shape:
    """What a data set holds: height, width and channels of its pictures, and its classes."""

    height: int
    width: int
    channels: int
    classes: int
    labels: str = "targets"


SHAPES = {
    "MNIST": Shape(28, 28, 1, 10),
    "CIFAR10": Shape(32, 32, 3, 10),
    "CIFAR100": Shape(32, 32, 3, 100),
    "SVHN": Shape(32, 32, 3, 10, "labels"),
    "STL10": Shape(96, 96, 3, 10, "labels"),
}
_FOLDER = Shape(256, 256, 3, 10)


def install(datasets: ModuleType, told: Callable[[str], None]) -> None:
    """Stand in for the data sets of `torchvision.datasets`; `told` gets the name of each that is made up."""
    for name in SHAPES:
        _replace_init(getattr(datasets, name, None), functools.partial(_fill, datasets), told)
    for name in ("ImageFolder", "ImageNet"):
        _replace_init(getattr(datasets, name, None), functools.partial(_fill_folder, datasets), told)


def _replace_init(kind: Any, fill: Callable[[Any, dict[str, Any]], None], told: Callable[[str], None]) -> None:
    if kind is None or "__init__" not in vars(kind):  # CIFAR100 takes CIFAR10's
        return
    init = kind.__init__
    signature = inspect.signature(init)

    @functools.wraps(init)
    def init_or_make_up(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        if "download" in bound.arguments:
            bound.arguments["download"] = False
        try:
            init(*bound.args, **bound.kwargs)
        except (RuntimeError, OSError):  # how torchvision says that the files are not there
            fill(self, {**bound.arguments, **bound.arguments.get("kwargs", {})})
            told(type(self).__name__)

    kind.__init__ = init_or_make_up


def _fill(datasets: Any, dataset: Any, arguments: dict[str, Any]) -> None:
    shape = next(SHAPES[kind.__name__] for kind in type(dataset).__mro__ if kind.__name__ in SHAPES)
    training = _is_training(arguments)
    _begin(datasets, dataset, arguments)
    pictures, labels = make_up(shape, _TRAINING if training else _TEST, training)
    dataset.train, dataset.split = training, arguments.get("split")
    dataset.classes = [str(number) for number in range(shape.classes)]
    if shape.channels == 1:  # those take `class_to_idx` from their classes
        dataset.data, dataset.targets = torch.from_numpy(pictures[..., 0]), torch.from_numpy(labels)
        return
    dataset.class_to_idx = {name: number for number, name in enumerate(dataset.classes)}
    if shape.labels == "labels":
        dataset.data, dataset.labels = numpy.ascontiguousarray(pictures.transpose(0, 3, 1, 2)), labels
    else:
        dataset.data, dataset.targets = pictures, labels.tolist()


def _fill_folder(datasets: Any, dataset: Any, arguments: dict[str, Any]) -> None:
    from PIL import Image

    place = f"{arguments.get('root')} {arguments.get('split')}"
    training = "val" not in place and "test" not in place
    _begin(datasets, dataset, arguments)
    labels = [number % _FOLDER.classes for number in range(_TEST)]
    dataset.classes = [f"class{number}" for number in range(_FOLDER.classes)]
    dataset.class_to_idx = {name: number for number, name in enumerate(dataset.classes)}
    dataset.samples = dataset.imgs = [(f"{index}", label) for index, label in enumerate(labels)]
    dataset.targets = labels

    def load(path: str) -> Any:
        index = int(path)
        generator = numpy.random.Generator(numpy.random.PCG64([index, int(training)]))
        return Image.fromarray(_picture(_FOLDER, labels[index], generator))

    dataset.loader = load


def _begin(datasets: Any, dataset: Any, arguments: dict[str, Any]) -> None:
    transforms = {name: arguments.get(name) for name in ("transform", "target_transform")}
    datasets.vision.VisionDataset.__init__(dataset, arguments.get("root", "."), **transforms)


def _is_training(arguments: dict[str, Any]) -> bool:
    split = arguments.get("split")
    return bool(arguments.get("train", True)) if split is None else not str(split).startswith(("test", "val"))


def make_up(shape: Shape, count: int, training: bool) -> tuple[Any, Any]:
    """Pictures, uint8 of shape (count, height, width, channels), and labels, int64 of shape (count,)."""
    generator = numpy.random.Generator(numpy.random.PCG64(1 if training else 2))
    labels = generator.integers(0, shape.classes, count)
    noise = generator.normal(0.0, _NOISE, (count, shape.height, shape.width, shape.channels))
    patterns = numpy.stack([_pattern(shape, number) for number in range(shape.classes)])
    return (patterns[labels] + noise).clip(0, 255).astype(numpy.uint8), labels.astype(numpy.int64)


def _picture(shape: Shape, label: int, generator: Any) -> Any:
    noise = generator.normal(0.0, _NOISE, (shape.height, shape.width, shape.channels))
    return (_pattern(shape, label) + noise).clip(0, 255).astype(numpy.uint8)


def _pattern(shape: Shape, label: int) -> Any:
    """A class's own picture: a coarse grid of grey levels, or of colours."""
    generator = numpy.random.Generator(numpy.random.PCG64([7, label]))
    coarse = generator.uniform(0, 255, (4, 4, shape.channels))
    rows = numpy.arange(shape.height) * 4 // shape.height
    columns = numpy.arange(shape.width) * 4 // shape.width
    return coarse[rows][:, columns]
