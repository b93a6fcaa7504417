"""The recorder at work in scripts, each run in a process of its own as the harness runs it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.runs.process import RunResult

pytestmark = pytest.mark.slow

Record = Callable[..., RunResult]


def out(result: RunResult) -> list[str]:
    assert result.ended_well, result.log.read_text()
    return (result.folder / "stdout.log").read_text().split()


def test_losses_are_recorded_unscaled_however_backward_is_called(record: Record) -> None:
    trace = record(
        """
        from torch.autograd import backward
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
        losses = [loss_of(), loss_of(), loss_of(), loss_of()]
        losses[0].backward()
        backward(losses[1])
        scaler.scale(losses[2]).backward()
        backward(scaler.scale([losses[3], losses[3]]))
        print(*(loss.item() for loss in losses))
        """
    )
    expected = float(out(trace)[0])
    assert trace.trace.losses == pytest.approx([expected] * 4)
    assert [b.scale for b in trace.trace.backwards] == [1.0, 1.0, 256.0, 256.0]


def test_accumulation_closures_and_two_optimizers_are_told_apart(record: Record) -> None:
    trace = record(
        """
        other = torch.optim.Adam(model.parameters())
        for _ in range(2):
            for _ in range(3):
                loss_of().backward()
            optimizer.step()
            optimizer.zero_grad()
            loss_of().backward()
            other.step()
            other.zero_grad()
        lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=2)
        def closure():
            lbfgs.zero_grad()
            loss = loss_of()
            loss.backward()
            return loss
        lbfgs.step(closure)
        """
    ).trace
    assert [step.optimizer for step in trace.steps] == [0, 1, 0, 1, 2]
    assert [b.attempt for b in trace.backwards[:8]] == [0, 0, 0, 1, 2, 2, 2, 3]
    assert len(trace.backwards) > 8
    assert trace.steps[0].grads == "11"
    assert trace.steps[0].shapes == ((1, 4), (1,))


@pytest.mark.parametrize("limit", ["0.25 * 1024", "float('inf')"])
def test_norm_that_is_clipped_is_told_in_limits_where_there_is_one(limit: str, record: Record) -> None:
    result = record(
        f"""
        (loss_of() * 1024).backward()
        print(nn.utils.clip_grad_norm_(model.parameters(), max_norm={limit}).item())
        optimizer.step()
        """
    )
    norm = float(out(result)[0])
    assert result.trace.steps[0].clip_norm == pytest.approx(norm / 256 if "1024" in limit else norm)


def test_norms_are_those_of_the_gradient_before_and_after_clipping_and_of_the_update(record: Record) -> None:
    result = record(
        """
        loss_of().backward()
        print(nn.utils.clip_grad_norm_(model.parameters(), 0.25).item())
        optimizer.step()
        """
    )
    step = result.trace.steps[0]
    assert step.clip_norm == pytest.approx(float(out(result)[0]) / 0.25)
    assert step.grad_norm == pytest.approx(0.25, rel=1e-4)
    assert step.update_norm == pytest.approx(0.025, rel=1e-4)


def test_a_step_with_infs_is_recorded_as_skipped_by_plain_and_by_fused_optimizers(record: Record) -> None:
    trace = record(
        """
        for fused in (False, True):
            model.load_state_dict(start) if fused else None
            start = {name: value.clone() for name, value in model.state_dict().items()}
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
            scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
            for step in range(3):
                loss = loss_of(torch.full((2, 4), float("inf")) if step == 1 else None)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """
    ).trace
    assert [step.optimizer for step in trace.steps] == [0, 0, 0, 1, 1, 1]
    assert trace.skips == (1, 4)
    assert [scale.value for scale in trace.scales] == [1024.0, 512.0, 512.0] * 2
    assert trace.steps[0].grad_norm == pytest.approx(3.164, rel=1e-3)  # unscaled
    assert trace.steps[3].grad_norm == pytest.approx(3.164, rel=1e-3)


def test_a_step_told_to_be_left_out_changes_nothing_and_keeps_its_gradients(record: Record) -> None:
    result = record(
        """
        for step in range(2):
            before = model.weight.detach().clone()
            loss_of().backward()
            optimizer.step()
            print(torch.equal(before, model.weight), model.weight.grad is not None)
        """,
        skips=(0,),
    )
    assert out(result) == ["True", "True", "False", "True"]
    assert result.trace.skips == (0,)


def test_the_run_ends_after_its_steps_whatever_the_script_catches(record: Record) -> None:
    result = record(
        """
        import atexit
        atexit.register(print, "exit")
        try:
            while True:
                try:
                    loss_of().backward()
                    optimizer.step()
                except Exception:
                    print("caught")
        finally:
            print("finally")
        """,
        steps=7,
    )
    assert result.trace.stopped
    assert len(result.trace.steps) == 7
    assert out(result) == ["finally", "exit"]
    assert "Traceback" not in result.log.read_text()


def test_an_uncaught_exception_is_recorded_and_still_shown(record: Record) -> None:
    result = record("loss_of().backward()\nraise ValueError('two\\nlines')\n")
    assert not result.ended_well
    assert result.complaint == "script.py:10: ValueError: two lines"
    assert "Traceback" in result.log.read_text()
    assert len(result.trace.backwards) == 1


def test_a_script_that_hangs_is_ended(record: Record) -> None:
    result = record("import time\ntime.sleep(600)\n", prelude="", timeout=2)
    assert result.returncode is None
    assert "still running after 2 s" in result.complaint


def test_a_script_that_is_killed_or_leaves_without_torch_says_so(record: Record) -> None:
    killed = record("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", prelude="")
    assert killed.complaint == "ended by SIGKILL, as the system does when memory runs out"
    real_time = record("import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN + 1)\n", prelude="")
    assert real_time.complaint == "ended by signal 35"
    left = record("import sys\nprint('bad input', file=sys.stderr)\nsys.exit(3)\n", prelude="")
    assert left.complaint == "exit status 3: bad input"


def test_seeds_stay_in_run_zero_and_move_together_in_others(record: Record) -> None:
    text = """
    import random
    import numpy
    import torch
    print(random.random(), numpy.random.rand(), numpy.random.default_rng().random(), torch.rand(1).item())
    torch.manual_seed(5)
    random.seed(5)
    numpy.random.seed(5)
    print(random.random(), numpy.random.rand(), numpy.random.default_rng(5).random(), torch.rand(1).item())
    """
    zero, again, one = (out(record(text, prelude="", seed_index=index)) for index in (0, 0, 1))
    assert zero == again
    assert all(a != b for a, b in zip(zero, one, strict=True))
    plain = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=True)
    assert plain.stdout.split()[4:] == zero[4:]


def test_amp_off_reaches_every_dialect(record: Record) -> None:
    result = record(
        """
        import warnings
        warnings.simplefilter("ignore")
        scaler = torch.cuda.amp.GradScaler()
        for region in (torch.autocast("cuda"), torch.cuda.amp.autocast(), torch.amp.autocast("cpu")):
            with region:
                print(model(torch.ones(2, 4)).dtype)
        print(torch.amp.GradScaler("cuda").is_enabled(), scaler.is_enabled(), scaler.scale(loss_of()).item() < 100)
        """,
        amp_off=True,
    )
    assert out(result) == ["torch.float32"] * 3 + ["False", "False", "True"]


def test_the_oracle_rounds_forward_passes_and_nothing_else(record: Record) -> None:
    text = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model
        def forward(self, x):
            y = self.inner(x)
            print(y.dtype)
            return {"y": y}
    y = Net()(torch.ones(2, 4))["y"]
    loss = nn.MSELoss()(y, torch.zeros(2, 1))
    print(y.dtype, loss.dtype, (torch.ones(2, 4) @ torch.ones(4, 2)).dtype)
    with torch.no_grad():
        Net()(torch.ones(2, 4))
    logits = torch.tensor([[3.14, 1.0, 0.5]], requires_grad=True)
    target = torch.tensor([0])
    exact = nn.functional.nll_loss(nn.functional.log_softmax(logits, -1), target)
    print(nn.CrossEntropyLoss()(logits, target).item() != exact.item())
    """
    expected = ["torch.bfloat16", *["torch.float32"] * 3, "torch.float32", "True"]
    assert out(record(text, oracle=1)) == expected
    assert out(record(text, oracle=1, amp_off=True)) == expected


