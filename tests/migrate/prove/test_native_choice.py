"""A result may be the original where native AMP is chosen wherever Apex was, and nothing else in its place."""

from __future__ import annotations

import pytest

from .conftest import Check

HEAD = """
import torch
from torch.nn.parallel import DistributedDataParallel
from scalers import ApexScaler, NativeScaler
"""
BEFORE = (
    HEAD
    + """
from apex import amp
from apex.parallel import DistributedDataParallel as ApexDDP


def main(args, model, optimizer, loader):
    kind = None
    if args.apex:
        kind = "apex"
    elif args.native:
        kind = "native"
    context = None
    if kind == "apex":
        model, optimizer = amp.initialize(model, optimizer)
        scaler = ApexScaler()
        print("Apex")
    elif kind == "native":
        context = torch.autocast
        scaler = NativeScaler()
        print("native")
    else:
        print("float32")
    if args.many and kind == "apex":
        model = ApexDDP(model, delay_allreduce=True)
    elif args.many:
        model = DistributedDataParallel(model)
    assert not (args.script and kind == "apex")
    run(model, optimizer, scaler, loader, context, kind)
"""
)
AFTER = (
    HEAD
    + """

def main(args, model, optimizer, loader):
    kind = None
    if args.apex:
        kind = "apex"
    elif args.native:
        kind = "native"
    context = None
    if kind in ("apex", "native"):
        context = torch.autocast
        scaler = NativeScaler()
        print("native")
    else:
        print("float32")
    if args.many:
        model = DistributedDataParallel(model)
    run(model, optimizer, scaler, loader, context, kind)
"""
)
CHOSEN = """    if args.apex:
        kind = "apex"
    elif args.native:
        kind = "native"
"""
FLAGS = {
    CHOSEN: "",
    'kind == "apex"': "args.apex",
    'kind == "native"': "args.native",
    'kind in ("apex", "native")': "args.native or args.apex",
}


def asked_by_flags(text: str) -> str:
    for old, new in FLAGS.items():
        text = text.replace(old, new)
    return text


def test_the_native_branch_serves_both(wrong: Check) -> None:
    assert wrong(BEFORE, AFTER) == ""
    assert wrong(asked_by_flags(BEFORE), asked_by_flags(AFTER)) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('kind in ("apex", "native")', 'kind == "native"'),  # who asks for Apex gets float32
        ('kind in ("apex", "native")', 'kind in ("apex", "native", None)'),
        ('kind in ("apex", "native")', "kind"),
        ("NativeScaler()", "ApexScaler()"),
        ('        print("native")\n', ""),
        ('        print("float32")\n', "        pass\n"),
        ("DistributedDataParallel(model)", "DistributedDataParallel(model, process_group=group)"),
        ("    if args.many:", "    if True:"),
        ('        kind = "apex"', "        kind = None"),
        ("context, kind)", 'context, "native")'),
    ],
)
def test_what_is_neither_the_original_nor_that(old: str, new: str, wrong: Check) -> None:
    assert old in AFTER
    assert "another program" in wrong(BEFORE, AFTER.replace(old, new))


def test_a_branch_that_only_synchronizes_batch_norms_stays(wrong: Check) -> None:
    asked = '    if kind == "apex":\n        model = {}(model)\n'
    before = BEFORE.replace("import amp\n", "import amp\nfrom apex.parallel import convert_syncbn_model\n")
    before += asked.format("convert_syncbn_model")
    assert wrong(before, AFTER + asked.format("torch.nn.SyncBatchNorm.convert_sync_batchnorm")) == ""
    assert "another program" in wrong(before, AFTER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("amp.initialize(model, optimizer)", "prepare(model, optimizer)"),  # nothing here is Apex's
        ("torch.autocast", "make_context"),  # nothing here is native
        ('kind == "native"', 'args.kind == "native"'),  # they ask for different things
    ],
)
def test_where_the_original_does_not_choose_between_the_two(old: str, new: str, wrong: Check) -> None:
    assert "another program" in wrong(BEFORE.replace(old, new), AFTER.replace(old, new))


