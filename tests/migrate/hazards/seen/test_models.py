"""AMP625 and AMP626: what the models of a script do under autocast, in the script and in the files below it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from amp_migrate.engine.find.selection import Selection
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.engine.parts.in_parts import migrate_in_parts
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

Check = Callable[..., Any]
AMP = """
def train(model, x):
    with torch.autocast("cuda", dtype=torch.float16):
        return model(x)
"""
FLOAT32 = """\
import torch
from models.attention import Attention

keys, model = torch.nn.Linear(8, 8), Attention()
optimizer = torch.optim.SGD(keys.parameters(), lr=0.1)
for x, y, mask in loader:
    loss = torch.nn.functional.mse_loss(model(x, keys(x), mask), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
MASKED = """
MASK = -1e30

class Attention(nn.Module):
    def forward(self, q, k, mask):
        scores = {scores}
        scores = scores.masked_fill(mask, {number})
        return scores.softmax(-1)
"""
ATTENTION = """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, mask):
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.temperature
        return scores.masked_fill(mask == 0, -1e9).softmax(-1)
"""


@pytest.mark.parametrize(
    ("scores", "number"),
    [
        ("torch.matmul(q, k)", "-1e9"),
        ("q @ k", "-1e+20"),
        ("torch.einsum('bqd,bkd->bqk', q, k) * self.scale", "float('-1e9')"),
        ("q.matmul(k).view(1, 2, 3) / 8.0", "-100000.0"),
        ("torch.bmm(q, k) / math.sqrt(64)", "float(-1e9)"),
        ("F.linear(q, k)", "MASK"),
    ],
)
def test_a_product_masked_beyond_float16_is_masked_with_what_there_is(scores: str, number: str) -> None:
    before = HEAD + MASKED.format(scores=scores, number=number) + AMP
    plan = migrate_text(before, Settings())
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP626", Kind.MIGRATED)]
    least = f"max({number}, torch.finfo(scores.dtype).min)"
    assert plan.after == HEAD + MASKED.format(scores=scores, number=least) + AMP
    assert migrate_text(plan.after, Settings()).after == plan.after


IN_A_HELPER = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)

    def weights(self, scores, mask):
        return torch.softmax({masked}, -1)

    def forward(self, x, mask):
        return self.weights(self.query(x) @ x.transpose(1, 2), mask) @ x
"""
STEP = """

model = Attention(8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, mask, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x, mask), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("masked", ["scores.masked_fill(mask, {})", "torch.masked_fill(scores, mask, {})"])
def test_scores_that_a_moved_step_makes_float16_are_masked_with_what_there_is(masked: str, tmp_path: Path) -> None:
    model = IN_A_HELPER.format(masked=masked.format("-1e9"))
    plan = migrate_text(model + STEP, Settings())
    assert {(each.code, each.kind) for each in plan.findings} == {
        ("AMP626", Kind.MIGRATED),
        ("AMP501", Kind.MIGRATED),
    }
    assert masked.format("max(-1e9, torch.finfo(scores.dtype).min)") in plan.after
    assert migrate_text(plan.after, Settings()).after == plan.after
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets/attention.py").write_text(model)
    (tmp_path / "train.py").write_text(
        f"import torch\nfrom torch import nn\nfrom nets.attention import Attention\n{STEP}"
    )
    changed = {each.source.path.name for each in migrate([tmp_path], Settings()).changed}
    assert changed == {"attention.py", "train.py"}


def test_scores_that_cannot_be_masked_otherwise_leave_the_step(tmp_path: Path) -> None:
    nameless = IN_A_HELPER.format(masked="(scores * 2).masked_fill_(mask, -1e9)") + STEP
    (tmp_path / "train.py").write_text(nameless)
    outcome = migrate([tmp_path], Settings())
    assert not outcome.changed
    assert {(each.code, each.kind) for each in outcome.findings} == {("AMP590", Kind.LEFT)}
    unwanted = IN_A_HELPER.format(masked="scores.masked_fill(mask, -1e9)") + STEP
    after = migrate_text(unwanted, Settings(ignore=("AMP626",))).after
    assert "scores.float().masked_fill(mask, -1e9)" in after


STORED = """\
    def banned(self, scores, mask):
        scores = scores.clone()
        scores[mask] = -1e9
        return scores
"""


def test_items_of_scores_that_a_moved_step_makes_float16_are_set_to_what_there_is() -> None:
    model = IN_A_HELPER.format(masked="self.banned(scores, mask)")
    plan = migrate_text(f"{model}\n{STORED}{STEP}", Settings())
    assert {(each.code, each.kind) for each in plan.findings} == {
        ("AMP626", Kind.MIGRATED),
        ("AMP501", Kind.MIGRATED),
    }
    assert "scores[mask] = max(-1e9, torch.finfo(scores.dtype).min)" in plan.after
    assert migrate_text(plan.after, Settings()).after == plan.after
    of_an_item = STORED.replace("scores[mask] =", "scores[0][mask] =")
    assert migrate_text(f"{model}\n{of_an_item}{STEP}", Settings()).findings[0].kind is Kind.LEFT


