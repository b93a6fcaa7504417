"""What keeps mixed precision from making a script faster: each cause by its measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from amp_migrate.verify.causes.diagnosis import diagnose
from amp_migrate.verify.causes.measured import Found, Measured, medians
from amp_migrate.verify.recorded.kernels import Kernels
from amp_migrate.verify.recorded.recording import Anatomy, Product, Profile

GPU = {
    "stand_in": False,
    "device": "NVIDIA H100",
    "capability": [9, 0],
    "tf32": False,
    "tf32_convolutions": False,
    "torch": "2.9",
    "python": "3.11",
}
LOOKED = Anatomy(
    steps=3,
    products=(Product("linear", "float16", (32, 512, 16), 900), Product("matmul", "float32", (8, 8, 8), 100)),
    weight_casts=6,
    other_casts=3,
    cast_bytes=3 * 2**20,
    reads={"item": 3},
)
FINE = Measured(
    environment=GPU,
    anatomy=LOOKED,
    phases={"data": 1.0, "backward": 5.0, "optimizer": 1.0, "step": 10.0},
    profile=Profile("x", 100_000.0, (), 80_000.0),
    profiled=10,
    step_ms=10.0,
    kernels=Kernels(
        total=100_000.0,
        busy=90_000.0,
        products=80_000.0,
        half_products=80_000.0,
        on_matrix_units=80_000.0,
        casts=5_000.0,
    ),
)


def found(measured: Measured, cause: str) -> tuple[str, str, str]:
    one = next(one for one in diagnose(measured) if one.cause == cause)
    assert bool(one.action) is (one.found is Found.LIMITS)
    return one.found.value, one.evidence, one.action


def changed(measured: Measured = FINE, **changes: Any) -> Measured:
    """The same with other fields, those of its anatomy among them."""
    own = {name: value for name, value in changes.items() if hasattr(measured, name)}
    inner = {name: value for name, value in changes.items() if name not in own}
    return replace(measured, anatomy=replace(measured.anatomy, **inner), **own)


def with_kernels(**changes: Any) -> Measured:
    assert FINE.kernels is not None
    return changed(kernels=replace(FINE.kernels, **changes))


def test_nothing_limits_a_script_that_gains() -> None:
    assert {one.found for one in diagnose(FINE)} == {Found.FINE}


def test_what_limits_stands_first_and_what_needs_a_gpu_last() -> None:
    order = [
        one.found.value
        for one in diagnose(changed(environment={**GPU, "stand_in": True}, reads={"item": 30}, kernels=None))
    ]
    assert order == ["limits", *["fine"] * 6, *["unknown"] * 4]


def test_medians_leave_the_warm_up_out_and_count_absent_phases_as_nothing() -> None:
    warm_up = ({"data": 99.0, "step": 99.0},) * 3
    steps = ({"data": 2.0, "step": 4.0}, {"step": 6.0}, {"data": 1.0, "step": 5.0})
    assert medians((*warm_up, *steps)) == {"data": 1.0, "step": 5.0}


def test_the_share_in_half_precision_is_of_floating_point_operations() -> None:
    assert found(FINE, "precision")[:2] == (
        "fine",
        "90% of the floating-point operations of matrix products and convolutions are in half precision",
    )
    half, whole = LOOKED.products
    some = changed(products=(replace(half, flops=10), whole))
    assert found(some, "precision")[2] == "look for .float() and regions before matmul"
    assert "migrate the script" in found(changed(products=(whole,)), "precision")[2]
    assert found(changed(products=()), "precision")[0] == "unknown"


@pytest.mark.parametrize(
    ("device", "capability", "expected"),
    [("Tesla P100", [6, 0], "limits"), ("NVIDIA GeForce GTX 1660", [7, 5], "limits"), ("Tesla T4", [7, 5], "fine")],
)
def test_a_gpu_without_tensor_cores_is_named(device: str, capability: list[int], expected: str) -> None:
    measured = changed(environment={**GPU, "device": device, "capability": capability})
    assert found(measured, "matrix units")[0] == expected


def test_float32_that_uses_tf32_already_lowers_what_can_be_expected() -> None:
    on = {**GPU, "tf32_convolutions": True}
    convolutions = (Product("conv2d", "float16", (64, 64), 900),)
    state, evidence, action = found(changed(environment=on, products=convolutions), "TF32")
    assert (state, evidence) == ("limits", "float32 convolutions already use TF32")
    assert "about 2 times" in action
    assert found(changed(environment=on), "TF32")[0] == "fine", "PyTorch's default, in a script that has none"
    old = changed(environment={**on, "capability": [7, 0]}, products=convolutions)
    assert found(old, "TF32")[0] == "fine"


def test_the_ceiling_is_amdahls() -> None:
    # 80 % of 90 % of a step: the share of the time that is not spent waiting for data.
    assert (
        "take 72% of the GPU time of a step: 2.7 times as fast with them 8 times as fast, 3.6 times"
        in found(FINE, "ceiling")[1]
    )
    tf32 = changed(environment={**GPU, "tf32": True})
    assert "1.6 times as fast with them 2 times as fast" in found(tf32, "ceiling")[1]
    assert found(with_kernels(products=10_000.0), "ceiling")[0] == "limits"
    stand_in = changed(environment={**GPU, "stand_in": True}, kernels=None)
    assert "take 72% of the processor time of a step" in found(stand_in, "ceiling")[1]
    assert found(changed(stand_in, profile=Profile()), "ceiling")[0] == "unknown"


def test_convolutions_have_a_tf32_of_their_own() -> None:
    convolutions = (Product("conv2d", "float16", (64, 64), 900),)
    measured = changed(environment={**GPU, "tf32_convolutions": True}, products=convolutions)
    assert "with them 2 times as fast" in found(measured, "ceiling")[1]


def test_waiting_for_data_is_told_by_its_share() -> None:
    assert found(FINE, "input")[1] == "1.00 ms of 10.00 ms wait for data (10%)"
    assert found(changed(phases={"data": 3.0, "step": 10.0}), "input")[0] == "limits"
    assert found(changed(phases={"step": 10.0}), "input")[1].startswith("0.00 ms of")
    kept = changed(phases={"data": 3.0, "step": 10.0}, one_batch_ms=6.5)
    assert found(kept, "input")[1].endswith("(30%); a step of 10.00 ms takes 6.50 ms with one batch kept")


def test_a_slow_optimizer_is_told_by_its_share() -> None:
    assert found(changed(phases={"optimizer": 3.0, "step": 10.0}), "optimizer")[:2] == (
        "limits",
        "3.00 ms are the optimizer's step (30%), in float32",
    )


def test_a_gpu_that_waits_for_the_host_is_told() -> None:
    assert found(FINE, "host")[1] == "the GPU is busy for 9.00 ms of a step of 10.00 ms (90%)"
    assert found(changed(step_ms=20.0), "host")[:2] == (
        "limits",
        "the GPU is busy for 9.00 ms of a step of 20.00 ms (45%); if it never waited for the host, a step would take no"
        " more than that",
    )
    assert found(changed(kernels=None), "host")[0] == "unknown"


def test_products_off_the_matrix_units_are_told_and_unknown_kernels_are_named() -> None:
    assert found(FINE, "matrix units")[1].endswith(
        "100% of the time of products in half precision is on them, 0% is not"
    )
    state, evidence, _ = found(
        with_kernels(on_matrix_units=40_000.0, plain=20_000.0, unknown=("mystery",)), "matrix units"
    )
    assert state == "limits"
    assert evidence.endswith(
        "50% of the time of products in half precision is on them, 25% is not, 25% is in kernels of "
        "unknown names (mystery)"
    )
    assert found(with_kernels(half_products=0.0), "matrix units")[1] == "NVIDIA H100, compute capability 9.0"


def test_changes_of_layout_are_told_by_their_share() -> None:
    expected = "6% of the GPU's time goes into changes between channels-first and channels-last"
    assert found(with_kernels(layout=6_000.0), "layout")[:2] == ("limits", expected)
    assert found(with_kernels(layout=5_000.0), "layout")[0] == "fine"
    assert found(changed(kernels=None), "layout")[0] == "unknown"


def test_sizes_that_are_no_multiple_of_eight_are_named_the_costliest_first() -> None:
    odd = (Product("linear", "float16", (32, 512, 10), 50), Product("conv2d", "float16", (3, 64), 70))
    state, evidence, _ = found(changed(products=(*LOOKED.products, *odd)), "shapes")
    assert state == "limits"
    assert evidence.endswith("a size that is no multiple of 8: conv2d 3x64; linear 32x512x10")
    assert found(changed(products=(*LOOKED.products, replace(odd[0], flops=5))), "shapes")[0] == "fine"


def test_casts_and_reads_are_per_step() -> None:
    seen = "2 weights and 1 other tensors are cast to half precision per step, 1.0 MiB"
    assert found(changed(kernels=None), "casts")[:2] == ("fine", seen)
    assert found(FINE, "casts")[:2] == ("fine", f"{seen}, 5% of the GPU's time")
    assert found(with_kernels(casts=11_000.0), "casts")[0] == "limits"
    assert found(changed(other_casts=60), "casts")[0] == "limits"
    assert found(FINE, "reads")[1] == "1.0 reads of values per step (item)"
    many = changed(reads={"item": 6, "cpu": 6})
    assert found(many, "reads")[:2] == ("limits", "4.0 reads of values per step (cpu, item)")


def test_half_of_the_operations_in_half_precision_are_enough() -> None:
    half, whole = LOOKED.products
    states = [
        found(changed(products=(replace(half, flops=some), replace(whole, flops=100 - some))), "precision")[0]
        for some in (0, 49, 50)
    ]
    assert states == ["limits", "limits", "fine"]


@pytest.mark.parametrize(
    ("measured", "cause", "state"),
    [
        (changed(phases={"data": 2.0, "step": 10.0}), "input", "fine"),
        (changed(phases={"data": 2.1, "step": 10.0}), "input", "limits"),
        (changed(phases={"optimizer": 2.0, "step": 10.0}), "optimizer", "fine"),
        (changed(phases={"optimizer": 2.1, "step": 10.0}), "optimizer", "limits"),
        (with_kernels(busy=70_000.0), "host", "fine"),
        (with_kernels(busy=69_000.0), "host", "limits"),
        (with_kernels(plain=16_000.0), "matrix units", "fine"),
        (with_kernels(plain=16_100.0), "matrix units", "limits"),
        (with_kernels(casts=10_000.0), "casts", "fine"),
        (with_kernels(casts=10_100.0), "casts", "limits"),
        (changed(other_casts=12), "casts", "fine"),
        (changed(other_casts=13), "casts", "limits"),
        (changed(reads={"item": 6}), "reads", "fine"),
        (changed(reads={"item": 7}), "reads", "limits"),
        (changed(environment={**GPU, "capability": [7, 0]}), "matrix units", "fine"),
        (changed(environment={**GPU, "capability": [6, 1]}), "matrix units", "limits"),
        (changed(environment={**GPU, "capability": [8, 0], "tf32": True}), "TF32", "limits"),
        (changed(environment={**GPU, "capability": [7, 5], "tf32": True}), "TF32", "fine"),
    ],
)
def test_where_each_cause_begins_to_limit(measured: Measured, cause: str, state: str) -> None:
    assert found(measured, cause)[0] == state


@pytest.mark.parametrize(("flops", "state"), [(111, "fine"), (112, "limits")])
def test_a_tenth_of_the_operations_may_have_odd_sizes(flops: int, state: str) -> None:
    odd = Product("linear", "float16", (32, 512, 10), flops)
    assert found(changed(products=(*LOOKED.products, odd)), "shapes")[0] == state


@pytest.mark.parametrize(("products", "state"), [(30_000.0, "fine"), (29_000.0, "limits")])
def test_a_gain_of_less_than_three_tenths_is_not_worth_it(products: float, state: str) -> None:
    assert found(with_kernels(products=products), "ceiling")[0] == state


@pytest.mark.torch
def test_what_stands_on_the_cpu_beside_a_gpu_is_read_without_waiting() -> None:
    import torch
    from amp_migrate.verify.recorder.measure.anatomy import _Looking

    for on_gpu, counted in ((True, {}), (False, {"numpy": 1, "item": 1})):
        with _Looking(on_gpu) as looking:
            torch.ones(3).numpy()
            torch.ones(()).item()
        assert dict(looking.reads) == counted
