"""What the recorder writes about a program: state, settings, calls, and runs that are changed on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.low_precision import latent
from amp_migrate.verify.judge.programs import program
from amp_migrate.verify.runs.process import RunResult

Record = Callable[..., RunResult]
TRAIN = """
scaler = torch.amp.GradScaler("cuda")
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
for step in range(4):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = loss_of()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
"""
PLAIN = """
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
for step in range(4):
    optimizer.zero_grad()
    loss_of().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
"""
OFF = {"amp_off": True, "unseen": True, "program": True}


def out(result: RunResult) -> list[str]:
    assert result.ended_well, result.complaint
    return (result.folder / "stdout.log").read_text().split()


@pytest.mark.torch
def test_scaling_by_powers_of_two_leaves_every_bit_as_it_is(record: Record) -> None:
    ours, theirs = record(PLAIN, program=True), record(TRAIN, **OFF)
    assert theirs.trace.backwards[0].scale == 65536.0
    assert [found for found in program.differences(ours, theirs) if found.what != "seed"] == []
    assert [state.point for state in ours.trace.states] == ["1", "2", "end"]
    assert len(ours.trace.clips) == 4


@pytest.mark.parametrize(
    "fault",
    [
        ("    scaler.unscale_(optimizer)\n", ""),
        ("scaler.scale(loss)", "scaler.scale(scaler.scale(loss))"),
        ("schedule.step()", "pass"),
        ("zero_grad()", "state_dict()"),
    ],
)
def test_what_is_done_wrong_with_a_scaler_shows_in_the_bits(record: Record, fault: tuple[str, str]) -> None:
    right, wrong = record(TRAIN, **OFF), record(TRAIN.replace(*fault), **OFF)
    assert program.differences(right, wrong) or not wrong.ended_well


@pytest.mark.torch
def test_two_scalers_have_different_scales(record: Record) -> None:
    result = record("print(*(torch.amp.GradScaler('cuda').scale(torch.ones(())).item() for _ in range(3)))", **OFF)
    assert out(result) == ["65536.0", "32768.0", "16384.0"]


@pytest.mark.torch
def test_a_script_whose_precision_is_off_is_told_that_it_is_on(record: Record) -> None:
    text = """
    with torch.autocast("cuda"):
        print(torch.is_autocast_enabled("cuda"), torch.amp.GradScaler("cuda").is_enabled())
        print(model(torch.ones(2, 4)).dtype)
        with torch.autocast("cuda", enabled=False):
            print(torch.is_autocast_enabled("cuda"))
        print(torch.is_autocast_enabled("cuda"))
    print(torch.is_autocast_enabled("cuda"))
    """
    on, off = out(record(text)), out(record(text, **OFF))
    assert off == [word.replace("float16", "float32") for word in on]
    assert off == ["True", "True", "torch.float32", "False", "True", "False"]


@pytest.mark.torch
def test_averaged_weights_and_buffers_are_looked_at_to_the_end(record: Record) -> None:
    text = """
    import copy
    def main():
        net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        ema = copy.deepcopy(net)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            net(torch.randn(8, 4)).pow(2).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for a, b in zip(ema.parameters(), net.parameters()):
                    a.lerp_(b, RATE)
    main()
    """
    ours, theirs = (record(text.replace("RATE", rate), program=True) for rate in ("0.1", "0.2"))
    last = ours.trace.states[-1]
    assert last.point == "end"
    assert [len(tensors) for tensors in last.models] == [2, 7, 7]
    assert {found.what for found in program.differences(ours, theirs)} == {"weights"}


@pytest.mark.torch
def test_a_state_event_costs_no_random_number(record: Record) -> None:
    text = TRAIN + "print(torch.rand(1).item(), __import__('random').random())"
    assert out(record(text, program=True)) == out(record(text))


@pytest.mark.torch
def test_seeds_that_the_script_asks_for_are_told_and_ours_are_not(record: Record) -> None:
    seeds = record("import random\nrandom.seed(3)\n" + TRAIN, program=True).trace.seeds
    assert seeds == (("torch.manual_seed", "0"), ("random.seed", "3"))


@pytest.mark.torch
def test_a_seed_that_is_a_generator_is_told_as_every_run_would_tell_it(record: Record) -> None:
    script = "import numpy\ngenerator = numpy.random.default_rng(1)\nnumpy.random.default_rng(generator)\n" + TRAIN
    seeds = record(script, program=True).trace.seeds
    assert seeds[1:] == (("numpy.random.default_rng", "1"), ("numpy.random.default_rng", "Generator"))


@pytest.mark.torch
def test_loaded_code_of_the_user_is_told(record: Record) -> None:
    result = record(
        "import os, sys\nopen('mine.py', 'w').write('x = 1')\nsys.path.insert(0, os.getcwd())\nimport mine\n"
    )
    assert [(name, Path(file).name) for name, file, _ in result.trace.code] == [
        ("__main__", "script.py"),
        ("mine", "mine.py"),
    ]


@pytest.mark.torch
def test_everything_an_ulp_off_is_another_rounding_and_no_more(record: Record) -> None:
    plain = """
    for _ in range(4):
        optimizer.zero_grad()
        loss_of(torch.randn(2, 4)).backward()
        optimizer.step()
    """
    ours, theirs, other = (record(plain, program=True, ulp=seed) for seed in (0, 1, 2))
    for found in (program.differences(ours, theirs), program.differences(ours, other)):
        sizes = [each.size for each in found if each.size is not None]
        assert len(sizes) == len(found)
        assert 0 < max(sizes) < 1e-5


OVERFLOW = TRAIN.replace("scaler.unscale_(optimizer)", "FILTER\n    scaler.unscale_(optimizer)")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("between", "status"),
    [("pass", Status.PASS), ("[p.grad.nan_to_num_(0, 0, 0) for p in model.parameters()]", Status.FAIL)],
)
def test_a_planted_overflow_is_skipped_unless_something_hides_it(record: Record, between: str, status: Status) -> None:
    check = latent.overflow(record(OVERFLOW.replace("FILTER", between), drill=True).trace)
    assert check is not None
    assert check.status is status


@pytest.mark.torch
def test_a_planted_change_makes_results_larger_where_they_are_trained(record: Record) -> None:
    text = "print(model(torch.ones(1, 4)).item())\nwith torch.no_grad():\n    print(model(torch.ones(1, 4)).item())"
    trained, evaluated = map(float, out(record(text, plant=0.1)))
    assert trained == pytest.approx(1.1 * evaluated)


@pytest.mark.torch
def test_a_run_that_is_lost_ends(record: Record, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    reference.mkdir()
    lines = [json.dumps({"kind": "backward", "loss": [1.0]}) for _ in range(200)]
    (reference / "rank-0.jsonl").write_text("\n".join(lines) + "\n")
    text = "for _ in range(200):\n    (loss_of() * NAN).backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    lost = record(text.replace("NAN", "float('nan')"), reference=str(reference), steps=0).trace
    assert lost.lost.startswith("its losses are not finite any more: ended after ")
    assert len(lost.steps) < 130
    assert lost.stopped
    other = record(text.replace("NAN", "1.0"), reference=str(reference), steps=0).trace
    assert (other.lost, len(other.steps)) == ("", 200)


MIX = """
model = model.cuda()
labels = torch.zeros(2, 1)
for _ in range(4):
    loss = nn.functional.mse_loss(model(torch.ones(2, 4).to("cuda")), LABELS)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("labels", "mixed"),
    [
        ("labels", ["mse_loss"]),
        ("labels.cuda()", []),
        ("labels.to(torch.device('cuda'))", []),
        ("torch.zeros(2, 1, device='cuda')", []),
        ("torch.zeros_like(model(torch.ones(2, 4).cuda()))", []),
        ("labels.to(model.weight.device)", []),
        ("labels.cuda().cpu()", ["mse_loss"]),
        ("next(iter(torch.utils.data.DataLoader(labels, 2)))", ["mse_loss"]),
        ("labels.cuda()[torch.tensor([0, 1])]", []),
        ("labels.cuda() * torch.tensor(2.0)", []),
    ],
)
def test_tensors_of_both_sides_in_one_operation_are_seen(record: Record, labels: str, mixed: list[str]) -> None:
    trace = record(MIX.replace("LABELS", labels), places=True).trace
    assert [each.operation for each in trace.mixed] == mixed
    assert all(each.place == f"script.py:{each.place.partition(':')[2]}" for each in trace.mixed)