@pytest.mark.parametrize("given", ["-1e9", "LEAST", "number=-1e9"])
def test_scores_are_float32_for_a_number_that_a_parameter_brings(given: str) -> None:
    model = IN_A_HELPER.format(masked=f"self.fill(scores, mask, {given})")
    fill = "    def fill(self, scores, mask, number):\n        return scores.masked_fill(mask, number)\n"
    plan = migrate_text(f"LEAST = -1e9\n{model}\n{fill}{STEP}", Settings())
    assert {(each.code, each.kind) for each in plan.findings} == {("AMP501", Kind.MIGRATED)}
    assert "scores.float().masked_fill(mask, number)" in plan.after
    assert migrate_text(plan.after, Settings()).after == plan.after
    others = f"{fill}\n    def part(self, elsewhere, mask):\n        return self.fill(elsewhere.read(), mask, 0)\n"
    assert (
        "scores.float().masked_fill(mask, number)"
        in migrate_text(f"LEAST = -1e9\n{model}\n{others}{STEP}", Settings()).after
    )
    in_place = fill.replace("masked_fill(", "masked_fill_(")
    assert migrate_text(f"LEAST = -1e9\n{model}\n{in_place}{STEP}", Settings()).findings[0].kind is Kind.LEFT


def test_scores_that_may_be_float16_are_masked_with_what_there_is() -> None:
    model = IN_A_HELPER.format(masked="scores.masked_fill(mask, -1e9)").replace(
        "self.query(x) @ x.transpose(1, 2)", "self.query(x) @ x.transpose(1, 2) if x.any() else elsewhere(x)"
    )
    plan = migrate_text(f"from nets import elsewhere\n{model}{STEP}", Settings())
    assert "scores.masked_fill(mask, max(-1e9, torch.finfo(scores.dtype).min))" in plan.after
    assert "scaler.scale(loss).backward()" in plan.after
    whole = model.replace("elsewhere(x)", "x.argmax(-1)")
    assert "torch.finfo" not in migrate_text(f"{whole}{STEP}", Settings()).after


def test_scores_without_a_name_are_masked_in_float32() -> None:
    plan = migrate_text(IN_A_HELPER.format(masked="(scores * 2).masked_fill(mask, -1e9)") + STEP, Settings())
    assert "(scores * 2).float().masked_fill(mask, -1e9)" in plan.after
    assert "scaler.scale(loss).backward()" in plan.after


def test_scores_without_a_name_are_told(marked: Check) -> None:
    found = marked(
        """
        class Attention(nn.Module):
            def forward(self, q, k, mask):
                return torch.matmul(q, k).masked_fill_(mask, -1e9)  # AMP626
        """
        + AMP.replace("\n", "\n        ")
    )
    assert found[0].hint == "mask with torch.finfo(its dtype).min"


OFF = 'torch.autocast(device_type="cuda", enabled=False)'
PRODUCT = "return torch.matmul(q, k).masked_fill_(mask, -1e9)"


@pytest.mark.parametrize(
    ("decorated", "around", "marks"),
    [
        (f"@{OFF}", "if True:", False),
        ("@torch.no_grad()", f"with {OFF}:", False),
        (f"@{OFF}", f"with {OFF.replace('False', 'self.amp')}:", True),
        (f"@{OFF.replace('False', 'True')}", "if True:", True),
    ],
)
def test_scores_where_autocast_is_off_are_right(marked: Check, decorated: str, around: str, marks: bool) -> None:
    marked(
        f"""
        class Attention(nn.Module):
            {decorated}
            def forward(self, q, k, mask):
                {around}
                    {PRODUCT}{"  # AMP626" if marks else ""}
        """
        + AMP.replace("\n", "\n        ")
    )


def test_scores_of_a_scripted_model_are_told() -> None:
    scripted = "\nmodel = torch.jit.script(Attention())\n"
    text = HEAD + MASKED.format(scores="torch.matmul(q, k)", number="-1e9") + scripted + AMP
    plan = migrate_text(text, Settings())
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP626", Kind.HAZARD)]
    assert plan.after == text


