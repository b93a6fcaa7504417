"""What happens in each round of a loop, be it in functions that it calls, and what only in some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

MADE = "[torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)]"
SEVERAL = """
    def finish(scaler, optimizer):
        scaler.step(optimizer)
        scaler.update()

    def train(a, b, loader, many):
        optimizers = {made}
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            for each in optimizers:
                each.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = b(a(x)).mean()
            scaler.scale(loss).backward()
            for each in optimizers:
                scaler.step(each){mark}
                {inside}
            {behind}
"""


@pytest.mark.parametrize("made", [MADE, "many", "[torch.optim.SGD(each.parameters(), lr=0.1) for each in (a, b)]"])
def test_a_scale_that_is_updated_from_one_optimizer_to_the_next_is_told(marked: Check, made: str) -> None:
    marked(SEVERAL.format(made=made, mark="  # AMP605", inside="scaler.update()", behind="pass"))


def test_a_scale_that_is_updated_behind_all_optimizers_or_the_only_one_is_right(clean: Check) -> None:
    clean(SEVERAL.format(made=MADE, mark="", inside="pass", behind="scaler.update()"))
    only = "[torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)]"
    clean(SEVERAL.format(made=only, mark="", inside="scaler.update()", behind="pass"))


WRAPPED = """
    class Stepper:
        def __init__(self, model):
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def zero_grad(self):
            self.optimizer.zero_grad()

        def step(self, scaler):
            scaler.step(self.optimizer){mark}
            {inside}

    def train(a, b, loader):
        steppers = {made}
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            for each in steppers:
                each.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = b(a(x)).mean()
            scaler.scale(loss).backward()
            for each in steppers:
                each.step(scaler)
            {behind}
"""


def test_a_wrapper_that_steps_and_updates_is_told_where_a_loop_has_several(marked: Check, clean: Check) -> None:
    made = "[Stepper(a), Stepper(b)]"
    marked(WRAPPED.format(made=made, mark="  # AMP605", inside="scaler.update()", behind="pass"))
    clean(WRAPPED.format(made=made, mark="", inside="pass", behind="scaler.update()"))


def test_so_is_one_that_each_of_several_models_has(marked: Check, clean: Check) -> None:
    text = """
    class Part:
        def __init__(self, model):
            self.stepper = Stepper(model)
"""
    text += WRAPPED.replace("each.zero_grad", "each.stepper.zero_grad").replace("each.step(", "each.stepper.step(")
    for made in ("[Part(a), Part(b)]", "{'a': Part(a), 'b': Part(b)}.values()"):
        marked(text.format(made=made, mark="  # AMP605", inside="scaler.update()", behind="pass"))
        clean(text.format(made=made, mark="", inside="pass", behind="scaler.update()"))


def test_a_wrapper_of_the_only_optimizer_may_update(clean: Check) -> None:
    made = "[Stepper(nn.Sequential(a, b))]"
    clean(WRAPPED.format(made=made, mark="", inside="scaler.update()", behind="pass"))


UNSCALED = """
    def train(model, optimizer, scaler, loader):
        for x in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            {before}
            scaler.step(optimizer){mark}
            {behind}
"""


def test_gradients_that_are_divided_before_an_update_and_behind_it_are_told(marked: Check, clean: Check) -> None:
    marked(UNSCALED.format(before="scaler.update()", mark="  # AMP605", behind="scaler.update()"))
    clean(UNSCALED.format(before="pass", mark="", behind="scaler.update()"))


OWN_LOSSES = """
    def train(a, b, loader):
        optimizers = {optimizers}
        scalers = {scalers}
        for x in loader:
            for model, optimizer, scaler in zip((a, b), optimizers, scalers):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                {rest}
