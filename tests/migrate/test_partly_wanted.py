"""What a project, or a line, does not want is left; the rest of the file is migrated all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

TWO_STEPS = """\
import torch

def first(model, optimizer, x):
    loss = model(x).sum()
    loss.backward(){}
    optimizer.step()

def second(model, optimizer, x):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()

def main():
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first(model, optimizer, torch.ones(3).cuda())
    optimizer.zero_grad()
    second(model, optimizer, torch.ones(3).cuda())
"""
NAMES = """\
import torch
scaler = torch.cuda.amp.GradScaler()
with torch.cuda.amp.autocast():
    pass
with torch.cuda.amp.autocast():{}
    pass
"""
APEX = """\
import torch
from apex import amp
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x in range(3):
    loss = model(x).sum()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def planned(text: str, settings: Settings | None = None) -> FilePlan:
    settings = settings or Settings()
    plan = migrate_text(text, settings)
    assert migrate_text(plan.after, settings).after == plan.after
    return plan


def said(plan: FilePlan) -> list[tuple[str, int, Kind]]:
    return [(finding.code, finding.line, finding.kind) for finding in plan.findings]


@pytest.mark.parametrize(
    "pragma", ["  # amp-migrate: ignore[AMP501]", "  # amp-migrate: ignore", "  # amp-migrate: ignore[AMP5]"]
)
def test_one_step_is_left_and_the_other_migrated(pragma: str) -> None:
    plan = planned(TWO_STEPS.format(pragma))
    before, after = (text.split("def ") for text in (plan.source.text, plan.after))
    assert after[1] == before[1]
    assert "scaler.scale(loss).backward()" in after[2]
    assert "first(model, optimizer, torch.ones(3).cuda())" in after[3]
    assert "second(model, optimizer, scaler, torch.ones(3).cuda())" in after[3]
    assert said(plan) == [("AMP501", 10, Kind.MIGRATED)]


def test_a_line_can_ignore_one_rule_and_not_another() -> None:
    plan = planned(TWO_STEPS.format("  # amp-migrate: ignore[AMP1]"))
    assert said(plan) == [("AMP501", 5, Kind.MIGRATED), ("AMP501", 10, Kind.MIGRATED)]


def test_one_use_of_a_name_is_left_and_the_other_renamed() -> None:
    plan = planned(NAMES.format("  # amp-migrate: ignore[AMP101]"))
    assert plan.after.splitlines()[4] == "with torch.cuda.amp.autocast():  # amp-migrate: ignore[AMP101]"
    assert said(plan) == [("AMP103", 2, Kind.MIGRATED), ("AMP101", 3, Kind.MIGRATED)]


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        (Settings(select=("AMP1",)), {"AMP101", "AMP103"}),
        (Settings(select=("AMP103",)), {"AMP103"}),
        (Settings(select=("AMP5",)), {"AMP501"}),
        (Settings(ignore=("AMP101",)), {"AMP103", "AMP501"}),
        (Settings(ignore=("AMP1",), select=("AMP101",)), {"AMP101"}),
        (Settings(select=("AMP2",)), set()),
    ],
)
def test_rules_are_chosen_one_by_one(settings: Settings, codes: set[str]) -> None:
    plan = planned(TWO_STEPS.format("") + NAMES.format("").removeprefix("import torch\n"), settings)
    assert {finding.code for finding in plan.findings} == codes
    assert ("torch.cuda.amp.autocast" not in plan.after) == ("AMP101" in codes)
    assert ("torch.cuda.amp.GradScaler" not in plan.after) == ("AMP103" in codes)
    assert ("scaler.scale(loss)" in plan.after) == ("AMP501" in codes)


@pytest.mark.parametrize(
    "settings", [Settings(select=("AMP5", "AMP1")), Settings(ignore=("AMP2", "AMP3"))], ids=["not selected", "ignored"]
)
def test_an_apex_script_that_is_not_wanted_stays_whole(settings: Settings) -> None:
    plan = planned(APEX, settings)
    assert (plan.after, plan.findings) == (APEX, ())


