"""What code gives that is not among the files, and computes if it is of no package known to train under autocast."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from amp_migrate.flow.domain.atoms import Atom, Class, Method, Native, Obj, Opaque, Value
from amp_migrate.flow.domain.tensor import F16, NOTHING, Tensor
from amp_migrate.flow.events import Act
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.classes import external_bases
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch.ranges import has_no_inverse
from amp_migrate.flow.source import Site
from amp_migrate.tables.torch_names import BRINGING_CODE, TRAINED_WITH_AMP


def noted(frame: Frame, callee: str, node: ast.AST) -> frozenset[Site]:
    """Note what is called in a place; the place, if what it gives is computed in a region by code that nobody knows.

    Args:
        callee: its full name; empty where nobody can say.
    """
    if not callee:
        return NOTHING
    site = frame.site(node)
    frame.analysis.pytorch.called.setdefault(site, callee)
    return NOTHING if is_known(callee) or not frame.now.context.cuda.may_be_on else frozenset({site})


def note_small(frame: Frame, callee: str, args: Arguments, node: ast.AST) -> None:
    """Note where the method of an object whose code nobody knows gets a number that it cannot divide float16 by.

    Args:
        callee: its full name; empty where nobody can say.
    """
    cuda = frame.now.context.cuda
    if cuda.may_be_on and cuda.dtype & F16 and not is_known(callee) and any(map(has_no_inverse, args.all())):
        frame.analysis.event(frame, Act.SMALL_GIVEN, node)


def is_known(callee: str) -> bool:
    """Whether what has a full name is of Python's own library, or of a package that is trained under autocast.

    What these bring, by a name or out of a file, is anybody's.
    """
    if callee.lstrip(".").startswith(BRINGING_CODE):
        return False
    return _package(callee) in TRAINED_WITH_AMP or _package(callee) in sys.stdlib_module_names


def name_of(frame: Frame, callee: Value) -> str:
    """The full name of what is called, by what it was taken from; empty where that is of no other package."""
    return next(iter(sorted(filter(None, (_name_of(frame, each) for each in callee if isinstance(each, Atom))))), "")


def _name_of(frame: Frame, atom: Atom) -> str:
    if isinstance(atom, Obj):
        return next(_names_of_class(frame, atom), "")
    if not isinstance(atom, Opaque) or not atom.path:
        return ""
    root, *steps = atom.path
    if isinstance(root, Site):
        found = frame.analysis.pytorch.called.get(root, "")
        steps = [each for each in steps if each[:1] in ".[("]
    else:
        found = next(_names_of_class(frame, root), "") if isinstance(root, Obj) else ""
    return found and found + "".join(steps)


def _names_of_class(frame: Frame, owner: Obj) -> Iterator[str]:
    """The classes of other packages that an object is of, in which there may be what nobody has read."""
    bases = external_bases(frame, owner.made_of) if isinstance(owner.made_of, Class) else [owner.external]
    return (each for each in bases if _package(each) not in ("builtins", "torch"))


def owner_of(method: Atom | Tensor) -> Atom | None:
    """What a method is of; None where it is no method."""
    if isinstance(method, (Native, Method)):
        return method.owner
    if isinstance(method, Opaque) and len(method.path) > 1:
        *path, _ = method.path
        return path[0] if len(path) == 1 and isinstance(path[0], Obj) else Opaque(tuple(path), method.tensor)
    return None


def _package(name: str) -> str:
    return name.lstrip(".").partition(".")[0]
