"""What switches autocast and gradients: contexts, decorators, and the functions that do it without a `with`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    UNKNOWN,
    Atom,
    Const,
    External,
    Func,
    Method,
    Obj,
    Opaque,
    Value,
    Wrapped,
    const,
    constant,
    join,
    one,
)
from amp_migrate.flow.domain.contexts import DEFAULT_DTYPE, NO_CONTEXT, OFF, ON, Autocast, Context
from amp_migrate.flow.domain.tensor import BF16, F32, LOW, Tensor
from amp_migrate.flow.events import Act
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.source import Site
from amp_migrate.tables.signatures import parameters

AUTOCAST = {
    "torch.amp.autocast": "", "torch.autocast": "", "torch.cuda.amp.autocast": "cuda", "torch.cpu.amp.autocast": "cpu",
    "torch.amp.autocast_mode.autocast": "",
}  # fmt: skip
GRAD_MODES = {
    "torch.no_grad": OFF, "torch.inference_mode": OFF, "torch.enable_grad": ON, "torch.set_grad_enabled": 0,
    "torch.autograd.no_grad": OFF, "torch.autograd.enable_grad": ON, "torch.autograd.grad_mode.no_grad": OFF,
    "torch.autograd.set_grad_enabled": 0, "torch.autograd.inference_mode": OFF,
    "torch.autograd.grad_mode.enable_grad": ON, "torch.autograd.grad_mode.set_grad_enabled": 0,
    "torch.autograd.grad_mode.inference_mode": OFF, "torch._C._set_grad_enabled": 0,
}  # fmt: skip
CUSTOM = frozenset(
    ("torch.amp.custom_fwd", "torch.cuda.amp.custom_fwd", "torch.amp.custom_bwd", "torch.cuda.amp.custom_bwd")
)
# What `amp.scale_loss` gives, and the loss in it.
APEX_SCALED = "apex.amp.scale_loss"
APEX_LOSS = "<loss>"
_SWITCH = "<on>"


def is_switch(name: str) -> bool:
    """Whether a class of PyTorch's is a context that switches something."""
    return name in AUTOCAST or name in GRAD_MODES or name in CUSTOM


