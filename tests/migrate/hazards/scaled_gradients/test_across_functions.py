"""Hazards that show only when several functions are read together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

HELPERS = """
    def norm_of(parameters):
        total = 0.0
        for p in parameters:
            if p.grad is not None:
                total += p.grad.detach().norm(2).item() ** 2
        return total ** 0.5

    def clip(model, most):
        nn.utils.clip_grad_norm_(model.parameters(), most)

    def clear(model):
        for p in model.parameters():
            p.grad = None

    def prepare(scaler, optimizer, model):
        scaler.unscale_(optimizer)
        clip(model, 1.0)
"""
LOOP = """
    def train(model, optimizer, scaler, loader):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            {line}
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    "line", ["print(norm_of(model.parameters()))  # AMP601", "clip(model, 1.0)  # AMP601", "wrapped(model)  # AMP601"]
)
def test_helpers_that_read_scaled_gradients_are_told_where_they_are_called(marked: Check, line: str) -> None:
    wrapped = "\n    def wrapped(model):\n        clip(model, 2.0)\n"
    found = marked(HELPERS + wrapped + LOOP.format(line=line))
    assert "scaler.unscale_(optimizer)" in found[0].hint


@pytest.mark.parametrize("line", ["prepare(scaler, optimizer, model)", "clear(model)", "pass"])
def test_helpers_that_unscale_or_only_clear_are_right(clean: Check, line: str) -> None:
    clean(HELPERS + LOOP.format(line=line))


def test_a_helper_that_is_called_behind_unscale_is_right(clean: Check) -> None:
    text = LOOP.format(line="scaler.unscale_(optimizer)\n            clip(model, 1.0)")
    clean(HELPERS + text)


def test_methods_that_clip_scaled_gradients_are_told(marked: Check) -> None:
    marked(
        """
        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.scaler = torch.amp.GradScaler("cuda")

            def limit(self):
                nn.utils.clip_grad_value_(self.model.parameters(), 1.0)

            def step(self, x):
                self.optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = self.model(x).mean()
                self.scaler.scale(loss).backward()
                self.limit()  # AMP601
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """
    )


def test_two_scalers_that_are_crossed_are_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader):
            first, second = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
            for x in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                first.scale(loss).backward()
                second.step(optimizer)  # AMP607
                second.update()
                first.update()
        """
    )


def test_a_backward_in_a_region_of_the_caller_is_told(marked: Check) -> None:
    found = marked(
        """
        def back(model, clips, scaler):
            for clip in clips:
                scaler.scale(model(clip).mean()).backward()  # AMP620

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for clips in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    back(model, clips, scaler)
                scaler.step(optimizer)
                scaler.update()
        """
    )
    assert "of line 14" in found[0].message


def test_a_backward_behind_the_region_of_the_caller_is_right(clean: Check) -> None:
    clean(
        """
        def back(loss, scaler):
            scaler.scale(loss).backward()

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                back(loss, scaler)
                scaler.step(optimizer)
                scaler.update()
        """
    )


ACCUMULATED = """
    def train(model, optimizer, scaler, loader, cfg):
        for i, (x, y) in enumerate(loader):
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss / 4).backward()
            {before}
            if {test}:
                scaler.unscale_(optimizer){mark}
                nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
            if (i + 1) % 4 == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
