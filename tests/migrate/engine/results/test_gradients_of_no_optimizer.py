"""Gradients that are clipped, and that no optimizer has: `unscale_` leaves them multiplied by the loss scale."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

HEAD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head({hidden})


model = Net().cuda()
{frozen}
optimizer = torch.optim.SGD({parameters}, lr=0.1)
"""
PLAIN = """\
for x, y in loader:
    model.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_({clipped}, 1.0)
    optimizer.step()
"""
NATIVE = """\
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    model.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = (model(x) - y).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_({clipped}, {limit})
    scaler.step(optimizer)
    scaler.update()
"""
_OF_HEAD = {"parameters": "model.head.parameters()", "clipped": "model.parameters()"}
_BOTH = '[{"params": model.head.parameters()}, {"params": model.body.parameters(), "lr": 0.2}]'


def _filled(text: str, **given: str) -> str:
    whole = {"hidden": "self.body(x)", "frozen": "", "limit": "1.0", **_OF_HEAD}
    return (HEAD + text).format(**{**whole, **given})


# The gradients of the body are true, or there are none.
_HARMLESS = [
    {"clipped": "model.head.parameters()"},
    {"parameters": "model.parameters()"},
    {"parameters": _BOTH},
    {"parameters": "filter(lambda p: p.requires_grad, model.parameters())"},
    {"hidden": "self.body(x).detach()"},
    {"frozen": "model.body.requires_grad_(False)"},
    {"frozen": "for p in model.body.parameters():\n    p.requires_grad = False"},
]


def test_step_that_clips_them_is_left() -> None:
    plan = migrate_text(_filled(PLAIN), Settings())
    assert not plan.changed
    (left,) = [each for each in plan.findings if each.kind is Kind.LEFT]
    assert left.message.startswith("left as it was: gradients of parameters that no optimizer has are clipped")


@pytest.mark.parametrize("given", _HARMLESS)
def test_step_that_clips_none_of_them_moves(given: dict[str, str]) -> None:
    assert "scaler.unscale_(optimizer)" in migrate_text(_filled(PLAIN, **given), Settings()).after


def test_clipping_them_behind_unscale_is_a_hazard() -> None:
    (told,) = [each for each in migrate_text(_filled(NATIVE), Settings()).findings if each.code == "AMP601"]
    assert "no optimizer has: unscale_() leaves them multiplied by the loss scale" in told.message


@pytest.mark.parametrize("given", _HARMLESS)
def test_clipping_none_of_them_is_no_hazard(given: dict[str, str]) -> None:
    findings = migrate_text(_filled(NATIVE, **given), Settings()).findings
    assert not [each for each in findings if each.code == "AMP601"]


_APEX = """\
from apex import amp
if args.fp16:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in loader:
    model.zero_grad()
    loss = (model(x) - y).square().mean()
    if args.fp16:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
{between}\
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    else:
{plain}\
        torch.nn.utils.clip_grad_norm_({clipped}, 1.0)
    optimizer.step()
"""
_BACKWARD = "        loss.backward()\n"
_TOGETHER = {"between": "", "plain": _BACKWARD}
_BEHIND = {"between": f"    else:\n{_BACKWARD}    if args.fp16:\n", "plain": ""}


@pytest.mark.parametrize("branches", [_TOGETHER, _BEHIND])
def test_branch_of_apex_that_clips_what_the_optimizer_has_stays_beside_the_other(branches: dict[str, str]) -> None:
    after = migrate_text(_filled(_APEX, **branches), Settings()).after
    own = '(p for group in optimizer.param_groups for p in group["params"])'
    assert "apex" not in after
    assert f"clip_grad_norm_({own}, 1.0)\n    else:\n" in after
    assert "clip_grad_norm_(model.parameters(), 1.0)" in after


@pytest.mark.parametrize("branches", [_TOGETHER, _BEHIND])
def test_branches_that_clip_the_same_are_one(branches: dict[str, str]) -> None:
    after = migrate_text(_filled(_APEX, parameters="model.parameters()", **branches), Settings()).after
    assert "apex" not in after
    assert "else:" not in after