@pytest.mark.parametrize(
    ("saved", "left"),
    [
        ('amp.state_dict() if kind == "apex" else None', "None"),
        ('None if kind != "apex" else amp.state_dict()', "None"),
        ('[amp.state_dict() if kind == "apex" else kind]', "[kind]"),
    ],
)
def test_the_side_of_an_expression_that_apex_takes_is_never_taken(saved: str, left: str, wrong: Check) -> None:
    save = "    torch.save({'model': model, 'amp': STATE}, path)\n"
    assert wrong(BEFORE + save.replace("STATE", saved), AFTER + save.replace("STATE", left)) == ""
    assert "another program" in wrong(BEFORE + save.replace("STATE", saved), AFTER + save.replace("STATE", "1"))


@pytest.mark.parametrize(
    "line",
    [
        "    if args.other:\n        args.scaler = torch.amp.GradScaler('cuda')\n",
        "    args.scaler = torch.amp.GradScaler('cuda') if args.other else None\n",
        "    if args.native:\n        pass\n    else:\n        args.scaler = torch.amp.GradScaler('cuda')\n",
    ],
)
def test_native_amp_that_another_condition_sets_up(line: str, wrong: Check) -> None:
    assert "another program" in wrong(BEFORE + line, AFTER + line)
    always = "    args.scaler = torch.amp.GradScaler('cuda')\n"
    assert wrong(BEFORE + always, AFTER + always) == ""


@pytest.mark.parametrize(
    ("complaint", "is_ruled_out"),
    [
        ('raise ValueError("other, and Apex")', True),
        ('print("other, and Apex")', False),
        ("try:\n                raise ValueError()\n            except ValueError:\n                pass", False),
    ],
)
def test_what_raises_with_apex_is_ruled_out_where_that_is_chosen(
    complaint: str, is_ruled_out: bool, wrong: Check
) -> None:
    other = "    if args.other:\n        LINES\n    else:\n        args.scaler = torch.amp.GradScaler('cuda')\n"
    before = other.replace("LINES", f'if kind == "apex":\n            {complaint}')
    assert (wrong(BEFORE + before, AFTER + other.replace("LINES", "pass")) == "") is is_ruled_out
    alone = other.replace("LINES", complaint.replace("\n    ", "\n"))
    assert "another program" in wrong(BEFORE + alone, AFTER + alone)


def test_a_region_that_is_switched_off_asks_for_nothing(wrong: Check) -> None:
    float32 = "    if args.stage == 1:\n        with torch.autocast('cuda', enabled=False):\n            tell(loader)\n"
    assert wrong(BEFORE + float32, AFTER + float32) == ""
    half = float32.replace("enabled=False", "enabled=True")
    assert "another program" in wrong(BEFORE + half, AFTER + half)
    for said in ("torch.autocast('cuda', torch.float16, False)", "torch.cuda.amp.autocast(False)"):
        by_place = float32.replace("torch.autocast('cuda', enabled=False)", said)
        assert wrong(BEFORE + by_place, AFTER + by_place) == ""
        assert "another program" in wrong(BEFORE + by_place.replace("False", "True"), AFTER + by_place)


def test_a_flag_of_another_function_is_another_flag(wrong: Check) -> None:
    other = '\n\ndef tell(kind):\n    if kind == "apex":\n        print("Apex")\n'
    assert wrong(BEFORE + other, AFTER + other) == ""
    assert "another program" in wrong(BEFORE + other, AFTER)


def test_questions_in_many_forms(wrong: Check) -> None:
    asked = """
    a = kind != "apex"
    b = kind in ("apex", "native")
    c = kind not in ("native", "other")
    d = 1 if kind == "apex" else 2
    e = [kind == "native" for _ in loader]
    tell(a, b, c, d, e, kind == "other")
"""
    answered = """
    a = True
    b = kind in ("apex", "native")
    c = kind not in ("native", "other", "apex")
    d = 2
    e = [kind in ("apex", "native") for _ in loader]
    tell(a, b, c, d, e, kind == "other")
"""
    assert wrong(BEFORE + asked, AFTER + answered) == ""
    assert "another program" in wrong(BEFORE + asked, AFTER + asked)