def test_the_census_counts_results_by_dtype(record: Record) -> None:
    result = record(
        """
        for _ in range(4):
            with torch.autocast("cuda"):
                loss = loss_of()
            loss.backward()
            optimizer.step()
        """,
        census=True,
    )
    assert ("linear", "float16", 3) in result.trace.census
    assert ("pow", "float32", 3) in result.trace.census
    assert result.trace.uses_amp


def test_what_a_script_computes_behind_its_last_step_is_of_no_step(record: Record) -> None:
    result = record(
        """
        for _ in range(5):
            with torch.autocast("cuda"):
                loss = loss_of()
            loss.backward()
            optimizer.step()
        loss_of()  # the sixth step would have been counted
        """,
        census=True,
    )
    assert [each.attempt for each in result.trace.counted] == [0, 1, 2]
    assert ("linear", "float32", 1) not in result.trace.census


@pytest.mark.parametrize(
    ("outer", "inner", "share"),
    [("True", "False", 0.5), ("True", "True", 0.0), ("False", "False", 0.0)],
)
@pytest.mark.torch
def test_work_that_is_switched_off_within_a_region_is_counted_apart(
    record: Record, outer: str, inner: str, share: float
) -> None:
    (counted, *_) = record(
        f"""
        w = nn.Parameter(torch.ones(8, 8))
        with torch.autocast("cuda", enabled={outer}):
            loss = (w @ w).sum()
            with torch.autocast("cuda", enabled={inner}):
                loss = loss + (w @ w).sum()
        loss.backward()
        optimizer.step()
        """,
        census=True,
    ).trace.counted
    assert counted.kept == share * counted.work() > -1


