"""What a GPU did, read from traces of PyTorch's profiler with known numbers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amp_migrate.verify.recorded.kernels import Kernels, of_events, read

Event = dict[str, Any]


class Trace:
    """A trace in the making: operators and the kernels that they launch, one after another."""

    def __init__(self) -> None:
        self.events: list[Event] = [{"ph": "M", "name": "process_name", "args": {"name": "python"}}]
        self._now = 1000.0

    def add(self, operator: str, types: list[str], **kernels: float) -> Trace:
        """An operator on inputs of these types; its kernels and their microseconds, with a gap of 2 after each."""
        number = len(self.events)
        told = {"External id": number, "Input type": types}
        self.events.append({"ph": "X", "cat": "cpu_op", "name": operator, "ts": 0.0, "dur": 5.0, "args": told})
        for name, duration in kernels.items():
            kernel = {"ph": "X", "cat": "kernel", "name": name, "ts": self._now, "dur": duration}
            self.events.append({**kernel, "args": {"External id": number, "stream": 7}})
            self._now += duration + 2.0
        return self


HALF, FLOAT = "c10::Half", "float"


def test_kernels_are_told_by_their_operators_and_names() -> None:
    trace = (
        Trace()
        .add("aten::mm", [HALF, HALF], ampere_fp16_s16816gemm_fp16_128x128=100.0)
        .add("aten::addmm", ["c10::BFloat16", "c10::BFloat16"], nvjet_hsh_128x256_64x4_NNT=50.0)
        .add("aten::mm", [HALF, HALF], gemv2T_kernel_val=30.0, splitKreduce_kernel=20.0)
        .add("aten::mm", [FLOAT, FLOAT], ampere_sgemm_128x64_tn=40.0)
        .add("aten::convolution_backward", [HALF], nchwToNhwcKernel=7.0, cutlass_tensorop_f16_s16816dgrad=60.0)
        .add("aten::copy_", [HALF, FLOAT, "Scalar"], unrolled_elementwise_kernel=8.0)
        .add("aten::copy_", [FLOAT, FLOAT, "Scalar"], vectorized_elementwise_kernel=9.0)
        .add("aten::copy_", [HALF, "long int", "Scalar"], unrolled_elementwise_kernel=3.0)
        .add("aten::relu", [HALF], clamp_kernel=11.0)
    )
    expected = Kernels(
        total=338.0,
        busy=338.0,
        products=300.0,
        half_products=260.0,
        on_matrix_units=210.0,
        plain=30.0,
        unknown=("splitKreduce_kernel",),
        casts=8.0,
        layout=7.0,
    )
    assert of_events(trace.events) == expected


def test_unknown_kernels_are_named_by_their_time_the_longest_first() -> None:
    trace = Trace()
    for _ in range(3):
        trace.add("aten::mm", [HALF, HALF], often=20.0)
    found = of_events(trace.add("aten::mm", [HALF, HALF], rare=5.0, long=50.0).events)
    assert found is not None
    assert found.unknown == ("often", "long", "rare")


def test_streams_that_work_at_the_same_time_count_once() -> None:
    spans = ((0.0, 10.0), (5.0, 10.0), (12.0, 1.0), (30.0, 4.0))
    events = [{"cat": "kernel", "name": "k", "ts": first, "dur": duration} for first, duration in spans]
    found = of_events([*events, {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 33.0, "dur": 2.0, "args": {}}])
    assert found is not None
    assert (found.total, found.busy) == (27.0, 20.0)


def test_a_trace_without_kernels_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert read(path) is None
    path.write_text("{")
    assert read(path) is None
    path.write_text(json.dumps({"traceEvents": Trace().add("aten::mm", [FLOAT]).events}))
    assert read(path) is None
    path.write_text(json.dumps({"traceEvents": Trace().add("aten::mm", [FLOAT], sgemm=4.0).events}))
    found = read(path)
    assert found is not None
    assert found.products == found.total == 4.0


@pytest.mark.slow
def test_the_profiler_writes_what_is_read(tmp_path: Path) -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(8, 8)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as made:
        x.half()
        x @ x
    path = tmp_path / "trace.json"
    made.export_chrome_trace(str(path))
    assert read(path) is None
    events = json.loads(path.read_text())["traceEvents"]
    calls = [event for event in events if event.get("cat") == "cpu_op" and event["name"] in ("aten::copy_", "aten::mm")]
    assert [event["args"]["Input type"][:2] for event in calls] == [[HALF, FLOAT], [FLOAT, FLOAT]]
    # As on a GPU: a kernel for each, which carries the operator's id.
    kernels = [{**event, "cat": "kernel", "dur": 10.0, "name": "sgemm"} for event in calls]
    found = of_events([*events, *kernels])
    assert found is not None
    assert (found.casts, found.products, found.half_products) == (10.0, 10.0, 0.0)


@pytest.mark.torch
def test_operations_are_timed_once_on_a_gpu() -> None:
    from amp_migrate.verify.recorder.measure.profile import rows_of

    host, gpu = SimpleNamespace(name="CPU"), SimpleNamespace(name="CUDA")
    seen = [("aten::mm", 2, 9.0, 40.0, host), ("gemm", 2, 0.0, 40.0, gpu), ("aten::add", 1, 30.0, 5.0, host)]
    names = ("key", "count", "self_cpu_time_total", "self_device_time_total", "device_type")
    rows = [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in seen]
    assert rows_of(rows, on_gpu=True) == [["aten::mm", 2, 40.0], ["aten::add", 1, 5.0]]
    assert rows_of(rows, on_gpu=False) == [["aten::add", 1, 30.0], ["aten::mm", 2, 9.0], ["gemm", 2, 0.0]]


def test_a_product_of_one_half_input_is_one_in_half_precision() -> None:
    found = of_events(Trace().add("aten::mm", [HALF, FLOAT], ampere_fp16_s16816gemm=10.0).events)
    assert found is not None
    assert (found.products, found.half_products, found.on_matrix_units) == (10.0, 10.0, 10.0)
