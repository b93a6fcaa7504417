"""Statements that grow beyond float16 are kept in float32, inside of the region that they stand in."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.flow.events import ROUNDED_GUARD
from amp_migrate.settings import Dtype, Settings

HEAD = """\
import torch
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x):
        low = self.first(x).relu()
        return low, self.second(low).relu()

"""
LOOP = """

model = Features().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, target in loader:
    loss = sum((gram(each) - target).square().mean() for each in model(x.cuda()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OFF = 'with torch.amp.autocast(device_type="cuda", enabled=False):'
KEPT = "kept in float32: may overflow, or round, in half precision: products of a matrix with itself"


def grams(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{HEAD}\ndef gram(x):\n{lines}{LOOP}"


def said(text: str, settings: Settings) -> list[str]:
    return [each.message for each in migrate_text(text, settings).findings if each.code == "AMP504"]


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_a_gram_matrix_is_kept_in_float32_where_it_is_computed(dtype: Dtype) -> None:
    text = grams("f = x.flatten(2)\nscale = 1 / f.shape[-1]\nreturn f @ f.transpose(1, 2) * scale")
    plan = migrate_text(text, Settings(dtype=dtype))
    kept = f"    {OFF}\n        return f.float() @ f.float().transpose(1, 2) * scale\n"
    assert f"    f = x.flatten(2)\n    scale = 1 / f.shape[-1]\n{kept}" in plan.after
    assert said(text, Settings(dtype=dtype)) == [KEPT]
    assert migrate_text(plan.after, Settings(dtype=dtype)).after == plan.after


def test_statements_that_follow_each_other_are_kept_in_one_region() -> None:
    text = grams("f = x.flatten(2)\na = torch.bmm(f, f.mT)\nb = f.mT @ f\nc = a.sum() + b.sum()\nreturn c")
    kept = f"    {OFF}\n        a = torch.bmm(f.float(), f.float().mT)\n        b = f.float().mT @ f.float()\n    c = "
    assert kept.replace("f.float().mT", "f.mT.float()") in migrate_text(text, Settings()).after


def test_a_region_in_the_region_of_the_step() -> None:
    text = f"{HEAD}{LOOP}".replace(
        "loss = sum((gram(each) - target).square().mean() for each in model(x.cuda()))",
        "f = model(x.cuda())[0].flatten(2)\n    gram = f @ f.mT  # grows\n    loss = gram.square().mean()",
    )
    after = migrate_text(text, Settings()).after
    assert f"        f = model(x.cuda())[0].flatten(2)\n        {OFF}\n            gram = f.float() @ " in after
    assert "  # grows\n        loss = gram.square().mean()\n    optimizer.zero_grad()\n" in after


TRAINER = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, net, criterion):
        self.net, self.criterion = net.cuda(), criterion
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, loader):
        for x, y in loader:
            out = self.net(x.cuda())
            self.optimizer.zero_grad()
            try:
                # What may fail.
                loss = self.criterion(out, y.cuda())
                loss.backward()
                self.optimizer.step()
            except RuntimeError as error:
                print(error)
"""
CALLER = """\
from torch import nn
from trainer import Trainer

Trainer(nn.Sequential(nn.Linear(4, 1), getattr(nn, "Sigmoid")()), nn.BCELoss()).train(loader)
"""
ON = 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):'
TRIED = """\
            try:
                # What may fail.
                loss = self.criterion(out.float(), y.cuda())
"""


def trained(text: str, folder: Path) -> str:
    (folder / "trainer.py").write_text(text)
    (folder / "main.py").write_text(CALLER)
    (plan,) = migrate([folder], Settings()).changed
    assert "kept in float32: autocast refuses it: binary_cross_entropy" in [each.message for each in plan.findings]
    (folder / "trainer.py").write_text(plan.after)
    assert not migrate([folder], Settings()).changed
    return plan.after


def test_a_region_of_nothing_but_what_stays_in_float32_is_none(tmp_path: Path) -> None:
    assert f"{TRIED}                self.scaler.scale(loss).backward()\n" in trained(TRAINER, tmp_path)


def test_a_region_begins_behind_what_stays_in_float32(tmp_path: Path) -> None:
    beside = "loss = loss + self.net[0](x.cuda()).square().mean()"
    text = TRAINER.replace("loss.backward()", f"{beside}\n                loss.backward()")
    behind = f"                {ON}\n                    {beside}\n                self.scaler.scale(loss)"
    assert f"{TRIED}{behind}" in trained(text, tmp_path)


RANKED = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.criterion = nn.Linear(2, 1), nn.BCELoss()

    def forward(self, x, y):
        return self.criterion(torch.sigmoid(self.net(x)), y)


def both(net, x, y):
    return F.binary_cross_entropy(torch.sigmoid(net(x)), y) + F.binary_cross_entropy(torch.sigmoid(net(-x)), 1 - y)


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_refused_loss_is_computed_from_goes_before_it() -> None:
    for loss in ("model(x.cuda(), y.cuda())", "model.forward(x.cuda(), y.cuda())"):
        after = migrate_text(RANKED.format(loss=loss), Settings()).after
        kept = f"        net_output = self.net(x)\n        {OFF}\n            return "
        assert f"{kept}self.criterion(torch.sigmoid(net_output.float()), y)\n" in after
        assert f"    {ON}\n        loss = {loss}\n" in after
        assert migrate_text(after, Settings()).after == after


def test_a_function_with_forward_and_refused_losses_runs_in_the_region() -> None:
    after = migrate_text(RANKED.format(loss="both(model.net, x.cuda(), y.cuda())"), Settings()).after
    named = f"    net_output = net(x)\n    net_output_2 = net(-x)\n    {OFF}\n"
    first = "return F.binary_cross_entropy(torch.sigmoid(net_output.float()), y)"
    assert f"{named}        {first} + F.binary_cross_entropy(torch.sigmoid(net_output_2.float()), 1 - y)\n" in after
    assert f"    {ON}\n        loss = both(" in after


@pytest.mark.parametrize(
    "body",
    [
        "return F.binary_cross_entropy(torch.sigmoid(net(x)), y) if flag else net(x).mean()",  # may not run
        "return scaled(F.binary_cross_entropy(torch.sigmoid(net(x)), y), net)",  # another function has the loss
        "return F.binary_cross_entropy(torch.sigmoid(F.dropout(x)), net(x).sigmoid())",  # draws before the forward does
        "return sum(F.binary_cross_entropy(torch.sigmoid(net(each)), y) for each in (x, -x))",  # runs more than once
    ],
)
def test_what_cannot_go_before_a_refused_loss_leaves_its_step(body: str) -> None:
    text = RANKED.format(loss="both(model.net, x.cuda(), y.cuda())")
    start, end = text.index("    return F."), text.index("\n\n\nmodel")
    scaled = "\n\n\ndef scaled(loss, net):\n    return loss + net.weight.square().mean()"
    text = f"{text[:start]}    {body}{scaled}{text[end:]}"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert all("autocast refuses it" in each.message for each in plan.findings)


def test_a_file_that_nothing_else_changes_gets_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text('"""Losses."""\n\n\ndef gram(x):\n    x = x.flatten(2)\n    return x @ x.mT\n')
    script = tmp_path / "train.py"
    script.write_text(f"from losses import gram\n{HEAD}{LOOP}")
    outcome = migrate([tmp_path], Settings())
    losses, train = (each.after for each in outcome.changed)
    assert losses.startswith('"""Losses."""\nimport torch\n')
    assert losses.endswith(f"    {OFF}\n        return x.float() @ x.mT.float()\n")
    assert "scaler.step(optimizer)" in train
    (tmp_path / "losses.py").write_text(f"# amp-migrate: skip-file\n{(tmp_path / 'losses.py').read_text()}")
    outcome = migrate([tmp_path], Settings())
    assert [each.source.path for each in outcome.changed] == [script]
    assert [each.message for each in outcome.findings if each.code == "AMP504"] == [KEPT.partition(": ")[2]]


@pytest.mark.parametrize(
    "body",
    [
        "f = head(x.flatten(2))\nreturn f @ f.mT",  # of which nobody knows what it is
        "f = x.flatten(2)\nif flag:\n    f = f.double()\nreturn f @ f.mT",  # of which a cast would take digits
        "f = x.flatten(2)\nreturn shrunk(f @ f.mT)",  # would run another function in float32
        "f = x.flatten(2)\nreturn layer(f @ f.mT)",
        "f = x.flatten(2)\nf += (f @ f.mT) @ f\nreturn f",  # changes what the caller may hold
        "f = x.flatten(2)\nf[:, :8] = f @ f.mT\nreturn f",
        "f = x.flatten(2)\nreturn f.mul_((f @ f.mT).mean())",
        "f = x.flatten(2)\nreturn torch.bmm(f, f.mT, out=buffer)",
        "f = x.flatten(2)\nif (f @ f.mT).max() > 1:\n    return f\nreturn f * 2",  # a test is no statement of its own
    ],
)
def test_a_statement_that_does_more_than_compute_is_told(body: str) -> None:
    text = grams(body).replace(
        "def gram", "def shrunk(x):\n    return x * 0.5\n\n\nlayer = nn.Linear(8, 8)\n\n\ndef gram"
    )
    assert OFF not in migrate_text(text, Settings()).after
    assert KEPT not in said(text, Settings())


def test_where_it_is_not_wanted_nothing_is_kept() -> None:
    text = grams("f = x.flatten(2)\nreturn f @ f.mT")
    plan = migrate_text(text, Settings(ignore=("AMP504",)))
    assert "scaler.step(optimizer)" in plan.after
    assert OFF not in plan.after


CODEBOOK = """\
import torch
import torch.nn.functional as F
from torch import nn


class Codebook(nn.Module):
    def __init__(self, decay=0.99):
        super().__init__()
        self.decay = decay
        self.layer = nn.Linear(8, 8)
        self.register_buffer("codes", torch.randn(8, 64))

    def forward(self, x):
        x = self.layer(x)
        distance = x.pow(2).sum(1, keepdim=True) - 2 * x @ self.codes
        index = distance.argmin(1)
        chosen = F.one_hot(index, 64).type(x.dtype)
{update}        return x + F.embedding(index, self.codes.t())


model = Codebook().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
UPDATE = "        self.codes.mul_(self.decay).add_(x.detach().t() @ chosen, alpha=1 - self.decay)\n"


def test_a_buffer_that_follows_what_it_computes_is_kept_in_float32_with_its_products() -> None:
    after = migrate_text(CODEBOOK.format(update=UPDATE), Settings()).after
    inside = "distance = x.float().pow(2).sum(1, keepdim=True) - 2 * x.float() @ self.codes\n"
    assert f"        {OFF}\n            {inside}" in after
    inside = "self.codes.mul_(self.decay).add_(x.float().detach().t() @ chosen.float(), alpha=1 - self.decay)\n"
    assert f"        {OFF}\n            {inside}" in after


MULTIPLIED = ["may overflow, or round, in half precision: a buffer is multiplied"]


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ("", []),
        ("self.seen = index", []),
        ("self.codes.mul_(self.decay)", MULTIPLIED),
        ("self.codes.data = self.codes.data * self.decay", MULTIPLIED),
        ("self.codes = self.codes * self.decay", MULTIPLIED),
        ("self.codes[:, 0] = x.detach().mean(0)", MULTIPLIED),
        ("torch.mul(self.codes, self.decay, out=self.codes)", MULTIPLIED),
        ("shrink(self.codes)", MULTIPLIED),
        ("elsewhere.shrink(self.codes)", MULTIPLIED),
    ],
)
def test_a_buffer_that_stays_what_it_is_is_as_good_as_an_input(update: str, expected: list[str]) -> None:
    text = CODEBOOK.format(update=f"        {update}\n").replace("x.pow(2).sum(1, keepdim=True) - 2 * x", "-x")
    text = f"import elsewhere\n\n\ndef shrink(codes):\n    codes.mul_(0.9)\n\n\n{text}"
    assert OFF not in migrate_text(text, Settings()).after
    assert said(text, Settings()) == expected