"""


def test_unscaling_under_a_setting_in_every_micro_batch_is_told(marked: Check) -> None:
    marked(ACCUMULATED.format(before="pass", test="cfg.clip", mark="  # AMP608"))


def test_unscaling_under_what_the_loop_decides_is_right(clean: Check) -> None:
    clean(ACCUMULATED.format(before="is_last = (i + 1) % 4 == 0", test="is_last", mark=""))
    clean(ACCUMULATED.format(before="cfg.count()", test="cfg.is_last", mark=""))


ANEW = """
    def run(model, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda"){mark}
        for x in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    def main(model, loader):
        {first}
        for _ in range(10):
            {then}
            run(model, optimizer, loader)
"""
MADE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"


def test_a_scaler_that_is_made_anew_every_epoch_is_told(marked: Check) -> None:
    marked(ANEW.format(mark="  # AMP614", first=MADE, then="pass"))


def test_a_scaler_that_is_made_with_its_optimizer_is_right(clean: Check) -> None:
    clean(ANEW.format(mark="", first="pass", then=MADE))


GATHERED = """
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    {before}
    for epoch in range(3):
        {epoch}
        for i, x in enumerate(loader):
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean() / 4
            scaler.scale(loss).backward()
            if (i + 1) % 4 == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
"""


def test_a_scaler_made_anew_while_gradients_wait_that_an_epoch_has_left_is_told(marked: Check) -> None:
    made = 'scaler = torch.amp.GradScaler("cuda")'
    marked(GATHERED.format(before="pass", epoch=f"{made}  # AMP614"))
    marked(GATHERED.format(before=made, epoch="pass"))
    marked(GATHERED.format(before="pass", epoch=f"{made}; optimizer = torch.optim.Adam(model.parameters())"))


FOLDS = """
    def build(model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def main(model, loader):
        {before}
        for fold in range(5):
            {fold}
            for epoch in range(10):
                {epoch}
                for x in loader:
                    optimizer.zero_grad()
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = model(x).mean()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
"""
SCALER = 'scaler = torch.amp.GradScaler("cuda")'
ANEW_HERE = f"{SCALER}  # AMP614"
ONE_OF_TWO = f"{MADE} if fold else torch.optim.Adam(model.parameters())"


@pytest.mark.parametrize(
    ("before", "fold", "epoch"),
    [
        (MADE, ANEW_HERE, "pass"),
        (MADE, "pass", ANEW_HERE),
        ("pass", MADE, ANEW_HERE),
        (ONE_OF_TWO, ANEW_HERE, "pass"),
    ],
)
def test_a_scaler_that_a_loop_makes_anew_for_an_optimizer_from_before_it(
    marked: Check, before: str, fold: str, epoch: str
) -> None:
    marked(FOLDS.format(before=before, fold=fold, epoch=epoch))


@pytest.mark.parametrize(
    ("before", "fold", "epoch"),
    [
        ("pass", f"{SCALER}; {MADE}", "pass"),
        ("pass", f"{SCALER}; optimizer = build(model)", "pass"),
        ("pass", "pass", f"{SCALER}; {MADE}"),
        ("pass", f"{ONE_OF_TWO}; {SCALER}", "pass"),
        ("scaler = None; " + MADE, f"if scaler is None: {SCALER}", "pass"),
    ],
)
def test_a_scaler_that_a_loop_makes_beside_its_optimizer_is_right(
    clean: Check, before: str, fold: str, epoch: str
) -> None:
    clean(FOLDS.format(before=before, fold=fold, epoch=epoch))


def test_a_scaler_made_anew_under_a_switch_is_told_though_gradients_are_cleared_behind_the_step(marked: Check) -> None:
    marked(
        """
        def train(model, loader, optimizer, mixed=True):
            optimizer.zero_grad()
            if mixed:
                scaler = torch.amp.GradScaler("cuda")  # AMP614
            for x, y in loader:
                if mixed:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = F.mse_loss(model(x), y)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss = F.mse_loss(model(x), y)
                    loss.backward()
                    optimizer.step()
                optimizer.zero_grad()

        model = nn.Linear(4, 1)
        optimizer = torch.optim.Adam(model.parameters())
        for epoch in range(10):
            train(model=model, loader=loader, optimizer=optimizer, mixed=True)
        """
    )


MANY = """
    def main(model, loader, kind, mixed):
        {makes}
        for epoch in range(10):
            {epoch}
            for x in loader:
                optimizer.zero_grad()
                if mixed:
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = model(x).mean()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    model(x).mean().backward()
                    optimizer.step()
"""
KINDS = ("SGD", "Adam", "AdamW", "Rprop", "Adadelta", "Adagrad")


def any_of_many(indent: str) -> str:
    lines = [f'if kind == "{each}": optimizer = torch.optim.{each}(model.parameters(), lr=0.1)' for each in KINDS]
    return f"\n{indent}".join(lines)


def test_a_scaler_that_is_made_anew_is_told_where_there_are_too_many_ways(marked: Check, clean: Check) -> None:
    marked(MANY.format(makes=any_of_many(8 * " "), epoch=f"if mixed: {ANEW_HERE}"))
    clean(MANY.format(makes="pass", epoch=f"{any_of_many(12 * ' ')}\n            {SCALER}"))


WRAPPED = """
    import averages

    class Trainer:
        def __init__(self, model, loader, kind, policy):
            self.model, self.loader, self.kind, self.policy = model, loader, kind, policy
            self.prepare()

        def prepare(self):
            params = self.model.parameters()
            if self.kind == "sgd":
                self.optimizer = torch.optim.SGD(params, lr=0.1)
            else:
                self.optimizer = torch.optim.Adam(params)
            if self.policy == "slow":
                self.optimizer = averages.Slow(self.optimizer)
            elif self.policy == "slower":
                self.optimizer = averages.Slower(self.optimizer)

        def _{private}train(self):
            scaler = torch.amp.GradScaler("cuda"){mark}
            for x in self.loader:
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = self.model(x).mean()
                scaler.scale(loss).backward()
                scaler.step(self.optimizer)
                scaler.update()
                self.optimizer.zero_grad()

        def train(self, chosen):
            for epoch in range(10):
                {before}
                {call}

    def main(model, loader, kind, policy, chosen):
        Trainer(model, loader, kind, policy).train(chosen)
"""


@pytest.mark.parametrize("private", ["", "_"])
def test_a_scaler_of_a_method_is_told_though_too_many_optimizers_may_have_stepped(marked: Check, private: str) -> None:
    call = f"self._{private}train()"
    marked(WRAPPED.format(private=private, mark="  # AMP614", before="pass", call=call))


@pytest.mark.parametrize(
    ("before", "call"),
    [("self.prepare()", "self._train()"), ("pass", "if epoch == chosen: self._train()")],
    ids=["with its optimizer", "once"],
)
def test_a_scaler_of_a_method_that_may_be_right_is_not_told_where_too_many_may_have_stepped(
    clean: Check, before: str, call: str
) -> None:
    clean(WRAPPED.format(private="", mark="", before=before, call=call))


def test_a_scaler_that_is_made_anew_need_not_be_saved(marked: Check) -> None:
    saved = 'torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")'
    marked(FOLDS.format(before=MADE, fold=saved, epoch=ANEW_HERE))
    marked(FOLDS.format(before=f"{MADE}; {SCALER}", fold=f"{saved}  # AMP611", epoch="pass"))


def test_an_optimizer_made_anew_gets_a_scaler_of_its_own(clean: Check) -> None:
    clean(
        """
        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()

        for fold in range(5):
            model = nn.Linear(4, 1)
            optimizer = torch.optim.Adam(model.parameters())
            train(model, optimizer, loader)
        """
    )


def test_a_plain_backward_beside_a_scaled_one_of_another_method_is_told(marked: Check) -> None:
    marked(
        """
        class Trainer:
            def __init__(self, model, penalty):
                self.model = model
                self.penalty = penalty
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = torch.amp.GradScaler("cuda")

            def learn(self, x, y):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.cross_entropy(self.model(x), y)
                self.scaler.scale(loss).backward()

            def train(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    self.learn(x, y)
                    extra = self.penalty(self.model)
                    extra.backward()  # AMP607
                    self.scaler.unscale_(self.optimizer)
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
        """
    )


UPDATED = """
    def finish(scaler):
        scaler.update()

    def main(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for epoch in range(10):
            for x in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                {step}
                {inside}
            {behind}
"""


def test_a_scaler_that_is_updated_behind_the_loop_alone(marked: Check) -> None:
    marked(UPDATED.format(step="scaler.step(optimizer)  # AMP603", inside="pass", behind="scaler.update()"))


@pytest.mark.parametrize(
    ("step", "inside", "behind"),
    [
        ("scaler.step(optimizer)", "finish(scaler)", "pass"),
        ("scaler.step(optimizer)", "break", "scaler.update()"),
        ("for each in [optimizer]:\n                    scaler.step(each)", "scaler.update()", "pass"),
    ],
)
def test_a_scaler_that_is_updated_between_two_steps_is_right(clean: Check, step: str, inside: str, behind: str) -> None:
    clean(UPDATED.format(step=step, inside=inside, behind=behind))


FOR_EACH = """
    def update(model, loss, scaler, optimizer, every, i):
        scaler.scale(loss / every).backward()
        if (i + 1) % every == 0:
            scaler.step(optimizer)  # AMP605
            scaler.update()
            optimizer.zero_grad()

    gen, dis = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
    opt_g, opt_d = torch.optim.Adam(gen.parameters()), torch.optim.Adam(dis.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(loader):
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss_g = -dis(gen(x)).mean()
        update(gen, loss_g, scaler, opt_g, 4, i)
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss_d = dis(gen(x).detach()).mean() - dis(x).mean()
        update(dis, loss_d, scaler, opt_d, 4, i)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        (", 4, i)", ", i=i, every=4)"),
        (", 4, i)", ", 4, i * 2)"),
        ("opt_d, 4, i)", "opt_d, 2, i)"),
        ("opt_d, 4, i)", "opt_d, 1, i)"),  # which updates while the other's add up
        ("opt_d, 4, i)", "opt_d, 4, i + 2)"),
        ("for i, x in enumerate(loader):", "i = 0\n    while True:\n        i += 1\n        x = next(loader)"),
    ],
)
def test_a_function_that_steps_for_each_network_in_turn(marked: Check, old: str, new: str) -> None:
    marked(FOR_EACH.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", 4, i)", ", 4, 3)"),
        ("        scaler.scale(loss", "        optimizer.zero_grad()\n        scaler.scale(loss"),
        ("update(gen, loss_g, scaler, opt_g, 4, i)", "pass"),
        ("opt_d, 4, i)", "opt_d, *given)"),
    ],
)
def test_gradients_that_do_not_add_up_over_an_update(clean: Check, old: str, new: str) -> None:
    clean(FOR_EACH.replace("  # AMP605", "").replace(old, new))


IN_THE_LAST = FOR_EACH.replace("every, i):", "every, i, last):").replace("opt_g, 4, i)", "opt_g, 4, i, False)")
IN_THE_LAST = IN_THE_LAST.replace(
    "            scaler.update()", "            if last:\n                scaler.update()"
)


def test_the_last_of_several_calls_alone_updates(clean: Check) -> None:
    clean(IN_THE_LAST.replace("  # AMP605", "").replace("opt_d, 4, i)", "opt_d, 4, i, True)"))


def test_the_last_of_several_calls_updates_behind_two_steps_of_one_optimizer(marked: Check) -> None:
    twice = IN_THE_LAST.replace("# AMP605", "# AMP608").replace("opt_d, 4, i)", "opt_g, 4, i, True)")
    marked(twice.replace("if (i + 1) % every == 0:", "if True:"))


RETURNING = """
    def train(model, optimizer, scaler, loader):
        kept = {{}}
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            {line}
            scaler.step(optimizer)
            scaler.update()
        return {given}
"""


@pytest.mark.parametrize("given", ["kept", "loss, kept['norm']", "[each for each in kept.values()]", "{'of': kept}"])
def test_a_norm_that_the_function_which_steps_gives_back_is_told(marked: Check, given: str) -> None:
    marked(HELPERS + RETURNING.format(line='kept["norm"] = norm_of(model.parameters())  # AMP601', given=given))


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ('kept["norm"] = norm_of(model.parameters())', "loss"),
        ('kept["norm"] = norm_of(model.parameters()) / scaler.get_scale()', "kept"),
        ('scaler.unscale_(optimizer)\n            kept["norm"] = norm_of(model.parameters())', "kept"),
        ('kept["norm"] = len([p.grad for p in model.parameters()])', "kept"),
    ],
)
def test_what_it_gives_back_without_a_scale_is_right(clean: Check, line: str, given: str) -> None:
    clean(HELPERS + RETURNING.format(line=line, given=given))