PROBE = """\
try:
    from apex import amp

    has_apex = True
except ImportError:
    has_apex = False
"""
UNUSED = """\
from torch.cuda import amp
from torch.cuda.amp import GradScaler, autocast
try:
    from torch.cuda.amp import custom_fwd

    has_native = True
except ImportError:
    has_native = False
"""
UNSCALED = "from apex import amp\nprint(list(amp.master_params(optimizer)))\n"
SAVED = "from apex import amp\nsave(amp.state_dict())\n"
PARTS = """\
import torch
from apex.normalization import FusedLayerNorm
from apex.parallel import DistributedDataParallel as DDP
from apex.optimizers import FusedAdam, FusedLAMB
from torch.cuda.amp import autocast
norm = FusedLayerNorm(8)
model = DDP(norm)
optimizers = FusedAdam(norm.parameters()), FusedLAMB(norm.parameters())
with autocast():
    model(torch.ones(8))
"""


@pytest.mark.parametrize(
    "text", [APEX, PROBE, UNSCALED, SAVED, PARTS, UNUSED], ids="apex probe unscaled saved parts unused".split()
)
@pytest.mark.parametrize("selected", ["AMP6", "AMP5", "AMP590"])
def test_old_names_and_imports_stay_where_only_other_rules_are_selected(text: str, selected: str) -> None:
    plan = planned(text, Settings(select=(selected,)))
    assert (plan.after, plan.findings) == (text, ())


def test_a_probe_for_apex_stays_where_no_step_moves_and_goes_with_those_that_do() -> None:
    alone = planned(PROBE)
    assert (alone.after, alone.findings) == (PROBE, ())
    with_step = PROBE + APEX.replace("from apex import amp\n", "")
    plan = planned(with_step)
    assert plan.after.startswith("import torch\n")
    assert "scaler.scale(loss).backward()" in plan.after
    ignored = with_step.replace("as scaled:", "as scaled:  # amp-migrate: ignore")
    assert planned(ignored).after == ignored


def test_an_import_that_nothing_uses_moves_with_the_rule_about_its_name() -> None:
    plan = planned(UNUSED, Settings(select=("AMP103",)))
    assert plan.after.startswith("from torch.cuda import amp\nfrom torch.cuda.amp import autocast\n")
    assert "from torch.amp import GradScaler\n" in plan.after
    assert "from torch.cuda.amp import custom_fwd\n" in plan.after


def test_an_apex_script_with_one_line_that_is_ignored_stays_whole() -> None:
    text = APEX.replace("as scaled:", "as scaled:  # amp-migrate: ignore[AMP201]")
    plan = planned(text)
    assert (plan.after, plan.findings) == (text, ())


def test_half_of_an_apex_script_is_not_migrated() -> None:
    plan = planned(APEX, Settings(ignore=("AMP202",)))
    assert plan.after == APEX
    (finding,) = plan.findings
    assert (finding.code, finding.kind, finding.line) == ("AMP290", Kind.LEFT, 5)
    assert finding.message == "left on Apex: AMP202 is not selected, and the script moves as a whole"
    assert planned(APEX, Settings(select=("AMP201",))).findings == ()


def test_what_a_script_has_beside_the_half_that_is_not_wanted_is_migrated() -> None:
    beside = "with torch.cuda.amp.autocast():\n    pass\n"
    plan = planned(APEX + beside, Settings(ignore=("AMP202",)))
    assert plan.after.startswith(APEX)
    assert "torch.cuda" not in plan.after
    assert [finding.code for finding in plan.findings] == ["AMP290", "AMP101"]