def test_what_a_constructor_puts_into_a_buffer_is_what_it_is_made_of() -> None:
    text = CODEBOOK.format(update="").replace("x.pow(2).sum(1, keepdim=True) - 2 * x", "-x")
    text = text.replace("torch.randn(8, 64))", "torch.zeros(8, 64))\n        self.codes[0] = 0.5")
    assert said(text, Settings()) == []


NEAREST = """\
import torch
from torch import nn


def distances(a, b):
    found = -2 * torch.matmul(a, b.permute(0, 2, 1))
    found += torch.sum(a**2, -1).view(a.shape[0], a.shape[1], 1)
    return found + torch.sum(b**2, -1).view(b.shape[0], 1, b.shape[1])


model = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = distances({given}).min(dim=2)[0].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "inside"),
    [
        ("model(x.cuda()), y.cuda()", "a.float(), b.permute(0, 2, 1)"),
        ("model(x.cuda()), model(y.cuda())", "a.float(), b.float().permute(0, 2, 1)"),
        ("x.cuda(), model(y.cuda())", "a, b.float().permute(0, 2, 1)"),
    ],
)
def test_the_product_of_a_distance_by_squares_is_kept_in_float32(given: str, inside: str) -> None:
    plan = migrate_text(NEAREST.format(given=given), Settings())
    assert f"    {OFF}\n        found = -2 * torch.matmul({inside})\n    found += torch.sum(" in plan.after
    assert migrate_text(plan.after, Settings()).after == plan.after


def test_what_code_gives_that_is_not_read_is_multiplied_as_it_was() -> None:
    text = NEAREST.format(given="model(x.cuda()), backbone(y.cuda())")
    assert OFF not in migrate_text(text, Settings()).after
    assert any("x*x - 2*x*y + y*y of a rounded product" in each for each in said(text, Settings()))


PROBABILITIES = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        return torch.sigmoid(self.body(x))


class Weighted(nn.Module):
    def forward(self, p, target):
        return F.binary_cross_entropy(p, target) * 2


model = Net().cuda()
criterion = MADE
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, target in loader:
    optimizer.zero_grad()
    out = model(x.cuda())
    loss = COMPUTED
    loss.backward()
    optimizer.step()
"""
LOSSES = """\
import torch
from torch import nn
from torch.nn import functional as F


class Entropy(nn.Module):
    def forward(self, p, target):
        return F.binary_cross_entropy(p, target)


class ByHand(nn.Module):
    def forward(self, p, target):
        return -(target * torch.log(p) + (1 - target) * torch.log(1 - p)).mean()


class Other(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, p, w):
        return F.binary_cross_entropy(p, w)
"""
REFUSED = "kept in float32: autocast refuses it: "
CHOSEN = f"{REFUSED}a loss that a word chooses, which may be BCELoss"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("{'bce': nn.BCELoss, 'mse': nn.MSELoss}[kind]()", f"{REFUSED}binary_cross_entropy"),
        ("getattr(nn, kind)()", CHOSEN),
        ('eval("nn.{}()".format(kind))', CHOSEN),
        ('eval("nn." + kind + "()")', CHOSEN),
        ('eval(f"nn.{kind}")(reduction="sum")', CHOSEN),
    ],
)
def test_a_loss_that_autocast_refuses_or_may_refuse(made: str, message: str) -> None:
    text = PROBABILITIES.replace("MADE", made).replace("COMPUTED", "criterion(out, target.cuda())")
    plan = migrate_text(text, Settings())
    given = "out.float()" if message == CHOSEN else "out"  # what a sigmoid of float32 gives
    inside = f"        out = model(x.cuda())\n        {OFF}\n            loss = criterion({given}, target.cuda())\n"
    assert f"{inside}    scaler.scale(loss).backward()\n" in plan.after
    assert message in said(text, Settings())
    assert migrate_text(plan.after, Settings()).after == plan.after


