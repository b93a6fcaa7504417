"""Functions with a device in their name take it as an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_functions_of_the_gpu(rewrites: Check) -> None:
    rewrites(
        """
        - dtype = torch.get_autocast_gpu_dtype()
        - torch.set_autocast_gpu_dtype(torch.bfloat16)
        + dtype = torch.get_autocast_dtype("cuda")
        + torch.set_autocast_dtype("cuda", torch.bfloat16)
        """
    )


def test_functions_of_the_cpu(rewrites: Check) -> None:
    rewrites(
        """
        - dtype = torch.get_autocast_cpu_dtype()
        - torch.set_autocast_cpu_dtype(torch.bfloat16)
        - on = torch.is_autocast_cpu_enabled()
        - torch.set_autocast_cpu_enabled(True)
        + dtype = torch.get_autocast_dtype("cpu")
        + torch.set_autocast_dtype("cpu", torch.bfloat16)
        + on = torch.is_autocast_enabled("cpu")
        + torch.set_autocast_enabled("cpu", True)
        """
    )


def test_functions_of_xla(rewrites: Check) -> None:
    rewrites(
        """
        - dtype = torch.get_autocast_xla_dtype()
        - on = torch.is_autocast_xla_enabled()
        + dtype = torch.get_autocast_dtype("xla")
        + on = torch.is_autocast_enabled("xla")
        """
    )


def test_functions_without_a_device(ignores: Check) -> None:
    ignores(
        """
        on = torch.is_autocast_enabled()
        torch.set_autocast_enabled(True)
        dtype = torch.get_autocast_dtype("cuda")
        torch.clear_autocast_cache()
        """
    )


def test_function_as_a_value(rewrites: Check) -> None:
    rewrites(
        """
        + import functools
          import torch
        - read = torch.get_autocast_gpu_dtype
        + read = functools.partial(torch.get_autocast_dtype, "cuda")
          dtype = read()
        """,
        head="",
    )