NEVER = """
import torch
from apex import amp
def train(args, model, optimizer, loader):
    use_apex = False
    scaler = None
    if args.backend == "amp":
        scaler = torch.amp.GradScaler("cuda")
    else:
        check(args)
        use_apex = True
    if use_apex:
        model, optimizer = amp.initialize(model, optimizer)
    for x in loader:
        loss = model(x).sum()
        if use_apex:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
ALWAYS = """
import torch
def train(args, model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_a_flag_that_is_set_beside_native_amp_is_never_set(wrong: Check) -> None:
    assert wrong(NEVER, ALWAYS) == ""
    assert "another program" in wrong(
        NEVER, ALWAYS.replace("optimizer, loader):\n", "optimizer, loader):\n    check(args)\n")
    )
    given = NEVER.replace(
        "    if use_apex:\n        model", "    use_apex = use_apex or args.old\n    if use_apex:\n        model"
    )
    assert "another program" in wrong(given, ALWAYS)


INSTALLED = """
import torch
try:
    from apex import amp
    KIND = "apex"
except ImportError:
    print("no Apex")
    from torch.cuda import amp
    KIND = "torch"
def main(model, optimizer, loader):
    if KIND == "apex":
        model, optimizer = amp.initialize(model, optimizer)
    else:
        scaler = amp.GradScaler()
    run(model, optimizer, loader)
"""
FALLEN_BACK = """
import torch
from torch import amp
KIND = "torch"
def main(model, optimizer, loader):
    scaler = amp.GradScaler("cuda")
    run(model, optimizer, loader)
"""


def test_what_runs_where_the_import_of_apex_fails(wrong: Check) -> None:
    assert wrong(INSTALLED, FALLEN_BACK) == ""
    flag = {'KIND = "apex"': "FOUND = 1", 'KIND = "torch"': "FOUND = 0", 'if KIND == "apex"': "if FOUND"}
    texts = [INSTALLED, FALLEN_BACK]
    for old, new in flag.items():
        texts = [each.replace(old, new) for each in texts]
    assert wrong(*texts) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    from apex import amp\n", "    from apex import amp\n    import horovod\n"),
        ("    from torch.cuda import amp\n", "    from torch.cuda import amp\n    tell()\n    raise\n"),
        ('    KIND = "apex"\n', '    KIND = "apex"\n    LEVEL = choose()\n'),
    ],
)
def test_a_guard_that_does_more_has_not_fallen_back(old: str, new: str, wrong: Check) -> None:
    assert wrong(INSTALLED.replace(old, new), FALLEN_BACK) != ""


NONE = """
import torch
try:
    from apex import amp
except ImportError:
    amp = None
def main(model, optimizer, loader):
    if amp is None:
        scaler = torch.amp.GradScaler("cuda")
    else:
        model, optimizer = amp.initialize(model, optimizer)
    run(model, optimizer, loader)
"""
NOT_ASKED = """
import torch
def main(model, optimizer, loader):
    scaler = torch.amp.GradScaler("cuda")
    run(model, optimizer, loader)
"""


def test_apex_that_is_none(wrong: Check) -> None:
    told = NONE.replace("    else:", "        tell()\n    else:\n        say()")
    after = NOT_ASKED.replace("    run", "    tell()\n    run")
    for asked in ("amp is None", "amp == None", "not amp", "not (amp is not None)"):
        assert wrong(told.replace("amp is None", asked), after) == ""
        assert "another program" in wrong(told.replace("amp is None", asked), NOT_ASKED)
    assert "another program" in wrong(told.replace("    amp = None", "    amp = make()"), after)
    assert "another program" in wrong(told.replace("amp is None", "amp is other"), after)
