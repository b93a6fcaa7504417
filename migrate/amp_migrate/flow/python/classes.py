"""Classes of the project: in which order they inherit, and what they take from PyTorch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.flow.domain.atoms import Atom, Class, External, Obj, Opaque, Value
from amp_migrate.flow.python.frame import Frame
from amp_migrate.tables.torch_names import is_module_name

BASES = "<bases>"
MODULE = "torch.nn.Module"
FUNCTION = "torch.autograd.Function"
_READ = frozenset(("torch", "builtins", "abc", "typing", "enum", "collections", "apex", ""))
DATA_SETS = frozenset(f"torch.utils.data.{name}" for name in "Dataset IterableDataset Sampler BatchSampler".split())


def lineage(frame: Frame, owner: Atom) -> list[Atom]:
    """A class and what it inherits from, in the order in which Python looks; unknown bases are among them."""
    return frame.kept(_find_lineage, owner)


def _find_lineage(frame: Frame, owner: Atom) -> list[Atom]:
    found: dict[Atom, None] = {}
    stack = [owner]
    while stack:
        each = stack.pop()
        found.pop(each, None)  # Python puts a base that several share behind all of them
        found[each] = None
        if isinstance(each, Class) and len(found) < 64:
            bases = [base for value in base_values(frame, each) for base in sorted(value, key=repr)]
            stack += [base for base in reversed(bases) if isinstance(base, Atom) and base is not owner]
    return list(found)


def base_values(frame: Frame, owner: Class) -> list[Value]:
    """What stands for each base in a class statement."""
    node = owner.code.node
    count = len(node.bases) if isinstance(node, ast.ClassDef) else 0
    return [frame.analysis.heap.read(owner, f"{BASES}{index}", frame.task) for index in range(count)]


def external_bases(frame: Frame, owner: Atom) -> Iterator[str]:
    """The full names of the classes of other packages that a class inherits from; empty for one that is unknown.

    What has a `forward`, and inherits from a class that was not read, is taken for a module.
    """
    order = lineage(frame, owner)
    names = ["" if isinstance(each, Opaque) else each.name for each in order if isinstance(each, (External, Opaque))]
    yield from names
    own = [each for each in order if isinstance(each, Class)]
    if any(map(_is_unread, names)) and any(frame.analysis.class_cell(frame, each, "forward") for each in own):
        yield MODULE


def _is_unread(name: str) -> bool:
    return name.partition(".")[0] not in _READ


def has_unread_base(frame: Frame, owner: Atom) -> bool:
    """Whether a class of the project inherits from one that was not read."""
    return isinstance(owner, Class) and any(
        isinstance(each, Opaque) or (isinstance(each, External) and _is_unread(each.name))
        for each in lineage(frame, owner)
    )


def is_module_class(frame: Frame, owner: Atom) -> bool:
    """Whether the objects of a class are modules of PyTorch."""
    if isinstance(owner, External):
        return is_module_name(owner.name)
    return frame.kept(_inherits_from_module, owner)


def _inherits_from_module(frame: Frame, owner: Atom) -> bool:
    return any(map(is_module_name, external_bases(frame, owner)))


def class_of(owner: Atom) -> Atom | None:
    """The class that an object is made of."""
    return owner.made_of if isinstance(owner, Obj) else None