def test_a_model_that_several_scripts_run_is_repaired_once(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/attention.py").write_text(ATTENTION)
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(FLOAT32)
    plans = {plan.source.path.name: plan.after for plan in migrate([tmp_path], Settings()).changed}
    assert plans["attention.py"].count("torch.finfo") == 1


def test_a_script_below_another_is_repaired_together_with_its_own_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amp_migrate.engine.parts.in_parts.PART_BYTES", 1)
    (tmp_path / "below").mkdir()
    (tmp_path / "below/script.py").write_text(
        ATTENTION + FLOAT32.replace("from models.attention import Attention\n", "")
    )
    # One project, because it may load any file below, and two parts, because no import says so.
    loading = "from importlib import import_module\n"
    (tmp_path / "train.py").write_text(loading + FLOAT32.replace("models.attention", "elsewhere"))
    outcome = migrate_in_parts(Workspace.open([tmp_path], Selection()), Settings())
    assert [each for each in outcome.findings if each.kind is Kind.ERROR] == []
    after = {plan.source.path.name: plan.after for plan in outcome.changed}
    assert (after["script.py"].count("torch.finfo"), after["script.py"].count("scaler.step")) == (1, 1)


def test_the_mask_of_a_repaired_model_is_what_it_was_in_float32() -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    mask = torch.tensor([[True, False], [True, True]])
    repaired = scores.masked_fill(mask, max(-1e9, torch.finfo(scores.dtype).min))
    assert torch.equal(repaired, scores.masked_fill(mask, -1e9))
    half = scores.half()
    assert torch.equal(
        half.masked_fill(mask, max(-1e9, torch.finfo(half.dtype).min)).softmax(-1)[0], half.new_tensor([0, 1])
    )


@pytest.mark.parametrize(
    ("scores", "number"),
    [
        ("torch.matmul(q, k)", "-1e4"),
        ("torch.matmul(q, k)", "-65504"),
        ("torch.matmul(q, k)", "float('-inf')"),
        ("torch.matmul(q, k)", "torch.finfo(q.dtype).min"),
        ("torch.matmul(q, k)", "self.least"),
        ("torch.matmul(q, k).float()", "-1e9"),
        ("torch.matmul(q, k).softmax(-1)", "-1e9"),
        ("torch.matmul(q, k) + self.bias", "-1e9"),
        ("torch.zeros(2, 2)", "-1e9"),
        ("mask.float()", "-1e9"),
        ("q", "-1e9"),
    ],
)
def test_what_float16_has_or_what_is_not_float16_may_be_filled(clean: Check, scores: str, number: str) -> None:
    clean(
        f"""
        class Attention(nn.Module):
            def __init__(self):
                self.bias = nn.Parameter(torch.zeros(2))

            def forward(self, q, k, mask):
                scores = {scores}
                return scores.masked_fill(mask, {number})
        """
        + "        "
        + AMP.replace("\n", "\n        ")
    )


def test_bfloat16_has_the_numbers_of_float32(clean: Check) -> None:
    clean(
        ATTENTION.replace("import torch\n", "").replace("from torch import nn\n", "")
        + AMP.replace("float16", "bfloat16")
    )


def project(tmp_path: Path, script: str) -> list[tuple[str, str]]:
    (tmp_path / "run/models").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "run/train.py").write_text(script)
    (tmp_path / "run/models/attention.py").write_text(ATTENTION)
    (tmp_path / "other/attention.py").write_text(ATTENTION)
    findings = migrate([tmp_path], Settings(dtype=Dtype.FP16)).findings
    return [(Path(each.path).relative_to(tmp_path).as_posix(), each.code) for each in findings]


def test_the_models_below_a_script_that_moves_to_float16_are_looked_at(tmp_path: Path) -> None:
    assert project(tmp_path, FLOAT32) == [("run/models/attention.py", "AMP626"), ("run/train.py", "AMP501")]


def test_the_models_below_a_script_that_has_amp_are_looked_at(tmp_path: Path) -> None:
    assert project(tmp_path, "import models.attention\nimport torch\n" + AMP) == [("run/models/attention.py", "AMP626")]


def test_models_that_no_script_runs_in_float16_are_not(tmp_path: Path) -> None:
    assert project(tmp_path, "import models.attention\nimport torch\n" + AMP.replace("float16", "bfloat16")) == []


FUNCTION = """
class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):  # AMP625
        ctx.save_for_backward(x, weight)
        return x.mm(weight.t())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad.mm(weight), grad.t().mm(x)
"""


def test_an_own_function_that_multiplies_is_told(marked: Check) -> None:
    marked(FUNCTION + AMP)
    found = migrate_text("import torch\n" + FUNCTION + AMP, Settings()).findings
    assert [each.message for each in found if each.code == "AMP625" and "backward raises" in each.message]


@pytest.mark.parametrize("saved", [torch.float32, torch.float16])
def test_backward_of_an_own_function_raises_where_it_saved_float32(saved: torch.dtype) -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(FUNCTION, names)
    x, weight = torch.randn(2, 3).half().requires_grad_(), torch.randn(4, 3).to(saved)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = names["Linear"].apply(x, weight).sum()
    with pytest.raises(RuntimeError, match="same dtype") if saved is torch.float32 else nullcontext():
        loss.backward()