def test_the_census_calls_operations_by_their_own_names(record: Record) -> None:
    result = record(
        """
        x = torch.ones(4, 4, requires_grad=True)
        for each in (torch.mm(x, x), torch.linalg.matmul(x, x), x @ x, nn.functional.max_pool2d(x[None], 2)):
            each.sum().backward()
        """,
        census=True,
    )
    assert ("mm", "float32", 1) in result.trace.census
    assert ("matmul", "float32", 2) in result.trace.census
    assert "max_pool2d" in {name for name, _, _ in result.trace.census}


def test_the_census_leaves_an_embedding_with_a_padding_row_alone(record: Record) -> None:
    result = record(
        """
        torch.manual_seed(0)
        embedding = nn.Embedding(5, 2, padding_idx=0)  # zeroes a view of its weight under no_grad
        optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
        embedding(torch.tensor([0, 1])).sum().backward()
        optimizer.step()
        """,
        census=True,
    )
    assert result.ended_well, result.complaint
    assert ("embedding", "float32", 1) in result.trace.census


def test_a_timing_run_records_step_times_and_nothing_that_costs_time(record: Record) -> None:
    trace = record(
        """
        import time
        scaler = torch.amp.GradScaler("cuda")
        for step in range(6):
            scaler.scale(loss_of()).backward()
            scaler.step(optimizer)
            scaler.update()
            time.sleep(0.02)
        """,
        timing=True,
        steps=5,
    ).trace
    assert trace.stopped
    assert len(trace.milliseconds) == 4
    assert min(trace.milliseconds) >= 20
    assert (trace.losses, trace.steps, trace.scales) == ((), (), ())


def test_workers_leave_the_trace_to_the_script_and_see_its_device(record: Record) -> None:
    result = record(
        """
        from torch.utils.data import DataLoader
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, i):
                assert torch.cuda.is_available()
                return torch.ones(4, device="cuda")
        if __name__ == "__main__":
            for context in ("fork", "spawn"):
                workers = dict(num_workers=1, multiprocessing_context=context)
                for x in DataLoader(Data(), batch_size=2, pin_memory=True, **workers):
                    loss_of(x.cuda(non_blocking=True)).backward()
                    optimizer.step()
        """
    )
    assert result.ended_well, result.log.read_text()
    assert len(result.trace.steps) == 4
    assert len(list(result.folder.glob("*.jsonl"))) == 1