_NAMED = '[{{"params": [p for n, p in model.named_parameters() if {}]}}]'
_PARTED = """[
    {{"params": [p for n, p in {0} if p.requires_grad and not any(word in n for word in ("bias", "norm"))], "lr": 0.2}},
    {{"params": [p for n, p in {0} if any(each in n for each in ("bias", "norm")) and p.requires_grad]}},
]"""
_BY_DIMENSIONS = """[
    {{"params": [p for p in model.parameters() if {}]}},
    {{"params": [p for p in model.parameters() if {}], "weight_decay": 0.0}},
]"""
# A part of the model, or what a test has chosen of it, with no other group for the rest.
_LESS = [
    '[{"params": model.head.parameters()}]',
    _NAMED.format("'head' in n"),
    '[{"params": [p for p in model.parameters() if p.dim() > 1]}]',
    "[p for p in model.parameters() if p.requires_grad == args.head]",
    _PARTED.format("names"),
    _BY_DIMENSIONS.format("p.dim() > 2", "p.dim() < 2"),
    _BY_DIMENSIONS.format("p.mean() > 2", "p.mean() < 3"),
    "added",
    "either",
]
_ALL = [
    "filter(lambda p: p.requires_grad, model.parameters())",
    "filter(lambda p: p.requires_grad == True, model.parameters())",
    "[p for p in model.parameters() if p.requires_grad is True]",
    _NAMED.format("p.requires_grad"),
    _PARTED.format("model.named_parameters()"),
    _PARTED.format("every"),
    _BY_DIMENSIONS.format("p.dim() >= 2", "p.dim() < 2"),
    _BY_DIMENSIONS.format("p.ndim > 1", "p.ndim < 2"),
    _BY_DIMENSIONS.format("p.ndim <= 1", "len(p.shape) > 1 or not p.ndim <= 1"),
]
_LISTS = """\
names = model.named_parameters()
every = list(model.named_parameters())
added = []
for name, p in model.named_parameters():
    if "head" in name:
        added.append(p)
either = model.parameters()
if args.head:
    either = model.head.parameters()
"""
_UNREAD = "from models import Net\nimport torch\n"


def _with(parameters: str, optimizer: str, text: str, *, is_read: bool) -> str:
    filled = _filled(text, parameters=parameters, frozen=_LISTS, **_TOGETHER).replace("torch.optim.SGD", optimizer)
    unread = filled if is_read else _UNREAD + filled[filled.index("model = Net()") :]
    return f"from optimizers import Lamb\n{unread}"


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("optimizer", ["torch.optim.SGD", "Lamb"])
@pytest.mark.parametrize("parameters", _LESS)
def test_branches_stay_where_the_optimizer_may_have_less_than_is_clipped(
    parameters: str, optimizer: str, is_read: bool
) -> None:
    plan = migrate_text(_with(parameters, optimizer, _APEX, is_read=is_read), Settings())
    assert "apex" not in plan.after
    assert 'clip_grad_norm_((p for group in optimizer.param_groups for p in group["params"]), 1.0)' in plan.after
    assert "clip_grad_norm_(model.parameters(), 1.0)" in plan.after
    assert "AMP504" not in {each.code for each in plan.findings}


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("optimizer", ["torch.optim.SGD", "Lamb"])
@pytest.mark.parametrize("parameters", _ALL)
def test_branches_are_one_where_the_groups_hold_all_that_is_clipped(
    parameters: str, optimizer: str, is_read: bool
) -> None:
    after = migrate_text(_with(parameters, optimizer, _APEX, is_read=is_read), Settings()).after
    assert "apex" not in after
    assert "param_groups" not in after


@pytest.mark.parametrize("parameters", ["model.head.parameters()", _NAMED.format("'head' in n")])
def test_step_of_an_unread_model_tells_of_clipping_what_its_optimizer_may_not_have(parameters: str) -> None:
    findings = migrate_text(_with(parameters, "torch.optim.SGD", PLAIN, is_read=False), Settings()).findings
    assert [each for each in findings if each.message.startswith("gradients are clipped of which an optimizer may")]


@pytest.mark.parametrize(
    "parameters", ["chosen", "filter(lambda p: id(p) not in known, model.parameters())", *_ALL, "groups(model)"]
)
def test_nothing_is_told_where_nothing_shows_that_the_optimizer_has_less(parameters: str) -> None:
    text = _with(parameters, "torch.optim.SGD", PLAIN, is_read=False)
    text = text.replace("names =", "chosen = [p for n, p in model.named_parameters() if 'head' in n]\nnames =", 1)
    clipped = "chosen" if parameters == "chosen" else "model.parameters()"
    findings = migrate_text(text.replace("norm_(model.parameters()", f"norm_({clipped}"), Settings()).findings
    assert not [each for each in findings if "gradients are clipped" in each.message]


@pytest.mark.parametrize("is_read", [True, False])
def test_step_that_clips_them_by_value_moves_untold_as_none_changes_another(is_read: bool) -> None:
    text = _with("model.head.parameters()", "torch.optim.SGD", PLAIN, is_read=is_read)
    plan = migrate_text(text.replace("clip_grad_norm_", "clip_grad_value_"), Settings())
    assert "scaler.unscale_(optimizer)" in plan.after
    assert not [each for each in plan.findings if "gradients are clipped" in each.message]


def test_clipping_them_by_value_behind_unscale_is_no_hazard() -> None:
    text = _filled(NATIVE).replace("clip_grad_norm_", "clip_grad_value_")
    assert "AMP601" not in {each.code for each in migrate_text(text, Settings()).findings}


