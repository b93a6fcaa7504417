"""A sigmoid that is a module is made one that computes in float32 where a loss reads what it gives."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
import torch.fx
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Dtype, Settings
from torch import nn

CLASS = '''

class Fp32Sigmoid(nn.Sigmoid):
    """In float32: half precision makes 1 of large logits, which leaves them no gradient."""

    def forward(self, input):
        return input.float().sigmoid()


'''
IMPORTS = "import torch\nfrom torch import nn\n"
STEP = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.BCELoss()(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""
MADE = "model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()).cuda()\n"
IN_FLOAT32 = "model = nn.Sequential(nn.Linear(4, 1), Fp32Sigmoid()).cuda()\n"
NET = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        MADE

    def forward(self, x):
        return self.net(x)


model = Net().cuda()
"""


def net(made: str) -> str:
    return NET.replace("MADE", made.replace("\n", "\n        "))


def told(text: str, settings: Settings | None = None) -> list[str]:
    """The codes of what is said of a text, and of its result when that is migrated again."""
    plan = migrate_text(text, settings or Settings())
    assert migrate_text(plan.after, settings or Settings()).after == plan.after
    return [each.code for each in plan.findings]


@pytest.mark.parametrize("dtype", Dtype)
def test_the_last_layer_of_a_chain_computes_in_float32(dtype: Dtype) -> None:
    plan = migrate_text(IMPORTS + MADE + STEP, Settings(dtype=dtype))
    assert f"{CLASS}{IN_FLOAT32}" in plan.after
    assert told(IMPORTS + MADE + STEP, Settings(dtype=dtype)) == ["AMP501"]


@pytest.mark.parametrize(
    "made",
    [
        "model = nn.Sequential()\nmodel.add_module('fc', nn.Linear(4, 1))\nmodel.add_module('p', {})\nmodel.cuda()\n",
        "model = nn.Sequential(OrderedDict([('fc', nn.Linear(4, 1)), ('p', {})])).cuda()\n",
        "model = nn.DataParallel(nn.Sequential(nn.Linear(4, 1), {})).cuda()\n",
        "model = nn.Sequential(nn.Sequential(nn.Linear(4, 1), {}), nn.Flatten(0)).cuda()\n",
        "model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 1), {}).cuda()\n",
        "model = nn.Sequential(*[nn.Linear(4, 1), {}]).cuda()\n",
        "model = nn.Sequential(nn.Linear(4, 1), {} if opt.is_gan else nn.Identity()).cuda()\n",
        net("self.net = nn.Sequential(nn.Linear(4, 1), {})"),
        net("layers = [nn.Linear(4, 1)]\nfor _ in range(2):\n    layers += [nn.Linear(1, 1)]\nlayers.append({})\n")
        .replace("\n        \n", "\n        self.net = nn.Sequential(*layers)\n"),
        net("self.net = nn.Sequential(nn.Linear(4, 1), {})\nprint(isinstance(self.net[1], nn.Sigmoid))"),
        net("self.net = nn.Sequential(nn.Linear(4, 1), {})") + "torch.save(model, 'model.pt')\n",
        "model = nn.Sequential(nn.Linear(4, 1), {}).cuda()\ntorch.save(model.state_dict(), 'model.pt')\n",
        "\n\nclass Net(nn.Sequential):\n    def __init__(self):\n        super().__init__(nn.Linear(4, 1), {})\n\n\n"
        "model = Net().cuda()\n",
    ],
)  # fmt: skip
def test_so_does_one_wherever_it_is_made_in_sight(made: str) -> None:
    text = "from collections import OrderedDict\n" + IMPORTS + made.replace("{}", "nn.Sigmoid()") + STEP
    after = migrate_text(text, Settings()).after
    assert CLASS.strip("\n") in after
    assert made.strip("\n").replace("{}", "Fp32Sigmoid()") in after
    assert told(text) == ["AMP501"]


