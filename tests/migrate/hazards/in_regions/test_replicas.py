"""AMP630: models that nn.DataParallel runs in threads, in float16 whatever the region around them says."""

from __future__ import annotations

from textwrap import dedent
from threading import Thread

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

STEP = """\
import torch
from torch import nn

{made}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(net, loader):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

train(model, [])
"""
APEX = """\
import torch
from apex import amp
from torch import nn

model = nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
model = nn.DataParallel(model)
for x, y in []:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
ALWAYS = "model = nn.DataParallel(nn.Linear(3, 4)).cuda()"
SOMETIMES = "model = nn.Linear(3, 4)\nif torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)"


def codes(text: str, dtype: Dtype) -> list[tuple[str, int]]:
    return [(each.code, each.line) for each in migrate_text(text, Settings(dtype)).findings]


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_the_threads_of_data_parallel_do_not_know_the_dtype_of_a_region() -> None:
    seen = []

    def replica() -> None:
        with torch.amp.autocast("cuda", enabled=True):  # as torch.nn.parallel.parallel_apply opens it
            seen.append(torch.get_autocast_dtype("cuda"))

    with torch.amp.autocast("cuda", dtype=torch.bfloat16):
        thread = Thread(target=replica)
        thread.start()
        thread.join()
    assert seen == [torch.float16]


@pytest.mark.parametrize("dtype", [Dtype.BF16, Dtype.AUTO])
def test_a_model_that_always_runs_in_threads_keeps_its_step(dtype: Dtype) -> None:
    text = STEP.format(made=ALWAYS)
    plan = migrate_text(text, Settings(dtype))
    assert not plan.changed
    assert [(each.code, each.line) for each in plan.findings] == [("AMP590", 11)]


@pytest.mark.parametrize("dtype", [Dtype.BF16, Dtype.AUTO])
def test_a_model_that_may_run_in_threads_is_told(dtype: Dtype) -> None:
    text = STEP.format(made=SOMETIMES)
    assert codes(text, dtype) == [("AMP630", 6), ("AMP501", 13)]


def test_a_model_that_may_run_in_threads_is_told_again_once_it_has_moved() -> None:
    after = migrate_text(STEP.format(made=SOMETIMES), Settings(Dtype.BF16)).after
    assert codes(after, Dtype.BF16) == [("AMP630", 6)]


def test_float16_has_a_scaler_for_what_the_threads_compute() -> None:
    assert codes(STEP.format(made=ALWAYS), Dtype.FP16) == [("AMP501", 11)]


@pytest.mark.parametrize(
    "made",
    [
        "model = nn.DataParallel(nn.Linear(3, 4), device_ids=[0])",
        "parallel = nn.DataParallel(nn.Linear(3, 4))\nmodel = parallel.module",
    ],
)
def test_one_gpu_and_the_module_inside_need_no_threads(made: str) -> None:
    assert [code for code, _ in codes(STEP.format(made=made), Dtype.BF16)] == ["AMP501"]


def test_subclasses_containers_and_functions_that_return_one_are_followed() -> None:
    made = dedent(
        """\
        class Parallel(nn.DataParallel):
            pass
        def build():
            nets = {"net": Parallel(nn.Linear(3, 4))}
            return nets["net"].cuda()
        model = build()"""
    )
    assert codes(STEP.format(made=made), Dtype.BF16) == [("AMP590", 16)]


def test_a_region_that_is_there_already_is_told() -> None:
    text = dedent(
        """\
        import torch
        model = torch.nn.DataParallel(torch.nn.Linear(3, 4))
        with torch.autocast("cuda", dtype={dtype}):
            out = model(x)
        """
    )
    assert codes(text.format(dtype="torch.bfloat16"), Dtype.FP16) == [("AMP630", 2)]
    assert codes(text.format(dtype="torch.float16"), Dtype.FP16) == []


def test_float32_that_only_brings_a_name_from_the_shim_has_no_region_to_tell_of() -> None:
    text = "from apex.parallel import LARC\n" + STEP.format(made=ALWAYS) + "LARC(optimizer)\n"
    assert codes(text, Dtype.BF16) == [("AMP301", 1), ("AMP590", 12)]


def test_an_apex_script_stays_on_the_shim() -> None:
    assert [code for code, _ in codes(APEX, Dtype.FP16)].count("AMP201") == 1
    plan = migrate_text(APEX, Settings(Dtype.BF16))
    assert "from amp_shim import amp" in plan.after
    assert [each.message[-8:] for each in plan.findings if each.code == "AMP290"] == ["(line 8)"]


FUNCTIONAL = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, gpus):
        super().__init__()
        self.gpus, self.main = gpus, nn.Linear(3, 4)
    def forward(self, x):
        if self.gpus > 1:
            return nn.parallel.data_parallel({given}, range(self.gpus))
        return self.main(x)
model = Net(args.gpus).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("given", ["self.main, x", "self.main, (x,)", "module=self.main, inputs=x, device_ids=None"])
def test_replicas_for_one_call_train_what_they_are_made_of(given: str) -> None:
    text = FUNCTIONAL.format(given=given).replace("device_ids=None, range(self.gpus)", "device_ids=range(self.gpus)")
    assert codes(text, Dtype.FP16) == [("AMP501", 15)]
    assert codes(text, Dtype.BF16) == [("AMP630", 9), ("AMP501", 15)]
