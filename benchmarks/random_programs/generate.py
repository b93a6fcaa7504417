"""A program for a number: the same one for the same number, on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from random_programs.bases import base
from random_programs.mutations import mutate
from random_programs.shapes import shape


@dataclass(frozen=True)
class Program:
    """Files by name, of which `train.py` is run, and the number that they were made from."""

    number: int
    files: Mapping[str, str]


def generate(number: int) -> Program | None:
    """The program of a number; None where its parts do not fit together, as some do not."""
    rng = Random(number)
    text = base(rng)
    try:
        files = shape(mutate(text, rng, rng.choice((0, 0, 1, 1, 2, 3))), rng)
        for name, each in files.items():
            compile(each, name, "exec")
    except (SyntaxError, ValueError, IndexError):
        return None
    return Program(number, MappingProxyType(files))
