"""Arguments keep their meaning: by keyword, and only where every one of them is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_keywords_of_a_dictionary_reach_the_scaler(rewrites: Check) -> None:
    rewrites(
        """
        - scaler = torch.cuda.amp.GradScaler(**options)
        + scaler = torch.amp.GradScaler("cuda", **options)
        """
    )


def test_one_argument_a_line_stays_so(rewrites: Check) -> None:
    rewrites(
        """
        - scaler = torch.cuda.amp.GradScaler(
        + scaler = torch.amp.GradScaler(
        +     "cuda",
              init_scale=2.0**16,
              enabled=True,
          )
        """
    )


def test_cache_stays_off(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast(cache_enabled=False): pass
        + with torch.amp.autocast(device_type="cuda", dtype=torch.float16, cache_enabled=False): pass
        """
    )


def test_positional_and_keyword_together(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast(True, dtype=torch.float16): pass
        + with torch.amp.autocast(device_type="cuda", enabled=True, dtype=torch.float16): pass
        """
    )


def test_keywords_of_a_dictionary_may_name_the_dtype(leaves: Check) -> None:
    leaves(
        """
        with torch.cuda.amp.autocast(**options):
            pass
        """,
        "its arguments are starred",
    )


def test_starred_arguments_of_the_scaler(leaves: Check) -> None:
    leaves(
        """
        scaler = torch.cuda.amp.GradScaler(*options)
        """,
        "its arguments are starred",
    )


def test_starred_arguments_of_a_decorator(leaves: Check) -> None:
    leaves(
        """
        @torch.cuda.amp.custom_fwd(**options)
        def forward(ctx, x): ...
        """,
        "its arguments are starred",
    )


def test_more_arguments_than_parameters(leaves: Check) -> None:
    leaves(
        """
        with torch.cuda.amp.autocast(True, torch.float16, True, 1):
            pass
        """,
        "more arguments than the function takes",
    )


@pytest.mark.parametrize("call", ["autocast(enabled=on, data_type=kind)", "GradScaler(init_scale=2.0, growth=2.0)"])
def test_a_keyword_that_the_function_does_not_have(leaves: Check, call: str) -> None:
    leaves(f"made = torch.cuda.amp.{call}", "which the function does not take, and raises as it is")


def test_a_keyword_that_is_given_by_place_as_well(leaves: Check) -> None:
    leaves("made = torch.cuda.amp.autocast(True, enabled=on)", "it passes `enabled` twice, and raises as it is")


def test_a_call_that_raises_keeps_no_other_call(rewrites: Check) -> None:
    rewrites(
        """
          first = torch.cuda.amp.autocast(data_type=kind)
        - other = torch.cuda.amp.autocast(enabled=on)
        + other = torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=on)
        """
    )


@pytest.mark.parametrize("half", ["torch.float16", "torch.half"])
def test_float16_that_is_named_becomes_bfloat16(rewrites: Check, half: str) -> None:
    rewrites(
        f"""
        - with torch.cuda.amp.autocast(True, {half}): pass
        + with torch.amp.autocast(device_type="cuda", enabled=True, dtype=torch.bfloat16): pass
        """,
        dtype="bf16",
    )


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_bfloat16_that_is_named_stays(rewrites: Check, dtype: str) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast(dtype=torch.bfloat16): pass
        + with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16): pass
        """,
        dtype=dtype,
    )


def test_float16_of_the_cpu_stays_whatever_cuda_gets(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cpu.amp.autocast(dtype=torch.float16): pass
        + with torch.amp.autocast(device_type="cpu", dtype=torch.float16): pass
        """,
        dtype="bf16",
    )


def test_a_region_that_is_off_names_no_dtype(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.cuda.amp.autocast(enabled=False): pass
        - with torch.cuda.amp.autocast(False, torch.bfloat16): pass
        - with torch.cpu.amp.autocast(False): pass
        + with torch.amp.autocast(device_type="cuda", enabled=False): pass
        + with torch.amp.autocast(device_type="cuda", enabled=False, dtype=torch.bfloat16): pass
        + with torch.amp.autocast(device_type="cpu", enabled=False): pass
        """
    )