@pytest.mark.parametrize(
    ("bases", "body", "is_kept"),
    [
        ("nn.BCELoss", "pass", True),
        ("nn.BCELoss, Named", "pass", True),
        ("Named, nn.BCELoss", "def __init__(self):\n        super().__init__(reduction='sum')", True),
        ("nn.BCELoss", "def forward(self, p, y):\n        return super().forward(p, y) + len(p)", False),
        ("nn.BCELoss", "def forward(self, p, y):\n        return self.head(p).mean()", False),
    ],
)
def test_a_class_of_the_project_that_is_a_refused_loss(bases: str, body: str, is_kept: bool) -> None:
    own = f"class Named:\n    name = 'bce'\n\n\nclass Own({bases}):\n    {body}\n\n\n"
    text = PROBABILITIES.replace("MADE", "Own()").replace("COMPUTED", "criterion(out, target.cuda())")
    after = migrate_text(text.replace("model =", f"{own}model =", 1), Settings()).after
    assert (f"        {OFF}\n            loss = criterion(out" in after) is is_kept


@pytest.mark.parametrize(
    "made",
    [
        "Weighted()",
        "globals()[kind]()",
        "globals().get(kind)()",
        "vars()[kind]()",
        "vars(sys.modules[__name__])[kind]()",
        "sys.modules[__name__].__dict__[kind]()",
        "getattr(sys.modules[__name__], kind)()",
    ],
)
def test_a_refused_loss_in_a_module_of_losses(made: str) -> None:
    text = f"import sys\n{PROBABILITIES}".replace("MADE", made).replace("COMPUTED", "criterion(out, target.cuda())")
    after = migrate_text(text, Settings()).after
    assert f"        {OFF}\n            return F.binary_cross_entropy(p, target) * 2\n" in after
    assert "        loss = criterion(out, target.cuda())\n    scaler.scale(loss)" in after