"""
STEPS = "scaler.step(optimizer)\n                scaler.update()"
BEHIND = (
    "pass\n            for optimizer, scaler in zip(optimizers, scalers):"
    "\n                scaler.step(optimizer)\n                scaler.update()"
)


@pytest.mark.parametrize("scalers", ["[torch.amp.GradScaler()] * 2", "[torch.amp.GradScaler() for _ in optimizers]"])
def test_a_loss_or_a_scaler_of_its_own_for_each_optimizer_is_right(clean: Check, scalers: str) -> None:
    clean(OWN_LOSSES.format(optimizers=MADE, scalers=scalers, rest=STEPS))


@pytest.mark.parametrize(
    "scalers", ["[torch.amp.GradScaler(), torch.amp.GradScaler()]", "[torch.amp.GradScaler() for _ in optimizers]"]
)
def test_scalers_that_each_step_one_optimizer_behind_all_losses_are_right(clean: Check, scalers: str) -> None:
    clean(OWN_LOSSES.format(optimizers=MADE, scalers=scalers, rest=BEHIND))


TRAINER = """
    class Trainer:
        def __init__(self, generator, critic):
            self.generator, self.critic = generator, critic
            self.of_generator = torch.optim.Adam(generator.parameters())
            self.of_critic = torch.optim.Adam(critic.parameters())
            self.scaler = torch.amp.GradScaler("cuda")
            self.round = 0

        def finish(self, optimizer):
            self.scaler.step(optimizer){mark}
            self.scaler.update()

        def critic_loss(self, x):
            if self.round % 5 == 0:
                self.of_critic.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.critic(x).mean()
                self.scaler.scale(loss).backward()

        def critic_step(self):
            if self.round % 5 == 0:
                self.scaler.step(self.of_critic)

        def fit(self, loader):
            for x in loader:
                {critic}
                self.of_generator.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.critic(self.generator(x)).mean()
                self.scaler.scale(loss).backward()
                {rest}
                self.round += 1
"""
BOTH = "for each in (self.of_generator, self.of_critic):\n                    self.finish(each)"


def test_a_method_that_steps_and_updates_is_told_where_a_loop_calls_it_for_each_optimizer(marked: Check) -> None:
    marked(TRAINER.format(mark="  # AMP605", critic="self.of_critic.zero_grad()", rest=BOTH))


def test_what_one_test_decides_about_in_two_methods_is_right(clean: Check) -> None:
    """As far as both methods are seen by themselves, one goes backward in a round, and the other steps in the next."""
    critic = "self.critic_loss(x)\n                self.critic_step()"
    clean(TRAINER.format(mark="", critic=critic, rest="self.finish(self.of_generator)"))


ACCUMULATED = """
    def back(loss, optimizer, scaler, model, is_last=False):
        scaler.scale(loss).backward()
        {inside}

    def prepare(optimizer, scaler, model):
        scaler.unscale_(optimizer){other}
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    def train(model, loader, n):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y) / n
            back(loss, optimizer, scaler, model, {is_last})
            {call}
            if {test}:
                {first}
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
"""
NTH = "(i + 1) % n == 0"


@pytest.mark.parametrize("test", [NTH, "i in n.ends"])
def test_a_function_that_unscales_in_each_micro_batch_is_told(marked: Check, test: str) -> None:
    parts = {"is_last": "False", "test": test, "first": "pass"}
    marked(ACCUMULATED.format(inside="scaler.unscale_(optimizer)  # AMP608", other="", call="pass", **parts))
    marked(ACCUMULATED.format(inside="pass", other="  # AMP608", call="prepare(optimizer, scaler, model)", **parts))


@pytest.mark.parametrize(
    ("inside", "is_last", "first"),
    [
        ("pass", "False", "prepare(optimizer, scaler, model)"),
        ("if is_last: scaler.unscale_(optimizer)", NTH, "pass"),
        ("if is_last: prepare(optimizer, scaler, model)", NTH, "pass"),
    ],
)
def test_a_function_that_unscales_in_the_last_micro_batch_is_right(
    clean: Check, inside: str, is_last: str, first: str
) -> None:
    clean(ACCUMULATED.format(inside=inside, other="", is_last=is_last, call="pass", test=NTH, first=first))


METHODS = """
    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            self.scaler = torch.amp.GradScaler("cuda")

        def backward(self, loss):
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer){mark}

        def step(self):
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()

        def fit(self, loader, n):
            for i, x in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = self.model(x).mean() / n
                self.backward(loss)
                {step}