FLAG = """\
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float){}
args = parser.parse_args()
model = torch.nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for x in range(3):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_flag_that_is_not_wanted_does_not_keep_the_steps_from_moving() -> None:
    plan = planned(FLAG.format(""), Settings(add_flag=True, ignore=("AMP503",)))
    assert plan.after == planned(FLAG.format("")).after
    assert said(plan) == [("AMP501", 10, Kind.MIGRATED)]
    assert "--amp" in planned(FLAG.format(""), Settings(add_flag=True)).after


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TWO_STEPS.replace("    loss = model(x).sum()\n", "    loss = model(x).sum()  # amp-migrate: ignore\n", 1), 4),
        (
            TWO_STEPS.replace(
                "torch.ones(3).cuda())\n    opt", "torch.ones(3).cuda())  # amp-migrate: ignore[AMP501]\n    opt"
            ),
            16,
        ),
        (TWO_STEPS.replace("def first(", "# amp-migrate: ignore[AMP5]\ndef first("), 4),
    ],
    ids=["the forward", "the call that passes the scaler", "the function that takes it"],
)
def test_a_step_is_left_whole_with_any_line_that_it_would_change(text: str, line: int) -> None:
    text = text.format("")
    plan = planned(text)
    left, moved = plan.findings
    assert (left.code, left.kind, moved.code, moved.kind) == ("AMP590", Kind.LEFT, "AMP501", Kind.MIGRATED)
    assert left.message == f"step left as it was: line {line} asks to be left alone, and the step moves as a whole"
    assert plan.after.count("with torch.amp.autocast") == 1
    assert "first(model, optimizer, torch.ones(3).cuda())" in plan.after


def test_what_stands_beside_a_line_that_is_left_alone_is_written() -> None:
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    plan = planned(TWO_STEPS.format("").replace(made, f"{made}  # amp-migrate: ignore"))
    assert f"{made}  # amp-migrate: ignore\n    scaler = torch.amp.GradScaler" in plan.after


def test_an_import_that_is_left_alone_stays_and_its_uses_go_another_way() -> None:
    plan = planned(
        "import torch\nfrom torch.cuda.amp import autocast  # amp-migrate: ignore\nwith autocast():\n    pass\n"
    )
    assert plan.after.splitlines()[1:3] == [
        "from torch.cuda.amp import autocast  # amp-migrate: ignore",
        'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):',
    ]


def test_a_region_that_keeps_its_dtype_keeps_that_of_all_others() -> None:
    region = "with torch.autocast(device_type='cuda', dtype=torch.float16):{}\n    pass\n"
    text = "import torch\n" + region.format("  # amp-migrate: ignore[AMP510]") + region.format("")
    plan = planned(text, Settings(dtype=Dtype.BF16))
    assert plan.after == text


def test_a_hazard_whose_repair_is_not_wanted_is_told() -> None:
    text = """\
import torch

def train(model, optimizer, x):
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            scores = torch.matmul(x, x)
            scores = scores.masked_fill(x == 0, -1e9){}
        scaler.scale(scores.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    assert said(planned(text.format(""))) == [("AMP626", 8, Kind.MIGRATED)]
    assert said(planned(text.format("  # amp-migrate: ignore[AMP626]"))) == []


def test_a_step_whose_scaler_would_come_through_a_skipped_file_is_left_with_it(tmp_path: Path) -> None:
    step = "def train(model, optimizer, x):\n    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"
    main = (
        "# amp-migrate: skip-file\nimport torch\nfrom engine import train\nmodel = torch.nn.Linear(3, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ntrain(model, optimizer, torch.ones(3).cuda())\n"
    )
    (tmp_path / "engine.py").write_text("import torch\n" + step)
    (tmp_path / "main.py").write_text(main)
    outcome = migrate([tmp_path], Settings())
    assert outcome.changed == ()
    (finding,) = outcome.findings
    assert finding.code == "AMP590"
    reason = f"in {(tmp_path / 'main.py').as_posix()}, the file asks to be skipped"
    assert finding.message == f"step left as it was: {reason}, and the step moves as a whole"
