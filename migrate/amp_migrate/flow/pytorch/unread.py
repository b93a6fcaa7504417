"""What code gives that is not among the files, and computes if it is of no package known to train under autocast."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from itertools import takewhile

from amp_migrate.flow.domain.atoms import (
    NEVER,
    UNKNOWN,
    Atom,
    Class,
    Const,
    External,
    Func,
    Method,
    Native,
    Obj,
    Opaque,
    Value,
    join,
    join_all,
    one,
)
from amp_migrate.flow.domain.contexts import ON
from amp_migrate.flow.domain.interned import remembered
from amp_migrate.flow.domain.tensor import ANYWHERE, F16, NOTHING, Tensor
from amp_migrate.flow.events import Act
from amp_migrate.flow.python import attributes
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.classes import external_bases, has_unread_base, is_module_class
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch.ranges import has_no_inverse
from amp_migrate.flow.source import DEVICE_WORD, Site
from amp_migrate.tables.torch_names import (
    BRINGING_CODE,
    COMPUTING_BY_KERNELS,
    KNOWN_BY_NAME,
    TRAINED_WITH_AMP,
    WITHOUT_MODULES,
)

_READ = frozenset("torch torchvision numpy builtins apex".split()) | sys.stdlib_module_names
_REGISTRIES = "<registries>"
_OFF = (None, False, 0)


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


def note_given(frame: Frame, callee: str, args: Arguments, node: ast.AST) -> None:
    """Note which models code gets that nobody knows: it may bring these to a device, or give others that are on one."""
    if _package(callee) in KNOWN_BY_NAME | sys.stdlib_module_names:
        return
    atoms = (each for value in args.all() for each in value if isinstance(each, (Obj, Opaque)))
    if models := frozenset(each for each in atoms if is_of_model(frame, each) or _has_unread(frame, each)):
        frame.analysis.moved_elsewhere |= models
        frame.analysis.pytorch.told_more.add(frame.site(node))


def _has_unread(frame: Frame, atom: Obj | Opaque) -> bool:
    return isinstance(atom, Obj) and has_unread_base(frame, atom.made_of)


def note_told(frame: Frame, args: Arguments, site: Site) -> None:
    """Note what a call of code that nobody has read may be told of a place for what it makes, or computes."""
    pytorch = frame.analysis.pytorch
    if args.rest or args.others:
        pytorch.told_more.add(site)
    for word, value in args.keywords.items():
        if _is_of_device(word) and not all(isinstance(each, Const) and each.value in _OFF for each in value):
            pytorch.note_place(pytorch.place_of(value) or ANYWHERE)
    for value in args.positional:
        if any(isinstance(each, Const) and each.value == "cuda" for each in value):
            pytorch.place_of(value)


@remembered(10_000)
def _is_of_device(word: str) -> bool:
    return DEVICE_WORD.search(word) is not None


def note_of_model(frame: Frame, given: Iterable[Value], node: ast.AST) -> None:
    """Note that what a call gives in a region may be computed with weights: a model, or what one gives, gets there."""
    if frame.now.context.cuda.may_be_on and any(is_of_model(frame, each) for value in given for each in value):
        frame.analysis.pytorch.of_models.add(frame.site(node))


def is_of_model(frame: Frame, atom: Atom | Tensor) -> bool:
    """Whether something is a model, or may be computed with weights: what a tokenizer makes of texts is not."""
    pytorch = frame.analysis.pytorch
    if isinstance(atom, Opaque):
        return atom.made_at in pytorch.of_models or pytorch.is_like_module(frame, atom)
    return isinstance(atom, Tensor) or (isinstance(atom, Obj) and bool(pytorch.leaves_of(frame, atom)))


def note_small(frame: Frame, callee: str, args: Arguments, node: ast.AST) -> None:
    """Note where the method of an object whose code nobody knows gets a number that it cannot divide float16 by.

    Args:
        callee: its full name; empty where nobody can say.
    """
    cuda = frame.now.context.cuda
    if cuda.may_be_on and cuda.dtype & F16 and not is_known(callee) and any(map(has_no_inverse, args.all())):
        frame.analysis.event(frame, Act.SMALL_GIVEN, node)


def note_kernels(frame: Frame, callee: str, args: Arguments, node: ast.AST) -> None:
    """Note that a package computes in a region whose older releases raise there, be it by what a call is given."""
    names = {callee, *(name_of(frame, each) for each in args.all())}
    for name in sorted({_package(each) for each in names if each.startswith(COMPUTING_BY_KERNELS)}):
        is_sure = frame.now.context.cuda.on == ON
        frame.analysis.event(frame, Act.OLD_KERNELS, node, why=name, is_sure=is_sure)


def is_known(callee: str) -> bool:
    """Whether what has a full name is of Python's own library, or of a package that is trained under autocast.

    What these bring, by a name or out of a file, is anybody's.
    """
    if callee.lstrip(".").startswith(BRINGING_CODE):
        return False
    return _package(callee) in TRAINED_WITH_AMP or _package(callee) in sys.stdlib_module_names


def gives_no_tensors(callee: str) -> bool:
    """Whether something is of a package that does not know PyTorch, by its full name: what scores is a number."""
    return _package(callee) in WITHOUT_MODULES


def is_meant(frame: Frame, callee: str) -> bool:
    """Whether a call is in a region, of what is trained under autocast: it takes what that gives it."""
    return is_known(callee) and frame.now.context.cuda.on == ON


def name_of(frame: Frame, callee: Value) -> str:
    """The full name of what is called, by what it was taken from; empty where that is of no other package."""
    return next(iter(sorted(filter(None, (_name_of(frame, each) for each in callee if isinstance(each, Atom))))), "")


def _name_of(frame: Frame, atom: Atom) -> str:
    if isinstance(atom, Obj):
        return next(_names_of_class(frame, atom), "")
    if not isinstance(atom, Opaque) or not atom.path:
        return ""
    root, *steps = atom.path
    if atom.made_at is not None:
        found = frame.analysis.pytorch.called.get(atom.made_at, "")
        steps = [each for each in takewhile(lambda step: step[0] != "[", steps) if each[0] in ".("]
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


@remembered(10_000)
def owners_of(methods: Value) -> tuple[Atom | None, ...]:
    """What each of some methods is of; asked of all that a call may run for each of them."""
    return tuple(map(owner_of, methods))


def register(frame: Frame, registry: Value, given: Value) -> None:
    """Keep the classes and functions that code gets which nobody has read: it may make models by them."""
    for each in given:
        if isinstance(each, (Class, Func)):
            for holder in _registries(frame, registry):
                frame.analysis.heap.write(holder, f"[{each.code.site}]", one(each))


def registered(frame: Frame, callee: Atom, args: Arguments, found: Value, node: ast.AST) -> Value:
    """What a call of code gives that nobody has read, where it is used as a module: one of those registered there.

    An object that the project makes as a registry is taken to give nothing else.
    """
    analysis, here = frame.analysis, Opaque((frame.site(node),))
    is_class = isinstance(callee, External) and callee.name.rpartition(".")[2][:1].isupper()
    new = frozenset(each for each in found if is_class and isinstance(each, Obj))
    given = (each for value in args.all() for each in value)
    asked = frozenset({callee, *(each for each in given if isinstance(each, (Obj, Opaque)))})
    registries = frozenset(_registries(frame, new or asked))
    if not registries:
        return found
    for value in args.all():
        register(frame, one(callee), value)
    analysis.heap.write(here, _REGISTRIES, registries)
    if not any(_is_module(frame, each, here) for each in found if isinstance(each, Atom)):
        return found
    made = others = NEVER
    for each in sorted(registries, key=repr):
        more = analysis.put_in_elsewhere(frame, each)
        kinds = join_all(analysis.heap.read(each, name, frame.task) for name in _entries(frame, each))
        models = _modules_made(frame, kinds, node)
        if models:
            made = join_all((made, models, more))
            others = others if isinstance(each, Obj) else found
    if made and not others:
        analysis.pytorch.out_of_registries.add(frame.site(node))
    return join(made, others) or found


def _registries(frame: Frame, value: Value) -> Iterator[Atom]:
    """What may give what it was given: objects of classes that nobody has read, and packages as a whole."""
    for each in value:
        atom: Atom | Tensor | None = each
        while isinstance(atom, (Native, Method)):
            atom = atom.owner
        if isinstance(atom, Opaque):
            root = atom.path[0] if atom.path else None
            if atom.made_at is not None:
                known = frame.analysis.heap.read(Opaque((atom.made_at,)), _REGISTRIES, frame.task)
                yield from (each for each in known if isinstance(each, Atom))
            atom = root
        if isinstance(atom, Obj) and any(_package(each) not in _READ for each in _names_of_class(frame, atom)):
            yield atom
        elif isinstance(atom, External) and _package(atom.name) not in _READ:
            yield External(_package(atom.name))


def _entries(frame: Frame, registry: Atom) -> list[str]:
    return [each for each in frame.analysis.heap.names(registry, frame.task) if each.startswith("[")]


def _is_module(frame: Frame, atom: Atom, made_at: Opaque) -> bool:
    """Whether what a call gives is used as a module."""
    if isinstance(atom, Opaque) and atom.made_at in made_at.path:
        return frame.analysis.pytorch.is_used_as_module(frame, atom)
    return attributes.is_module(frame, atom)


def _modules_made(frame: Frame, kinds: Value, node: ast.AST) -> Value:
    """The modules that classes and functions make, with arguments that nobody knows."""
    found = NEVER
    for kind in sorted(kinds, key=repr):
        # What runs here, it may have been given to be called, as the main function of a script.
        is_function = isinstance(kind, Func) and not frame.analysis.runs_in(frame.task, kind.code)
        if is_function or (isinstance(kind, Class) and is_module_class(frame, kind)):
            before = frame.now.copy()
            made = frame.analysis.call(frame, one(kind), Arguments(rest=UNKNOWN, others=UNKNOWN), node)
            modules = frozenset(each for each in made if attributes.is_module(frame, each))
            if frame.is_dead or not modules:  # it takes something else, or makes something else
                frame.is_dead, frame.state = False, before
            found = join(found, modules)
    return found


def _package(name: str) -> str:
    return name.lstrip(".").partition(".")[0]
