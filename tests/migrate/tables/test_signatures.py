"""The stored signatures are those of the PyTorch that is installed."""

from __future__ import annotations

import ast
import functools
import inspect
from inspect import Parameter

import pytest
import torch
from amp_migrate.settings import NEWEST_TORCH
from amp_migrate.tables.signatures import FORMS, OLDER, argument, forms, spelled

# These take their arguments apart in C++, so that Python cannot tell what they take: they are called instead.
IN_C = frozenset(
    f"torch.{name}_autocast_{what}" for name in ("get", "set", "is") for what in ("dtype", "enabled")
) & set(FORMS)
CALLS = {
    "torch.get_autocast_dtype": ("cpu",),
    "torch.set_autocast_dtype": ("cpu", torch.get_autocast_dtype("cpu")),
    "torch.is_autocast_enabled": ("cpu",),
    "torch.set_autocast_enabled": ("cpu", False),
}


def found(full: str) -> object:
    return functools.reduce(getattr, full.split(".")[1:], torch)


def shape(parameters: inspect.Signature) -> list[tuple[str, bool, bool]]:
    """What matters for binding: names, whether by keyword only, whether there is a default."""
    return [
        (each.name, each.kind is Parameter.KEYWORD_ONLY, each.default is not Parameter.empty)
        for each in parameters.parameters.values()
    ]


@pytest.mark.parametrize("full", sorted(set(FORMS) - IN_C))
def test_a_function_takes_what_is_stored(full: str) -> None:
    installed = found(full)
    assert callable(installed)
    assert shape(forms(full, NEWEST_TORCH)[-1].signature) == shape(inspect.signature(installed))


def test_functions_in_c_take_what_is_stored() -> None:
    assert set(CALLS) == IN_C
    for full, arguments in CALLS.items():
        installed = found(full)
        assert callable(installed)
        installed(*arguments)
        forms(full, NEWEST_TORCH)[-1].signature.bind(*arguments)
        with pytest.raises(TypeError):
            installed(*arguments, "more")
        with pytest.raises(TypeError):
            forms(full, NEWEST_TORCH)[-1].signature.bind(*arguments, "more")


def test_what_a_version_lacks_has_no_forms() -> None:
    assert forms("torch.amp.GradScaler", (2, 2)) == ()
    assert len(forms("torch.is_autocast_enabled", (2, 3))) == 1
    assert len(forms("torch.is_autocast_enabled", (2, 4))) == 2


def test_older_versions_spell_a_name_as_they_had_it() -> None:
    assert spelled("torch.amp.GradScaler", (2, 2)) == "torch.cuda.amp.GradScaler"
    assert spelled("torch.amp.GradScaler", (2, 3)) == "torch.amp.GradScaler"
    assert all(forms(older, (1, 12)) for older in OLDER.values())


def test_versions_bring_new_names_and_new_ways_to_call_old_ones() -> None:
    brought = {form.since: set[str]() for known in FORMS.values() for form in known}
    for full, known in FORMS.items():
        for form in known:
            brought[form.since].add(full)
    assert sorted(brought) == [(1, 12), (2, 3), (2, 4)]
    assert brought[2, 3] == {"torch.amp.GradScaler", "torch.cpu.amp.GradScaler"}
    assert brought[2, 4] - brought[1, 12] == {
        "torch.amp.autocast_mode._cast",
        "torch.amp.custom_bwd",
        "torch.amp.custom_fwd",
        "torch.get_autocast_dtype",
        "torch.set_autocast_dtype",
    }
    assert brought[2, 4] & brought[1, 12] == {
        "torch.cuda.is_bf16_supported",
        "torch.is_autocast_enabled",
        "torch.set_autocast_enabled",
    }


@pytest.mark.parametrize(
    ("full", "before", "after"),
    [
        ("torch.cuda.is_bf16_supported", (), (False,)),
        ("torch.is_autocast_enabled", (), ("cuda",)),
        ("torch.set_autocast_enabled", (True,), ("cuda", True)),
    ],
)
def test_an_older_version_takes_the_older_call(
    full: str, before: tuple[object, ...], after: tuple[object, ...]
) -> None:
    (old,) = forms(full, (2, 3))
    old.signature.bind(*before)
    with pytest.raises(TypeError):
        old.signature.bind(*after)
    forms(full, (2, 4))[-1].signature.bind(*after)


@pytest.mark.parametrize(
    ("call", "switch"),
    [
        ("torch.autocast('cuda', torch.float16, on)", "on"),
        ("torch.amp.GradScaler('cuda', 4.0, 2.0, 0.5, 2000, on)", "on"),
        ("torch.cuda.amp.GradScaler(4.0, 2.0, 0.5, 2000, on)", "on"),
        ("torch.cuda.amp.autocast_mode.autocast(on)", "on"),
        ("torch.cuda.amp.autocast(dtype=torch.float16, enabled=on)", "on"),
        ("wrapped.autocast(enabled=on)", "on"),
        ("wrapped.autocast(on)", None),
        ("torch.autocast(*given, on)", None),
        ("torch.autocast('cuda')", None),
    ],
)
def test_an_argument_is_found_by_name_or_by_place(call: str, switch: str | None) -> None:
    parsed = ast.parse(call, mode="eval").body
    assert isinstance(parsed, ast.Call)
    found = argument(parsed, ast.unparse(parsed.func), "enabled")
    assert (None if found is None else ast.unparse(found)) == switch