@pytest.mark.parametrize(
    "made",
    [
        "model = nn.Sequential(nn.Linear(4, 1), getattr(nn, 'Sigmoid')()).cuda()\n",
        "model = nn.Sequential(nn.Linear(4, 1), {'p': nn.Sigmoid}['p']()).cuda()\n",
        "P = nn.Sigmoid\nmodel = nn.Sequential(nn.Linear(4, 1), P()).cuda()\n",
        "from torch.nn import Sigmoid\nmodel = nn.Sequential(nn.Linear(4, 1), Sigmoid()).cuda()\n",
        "Fp32Sigmoid = print\n" + MADE,  # the name is that of something else
        MADE + "for m in model:\n    print(type(m) is nn.Sigmoid)\n",
        MADE + "def is_last(layer):\n    return type(layer).__name__ == 'Sigmoid'\n",
        MADE + "for layer in model:\n    print(type(layer).__name__ == 'Sigmoid')\n",
        MADE + "LAST = ['Sigmoid']\ndef is_last(layer):\n    return layer._get_name() in LAST\n",
        MADE + "print({nn.Sigmoid: 1, nn.Linear: 2}[type(model[1])])\n",
        MADE + "HEADS = (nn.Sigmoid, nn.Softmax)\nprint(type(model[1]) in HEADS)\n",
        MADE + "torch.save(model, 'model.pt')\n",  # what loads it need not have this file
        MADE + "torch.save({'model': model}, 'model.pt')\n",
        MADE + "torch.save((model, 1), 'model.pt')\n",
        MADE + "import pickle\npickle.dump([model], open('model.pkl', 'wb'))\n",
        MADE + "print(model[1](torch.zeros(1, dtype=torch.float64)))\n",  # which it would make float32
        MADE + "print(model[1](torch.zeros(1).half()))\n",
    ],
)
def test_one_whose_class_may_be_asked_for_is_told(made: str) -> None:
    assert sorted(told(IMPORTS + made + STEP)) == ["AMP501", "AMP502"]
    assert "input.float()" not in migrate_text(IMPORTS + made + STEP, Settings()).after


@pytest.mark.parametrize(
    "text",
    [
        MADE + STEP.replace("nn.BCELoss()", "nn.MSELoss()"),
        MADE.replace("Sigmoid()", "Softmax(1)") + STEP.replace("BCELoss()(model(x.cuda())", "NLLLoss()(model(x).log()"),
        MADE.replace("nn.Sigmoid()", "nn.Sigmoid(), nn.Linear(1, 1)") + STEP.replace("BCELoss", "BCEWithLogitsLoss"),
    ],
)  # fmt: skip
def test_what_no_rounded_probability_harms_keeps_its_class(text: str) -> None:
    assert told(IMPORTS + text) == ["AMP501"]
    assert "class Fp32Sigmoid" not in migrate_text(IMPORTS + text, Settings()).after


def test_a_logarithm_by_hand_reads_one_in_float32() -> None:
    text = (
        IMPORTS + MADE + STEP.replace("nn.BCELoss()(model(x.cuda()), y.cuda())", "-(1 - model(x.cuda())).log().mean()")
    )
    assert IN_FLOAT32 in migrate_text(text, Settings()).after
    assert told(text) == ["AMP501"]


def test_the_class_stands_below_the_imports_wherever_they_are() -> None:
    tried = (
        "from __future__ import annotations\n\ntry:\n    import torch\n    from torch import nn\nfinally:\n    pass\n"
    )
    local = (
        "import torch\n\n\ndef make():\n    from torch import nn\n    return nn.Sequential(nn.Linear(4, 1), {})\n\n\n"
    )
    late = local.replace("    from torch import nn\n", "").replace("import torch\n", IMPORTS) + "import os\n"
    step = "model = make().cuda()\n" + STEP.replace("nn.", "torch.nn.")
    assert f"{tried}{CLASS}{IN_FLOAT32}" in migrate_text(tried + MADE + STEP, Settings()).after
    for text in (local, late):
        after = migrate_text(text.replace("{}", "nn.Sigmoid()") + step, Settings()).after
        begin, rest = text.replace("{}", "Fp32Sigmoid()").split("\n\n\n", 1)
        base = "torch.nn.Sigmoid" if text == local else "nn.Sigmoid"
        assert after.startswith(begin + "\n" + CLASS.replace("nn.Sigmoid", base) + rest)