CASTING = """
import torch
from torch import nn
from elsewhere import graph, loader

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.mm(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        CAST
        return None, torch.mm(a.t(), grad)

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
graph = torch.rand(8, 8).cuda() if graph is None else graph
for x in loader:
    optimizer.zero_grad()
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = Product.apply(graph, model(x)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("product", ["torch.mm", "torch.sparse.mm"])
@pytest.mark.parametrize("cast", ["", "grad = grad if a.dtype == grad.dtype else grad.to(a.dtype)"])
def test_an_own_function_that_casts_by_itself_gives_no_two_dtypes(product: str, cast: str) -> None:
    found = migrate_text(CASTING.replace("CAST", cast or "pass").replace("torch.mm", product), Settings()).findings
    assert any(each.code == "AMP625" for each in found) is not bool(cast)


KERNEL = """
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):  # AMP625
        out = torch.empty_like(x)
        add_kernel(args=[x.data_ptr(), y.data_ptr(), out.data_ptr()])
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad, grad
"""


def test_an_own_function_that_runs_a_kernel_is_told(marked: Check) -> None:
    marked(KERNEL + AMP)


def test_a_kernel_is_found_through_the_imports_of_the_model(tmp_path: Path) -> None:
    files = {
        "tool/train.py": "import torch\nfrom model.net import Net\n" + AMP,
        "model/net.py": "from lib.layers import Layer\n",
        "lib/layers/__init__.py": "from .add import Layer\n",
        "lib/layers/add.py": "from .. import functions\n",
        "lib/functions/__init__.py": "from .add import Add\n",
        "lib/functions/add.py": "import torch\n" + KERNEL.replace("  # AMP625", ""),
        "lib/__init__.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = migrate([tmp_path], Settings()).findings
    named = [(Path(each.path).relative_to(tmp_path).as_posix(), each.code) for each in found]
    assert named == [("lib/functions/add.py", "AMP625")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    def forward",
            "    @torch.amp.custom_fwd(device_type='cuda', cast_inputs=torch.float32)\n    def forward",
        ),
        ("empty_like(x)", "empty_like(x := x.float())"),
        (".data_ptr()", ""),
    ],
)
def test_a_kernel_that_is_given_a_dtype_or_tensors_is_right(clean: Check, old: str, new: str) -> None:
    text = KERNEL.replace("  # AMP625", "")
    assert old in text
    clean(text.replace(old, new) + AMP)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("..models.attention", ["AMP626", "AMP501"]),
        ("models.attention", ["AMP626", "AMP501"]),
        ("elsewhere", ["AMP504", "AMP501"]),
    ],
    ids=["of its package", "of a folder on the path", "of a neighbour"],
)
def test_models_of_the_package_that_a_script_reaches_up_to_are_looked_at(
    tmp_path: Path, module: str, told: list[str]
) -> None:
    for folder in ("models", "trainer"):
        (tmp_path / "package" / folder).mkdir(parents=True)
    (tmp_path / "package/models/attention.py").write_text(ATTENTION)
    script = FLOAT32.replace("from models.attention", f"from {module}")
    (tmp_path / "package/trainer/train.py").write_text(script)
    assert [each.code for each in migrate([tmp_path], Settings(dtype=Dtype.FP16)).findings] == told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # it says in which dtype it computes
        ("    def forward", "    @torch.amp.custom_fwd(device_type='cuda')\n    def forward"),
        ("    def backward", "    @torch.amp.custom_bwd(device_type='cuda')\n    def backward"),
        ("return x.mm(weight.t())", "return x.float().mm(weight.float().t())"),
        ("x, weight = ctx.saved_tensors", "x, weight = (each.to(grad.dtype) for each in ctx.saved_tensors)"),
        # nothing is multiplied, or nothing that could differ
        ("return x.mm(weight.t())", "return x * weight"),
        ("return grad.mm(weight), grad.t().mm(x)", "return grad * weight, grad * x"),
        ("ctx.save_for_backward(x, weight)", "ctx.save_for_backward(x)"),
        # no function of autograd
        ("torch.autograd.Function", "nn.Module"),
    ],
)
def test_a_function_that_cannot_mix_dtypes_is_right(clean: Check, old: str, new: str) -> None:
    text = FUNCTION.replace("  # AMP625", "")
    assert old in text
    clean(text.replace(old, new, 1) + AMP)


def test_a_function_that_no_autocast_reaches_is_right(clean: Check) -> None:
    clean(FUNCTION.replace("  # AMP625", "") + AMP.replace('"cuda"', '"cuda", enabled=False'))
    clean(FUNCTION.replace("  # AMP625", "") + "\n\nprint(torch.is_autocast_enabled())\n")