"""


def test_methods_of_which_one_unscales_always_and_another_steps_sometimes(marked: Check, clean: Check) -> None:
    marked(METHODS.format(mark="  # AMP608", step="if i % n == n - 1:\n                    self.step()"))
    clean(METHODS.format(mark="", step="self.step()"))


ENGINE = """
    class Engine:
        def __init__(self, model):
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            self.scaler = torch.amp.GradScaler("cuda")
            self.count = 0

        def backward(self, loss):
            self.scaler.scale(loss / 4).backward()
            self.count += 1

        def step(self):
            if self.count % 4 == 0:
                self.scaler.step(self.optimizer){mark}
                {update}
                self.optimizer.zero_grad()

    def train(model, loader):
        engine = Engine(model)
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            engine.backward(loss)
            engine.step()
"""


def test_a_method_that_a_loop_calls_steps_and_nobody_updates(marked: Check, clean: Check) -> None:
    marked(ENGINE.format(mark="  # AMP603", update="pass"))
    clean(ENGINE.format(mark="", update="self.scaler.update()"))


STEPPED = """
    class Rest:
        def __init__(self, model):
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def finish(self):
            {inside}
            self.optimizer.zero_grad()

    def train(model, loader, finish, optimizer, amp):
        scaler = torch.amp.GradScaler("cuda"{enabled})
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            {backward}
            {before}
            finish()

    def main(loader, amp):
        model = nn.Linear(4, 1)
        rest = Rest(model)
        train(model, loader, rest.finish, rest.optimizer, amp)
"""
SCALED = "scaler.scale(loss).backward()"
SCALERS = "scaler.step(optimizer); scaler.update()"


def test_a_step_past_the_scaler_in_a_method_that_is_handed_on(marked: Check) -> None:
    marked(STEPPED.format(inside="self.optimizer.step()  # AMP606", enabled="", backward=SCALED, before="pass"))


@pytest.mark.parametrize(
    ("inside", "enabled", "backward", "before"),
    [
        ("pass", "", SCALED, SCALERS),
        ("self.optimizer.step()", "", "loss.backward()  # AMP629", "pass"),
        # Where the scaler is off, its scale is one.
        ("self.optimizer.step()", ", enabled=amp", SCALED, "pass"),
        ("self.optimizer.step()", "", f"if amp: {SCALED}\n            else: loss.backward()", "pass"),
    ],
)
def test_a_step_of_true_gradients_in_a_method_that_is_handed_on_is_not_past_the_scaler(
    marked: Check, inside: str, enabled: str, backward: str, before: str
) -> None:
    marked(STEPPED.format(inside=inside, enabled=enabled, backward=backward, before=before))


MANAGED = """
    from contextlib import contextmanager

    @contextmanager
    def stepping(optimizer, scaler, amp):
        optimizer.zero_grad()
        yield
        {step}

    def train(model, loader, amp):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with stepping(optimizer, scaler, amp):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                {backward}