@pytest.mark.parametrize(
    ("loss", "kept"),
    [
        ("nn.BCELoss()(p, target)", "nn.BCELoss()(p, target)"),
        ("nn.BCELoss(reduction='none')(p, target).mean()", "nn.BCELoss(reduction='none')(p, target).mean()"),
        ("nn.BCELoss(p)(p, target)", "nn.BCELoss(p)(p, target)"),
        ("F.binary_cross_entropy(nn.Linear(4, 4)(p), target)", "F.binary_cross_entropy(Linear_output.float(), target)"),
        ("nn.BCELoss()(F.not_known(p), target)", "nn.BCELoss()(not_known_output.float(), target)"),
        ("F.not_known(F.binary_cross_entropy(p, target))", None),
    ],
)
def test_a_refused_loss_that_is_made_where_it_is_computed(loss: str, kept: str | None) -> None:
    text = PROBABILITIES.replace("MADE", "Weighted()").replace("COMPUTED", "criterion(out, target.cuda())")
    after = migrate_text(text.replace("F.binary_cross_entropy(p, target) * 2", loss), Settings()).after
    assert ("scaler.step(optimizer)" in after) is (kept is not None)
    assert kept is None or f"        {OFF}\n            return {kept}\n" in after


@pytest.mark.parametrize("head", ["", "from sklearn.utils import class_weight\n"])
def test_a_criterion_that_a_word_chooses_from_a_module_is_one_of_its_classes_that_fit(
    tmp_path: Path, head: str
) -> None:
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses/__init__.py").write_text("from .all import *\n")
    (tmp_path / "losses/all.py").write_text(head + LOSSES)
    script = tmp_path / "train.py"
    text = f"import losses\n{PROBABILITIES}".replace("COMPUTED", "criterion(out, target.cuda())")
    for made in ("losses.__dict__[kind]()", "vars(losses)[kind]()", "getattr(losses, kind)()"):
        script.write_text(text.replace("MADE", made))
        after = {each.source.path.name: each.after for each in migrate([tmp_path], Settings()).changed}
        assert f"        {OFF}\n            return F.binary_cross_entropy(p, target)\n" in after["all.py"]
        assert "return F.binary_cross_entropy(p, w)" in after["all.py"]  # whose constructor wants an argument
        assert "torch.sigmoid(self.body(x).float())" in after["train.py"]  # for the logarithm


@pytest.mark.parametrize(
    ("made", "computed"),
    [
        ("{'l1': nn.L1Loss, 'mse': nn.MSELoss}[kind]()", "criterion(out, target.cuda())"),
        ("getattr(nn, kind)()", "criterion(out).mean()"),  # an activation
        ("getattr(nn, kind)(4, 4).cuda()", "criterion(out, target.cuda()).mean()"),
        ("eval(kind)", "criterion(out, target.cuda())"),
    ],
)
def test_a_loss_that_is_not_known_to_be_one_of_pytorch_stays_in_the_region(made: str, computed: str) -> None:
    plan = migrate_text(PROBABILITIES.replace("MADE", made).replace("COMPUTED", computed), Settings())
    assert f"        loss = {computed}\n    scaler.scale(loss)" in plan.after
    assert OFF not in plan.after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.sigmoid(self.body(x))", "torch.sigmoid(self.body(x).float())"),
        ("self.body(x).sigmoid()", "self.body(x).float().sigmoid()"),
        ("self.last(self.body(x))", "self.last(self.body(x).float())"),
    ],
)
def test_a_sigmoid_whose_probability_a_logarithm_reads_sees_float32(before: str, after: str) -> None:
    computed = "-(target.cuda() * torch.log(out)).mean()"
    text = PROBABILITIES.replace("MADE", "None").replace("COMPUTED", computed)
    text = text.replace("torch.sigmoid(self.body(x))", before).replace(
        "        self.body = ", "        self.last = nn.Sigmoid()\n        self.body = "
    )
    plan = migrate_text(text, Settings())
    assert f"        return {after}\n" in plan.after
    assert not [each for each in plan.findings if each.code == "AMP502"]
    assert migrate_text(plan.after, Settings()).after == plan.after