def made(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """An object that switches autocast or gradients where it is entered."""
    owner = Obj(frame.site(node), frame.context_of_objects, External(name))
    if name in AUTOCAST:
        for each in parameters(name):
            value = args.of(name, each)
            if value is not None:
                frame.write(owner, each, value, strong=False)
    elif name in GRAD_MODES:
        value = args.get(0, "mode")
        if (
            name.endswith("no_grad")
            and args.positional
            and any(isinstance(e, (Func, Method)) for e in args.positional[0])
        ):
            return decorated(frame, External(name), args.positional[0])
        frame.write(owner, _SWITCH, value if value is not None else const(True), strong=False)
        if GRAD_MODES[name] == 0:
            # It switches as soon as it is made, and back where a `with` ends.
            frame.now.context = frame.now.context.but(gradients=_mode(value or UNKNOWN, ON))
    elif name in CUSTOM:
        if args.positional and any(isinstance(each, (Func, Method, Wrapped)) for each in args.positional[0]):
            return decorated(frame, External(name), args.positional[0])
        frame.write(owner, "cast_inputs", args.keywords.get("cast_inputs", NONE_VALUE), strong=False)
        frame.write(owner, "device_type", args.keywords.get("device_type", const("cuda")), strong=False)
    return one(owner)


def _mode(value: Value, wanted: int) -> int:
    known = constant(value)
    if known is None:
        return ON | OFF
    return wanted if known else (ON | OFF) & ~wanted


def context_of(frame: Frame, atom: Atom | Tensor, base: Context, node: ast.AST) -> tuple[Context, Value]:
    """The context that entering something gives, and what `as` binds."""
    if isinstance(atom, Obj):
        name = atom.external
        if name in AUTOCAST:
            return _autocast(frame, atom, name, base, node), one(atom)
        if name in GRAD_MODES:
            mode = GRAD_MODES[name]
            switched = frame.read(atom, _SWITCH)
            return base.but(gradients=_mode(switched, mode or ON) if mode != ON else ON), one(atom)
        if name in CUSTOM:
            return _custom(frame, atom, base), one(atom)
        return base, frame.read(atom, APEX_LOSS) if name == APEX_SCALED else one(atom)
    if isinstance(atom, External) and atom.name in GRAD_MODES:
        return base.but(gradients=GRAD_MODES[atom.name] or ON), NONE_VALUE
    if isinstance(atom, Opaque):
        word, found = atom.name.lower(), base
        # It may be what objects of the project keep under the name: the region of a trainer, in what a trainer gets.
        kept = frame.analysis.pytorch.kept_as_regions(frame, atom.name[1:]) if word.startswith(".") else NEVER
        for each in sorted(kept, key=repr):
            found = found.join(context_of(frame, each, base, node)[0])
        if not kept and ("autocast" in word or word in (".amp_ctx", "amp_ctx")):
            # What is called so, and nobody sees made, may be one: nothing says in which dtype.
            site = frame.site(node)
            cuda = Autocast(ON | OFF, LOW, ON, frozenset({site}), base.cuda.outermost or frozenset({site}), True)
            return base.but(cuda=cuda), one(atom)
        return found, one(atom.part(".__enter__"))
    return base, UNKNOWN if not isinstance(atom, Const) else NONE_VALUE


def _autocast(frame: Frame, atom: Obj, name: str, base: Context, node: ast.AST) -> Context:
    enabled = frame.read(atom, "enabled") or const(True)
    devices = const(AUTOCAST[name]) if AUTOCAST[name] else frame.read(atom, "device_type")
    cache = frame.read(atom, "cache_enabled") or const(True)
    given = frame.read(atom, "dtype")
    site = atom.site
    found: Context | None = None
    for device in ("cuda", "cpu"):
        answer = _is_device(devices, device)
        if answer is False:
            continue
        dtype = frame.analysis.pytorch.precision_of(given) if given and given != NONE_VALUE else DEFAULT_DTYPE[device]
        on = _mode(enabled, ON)
        old = getattr(base, device)
        switch = Autocast(
            on if answer else on | OFF,
            (dtype or LOW) & LOW or (LOW if dtype is None else BF16),
            _mode(cache, ON),
            frozenset({site}) if on & ON else frozenset(),
            old.outermost if old.outermost else frozenset({site}),
            constant(enabled) is None or (old.asked and on == ON and False),
        )
        if on & ON:
            frame.analysis.event(frame, Act.REGION, node, why=device)
            if device == "cuda":
                opened = frame.analysis.pytorch.opened
                opened[site] = opened.get(site, 0) | base.gradients
                frame.analysis.pytorch.entering[site].add(frame.code)
        after = base.but(**{device: switch})
        found = after if found is None else found.join(after)
    return found or base


def _is_device(value: Value, device: str) -> bool | None:
    """Whether a device type is meant; None where it may be. One that nobody can tell is taken for the GPU."""
    names = {each.value for each in value if isinstance(each, Const) and each.kind in ("str", "device")}
    if not names or len(names) != len(value):
        return device == "cuda"
    kinds = {"cpu" if str(each).partition(":")[0] == "cpu" else "cuda" for each in names}  # or another accelerator
    if device not in kinds:
        return False
    # A script that picks the GPU where there is one is read as on a machine that has one.
    return True if len(kinds) == 1 or device == "cuda" else None


def context_of_backward(frame: Frame, forward: Value, backward: Value) -> Context:
    """What is on in `backward` of a function of autograd's own: `forward`'s autocast with `custom_bwd`, else none."""
    off = NO_CONTEXT.but(gradients=OFF, in_gradient=True)
    if "custom_bwd" not in {name for name, _ in _decorators(backward)}:
        return off
    casts = (frame.read(each, "cast_inputs") for _, each in _decorators(forward) if isinstance(each, Obj))
    if any(each and each != NONE_VALUE for each in casts):
        return off
    return off.but(cuda=frame.now.context.cuda, cpu=frame.now.context.cpu)


def _decorators(value: Value) -> Iterator[tuple[str, Atom]]:
    """What switches something around a function, by its last name."""
    for each in value:
        inner: Atom | Tensor = each
        while isinstance(inner, (Wrapped, Method)):
            context = inner.context if isinstance(inner, Wrapped) else None
            name = (
                context.name if isinstance(context, External) else context.external if isinstance(context, Obj) else ""
            )
            if context is not None:
                yield name.rpartition(".")[2], context
            inner = inner.function


def _custom(frame: Frame, atom: Obj, base: Context) -> Context:
    """A function of autograd's own under `custom_fwd`: switched off where it casts its inputs."""
    cast = frame.read(atom, "cast_inputs")
    if not cast or cast == NONE_VALUE or "custom_bwd" in atom.external:
        return base
    return base.but(cuda=Autocast(OFF, base.cuda.dtype, base.cuda.cache, frozenset(), base.cuda.outermost))


def cast_under(frame: Frame, atom: Atom, args: Arguments) -> Arguments:
    """What `custom_fwd` gives its function where autocast is on: floating tensors in the dtype of `cast_inputs`."""
    dtype = frame.read(atom, "cast_inputs") if isinstance(atom, Obj) and atom.external in CUSTOM else NEVER
    to = frame.analysis.pytorch.precision_of(dtype) if dtype else None
    on = frame.now.context.cuda.on
    if to is None or not on & ON:
        return args

    def cast(value: Value) -> Value:
        return frozenset(cast_one(each) if isinstance(each, Tensor) else each for each in value)

    def cast_one(tensor: Tensor) -> Tensor:
        kept = tensor.precision if on & OFF else tensor.precision & ~(LOW | F32)
        return tensor.but(precision=kept | (to if tensor.precision & (LOW | F32) else 0))

    return replace(
        args,
        positional=[cast(each) for each in args.positional],
        rest=cast(args.rest),
        keywords={name: cast(each) for name, each in args.keywords.items()},
        others=cast(args.others),
    )


def decorated(frame: Frame, atom: Atom, value: Value) -> Value:
    """Functions that run in a context."""
    found: Value = frozenset()
    for each in value:
        is_again = isinstance(each, Wrapped) and each.context == atom  # `m.f = custom_fwd(m.f, ...)`
        wrapped = Wrapped("under", each, atom) if isinstance(each, (Func, Wrapped, Method)) and not is_again else each
        found = join(found, one(wrapped))
    return found


def switch(frame: Frame, name: str, args: Arguments, node: ast.AST) -> bool:
    """Whether a function of PyTorch's switches autocast; it is done."""
    last = name.rpartition(".")[2]
    if not name.startswith("torch.set_autocast"):
        return False
    base = frame.now.context
    site: Site = frame.site(node)
    if last in ("set_autocast_enabled", "set_autocast_cpu_enabled"):
        device = "cpu" if "cpu" in last or constant(args.get(0, "") or UNKNOWN) == "cpu" else "cuda"
        enabled = args.positional[-1] if args.positional else UNKNOWN
        old = getattr(base, device)
        on = _mode(enabled, ON)
        frame.now.context = base.but(
            **{
                device: Autocast(
                    on,
                    old.dtype & LOW or DEFAULT_DTYPE[device],
                    old.cache,
                    frozenset({site}),
                    old.outermost or frozenset({site}),
                )
            }
        )
    elif last in ("set_autocast_dtype", "set_autocast_gpu_dtype", "set_autocast_cpu_dtype"):
        device = "cpu" if "cpu" in last or constant(args.get(0, "") or UNKNOWN) == "cpu" else "cuda"
        dtype = frame.analysis.pytorch.precision_of(args.positional[-1]) if args.positional else None
        old = getattr(base, device)
        frame.now.context = base.but(
            **{device: Autocast(old.on, dtype or LOW, old.cache, old.regions, old.outermost, old.asked)}
        )
    return True