"""


def test_a_context_manager_steps_past_the_scaler_that_it_updates(marked: Check, clean: Check) -> None:
    marked(MANAGED.format(step="optimizer.step()  # AMP606\n        scaler.update()", backward=SCALED))
    clean(MANAGED.format(step="scaler.step(optimizer)\n        scaler.update()", backward=SCALED))
    chosen = "if amp: scaler.step(optimizer); scaler.update()\n        else: optimizer.step()"
    clean(MANAGED.format(step=chosen, backward=f"if amp: {SCALED}\n                else: loss.backward()"))


SKIPPING = """
    class Trainer:
        def __init__(self, model, clip, every):
            self.model, self.clip, self.every = model, clip, every
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            self.scaler = torch.amp.GradScaler("cuda")

        def prepare(self):
            self.scaler.unscale_(self.optimizer){mark}
            return nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)

        def finish(self, norm):
            {skip}
            self.scaler.step(self.optimizer)
            self.scaler.update()

        def step(self, i, x):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            if (i + 1) % self.every == 0:
                norm = self.prepare()
                {finish}
                self.optimizer.zero_grad()

        def run(self, loader):
            for i, x in enumerate(loader):
                self.step(i, x)

    Trainer(nn.Linear(4, 1).cuda(), 1.0, 4).run(loader)
"""
CALL = "self.finish(norm)"


@pytest.mark.parametrize(
    ("skip", "finish", "hint"),
    [
        ("if norm > 100: return", CALL, "write self.scaler.update() before that return"),
        ("pass", "if math.isfinite(norm): self.finish(norm)", "write self.scaler.update() where that test fails, too"),
        ("pass", "if norm > 100: print(norm)\n                else: self.finish(norm)", "where that test fails, too"),
    ],
)
def test_an_update_that_a_test_behind_unscaling_skips_is_told(marked: Check, skip: str, finish: str, hint: str) -> None:
    (found,) = marked(SKIPPING.format(mark="  # AMP608", skip=skip, finish=finish))
    assert found.hint is not None
    assert hint in found.hint


@pytest.mark.parametrize(
    ("skip", "finish"),
    [
        ("if norm > 100: return self.scaler.update()", CALL),
        ("if norm > 100: raise ValueError(norm)", CALL),
        ("if norm > 100: print(norm)", CALL),
        ("pass", "if math.isfinite(norm): self.finish(norm)\n                else: self.scaler.update()"),
        ("pass", "if self.clip: self.finish(norm)"),  # which it does in each round, or in none
        ("pass", f"{CALL}\n                if norm > 100: return"),
    ],
)
def test_an_update_that_comes_all_the_same_is_right(clean: Check, skip: str, finish: str) -> None:
    clean(SKIPPING.format(mark="", skip=skip, finish=finish))


SWITCHED = """
    def train(model, loader, amp):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", enabled=amp)
        for x in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer){mark}
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if {test}:
                continue
            scaler.step(optimizer)
            scaler.update()
"""


def test_a_skipped_update_of_a_scaler_that_a_flag_switches_on_is_told(marked: Check, clean: Check) -> None:
    marked(SWITCHED.format(mark="  # AMP608", test="not torch.isfinite(norm)"))
    for is_off in ("not amp", "not scaler.is_enabled()"):
        clean(SWITCHED.format(mark="", test=f"{is_off} and not torch.isfinite(norm)"))


EPOCHS = """
    def train(model, optimizer, scaler, loader):
        for x in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer){mark}
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if norm > 100:
                {end}
            scaler.step(optimizer)
            scaler.update()

    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    {call}
"""
ONCE, AGAIN = "train(model, optimizer, scaler, loader)", "while True: train(model, optimizer, scaler, loader)"


@pytest.mark.parametrize("end", ["break", "return norm"])
def test_a_loop_that_ends_without_an_update_and_comes_again_is_told(marked: Check, clean: Check, end: str) -> None:
    (found,) = marked(EPOCHS.format(mark="  # AMP608", end=end, call=AGAIN))
    assert found.hint == f"write scaler.update() before that {end.split()[0]}"
    clean(EPOCHS.format(mark="", end=end, call=ONCE))
    clean(EPOCHS.format(mark="", end=f"scaler.update(); {end}", call=AGAIN))


FINISHING = """
    def finish(scaler, optimizer):
        scaler.step(optimizer)
        {inside}

    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        finish(scaler, optimizer)
        scaler.update(){mark}