def test_a_sigmoid_that_cannot_be_seen_is_told() -> None:
    text = PROBABILITIES.replace("MADE", "None").replace("COMPUTED", "-(target.cuda() * torch.log(out)).mean()")
    text = text.replace("nn.Conv2d(3, 4, 3, padding=1)", "nn.Sequential(nn.Conv2d(3, 4, 3), getattr(nn, 'Sigmoid')())")
    text = text.replace("torch.sigmoid(self.body(x))", "self.body(x)")
    plan = migrate_text(text, Settings())
    assert "        return self.body(x)\n" in plan.after
    assert [each.code for each in plan.findings if each.code == "AMP502"]


ANGLES = """\
import torch
from torch import nn


class Angular(nn.Module):
    def __init__(self, eps=1e-7):
        super().__init__()
        self.eps = eps

    def forward(self, z, labels):
        dot = {product}
        dot = dot.clamp(-1 + self.eps, 1 - self.eps)
        return (torch.acos(dot) - labels).square().mean()


model, criterion = nn.Linear(8, 8).cuda(), Angular()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, labels in loader:
    loss = criterion(nn.functional.normalize(model(x.cuda()), dim=1), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_a_limit_that_half_precision_rounds_to_one_is_one_of_float32(dtype: Dtype) -> None:
    text, settings = ANGLES.format(product="z @ z.t()"), Settings(dtype=dtype)
    after = migrate_text(text, settings).after
    kept = f"        dot = z @ z.t()\n        {OFF}\n            dot = dot.float().clamp(-1 + self.eps, 1 - self.eps)\n"
    assert kept in after
    assert said(text, settings) == [KEPT.rpartition(": ")[0] + f": {ROUNDED_GUARD}"]
    assert migrate_text(after, settings).after == after


def test_a_limit_of_what_is_float32_stays_where_it_is() -> None:
    text = ANGLES.format(product="(z * labels).sum(1)")
    assert "scaler.step(optimizer)" in migrate_text(text, Settings()).after
    assert OFF not in migrate_text(text, Settings()).after


DISTANCES = """\
import torch
from torch import nn


class Triplet(nn.Module):
    def forward(self, z, labels):
        prod = torch.mm(z, z.t())
        norm = prod.diag().unsqueeze(1).expand_as(prod)
        distances = (norm + norm.t() - 2 * prod).clamp(min=1e-12).sqrt()
        return (distances * labels).mean()


class Entropy(nn.Module):
    def forward(self, z, labels):
        return nn.functional.cross_entropy(z, labels)


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.losses = [Entropy(), Triplet()]

    def forward(self, outputs):
        terms = {name: self.losses[int(each["which"].item())](*each["params"]) for name, each in outputs.items()}
        return sum(terms.values())


model, criterion = nn.Linear(8, 8).cuda(), Loss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, labels in loader:
    z = model(x.cuda())
    loss = criterion({"main": {"params": [z, labels.cuda()], "which": torch.tensor([1.0])}})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_criterion_that_a_number_picks_from_a_list_is_followed_with_the_arguments_of_another_list() -> None:
    assert (
        f"        {OFF}\n            prod = torch.mm(z.float(), z.float().t())\n"
        in migrate_text(DISTANCES, Settings()).after
    )


MOVING_SUMS = """\
import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(32, 8))
        self.register_buffer("sums", torch.zeros(32, 8))

    def forward(self, z):
        index = torch.cdist(z, self.weight).argmin(-1)
        chosen = nn.functional.one_hot(index, 32).float()
        {product}
        {update}
        return z + (self.weight[index] - z).detach()


model = nn.Sequential(nn.Linear(3, 8), Codebook()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, target in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "update",
    ["self.sums = 0.9 * self.sums + 0.1 * total", "self.sums.mul_(0.9).add_(total, alpha=0.1)"],
    ids=["assigned", "in place"],
)
def test_a_product_that_a_running_buffer_takes_is_computed_in_float32(update: str) -> None:
    plan = migrate_text(MOVING_SUMS.format(product="total = chosen.t() @ z", update=update), Settings())
    assert f"        {OFF}\n            total = chosen.t() @ z.float()\n        {update}\n" in plan.after
    assert any("a running buffer is updated from products" in each.message for each in plan.findings)


@pytest.mark.parametrize("product", ["total = (z * chosen.t()[:, :1]).sum(0)", "total = (chosen.t() @ z).mean(0)"])
def test_sums_in_float32_do_not_overflow_a_running_buffer(product: str) -> None:
    update = "self.sums = 0.9 * self.sums + 0.1 * total"
    plan = migrate_text(MOVING_SUMS.format(product=product, update=update), Settings())
    assert "autocast(" in plan.after
    assert not any("running buffer" in each.message for each in plan.findings)


QUOTIENTS = """\
import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(32, 8)
        self.sums = nn.Parameter(torch.randn(32, 8))
        self.register_buffer("sizes", torch.zeros(32))

    def forward(self, z):
        index = torch.cdist(z, self.codes.weight).argmin(-1)
        chosen = nn.functional.one_hot(index, 32).float()
        found = torch.matmul(chosen, self.codes.weight)
        self.sizes = 0.9 * self.sizes + 0.1 * chosen.sum(0)
        {product}
        {sums}
        {codes}
        return z + (found - z).detach()


