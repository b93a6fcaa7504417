"""What is stored of Apex is what the shim has, which answers for it, and what torch does by itself."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from pydoc import locate
from typing import Any

import pytest
import torch
from amp_migrate.tables.apex_names import (
    AS_REGISTERED,
    FP16_OPTIMIZER,
    INIT,
    INITIALIZE,
    SCALE_LOSS,
)
from amp_migrate.tables.apex_natives import INNER_MODULES, NATIVES, OWN_METHODS, TorchForm
from amp_migrate.tables.star_names import OF_FP16_UTILS
from amp_shim import amp, fp16_utils
from amp_shim.policy import NATIVE_CUDA, Treatment, op_lists
from torch.nn import functional

SHARED = [native for native in NATIVES if not native.old.startswith("apex.contrib.")]
# What autocast runs in half or in float32 and no script registers: other functions are built on these.
INNER = frozenset(
    (
        "convolution cudnn_convolution cudnn_convolution_transpose gru_cell lstm_cell rnn_relu_cell rnn_tanh_cell "
        "frobenius_norm linalg_multi_dot linalg_vecdot native_layer_norm nuclear_norm rms_norm"
    ).split()
)


def in_the_shim(full: str) -> Any:
    found = locate(full.replace("apex.", "amp_shim.", 1))
    assert found is not None, full
    return found


@pytest.mark.parametrize(
    ("stored", "function"),
    [
        (INITIALIZE, amp.initialize),
        (INIT, amp.init),
        (SCALE_LOSS, amp.scale_loss),
        (FP16_OPTIMIZER, fp16_utils.FP16_Optimizer),
    ],
)
def test_parameters_are_those_of_the_shim(stored: list[str], function: Callable[..., Any]) -> None:
    assert stored == list(inspect.signature(function).parameters)


def test_a_star_brings_what_the_package_lists_and_its_modules() -> None:
    modules = [module.name for module in pkgutil.iter_modules(fp16_utils.__path__)]
    assert sorted(OF_FP16_UTILS) == sorted([*fp16_utils.__all__, *modules])


@pytest.mark.parametrize("native", SHARED, ids=lambda native: f"{native.old}-{native.new}")
def test_a_call_has_the_parameters_and_defaults_that_the_shim_has(native: TorchForm) -> None:
    installed = inspect.signature(in_the_shim(native.old)).parameters
    stored = [word.partition("=") for word in native.parameters.split() if word != "*"]
    assert [name for name, _, _ in stored] == [name for name in installed if name != "kwargs"] or "kwargs" in installed
    for name, _, default in stored:
        if default and name in installed:
            assert eval(default) == installed[name].default, name


def test_inner_modules_and_own_methods_are_there() -> None:
    for inner, package in INNER_MODULES.items():
        assert inner.startswith(f"{package}.")
    for full, methods in OWN_METHODS.items():
        assert [callable(getattr(in_the_shim(full), name)) for name in methods] == [True] * len(methods)


@pytest.mark.parametrize(
    ("way", "treatments"),
    [
        ("register_half_function", {Treatment.HALF}),
        ("register_float_function", {Treatment.FLOAT, Treatment.FLOAT_KEEP_DTYPE}),
        # torch itself brings the arguments of the natural ones to one type
        ("register_promote_function", {Treatment.PROMOTE, Treatment.NATURAL}),
    ],
)
def test_a_registration_that_goes_is_what_autocast_does(way: str, treatments: set[Treatment]) -> None:
    composed = {"cross_entropy"}  # of log_softmax and nll_loss
    assert {NATIVE_CUDA.treatment(name) for name in AS_REGISTERED[way] - composed} == treatments


@pytest.mark.parametrize(
    ("way", "families"),
    [
        ("register_half_function", op_lists.HALF),
        ("register_float_function", op_lists.FLOAT | op_lists.FLOAT_KEEP_DTYPE),
    ],
)
def test_registrations_of_all_that_autocast_casts_go(way: str, families: frozenset[str]) -> None:
    homes = (torch, functional, torch.Tensor)
    offered = {name for name in families if name[0] != "_" and any(hasattr(home, name) for home in homes)}
    assert offered - INNER <= AS_REGISTERED[way]