_HOLDING_ITS_OPTIMIZER = """\
import torch
from optimizers import AdamW
from torch import nn


class Tagger(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.width = args["width"]
        self.encoder = args["kind"].from_pretrained(args["path"])
        self.head = nn.Linear(8, self.width)
        if self.width == 1:
            groups = [{{"params": self.parameters()}}]
        else:
            groups = [{{"params": {other}}}]
        self.optimizer = AdamW(groups, lr=0.001)

    def forward(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.head(self.encoder(x)[0]), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("other", "is_told"), [("self.module.parameters()", False), ("self.encoder.pooler.parameters()", True)]
)
def test_what_is_given_beside_the_whole_that_it_is_a_part_of_leaves_nothing_out(other: str, is_told: bool) -> None:
    findings = migrate_text(_HOLDING_ITS_OPTIMIZER.format(other=other), Settings()).findings
    assert any("of which an optimizer may have only some" in each.message for each in findings) == is_told
    assert [each for each in findings if each.code == "AMP501"]


_TENSOR_OF_ITS_OWN = """\
import torch
from optimizers import AdamW
from torch import nn


class Linker:
    def __init__(self):
        self.model = nn.Linear(8, 4).cuda()
        self.null = torch.zeros(4, requires_grad=True, device="cuda")
        self.parameters = [self.null, *self.model.parameters()]
        self.optimizer = AdamW([{{"params": {given}}}], lr=0.1)

    def run(self, batches):
        for x, y in batches:
            loss = nn.functional.cross_entropy(self.model(x.cuda()) + self.null, y.cuda())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


Linker().run(loader)
"""


@pytest.mark.parametrize(("given", "is_told"), [("self.parameters", False), ("self.model.parameters()", True)])
def test_a_tensor_that_an_unread_optimizer_is_given_is_unscaled_with_it(given: str, is_told: bool) -> None:
    plan = migrate_text(_TENSOR_OF_ITS_OWN.format(given=given), Settings())
    assert "scaler.unscale_(self.optimizer)" in plan.after
    assert any("gradients are clipped while they are scaled" in each.message for each in plan.findings) is is_told


_TRAINER = """\
import torch
from apex import amp
from models import Net


class Trainer:
    def __init__(self, args, model):
        self.args, self.model = args, model
        self.optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
        if args.fp16:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")

    def step(self, x, y):
        loss = (self.model(x) - y).square().mean()
        self.optimizer.zero_grad()
        if self.args.fp16:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
            torch.nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), 1.0)
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


trainer = Trainer(args, Net().cuda())
for x, y in loader:
    trainer.step(x, y)
"""


def test_nothing_is_told_of_the_branch_that_runs_without_a_scale() -> None:
    plan = migrate_text(_TRAINER, Settings())
    assert "self.optimizer.param_groups" in plan.after
    assert not [each for each in plan.findings if "gradients are clipped" in each.message]


@pytest.mark.parametrize("is_read", [True, False])
def test_branches_stay_where_one_of_two_optimizers_has_less(is_read: bool) -> None:
    made = "torch.optim.SGD(model.parameters(), lr=0.1)"
    choice = f"{made} if args.all else torch.optim.SGD(model.head.parameters(), lr=0.1)"
    text = _with("model.parameters()", "torch.optim.SGD", _APEX, is_read=is_read)
    after = migrate_text(text.replace(made, choice), Settings()).after
    assert "apex" not in after
    assert "for group in optimizer.param_groups" in after


_REPLACED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.head = nn.Linear(8, size){first}

    def forward(self, x):
        return self.head(self.body(x))


class Wide(Net):
    def __init__(self, size):
        super().__init__(size)
        self.size = size{between}
        self.head = nn.Linear(8, 2 * self.size)
{method}

def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


model = Wide(2).cuda()
train(model, {optimizer}, loader)
"""
_OF_ALL = "torch.optim.SGD(model.parameters(), lr=0.1)"
_PLAIN_REPLACED = {"first": "", "between": "", "method": "", "optimizer": _OF_ALL}


def test_layer_of_a_base_that_the_derived_constructor_replaces_is_in_nothing() -> None:
    after = migrate_text(_REPLACED.format(**_PLAIN_REPLACED), Settings()).after
    assert "scaler.unscale_(optimizer)" in after


@pytest.mark.parametrize(
    "given",
    [
        {
            "first": "\n        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)",
            "optimizer": "model.optimizer",
        },
        {
            "between": "\n        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)",
            "optimizer": "model.optimizer",
        },
    ],
)
def test_so_is_it_not_where_an_optimizer_got_it_before(given: dict[str, str]) -> None:
    plan = migrate_text(_REPLACED.format(**{**_PLAIN_REPLACED, **given}), Settings())
    assert [each for each in plan.findings if "that no optimizer has are clipped" in each.message]


def test_nor_where_the_constructor_of_the_base_may_run_again() -> None:
    method = "\n    def narrow(self):\n        super().__init__(1)\n"
    plan = migrate_text(_REPLACED.format(**{**_PLAIN_REPLACED, "method": method}), Settings())
    assert [each for each in plan.findings if "that no optimizer has are clipped" in each.message]