model = nn.Sequential(nn.Linear(3, 8), Codebook()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, target in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SUMS = "self.sums = nn.Parameter(0.9 * self.sums + 0.1 * total)"
CODES = "self.codes.weight = nn.Parameter(self.sums / self.sizes.unsqueeze(1))"


@pytest.mark.parametrize("frozen", ["", ", requires_grad=False"])
def test_codes_that_are_divided_by_sizes_which_vanish_are_multiplied_in_float32(frozen: str) -> None:
    sums, codes = (each[:-1] + frozen + ")" for each in (SUMS, CODES))
    text = QUOTIENTS.format(product="total = torch.matmul(chosen.t(), z)", sums=sums, codes=codes)
    after = migrate_text(text, Settings()).after
    assert f"        {OFF}\n            found = torch.matmul(chosen, self.codes.weight)\n" in after
    assert f"        {OFF}\n            total = torch.matmul(chosen.t(), z.float())\n        {sums}\n" in after


@pytest.mark.parametrize(
    ("product", "sums", "codes"),
    [
        ("total = torch.matmul(chosen.t(), z)", "self.last = total.detach()", CODES),
        ("total = torch.matmul(chosen.t(), z)", "pass", "pass"),
        ("total = chosen.mean()", "self.sums = nn.Parameter(torch.randn(32, 8))", "pass"),
        ("total = chosen.mean()", "pass", "self.codes.weight = nn.Parameter(self.codes.weight.flip(0))"),
    ],
)
def test_a_parameter_that_no_product_runs_into_is_a_weight(product: str, sums: str, codes: str) -> None:
    plan = migrate_text(QUOTIENTS.format(product=product, sums=sums, codes=codes), Settings())
    assert [each.code for each in plan.findings] == ["AMP501"]
    assert OFF not in plan.after


BY_TYPE = """\
class Adversarial(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        if kind == "nsgan":
            self.criterion = nn.BCELoss()
        elif kind == "hinge":
            self.criterion = nn.ReLU()

    def forward(self, p, target):
        if self.kind == "hinge":
            return self.criterion(1 - p).mean()
        return self.criterion(p, target)


model = Net()"""


def test_a_criterion_that_a_setting_picks_is_one_that_takes_what_it_is_given() -> None:
    text = PROBABILITIES.replace("model = Net()", BY_TYPE).replace("COMPUTED", "criterion(out, target.cuda())")
    after = migrate_text(text.replace("MADE", "Adversarial(kind)"), Settings()).after
    assert f"        {OFF}\n            return self.criterion(p, target)\n" in after
    assert "            return self.criterion(1 - p).mean()\n" in after  # which BCELoss would refuse, whatever is on
    hidden = text.replace("nn.ReLU()", "nn.CosineEmbeddingLoss()").replace("1 - p)", "p, 1 - p)")
    assert migrate_text(hidden.replace("MADE", "Adversarial(kind)"), Settings()).after.count(OFF) == 2


WARP = """
import torch
import torch.nn.functional as F
from torch import nn


class Warp(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.fc = nn.Conv2d(3, 8, 3, stride=4), nn.Linear(8, 6)

    def forward(self, image, coords):
        theta = self.fc(self.features(image).mean((2, 3))).view(-1, 2, 3)
        grid = {grid}
        return F.grid_sample(image, grid, align_corners=True)


net = Warp().cuda()
optimizer = torch.optim.Adam(net.parameters())
for image, coords, target in loader:
    optimizer.zero_grad()
    loss = F.l1_loss(net(image.cuda(), coords.cuda()), target.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_a_sampling_grid_is_made_in_float32(dtype: Dtype) -> None:
    made = "F.affine_grid({}, list(image.shape), align_corners=True)"
    text = WARP.format(grid=made.format("theta"))
    plan = migrate_text(text, Settings(dtype=dtype))
    assert f"        {OFF}\n            grid = {made.format('theta.float()')}\n        return F.grid_" in plan.after
    (told,) = said(text, Settings(dtype=dtype))
    assert "kept in float32: " in told
    assert "a sampling grid is a product of matrices" in told


@pytest.mark.parametrize(
    ("grid", "is_told"),
    [
        ("(theta @ coords).transpose(1, 2).view(-1, 64, 64, 2)", True),
        ("coords.float() + self.features(image).permute(0, 2, 3, 1)[..., :2]", False),
    ],
)
def test_a_sampling_grid_that_is_low_otherwise_is_told(grid: str, is_told: bool) -> None:
    told = [each for each in said(WARP.format(grid=grid), Settings()) if "a sampling grid is rounded" in each]
    assert bool(told) is is_told


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_what_is_inverted_and_the_products_of_an_inverse_are_made_in_float32(dtype: Dtype) -> None:
    text = grams(
        "f = x.flatten(2)\ng = f[:, :, :8] @ f[:, :8, :].mT\ns = torch.linalg.inv(g + 1)\nb = s @ f\nreturn b.mean()"
    )
    after = migrate_text(text, Settings(dtype=dtype)).after
    assert f"    {OFF}\n        g = f[:, :, :8].float() @ f[:, :8, :].mT.float()\n" in after
    assert f"    {OFF}\n        b = s @ f.float()\n    return b.mean()\n" in after
    told = said(text, Settings(dtype=dtype))
    assert any("the inverse of a matrix" in each and each.startswith("kept in float32") for each in told)


CHECKED = "def checked(matrix):\n    assert len(matrix) == 3\n    return matrix\n\n\n"
CAMERAS = """
import torch
import torch.nn.functional as F
from torch import nn


def project(k, rotation, shift, k_inverse, points):
    turned = -(-k @ rotation)
    moved = (k @ shift).view(-1, 3, 1)
    rays = torch.matmul(k_inverse, points)
    return turned @ rays + moved


class Warp(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.mix = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(3, 3, bias=False)

    def forward(self, image, scale):
        k = torch.eye(3, device=image.device) * scale
        rotation, shift, points = torch.rand(3, 3).cuda(), torch.rand(3, 1).cuda(), torch.rand(3, 64).cuda()
        other = k @ points
        found = project(k, rotation, shift, torch.inverse(k), points)
        return self.features(image).mean() + (self.mix(found.T) @ other).mean()


net = Warp().cuda()
optimizer = torch.optim.Adam(net.parameters())
for image, target in loader:
    optimizer.zero_grad()
    loss = F.l1_loss(net(image.cuda(), torch.tensor(361.0).cuda()), target.cuda())
    loss.backward()
    optimizer.step()
"""


def test_all_products_of_a_chain_with_an_inverse_are_made_in_float32() -> None:
    after = migrate_text(CAMERAS, Settings()).after
    assert f"    {OFF}\n        turned = -(-k @ rotation)\n" in after
    assert "        rays = torch.matmul(k_inverse, points)\n        return turned" in after
    # What is only added is no factor, and what a layer has made of it is no projection any more.
    assert "    moved = (k @ shift).view(-1, 3, 1)\n" in after.partition(OFF)[2].partition(OFF)[0]
    assert after.count(OFF) == 2
    (told,) = {each.partition(" (")[0] for each in said(CAMERAS, Settings()) if "multiplied with" in each}
    assert told.endswith("a product that the inverse of a matrix is multiplied with")


def test_a_product_that_cannot_be_float32_is_told_beside_an_inverse_that_is() -> None:
    text = CAMERAS.replace("turned = -(-k @ rotation)", "turned = checked(k) @ rotation").replace(
        "def project", f"{CHECKED}def project"
    )
    told = [each for each in said(text, Settings()) if "multiplied with" in each]
    assert len(told) == 1
    assert not told[0].startswith("kept in float32")


def test_an_inverse_that_nothing_multiplies_needs_nothing() -> None:
    text = grams("s = torch.linalg.inv(x.float().flatten(2)[:, :8, :8])\nreturn s * 2 + s.mean()")
    assert OFF not in migrate_text(text, Settings()).after
    assert not said(text, Settings())


GAN = """\
import torch
from torch import nn
from apex import amp


class GANLoss(nn.Module):
    def __init__(self, use_lsgan):
        super().__init__()
        self.loss = nn.MSELoss() if use_lsgan else nn.BCELoss()

    def forward(self, pred, real):
        return self.loss(pred, torch.full_like(pred, real))


class Model(nn.Module):
    def __init__(self, opt):
        super().__init__()
        layers = [LAYERS]
        if opt.no_lsgan:
            layers.append(nn.Sigmoid())
        self.net = nn.Sequential(*layers)
        self.criterion = GANLoss(not opt.no_lsgan)

    def forward(self, x):
        return self.criterion(self.net(x), 1.0)


def main(opt, loader):
    model = Model(opt).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    if opt.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x in loader:
        loss = model(x.cuda())
        optimizer.zero_grad()
        if opt.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("layers", "is_kept"),
    [
        ("nn.Linear(3, 1)", True),
        ("nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)", True),
        ("nn.ReLU()", False),  # x may be float64, which `.float()` would round
    ],
)
def test_a_refused_loss_in_a_region_that_an_option_switches_on(layers: str, is_kept: bool) -> None:
    plan = migrate_text(GAN.replace("LAYERS", layers), Settings())
    kept = f"        {OFF}\n            return self.loss(pred.float(), torch.full_like(pred.float(), real))\n"
    assert (kept in plan.after) is is_kept
    assert ("scaler.step(optimizer)" in plan.after) is is_kept
    assert migrate_text(plan.after, Settings()).after == plan.after


def test_a_refused_loss_that_is_added_to_what_may_be_low() -> None:
    summed = "loss = 0\n        for each in pred:\n            loss += self.loss(each, real)\n        return loss\n"
    text = GAN.replace("LAYERS", "nn.Linear(3, 1)").replace(
        "return self.loss(pred, torch.full_like(pred, real))\n", summed
    )
    kept = "self.seen.append(self.net(x))\n        return self.criterion(self.seen, torch.ones(1).cuda())"
    text = text.replace("return self.criterion(self.net(x), 1.0)", kept)
    text = text.replace("        self.criterion =", "        self.seen = []\n        self.criterion =")
    text += text[text.index("    for x in loader") :]  # what one region has made low is there in the other
    after = migrate_text(text, Settings()).after
    assert f"            {OFF}\n                loss += self.loss(each.float(), real)\n        return loss\n" in after
    assert after.count("scaler.step(optimizer)") == 2


UNREAD_OUTPUT = """\
import torch
import torch.nn.functional as F
from torch import nn
from encoders import encode


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        out = encode(*[self.body(x)])
        p = torch.sigmoid(out.loc)
        return F.binary_cross_entropy(p.flatten(1), out.target.flatten(1)) / 2


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    loss = model(x.cuda())
    loss.backward()
    optimizer.step()
"""


def test_a_refused_loss_of_views_of_what_is_not_known_is_kept_in_float32() -> None:
    after = migrate_text(UNREAD_OUTPUT, Settings()).after
    kept = "F.binary_cross_entropy(p.flatten(1), out.target.float().flatten(1)) / 2"
    assert f"        {OFF}\n            return {kept}\n" in after


SUMMED = """\
import torch
from torch import nn


class Bound(nn.Module):
    def __init__(self, fit=nn.BCELoss(reduction="sum")):
        super().__init__()
        self.fit, self.prior = fit, Prior()

    def forward(self, p, y, mean):
        return {computed}


class Prior(nn.Module):
    def forward(self, mean):
        return mean.pow(2).sum()


net, bound = nn.Linear(4, 4).cuda(), Bound()
optimizer = torch.optim.Adam(net.parameters())
for x, y in loader:
    optimizer.zero_grad()
    found = net(x.cuda())
    loss = bound(torch.sigmoid(found), y.cuda(), found)
    loss.backward()
    optimizer.step()
"""
FIT = f"        {OFF}\n            fit_output = self.fit(p, y)\n"


@pytest.mark.parametrize(
    ("computed", "kept"),
    [
        ("self.fit(p, y) + self.prior(mean)", f"{FIT}        return fit_output + self.prior(mean)\n"),
        (
            "(2 * self.fit(p, y)).sum() + self.prior(mean)",
            f"{FIT}        return (2 * fit_output).sum() + self.prior(mean)\n",
        ),
        (
            "self.prior(-mean) - self.fit(p, y) + self.prior(mean)",
            "        prior_output = self.prior(-mean)\n"
            f"{FIT}"
            "        return prior_output - fit_output + self.prior(mean)\n",
        ),
        (
            "self.prior(mean) + self.fit(p, y)",  # what went before it goes on doing so
            f"        prior_output = self.prior(mean)\n        {OFF}\n"
            "            return prior_output + self.fit(p, y)\n",
        ),
    ],
)
def test_a_refused_loss_is_computed_before_what_was_computed_behind_it(computed: str, kept: str) -> None:
    after = migrate_text(SUMMED.format(computed=computed), Settings()).after
    assert kept in after


@pytest.mark.parametrize(
    "computed",
    [
        "self.prior(mean) if len(p) else self.fit(p, y) + self.prior(mean)",
        "print(p) or self.fit(p, y) + self.prior(mean)",
    ],
)
def test_a_refused_loss_that_would_be_computed_before_its_time_is_left(computed: str) -> None:
    text = SUMMED.format(computed=computed)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert any("autocast refuses it" in each.message for each in plan.findings)


@pytest.mark.parametrize(("name", "goes_before"), [("last", False), ("other", True)])
def test_no_call_goes_before_what_it_changes_is_read(name: str, goes_before: bool) -> None:
    """It stands behind the attribute, and would be computed before that is read."""
    text = SUMMED.format(computed="self.prior.last + self.prior(mean) - self.fit(p, y) + self.prior(-mean)")
    changing = f"        self.{name} = mean.detach().float().sum()\n        return mean.pow(2).sum()\n"
    text = text.replace("        return mean.pow(2).sum()\n", changing)
    plan = migrate_text(text, Settings())
    assert ("prior_output = self.prior(mean)\n" in plan.after) is goes_before


def test_what_only_asks_for_a_length_gets_no_cast() -> None:
    covariance = "def gram(x):\n    x = x.flatten(1)\n    return x.T @ x / (len(x) - 1)\n"
    after = migrate_text(HEAD + covariance + LOOP, Settings()).after
    assert f"    {OFF}\n        return x.T.float() @ x.float() / (len(x) - 1)\n" in after


def test_what_a_statement_before_has_computed_in_float32_is_cast_no_more() -> None:
    body = (
        "x = x.masked_fill(x < 1e-8, 1e-8)\nratio = x / x.masked_fill(x == 0, 1e-9)\n"
        "f = x.flatten(2)\nx = ratio\nreturn f + x.clamp(min=1e-9).log()"
    )
    plan = migrate_text(grams(body), Settings())
    assert (
        f"    {OFF}\n"
        "        x = x.float().masked_fill(x.float() < 1e-8, 1e-8)\n"
        "        ratio = x / x.masked_fill(x == 0, 1e-9)\n"
        "    f = x.flatten(2)\n"
    ) in plan.after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "f = torch.max(torch.tensor(1e-10).to(x.device), x).log()",
            "torch.max(torch.tensor(1e-10).to(x.device), x.float())",
        ),
        ("f = torch.where(x > 0, x, 1e-10).log10()", "torch.where(x.float() > 0, x.float(), 1e-10)"),
    ],
)
def test_a_limit_that_is_a_tensor_is_kept(before: str, after: str) -> None:
    plan = migrate_text(grams(f"{before}\nreturn f"), Settings())
    assert f"    {OFF}\n        f = {after}" in plan.after


def test_a_limit_that_is_stored_into_half_precision_is_told() -> None:
    plan = migrate_text(grams("x = x * 2\nx[x < 1e-10] = 1e-10\nreturn x.log()"), Settings())
    assert [each.line for each in plan.findings if ROUNDED_GUARD in each.message] == [17]
    assert OFF not in plan.after


LAYERS_NAMED_LIKE_VIEWS = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand, self.project = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 8, 1)

    def forward(self, x):
        return self.project(self.expand(x))


model = Block().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.load("batches.pt"):
    loss = model(x.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_layer_that_is_called_like_a_view_is_no_product_of_a_matrix_with_itself() -> None:
    assert "scaler.step(optimizer)" in migrate_text(LAYERS_NAMED_LIKE_VIEWS, Settings()).after
    assert said(LAYERS_NAMED_LIKE_VIEWS, Settings()) == []