def test_the_script_sees_its_own_search_path_and_sitecustomize(
    record_fresh: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os, sys\nprint(sys.path[0], 'marked' in os.environ, any('bootstrap' in p for p in sys.path))\n"
    result = record_fresh(text, prelude="")
    assert out(result) == [str(result.folder), "False", "False"]
    monkeypatch.setenv("PYTHONPATH", str(result.folder))
    (result.folder / "sitecustomize.py").write_text("import os\nos.environ['marked'] = '1'\n")
    assert out(record_fresh(text, prelude=""))[1:] == ["True", "False"]


@pytest.mark.parametrize("fresh", [False, True])
def test_the_script_sees_nothing_of_the_harness_in_its_environment_and_its_children_are_recorded(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, fresh: bool
) -> None:
    record: Record = request.getfixturevalue("record_fresh" if fresh else "record")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "own"))
    monkeypatch.setenv("FRESH", str(fresh))
    text = """
    import os, subprocess, sys
    seen = [key for key in os.environ if "AMP_VERIFY" in key], [key for key in os.environb if b"AMP_VERIFY" in key]
    print(*seen, os.getenv("AMP_VERIFY_SPEC"), os.environ["PYTHONPATH"])
    assert sys.orig_argv[1:] == sys.argv
    with open("/proc/self/environ", "rb") as file:
        began = file.read().rstrip(b"\\0").split(b"\\0")
    assert not [each for each in began if b"AMP_VERIFY" in each or b"bootstrap" in each], began
    if len(sys.argv) < 2 and os.environ["FRESH"] == "True":
        assert {*began} == {name + b"=" + value for name, value in os.environb.items()}
    if len(sys.argv) < 2:
        own = {**os.environ, "RANK": "7"}
        again = [sys.executable, __file__]
        os.environ["RANK"] = "6"
        subprocess.run([*again, "inherits"], check=True)
        del os.environ["RANK"]
        subprocess.run([*again, "is given"], env=own, check=True)
        if os.fork() == 0:
            os.execve(sys.executable, [*again, "becomes"], {**own, "RANK": "8"})
        os.wait()
    import torch
    """
    result = record(text, prelude="")
    lines = (result.folder / "stdout.log").read_text().splitlines()
    assert sorted(lines) == [f"[] [] None {tmp_path / 'own'}"] * 4
    assert {path.name for path in result.folder.glob("rank-*.jsonl")} == {f"rank-{rank}.jsonl" for rank in (0, 6, 7, 8)}


def test_what_optimizers_are_told_is_known_at_every_step_and_written_where_it_changes(record: Record) -> None:
    result = record(
        """
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
        other = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.25))
        for step in range(4):
            if step == 2:
                optimizer.param_groups[0]["lr"] = 0.05
            loss_of().backward()
            optimizer.step()
            other.step()
        """
    )
    first, second = ([step.settings for step in result.trace.steps if step.optimizer == number] for number in (0, 1))
    assert [(group["lr"], group["weight_decay"], group["betas"]) for (group,) in first] == [
        *[(0.1, 0.5, [0.9, 0.999])] * 2,
        *[(0.05, 0.5, [0.9, 0.999])] * 2,
    ]
    assert [(group["momentum"], "lr" in group) for (group,) in second] == [(0, False)] * 4  # a GPU is not waited for
    written = (result.folder / "rank-0.jsonl").read_text()
    assert written.count('"settings"') == 3


def test_loss_functions_that_computed_in_half_are_named(record: Record) -> None:
    trace = record(
        """
        scaler = torch.amp.GradScaler("cuda")
        target = torch.tensor([0, 1])
        head = nn.Linear(4, 3)
        with torch.autocast("cuda"):
            inside = nn.functional.cross_entropy(head(torch.ones(2, 4)), target)
            logits = head(torch.ones(2, 4))
        scaler.scale(inside).backward()
        scaler.scale(nn.functional.cross_entropy(logits, target) / 2).backward()
        loss_of().backward()
        """
    ).trace
    assert [backward.half for backward in trace.backwards] == [(), ("NllLoss",), ()]


def test_steps_past_the_scaler_and_scalers_of_their_own_are_told(record: Record) -> None:
    trace = record(
        """
        for step in range(3):
            scaler = torch.amp.GradScaler("cuda")
            scaler.scale(loss_of()).backward()
            scaler.unscale_(optimizer)
            if step == 1:
                optimizer.step()
            else:
                scaler.step(optimizer)
            scaler.update()
        loss_of().backward()
        scaler = None
        optimizer.step()
        """
    ).trace
    assert [step.past_scaler for step in trace.steps] == [False, True, False, False]
    assert [scale.scaler for scale in trace.scales] == [0, 1, 2]


