"""Inference at a level that casts weights: regions stand round what Apex prepared, by whatever method, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

INFERS = """
import torch
from apex import amp

class Denoiser(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = torch.nn.Conv1d(1, 1, 9)

    def forward(self, audio):
        return self.filter(audio.float())

class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.ConvTranspose1d(80, 80, 8)

    def forward(self, mel):
        return self.up(mel)

    def infer(self, mel):
        return self.up(mel)

def main(path, mels, fp16):
    flow = torch.load(path)["flow"]
    flow.cuda().eval()
    if fp16:
        flow, _ = amp.initialize(flow, [], opt_level="LEVEL")
    denoiser = Denoiser().cuda()
    USE
    for mel in mels:
        mel = mel.half() if fp16 else mel
        with torch.no_grad():
            audio = flow.infer(mel)
            audio = denoiser(audio)
        save(audio)
"""
INFER, DENOISE = "audio = flow.infer(mel)", "audio = denoiser(audio)"


def in_regions(after: str) -> list[str]:
    """The statements of `no_grad` that stand in regions with `enabled=`."""
    lines = after.splitlines()
    found: list[str] = []
    for index, line in enumerate(lines):
        if "autocast(" in line:
            assert "enabled=bool(fp16)" in line
            depth = len(line) - len(line.lstrip())
            for each in lines[index + 1 :]:
                if len(each) - len(each.lstrip()) <= depth:
                    break
                found.append(each.strip())
    return found


@pytest.mark.parametrize(
    ("level", "use", "inside"),
    [
        ("O3", "pass", [INFER]),
        ("O2", "denoiser = denoiser.cuda().eval()", [INFER]),
        ("O3", "denoiser.eval()", [INFER]),
        ("O1", "pass", [INFER, DENOISE]),  # which patches the process
        ("O3", "prepare(denoiser)", [INFER, DENOISE]),  # whoever gets it may prepare it
        ("O3", "other = denoiser.cuda()", [INFER, DENOISE]),
        ("O3", "denoiser = load(path).cuda().eval()", [INFER, DENOISE]),
    ],
)
def test_regions_round_what_was_prepared(level: str, use: str, inside: list[str], migrate: Check) -> None:
    plan = migrate(INFERS.replace("LEVEL", level).replace("USE", use), head="")
    assert in_regions(plan.after) == inside
    told = [each.message for each in plan.findings if each.code == "AMP210"]
    assert not any("loss scale" in each for each in told)


def test_no_region_is_round_what_stands_between(migrate: Check) -> None:
    text = INFERS.replace("LEVEL", "O3").replace("USE", "pass")
    text = text.replace(DENOISE, f"clean = denoiser(audio)\n            {INFER}")
    found = in_regions(migrate(text, head="").after)
    assert found == [INFER, INFER]


def test_region_round_what_was_prepared_and_runs_in_the_same_statement(migrate: Check) -> None:
    text = INFERS.replace("LEVEL", "O3").replace("USE", "pass")
    text = text.replace(INFER, "pass").replace(DENOISE, "audio = denoiser(flow.infer(mel))")
    assert in_regions(migrate(text, head="").after) == ["audio = denoiser(flow.infer(mel))"]


def test_what_is_prepared_and_not_run_here_keeps_its_half_weights(migrate: Check) -> None:
    text = INFERS.replace("LEVEL", "O3").replace("USE", "pass").replace(INFER, "audio = run(flow, mel)")
    plan = migrate(text, head="")
    assert "from amp_shim import amp" in plan.after
    assert "autocast" not in plan.after


TRAINS = """
import argparse
import copy
import torch
from torch import nn
from apex import amp

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(16, width)

    @classmethod
    def restored(cls, path, **options):
        net = cls(**options)
        net.load_state_dict(torch.load(path))
        return net

    def forward(self, x):
        return self.fc(x)

def train(args, model):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="LEVEL")
    for x in torch.load("batches.pt"):
        loss = model(x.cuda()).pow(2).mean()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save(model.state_dict(), "model.pt")

def evaluate(args, model):
    with torch.no_grad():
        return model(torch.randn(8, 16).cuda()).argmax(-1)

def main(args):
    model = Net.restored("begin.pt", width=5).cuda()
    train(args, model)
    EVALUATE

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    main(parser.parse_args())
"""
EVALUATED = "return model(torch.randn(8, 16).cuda()).argmax(-1)"


@pytest.mark.parametrize(
    ("level", "evaluate", "is_low"),
    [
        ("O2", "evaluate(args, Net(5).cuda())", False),
        ("O3", "evaluate(args, nn.DataParallel(Net.restored('model.pt', width=5).cuda()))", False),
        ("O1", "evaluate(args, Net(5).cuda())", True),  # which patches the process
        ("O2", "evaluate(args, model)", True),
        ("O2", "evaluate(args, nn.DataParallel(model))", True),
        ("O2", "evaluate(args, copy.deepcopy(model))", True),
        ("O2", "evaluate(args, torch.load('whole.pt'))", True),
        ("O2", "evaluate(args, Net(5).cuda().half())", True),
        ("O2", "evaluate(args, model if args.fp16 else Net(5).cuda())", True),
    ],
)
def test_an_evaluation_of_a_model_that_is_made_anew(level: str, evaluate: str, is_low: bool, migrate: Check) -> None:
    after = migrate(TRAINS.replace("LEVEL", level).replace("EVALUATE", evaluate), head="").after
    assert "scaler.step(optimizer)" in after
    above = after.partition(EVALUATED)[0].splitlines()[-2]
    assert ("autocast(" in above) is is_low