"""


def test_an_update_behind_a_function_that_has_updated_is_told(marked: Check, clean: Check) -> None:
    marked(FINISHING.format(inside="scaler.update()", mark="  # AMP604"))
    clean(FINISHING.format(inside="pass", mark=""))


FLAGGED = """
    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for epoch in range(10):
            {first}
            for x in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer){mark}
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if norm > 100:
                    {flag}
                    break
                scaler.step(optimizer)
                scaler.update()
            {behind}
"""
LEAVES = "if stop:\n                break"


@pytest.mark.parametrize(
    ("first", "flag", "behind"),
    [
        ("stop = False", "stop = True", LEAVES),
        ("model.stop = False", "model.stop = True", "if model.stop:\n                break"),
        ("going = True", "going = False", "if not going:\n                return"),
        (
            "stop = False",
            "stop = True",
            "if stop and epoch:\n                return\n            elif stop:\n                raise",
        ),
    ],
)
def test_a_loop_that_is_left_by_a_flag_behind_an_inner_one_unscales_no_more(
    clean: Check, first: str, flag: str, behind: str
) -> None:
    clean(FLAGGED.format(first=first, flag=flag, behind=behind, mark=""))


@pytest.mark.parametrize(
    ("first", "flag", "behind"),
    [
        ("stop = False", "stop = True", "print(stop)"),
        ("stop = False", "stop = False", LEAVES),
        ("stop = False", "stop = epoch > 5", LEAVES),
        ("stop = False", "stop = True", "stop = epoch > 5\n            if stop:\n                break"),
        ("stop = False", "stop = True", "if stop and epoch:\n                break"),
        ("pass", "loader.stop = True", "if loader.stop:\n                break"),
    ],
)
def test_one_that_is_not_left_for_certain_unscales_again(marked: Check, first: str, flag: str, behind: str) -> None:
    marked(FLAGGED.format(first=first, flag=flag, behind=behind, mark="  # AMP608"))


TWO_SCALES = """
    def train(loader, n):
        encoder, judge = nn.Linear(8, 8), nn.Linear(8, 2)
        optimizer = torch.optim.Adam(encoder.parameters())
        judging = torch.optim.Adam(judge.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled={enabled})
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                code = encoder(x)
                judged = F.cross_entropy(judge(code.detach()), y) / n
            scaler.scale(judged).backward()
            if (i + 1) % n == 0:
                scaler.step(judging)
                {between}
                judging.zero_grad()
            scaler.scale(code.square().mean() / n).backward()
            if (i + 1) % n == 0:
                {first}
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
"""


@pytest.mark.parametrize("enabled", ["True", "torch.cuda.is_available()"])
def test_a_scale_that_is_updated_while_gradients_add_up_is_told(marked: Check, clean: Check, enabled: str) -> None:
    mark = "  # AMP605"
    told = TWO_SCALES.replace("scaler.step(optimizer)", "scaler.step(optimizer){mark}")
    parts = {"enabled": enabled, "between": "scaler.update()"}
    marked(told.format(first="pass", mark=mark, **parts))
    marked(told.format(first=f"scaler.unscale_(optimizer){mark}", mark="", **parts))
    clean(TWO_SCALES.format(first="pass", between="pass", enabled=enabled))


def test_gradients_that_are_cleared_behind_an_update_are_of_one_scale(clean: Check) -> None:
    """What a generator's loss leaves in the critic is cleared before the critic's own loss goes backward."""
    clean(
        """
        def train(generator, critic, loader, n):
            of_generator = torch.optim.Adam(generator.parameters())
            of_critic = torch.optim.Adam(critic.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for i, x in enumerate(loader):
                of_critic.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = critic(generator(x).detach()).mean() - critic(x).mean()
                scaler.scale(loss).backward()
                scaler.step(of_critic)
                scaler.update()
                if i % n == 0:
                    of_generator.zero_grad()
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = -critic(generator(x)).mean()
                    scaler.scale(loss).backward()
                    scaler.step(of_generator)
                    scaler.update()
        """
    )