LATE = """
model = model.cuda()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2, 4), torch.zeros(2, 1)), 2)
for step in range(40):
    for images, labels in loader:
        labels = labels if step >= FROM else labels.cuda()
        nn.functional.mse_loss(model(images.cuda()), labels).backward()
        optimizer.step()
    if step == 6:
        model.eval()
        with torch.no_grad(), WITHIN:
            for images, labels in loader:
                nn.functional.l1_loss(model(images.cuda()), MOVED)
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("start", "moved", "within", "mixed"),
    [
        (50, "labels.cuda()", "torch.no_grad()", []),
        (20, "labels.cuda()", "torch.no_grad()", ["mse_loss"]),
        (50, "labels", "torch.no_grad()", ["l1_loss"]),
        (50, "labels.cuda()", "torch.device('cuda')", []),
        (20, "labels.cuda()", "torch.device('cuda')", ["mse_loss"]),
    ],
)
def test_what_is_mixed_late_or_in_an_evaluation_is_seen(
    record: Record, start: int, moved: str, within: str, mixed: list[str]
) -> None:
    text = LATE.replace("FROM", f"{start}").replace("MOVED", moved).replace("WITHIN", within)
    result = record(text, places=True, census=True, steps=0)
    assert result.ended_well, result.complaint
    assert [each.operation for each in result.trace.mixed] == mixed


@pytest.mark.torch
def test_what_has_left_the_gpu_while_nobody_watched_is_mixed_with_nothing(record: Record) -> None:
    text = LATE.replace("FROM", "50").replace("WITHIN", "torch.no_grad()")
    text = text.replace("model.eval()", "model.cpu().eval()").replace(
        "model(images.cuda()), MOVED", "model(images), labels"
    )
    assert record(text, places=True, census=True, steps=12).trace.mixed == ()


@pytest.mark.torch
def test_a_region_for_the_cpu_does_nothing_to_what_is_on_the_gpu(record: Record) -> None:
    text = """
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print(model(torch.ones(2, 4)).dtype)
    model.cuda()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print(model(torch.ones(2, 4).cuda()).dtype)
    with torch.autocast("cuda"), torch.autocast("cpu", enabled=False):
        print(model(torch.ones(2, 4).cuda()).dtype)
    """
    assert out(record(text)) == ["torch.bfloat16", "torch.float32", "torch.float16"]


@pytest.mark.torch
def test_a_model_whose_graph_is_traced_can_be_rounded(record: Record) -> None:
    text = "torch.jit.trace(model, torch.ones(2, 4))\n" + TRAIN
    for orders in ({"oracle": 1}, {"census": True, "places": True}, OFF):
        result = record(text, **orders)
        assert result.ended_well, result.complaint


@pytest.mark.torch
@pytest.mark.parametrize("make", ["record", "record_fresh"])
def test_a_script_that_has_ended_is_among_what_was_loaded(make: str, request: pytest.FixtureRequest) -> None:
    """Python takes `__file__` from it before the recorder's last words, where no fork runs it."""
    recorded = request.getfixturevalue(make)(PLAIN, program=True)
    assert [Path(file).name for name, file, _ in recorded.trace.code if name == "__main__"] == ["script.py"]
