"""The stored names of torch are those of the PyTorch that is installed."""

from __future__ import annotations

import inspect
from pydoc import locate

import pytest
from amp_migrate.tables import torch_names
from torch import nn
from torch.nn import functional


def test_all_functions_that_compute_a_loss_are_known() -> None:
    named = [name for name in dir(functional) if name.endswith(("_loss", "entropy", "_with_logits")) and name[0] != "_"]
    known = {full.rpartition(".")[2] for full in torch_names.LOSS_FUNCTIONS}
    assert {name for name in known if hasattr(functional, name)} == {*named, "kl_div"}


@pytest.mark.parametrize("full", sorted(torch_names.CLIPPING))
def test_clipping_takes_what_is_stored_with_the_limit_second(full: str) -> None:
    installed = locate(full)
    assert callable(installed)
    parameters = tuple(inspect.signature(installed).parameters)
    assert torch_names.CLIPPING[full] == parameters
    assert parameters[1] in ("max_norm", "clip_value")


def test_all_functions_that_clip_are_known_to_change_gradients() -> None:
    clipping = {f"torch.nn.utils.{name}" for name in dir(nn.utils) if name.startswith("clip_grad") and name[-1] == "_"}
    assert clipping <= torch_names.GRADIENT_FUNCTIONS
    assert torch_names.CLIPPING.keys() < torch_names.GRADIENT_FUNCTIONS


@pytest.mark.parametrize(
    "full",
    sorted(
        full
        for full in torch_names.SIGMOID_FUNCTIONS | torch_names.MODULE_WRAPPERS | torch_names.MODULE_BASES
        if full.startswith("torch.")
    ),
)
def test_a_stored_name_is_one_of_torch(full: str) -> None:
    assert callable(locate(full))


def test_methods_that_show_a_module_are_methods_of_one_and_compute_nothing() -> None:
    evidence = torch_names.MODULE_EVIDENCE - {"no_sync"}
    assert all(callable(getattr(nn.Module, name)) for name in evidence)
    assert callable(nn.parallel.DistributedDataParallel.no_sync)
    assert torch_names.MODULE_EVIDENCE <= torch_names.MODULE_BOOKKEEPING


def test_what_every_module_has_is_known_to_compute_nothing() -> None:
    own = {name for name in vars(nn.Module) if name[0] != "_" and callable(getattr(nn.Module, name))} - {"forward"}
    assert own - {"call_super_init"} <= torch_names.MODULE_BOOKKEEPING
    assert callable(nn.Module._get_name)


def test_methods_that_show_a_text_are_methods_of_one_and_of_no_module() -> None:
    assert all(callable(getattr(str, name)) for name in torch_names.TEXT_METHODS)
    assert not any(hasattr(nn.Module, name) for name in torch_names.TEXT_METHODS)