NETS = """\
from torch import nn

# How wide it is.
WIDTH = 8


def block(inputs, outputs, is_last=False):
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Sigmoid() if is_last else nn.ReLU())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(block(4, WIDTH), block(WIDTH, 1, True))

    def forward(self, x):
        return self.net(x)


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())

    def forward(self, x):
        return self.net(x)
"""


def test_the_sigmoids_of_a_file_share_a_class_below_its_imports(tmp_path: Path) -> None:
    """Another script that trains with the file later finds the class there."""
    (tmp_path / "nets.py").write_text(NETS)
    script = "import torch\nfrom nets import Net\nfrom torch import nn\n\nmodel = Net().cuda()\n" + STEP
    (tmp_path / "first.py").write_text(script)
    for each in migrate([tmp_path], Settings()).changed:
        each.source.path.write_text(each.after)
    once = NETS.replace("import nn\n\n", f"import nn\n{CLASS}", 1).replace("nn.Sigmoid() if", "Fp32Sigmoid() if")
    assert (tmp_path / "nets.py").read_text() == once
    (tmp_path / "second.py").write_text(script.replace("Net", "Other"))
    outcome = migrate([tmp_path], Settings())
    assert [each.code for each in outcome.findings] == ["AMP504", "AMP501"]
    (after,) = (each.after for each in outcome.changed if each.source.path.name == "nets.py")
    assert after == once.replace("(4, 1), nn.Sigmoid())", "(4, 1), Fp32Sigmoid())")


def test_one_in_a_file_that_stays_as_it_is_is_told(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text("# amp-migrate: skip-file\n" + NETS)
    (tmp_path / "train.py").write_text(
        "import torch\nfrom nets import Net\nfrom torch import nn\n\nmodel = Net().cuda()\n" + STEP
    )
    assert sorted(each.code for each in migrate([tmp_path], Settings()).findings) == ["AMP501", "AMP502"]


def _trained(sigmoid: nn.Module, dtype: torch.dtype | None) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A classifier with large logits, its loss, and the gradient of its first layer."""
    torch.manual_seed(0)
    first, last = nn.Linear(4, 16), nn.Linear(16, 1)
    model = nn.Sequential(first, nn.LeakyReLU(0.2), last, sigmoid)
    last.weight.data *= 40
    x, scale = torch.randn(512, 4), 64.0 if dtype == torch.float16 else 1.0
    with torch.amp.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        p = model(x)
    loss = nn.functional.binary_cross_entropy(p.float(), torch.zeros(512, 1))
    (loss * scale).backward()
    assert first.weight.grad is not None
    return model, loss.detach(), first.weight.grad / scale


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")
def test_a_loss_sees_of_it_what_it_sees_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sigmoid_in_float32.py").write_text(f"from torch import nn\n{CLASS}")
    monkeypatch.syspath_prepend(tmp_path)
    exact = importlib.import_module("sigmoid_in_float32").Fp32Sigmoid
    model, loss, gradient = _trained(nn.Sigmoid(), None)
    same, same_loss, same_gradient = _trained(exact(), None)
    assert torch.equal(same_loss, loss)
    assert torch.equal(same_gradient, gradient)
    assert list(same.state_dict()) == list(model.state_dict())
    x = torch.randn(8, 4)
    for traced in (torch.jit.script(same), torch.fx.symbolic_trace(same), torch.export.export(same, (x,)).module()):
        assert torch.equal(traced(x), model(x))
    for dtype in (torch.float16, torch.bfloat16):
        _, rounded, of_rounded = _trained(nn.Sigmoid(), dtype)
        _, kept, of_kept = _trained(exact(), dtype)
        assert rounded > 3 * loss
        assert torch.isclose(kept, loss, rtol=1e-2)
        assert (of_kept - gradient).norm() < 0.02 * gradient.norm()
        assert not (of_rounded - gradient).norm() < 0.5 * gradient.norm()  # it is NaN in float16
