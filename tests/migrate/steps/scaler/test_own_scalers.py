"""A scaler for each optimizer, where one scale would change while gradients of another optimizer add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

NETWORKS = """encoder, judge = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
    optimizer = torch.optim.Adam(encoder.parameters())
    judge_optimizer = torch.optim.Adam(judge.parameters())"""
ROUND = """code = encoder(x)
        judged = nn.functional.cross_entropy(judge(code{detached}), y)
        judged.backward()
        judge_optimizer.step()
        judge_optimizer.zero_grad()
        loss = code.square().mean()
        loss.backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()"""
TRAIN = f"""
    {NETWORKS}
    for i, (x, y) in enumerate(loader):
        {ROUND.format(detached=".detach()")}
"""


def test_each_optimizer_has_a_scaler_that_only_its_step_updates(rewrites: Check) -> None:
    rewrites(
        """
          encoder, judge = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
          optimizer = torch.optim.Adam(encoder.parameters())
          judge_optimizer = torch.optim.Adam(judge.parameters())
        + judge_scaler = torch.amp.GradScaler("cuda")
        + scaler = torch.amp.GradScaler("cuda")
          for i, (x, y) in enumerate(loader):
        -     code = encoder(x)
        -     judged = nn.functional.cross_entropy(judge(code.detach()), y)
        -     judged.backward()
        -     judge_optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         code = encoder(x)
        +         judged = nn.functional.cross_entropy(judge(code.detach()), y)
        +     judge_scaler.scale(judged).backward()
        +     judge_scaler.step(judge_optimizer)
        +     judge_scaler.update()
              judge_optimizer.zero_grad()
        -     loss = code.square().mean()
        -     loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = code.square().mean()
        +     scaler.scale(loss).backward()
              if i % 4 == 3:
        -         nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        -         optimizer.step()
        +         scaler.unscale_(optimizer)
        +         nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        +         scaler.step(optimizer)
        +         scaler.update()
                  optimizer.zero_grad()
              if i % 100 == 0:
        -         torch.save({"optimizer": optimizer.state_dict(), "judge": judge_optimizer.state_dict()}, "last.pt")
        +         torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict(), "judge": judge_optimizer.state_dict(), "judge_scaler": judge_scaler.state_dict()}, "last.pt")
        """  # noqa: E501
    )


def test_bfloat16_needs_none(migrate: Check) -> None:
    assert "scaler" not in migrate(TRAIN, "bf16").after


def test_a_loss_that_reaches_the_gradients_of_both_is_left(leaves: Check) -> None:
    leaves(TRAIN.replace(".detach()", ""), "gradients of an older scale and of a newer one are added up")


def test_optimizers_whose_scalers_would_have_one_name_are_left(leaves: Check) -> None:
    text = TRAIN.replace("judge_optimizer", "optim")
    leaves(text, "gradients of an older scale and of a newer one are added up")


def test_gradients_that_are_clipped_together_while_some_add_up_are_left(leaves: Check) -> None:
    clipped = "nn.utils.clip_grad_norm_([*encoder.parameters(), *judge.parameters()], 1.0)"
    leaves(TRAIN.replace("if i % 4", f"{clipped}\n        if i % 4"), "")


MADE_ELSEWHERE = (
    "optimizer, judge_optimizer = lib.made(encoder, judge)",
    "optimizer = lib.made(encoder)\n    judge_optimizer = lib.made(judge)",
)


@pytest.mark.parametrize("made", MADE_ELSEWHERE)
@pytest.mark.parametrize("detached", [".detach()", ""])
def test_gradients_that_add_up_over_updates_are_left_whichever_loss_an_unknown_optimizer_has(
    leaves: Check, made: str, detached: str
) -> None:
    networks = f"import lib\n    {NETWORKS.splitlines()[0]}\n    {made}"
    text = TRAIN.replace(NETWORKS, networks).replace(".detach()", detached)
    leaves(text, "gradients of an older scale and of a newer one are added up")


@pytest.mark.parametrize("made", MADE_ELSEWHERE)
def test_unknown_optimizers_share_a_scaler_where_each_round_clears_what_an_update_would_leave(
    migrate: Check, made: str
) -> None:
    plan = migrate(f"""
    import lib
    {NETWORKS.splitlines()[0]}
    {made}
    for i, (x, y) in enumerate(loader):
        judged = nn.functional.cross_entropy(judge(x), y)
        judged.backward()
        judge_optimizer.step()
        judge_optimizer.zero_grad()
        if i % 4 == 3:
            loss = encoder(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert "        scaler.step(optimizer)\n        optimizer.zero_grad()\n    scaler.update()" in plan.after


def test_optimizers_that_one_function_saves_have_no_scaler_beside_them_there(migrate: Check) -> None:
    saved = 'def save(optimizer, path):\n        torch.save({"optimizer": optimizer.state_dict()}, path)\n'
    plan = migrate(f'{TRAIN}\n    {saved}\n    save(optimizer, "a.pt")\n    save(judge_optimizer, "b.pt")')
    assert "def save(optimizer, path):" in plan.after
    assert "judge_scaler.update()" in plan.after
    assert "AMP611" in {each.code for each in plan.findings}


def test_each_scaler_follows_its_own_optimizer_through_calls(migrate: Check) -> None:
    networks = NETWORKS.replace("\n    ", "\n")
    body = ROUND.format(detached=".detach()")
    text = f"""
def train(encoder, judge, optimizer, judge_optimizer):
    for i, (x, y) in enumerate(loader):
        {body}

def save(optimizer, path):
    torch.save({{"optimizer": optimizer.state_dict()}}, path)

{networks}
train(encoder, judge, optimizer, judge_optimizer)
save(judge_optimizer, "judge.pt")
"""
    after = migrate(text).after
    assert "def train(encoder, judge, optimizer, scaler, judge_optimizer, judge_scaler):" in after
    assert "train(encoder, judge, optimizer, scaler, judge_optimizer, judge_scaler)\n" in after
    assert 'save(judge_optimizer, judge_scaler, "judge.pt")' in after
    assert '{"optimizer": optimizer.state_dict(), "judge_scaler": judge_scaler.state_dict()}' in after


def test_objects_keep_each_scaler_beside_its_optimizer(migrate: Check) -> None:
    body = ROUND.format(detached=".detach()").replace("judge_optimizer", "self.judge_optimizer")
    body = body.replace("judge(", "self.judge(").replace(" encoder(", " self.encoder(")
    body = body.replace(" optimizer.", " self.optimizer.").replace("\n    ", "\n        ")
    text = f"""
class Trainer:
    def __init__(self):
        self.encoder, self.judge = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
        self.optimizer = torch.optim.Adam(self.encoder.parameters())
        self.judge_optimizer = torch.optim.Adam(self.judge.parameters())

    def train(self, loader):
        for i, (x, y) in enumerate(loader):
            {body}

    def load(self, path):
        state = torch.load(path)
        self.judge_optimizer.load_state_dict(state["judge"])
        self.optimizer.load_state_dict(state["optimizer"])

    def save(self, path):
        torch.save({{"judge": self.judge_optimizer.state_dict(), "optimizer": self.optimizer.state_dict()}}, path)

Trainer().train(loader)
"""
    after = migrate(text).after
    for each in ("scaler", "judge_scaler"):
        assert f'self.{each} = torch.amp.GradScaler("cuda")' in after
        assert f'"{each}": self.{each}.state_dict()' in after
        assert f'self.{each}.load_state_dict(state["{each}"])' in after


APEX = f"""
    from apex import amp
    {NETWORKS}
    [encoder, judge], [optimizer, judge_optimizer] = amp.initialize(
        [encoder, judge], [optimizer, judge_optimizer], opt_level="O1")
    for i, (x, y) in enumerate(loader):
        code = encoder(x)
        for _ in range(2):
            judged = nn.functional.cross_entropy(judge(code{{detached}}), y)
            with amp.scale_loss(judged, judge_optimizer) as scaled:
                scaled.backward()
            if i % 4 == 3:
                judge_optimizer.step()
                judge_optimizer.zero_grad()
        loss = code.square().mean()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        if i % 4 == 3:
            torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        {{behind}}
"""


def test_an_apex_script_has_a_scaler_for_each_optimizer(migrate: Check) -> None:
    after = migrate(APEX.format(detached=".detach()", behind="pass")).after
    assert "apex" not in after
    made = 'judge_scaler = torch.amp.GradScaler("cuda")\nscaler = torch.amp.GradScaler("cuda")\nfor '
    assert made in after
    assert after.count("judge_scaler.update()") == after.count(" scaler.update()") == 1
    assert "scaler.unscale_(optimizer)\n        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)" in after


@pytest.mark.parametrize(
    ("detached", "behind"),
    [("", "pass"), (".detach()", 'torch.save({"amp": amp.state_dict()}, "last.pt")')],
)
def test_an_apex_script_of_one_scale_stays_on_apex(migrate: Check, detached: str, behind: str) -> None:
    plan = migrate(APEX.format(detached=detached, behind=behind))
    assert "GradScaler" not in plan.after
    assert any("while gradients of optimizer add up for a later one" in each.message for each in plan.findings)