def test_checkpoints_are_searched_for_optimizers_and_scalers(record: Record) -> None:
    trace = record(
        """
        import io
        scaler = torch.amp.GradScaler("cuda")
        both = {"all": {"optimizers": [optimizer.state_dict()], "scaler": scaler.state_dict()}}
        for saved in (model.state_dict(), both, {"optimizer": optimizer.state_dict()}):
            torch.save(saved, io.BytesIO())
        """
    ).trace
    assert [(each.optimizer, each.scaler) for each in trace.checkpoints] == [
        (False, False),
        (True, True),
        (True, False),
    ]


def test_buffers_are_looked_at_after_the_function_that_made_the_model_has_ended(record: Record) -> None:
    trace = record(
        """
        import copy
        class Codes(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3))
                self.register_buffer("book", torch.ones(3))
        def train():
            net = copy.deepcopy(Codes())
            net.inner[1](torch.full((2, 3), float("inf")))
            net.inner[2](torch.ones(2, 3))
            net.book[1] = float("nan")
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            optimizer.step()
        train()
        """
    ).trace
    found = ["Codes.book", "Codes.inner.1.running_mean", "Codes.inner.1.running_var"]
    assert list(trace.nonfinite) == found


def test_cudnn_times_no_algorithms_whatever_the_script_says(record: Record) -> None:
    text = """
    torch.backends.cudnn.benchmark = True
    print(torch._C._get_cudnn_benchmark())
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        print(torch._C._get_cudnn_benchmark())
    """
    assert out(record(text)) == ["False", "False"]
    assert out(record(text, timing=True)) == ["True", "True"]


def test_norms_are_taken_of_the_first_steps_that_each_optimizer_makes(record: Record) -> None:
    trace = record(
        """
        other = torch.optim.Adam(model.parameters())
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        for step in range(9):
            for each in (optimizer, other):
                loss = loss_of(torch.full((2, 4), float("inf")) if step == 1 else None)
                scaler.scale(loss).backward()
                scaler.step(each)
            scaler.update()
            optimizer.zero_grad()
        """
    ).trace
    for kind in (0, 1):
        steps = [step for step in trace.steps if step.optimizer == kind]
        wanted = [True, False, *[True] * 5, False, False]
        assert [step.grad_norm is not None for step in steps] == wanted
        assert [step.update_norm is not None for step in steps] == wanted


def test_parameters_that_gain_gradients_late_are_seen(record: Record) -> None:
    trace = record(
        """
        model.bias.requires_grad_(False)
        for step in range(100):
            if step == 70:
                model.bias.requires_grad_(True)
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
        """,
        steps=0,
    ).trace
    assert [step.grads for step in trace.steps[:64]] == ["10"] * 64
    assert trace.steps[99].grads == "11"


def test_every_step_is_told_at_once_to_who_watches(record: Record) -> None:
    result = record(
        """
        import glob, os
        folder = os.getcwd()
        for number in range(3):
            loss_of().backward()
            optimizer.step()
            print(*(os.path.getsize(path) for path in glob.glob(f"{folder}/*.steps")))
        """
    )
    assert out(result) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("cleared", "zeroed"),
    [
        ("optimizer.zero_grad()", [1, 1, 1]),
        ("for p in model.parameters(): p.grad = None", [0, 1, 1]),
        ("for p in model.parameters(): p.grad is None or p.grad.zero_()", [0, 1, 1]),
        ("model.weight.grad = None", [0, 0, 0]),  # the bias has one still
        ("pass", [0, 0, 0]),
    ],
)
def test_gradients_are_zeroed_in_whatever_way_nothing_is_left_of_them(
    record: Record, cleared: str, zeroed: list[int]
) -> None:
    result = record(
        f"""
        for _ in range(3):
            {cleared}
            (0.3 * loss_of()).backward()
            (0.3 * loss_of()).backward()
            optimizer.step()
        """
    )
    assert [step.zeroed for step in result.trace.steps] == zeroed
