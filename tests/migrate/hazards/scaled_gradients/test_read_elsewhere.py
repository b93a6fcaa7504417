"""Scaled gradients that are read or clipped in other functions than those that go backward and step, and in hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

LOOP = """
    def prepare(scaler, optimizer):
        scaler.unscale_(optimizer)

    def finish(scaler, optimizer):
        scaler.step(optimizer)
        scaler.update()

    def norm_of(model):
        return sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5{inside}

    def is_finite(model):
        return all(torch.isfinite(p.grad).all() for p in model.parameters())

    def first(model, optimizer, {given}loader):
        {made}
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            {line}
            finish(scaler, optimizer)

    def second(model, optimizer, scaler, loader):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            prepare(scaler, optimizer)
            finish(scaler, optimizer)
"""
MADE = ("", 'scaler = torch.amp.GradScaler("cuda")')
GIVEN = ("scaler, ", "pass")
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize(("given", "made"), [MADE, GIVEN])
@pytest.mark.parametrize("line", [CLIP, "for p in model.parameters(): p.grad.clamp_(-1, 1)"])
def test_gradients_are_clipped_before_a_function_that_steps(marked: Check, given: str, made: str, line: str) -> None:
    marked(LOOP.format(inside="", given=given, made=made, line=f"{line}  # AMP601"))


def test_a_function_measures_gradients_before_another_that_steps(marked: Check) -> None:
    marked(LOOP.format(inside="  # AMP601", given=MADE[0], made=MADE[1], line="print(norm_of(model))"))


@pytest.mark.parametrize(("given", "made"), [MADE, GIVEN])
@pytest.mark.parametrize(
    "line",
    [
        f"prepare(scaler, optimizer)\n            {CLIP}",
        "prepare(scaler, optimizer)\n            print(norm_of(model))",
        "print(norm_of(model) / scaler.get_scale())",
        "if not is_finite(model): print(loss)",
    ],
)
def test_gradients_that_are_true_or_only_tested_before_a_function_that_steps_are_right(
    clean: Check, given: str, made: str, line: str
) -> None:
    clean(LOOP.format(inside="", given=given, made=made, line=line))


METHODS = """
    class Trainer:
        def __init__(self, model, optimizer, amp):
            self.model, self.optimizer, self.amp = model, optimizer, amp
            self.scaler = torch.amp.GradScaler("cuda"{enabled})

        def back(self, x):
            with torch.amp.autocast("cuda", dtype=torch.float16, enabled=self.amp):
                loss = self.model(x).mean()
            {backward}

        def clip_gradients(self):
            {before}
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0){mark}

        def step(self):
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()

        def fit(self, loader):
            for x in loader:
                self.back(x)
                {call}
                self.step()
"""
SCALED = "self.scaler.scale(loss).backward()"
CHOSEN = f"if self.amp: {SCALED}\n            else: loss.backward()"
UNSCALE = "self.scaler.unscale_(self.optimizer)"


@pytest.mark.parametrize("backward", [SCALED, CHOSEN])
def test_a_method_clips_that_neither_goes_backward_nor_steps(marked: Check, backward: str) -> None:
    parts = {"enabled": "", "backward": backward, "before": "pass", "call": "self.clip_gradients()"}
    marked(METHODS.format(mark="  # AMP601", **parts))


@pytest.mark.parametrize(
    ("enabled", "backward", "before", "call"),
    [
        ("", SCALED, UNSCALE, "self.clip_gradients()"),
        ("", CHOSEN, f"if self.amp: {UNSCALE}", "self.clip_gradients()"),
        ("", CHOSEN, "pass", "if not self.amp: self.clip_gradients()"),
        (", enabled=self.amp", SCALED, "pass", "if not self.amp: self.clip_gradients()"),
    ],
)
def test_a_method_clips_what_another_has_not_scaled(
    clean: Check, enabled: str, backward: str, before: str, call: str
) -> None:
    clean(METHODS.format(enabled=enabled, backward=backward, before=before, call=call, mark=""))


def test_a_class_clips_that_inherits_what_scales_and_steps(marked_files: Check) -> None:
    text = """
        import torch
        from mixins import Mixed

        class Task(Mixed):
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.set_up()

            def step(self, x):
                self.optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = self.model(x).mean()
                self.back(loss)
                {before}
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0){mark}
                self.finish(self.optimizer)

        Task(torch.nn.Linear(4, 1).cuda()).step(torch.ones(2, 4).cuda())
    """
    mixins = """
        import torch

        class Mixed:
            def set_up(self):
                self.scaler = torch.amp.GradScaler("cuda")

            def back(self, loss):
                self.scaler.scale(loss).backward()

            def finish(self, optimizer):
                self.scaler.step(optimizer)
                self.scaler.update()
    """
    marked_files(mixins=mixins, train=text.format(before="pass", mark="  # AMP601"))
    marked_files(mixins=mixins, train=text.format(before="self.scaler.unscale_(self.optimizer)", mark=""))


def test_a_method_is_known_by_what_it_does_and_not_by_its_name(clean: Check) -> None:
    clean(
        """
        class Trainer:
            def __init__(self, model, most):
                self.model, self.most = model, most
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = torch.amp.GradScaler("cuda")

            def clip_gradients(self):
                if self.most:
                    self.scaler.unscale_(self.optimizer)
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.most)

            def fit(self, loader):
                for x in loader:
                    self.optimizer.zero_grad()
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = self.model(x).mean()
                    self.scaler.scale(loss).backward()
                    self.clip_gradients()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
        """
    )


def test_callbacks_in_a_list_read_scaled_gradients(marked: Check, clean: Check) -> None:
    text = """
        class Norms:
            def __init__(self, model):
                self.model = model

            def after_backward(self):
                print(sum(p.grad.norm().item() for p in self.model.parameters()))

        class Trainer:
            def __init__(self, model, callbacks):
                self.model, self.callbacks = model, callbacks
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = torch.amp.GradScaler("cuda")

            def fit(self, loader):
                for x in loader:
                    self.optimizer.zero_grad()
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = self.model(x).mean()
                    self.scaler.scale(loss).backward()
                    {before}
                    for each in self.callbacks:
                        {call}
                    self.scaler.step(self.optimizer)
                    self.scaler.update()

        def main(loader):
            model = nn.Linear(4, 1)
            Trainer(model, [{callback}]).fit(loader)
    """
    for call, callback in (("each.after_backward()", "Norms(model)"), ("each()", "Norms(model).after_backward")):
        marked(text.format(before="pass", call=f"{call}  # AMP601", callback=callback))
        clean(text.format(before="self.scaler.unscale_(self.optimizer)", call=call, callback=callback))


EACH = """
    def parameters_of(optimizer):
        return [p for group in optimizer.param_groups for p in group["params"]]

    def step(model, optimizers, scaler, x):
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        for name, optimizer in optimizers.items():
            {before}
            nn.utils.clip_grad_norm_(parameters_of(optimizer), 1.0){mark}
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()
"""


def test_each_of_several_optimizers_is_unscaled_before_its_gradients_are_clipped(marked: Check, clean: Check) -> None:
    clean(EACH.format(before="scaler.unscale_(optimizer)", mark=""))
    marked(EACH.format(before="pass", mark="  # AMP601"))


HOOKED = """
    def limit(gradient):
        return gradient.clamp(-1, 1)

    def train(model, critic, mask, loader):
        for p in {of}.parameters():
            p.register_hook({hook}){mark}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        plain = torch.optim.SGD(critic.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            plain.zero_grad()
            critic(y).mean().backward()
            plain.step()
"""


@pytest.mark.parametrize(
    "hook", ["limit", "lambda g: torch.clamp(g, max=0.1)", "lambda g: g + 0.01", "lambda g: g / g.norm()"]
)
def test_a_hook_that_goes_by_the_size_of_scaled_gradients_is_told(marked: Check, hook: str) -> None:
    marked(HOOKED.format(of="model", hook=hook, mark="  # AMP601"))


@pytest.mark.parametrize(
    ("of", "hook"),
    [("model", "lambda g: g * mask"), ("model", "lambda g: g.clamp(min=0)"), ("critic", "limit")],
)
def test_a_hook_that_keeps_the_scale_or_gets_none_is_right(clean: Check, of: str, hook: str) -> None:
    clean(HOOKED.format(of=of, hook=hook, mark=""))


CLEARED = """
    critic, generator = nn.Linear(8, 1).cuda(), nn.Linear(4, 8).cuda()
    of_critic = torch.optim.Adam(critic.parameters())
    of_generator = torch.optim.Adam(generator.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for real, noise in loader:
        {first}.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = critic(real).mean() - critic(generator(noise).detach()).mean()
        scaler.scale(loss).backward()
        scaler.step(of_critic)
        of_generator.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = critic(generator(noise)).mean()
        scaler.scale(loss).backward()
        scaler.step(of_generator)
        scaler.update()
        {clip}
        print(scaler.state_dict())
"""
CLIPPED = "nn.utils.clip_grad_norm_(critic.parameters(), 1.0)"


def test_a_clip_of_what_is_cleared_before_anybody_reads_it(marked: Check, clean: Check) -> None:
    clean(CLEARED.format(first="of_critic", clip=CLIPPED))
    marked(CLEARED.format(first="of_critic", clip=f"print({CLIPPED})  # AMP601"))


WATCHED = """
    import wandb
    model, critic = nn.Linear(3, 1).cuda(), nn.Linear(3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plain = torch.optim.SGD(critic.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda"{enabled})
    wandb.watch({given}){mark}
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        {backward}
        scaler.step(optimizer)
        scaler.update()
        print(scaler.state_dict())
"""
SCALED = "scaler.scale(loss).backward()"
APART = "scaler.scale(loss).backward()\n        critic(y).mean().backward()\n        plain.step()"


@pytest.mark.parametrize("given", ["model", 'model, log="all"', "model, criterion, how"])
@pytest.mark.parametrize("enabled", ["", ", enabled=args.amp"])
def test_a_library_that_logs_gradients_by_hooks_finds_them_scaled(marked: Check, given: str, enabled: str) -> None:
    (found,) = marked(WATCHED.format(given=given, backward=SCALED, enabled=enabled, mark="  # AMP601"))
    assert "let it log parameters alone" in found.hint


@pytest.mark.parametrize(
    ("given", "backward"),
    [
        ('model, log="parameters"', SCALED),
        ("model, log=None", SCALED),
        ("critic", APART),
    ],
)
def test_a_library_that_logs_parameters_or_what_has_no_scale_is_right(clean: Check, given: str, backward: str) -> None:
    clean(WATCHED.format(given=given, backward=backward, enabled="", mark=""))
    off = WATCHED.format(given="model", backward=SCALED, enabled=", enabled=False", mark="")
    clean(off.replace("float16", "bfloat16"))


PENALTY = """
    def taken(loss, inputs):
        return torch.autograd.grad({outputs}, inputs, create_graph=True){mark}

    def train(model, optimizer, scaler, loader):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            found = taken({given}, list(model.parameters()))
            {then}
            penalty = sum(each.pow(2).sum() for each in found)
            scaler.scale(loss + penalty).backward()
            scaler.step(optimizer)
            scaler.update()
            print(scaler.get_scale())
"""


@pytest.mark.parametrize("outputs", ["loss", "[loss]", "(loss, loss)"])
def test_a_function_gives_scaled_gradients_for_a_penalty(marked: Check, clean: Check, outputs: str) -> None:
    marked(PENALTY.format(outputs=outputs, mark="  # AMP610", given="scaler.scale(loss)", then="pass"))
    clean(PENALTY.format(outputs=outputs, mark="", given="loss", then="pass"))
    divided = "found = [each / scaler.get_scale() for each in found]"
    clean(PENALTY.format(outputs=outputs, mark="", given="scaler.scale(loss)", then=divided))


ATTACK = """
    def train(model, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            x.requires_grad_()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                attack = F.cross_entropy(model(x), y)
            gradient = torch.autograd.grad({outputs}, x)[0]{mark}
            x = (x + 0.1 * gradient.sign()).detach()
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


def test_gradients_of_several_losses_are_those_of_each(marked: Check, clean: Check) -> None:
    marked(ATTACK.format(outputs="[attack]", mark="  # AMP629"))
    marked(ATTACK.format(outputs="outputs=(attack,), inputs", mark="  # AMP629").replace("inputs, x", "inputs=x"))
    clean(ATTACK.format(outputs="[scaler.scale(attack)]", mark=""))


def test_losses_in_a_list_that_go_backward_through_float16_without_a_scaler(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                    losses = [F.mse_loss(out, y), out.abs().mean()]
                torch.autograd.backward(losses)  # AMP629
                optimizer.step()
        """
    )


GAN = """
    G, D = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
    opt_G = torch.optim.Adam(G.parameters(), lr=1e-3)
    opt_D = torch.optim.Adam(D.parameters(), lr=1e-3)
    scaler_G = torch.amp.GradScaler("cuda")
    scaler_D = torch.amp.GradScaler("cuda")

    def norm(model):
        return sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5{inside}

    for x, y in loader:
        opt_D.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            fake = G(x)
            loss_D = D(fake.detach()).mean() - D(y).mean()
        scaler_D.scale(loss_D).backward()
        scaler_D.step(opt_D)
        scaler_D.update()
        {between}
        opt_G.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss_G = -D(fake).mean()
        scaler_G.scale(loss_G).backward()
        scaler_G.step(opt_G)
        scaler_G.update()
        {behind}
"""


SWITCH = """
    def switch(nets, on):
        for net in nets:
            for p in net.parameters():
                p.requires_grad = on
"""


@pytest.mark.parametrize("behind", ["print(norm(D))", "print(norm(G), norm(D))", "if x.sum() > 0: print(norm(D))"])
@pytest.mark.parametrize("scaler", ["scaler_D", "scaler_G"])
def test_gradients_that_another_scaled_loss_has_added_to(marked: Check, behind: str, scaler: str) -> None:
    text = GAN.format(between="pass", behind=behind, inside="  # AMP601").replace("scaler_D", scaler)
    marked(text)


def test_a_clip_of_gradients_that_another_scaled_loss_has_added_to(marked: Check) -> None:
    behind = "print(torch.nn.utils.clip_grad_norm_(D.parameters(), 1.0))  # AMP601"
    marked(GAN.format(between="pass", behind=behind, inside=""))


@pytest.mark.parametrize(
    ("between", "behind"),
    [
        ("print(norm(D))", "print(norm(G))"),
        ("pass", "opt_D.zero_grad(); print(norm(D))"),
        ("D.requires_grad_(False)", "print(norm(G), norm(D)); D.requires_grad_(True)"),
        ("[p.requires_grad_(False) for p in D.parameters()]", "print(norm(D)); D.requires_grad_(True)"),
        ("for p in D.parameters(): p.requires_grad = False", "print(norm(D)); D.requires_grad_(True)"),
        ("switch([D], False)", "print(norm(D)); switch([D], True)"),
    ],
)
def test_gradients_that_no_other_loss_has_added_to(clean: Check, between: str, behind: str) -> None:
    clean(("" if "switch" not in between else SWITCH) + GAN.format(between=between, behind=behind, inside=""))


ACCUMULATED = """
def train(batches):
    net = nn.Linear(6, 2).cuda()
    optimizer = torch.optim.RMSprop(net.parameters())
    scaler = torch.amp.GradScaler("cuda"{enabled})

    def shorten(weight):
        {hook}

    for weight in net.parameters():
        weight.register_post_accumulate_grad_hook(shorten)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda"):
            loss = F.l1_loss(net(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    "hook", ["nn.utils.clip_grad_norm_(weight, 1.0)", "weight.grad.clamp_(-1, 1)", "print(weight.grad.norm())"]
)
def test_a_hook_that_runs_once_gradients_are_accumulated_finds_them_scaled(marked: Check, hook: str) -> None:
    found = marked(ACCUMULATED.format(hook=f"{hook}  # AMP601", enabled=""))
    assert found[0].hint.endswith("and do behind it what the hook does")


@pytest.mark.parametrize(
    ("hook", "enabled"),
    [("print(weight.shape)", ""), ("nn.utils.clip_grad_norm_(weight, 1.0)", ", enabled=False")],
)
def test_a_hook_that_does_not_see_the_scale_is_right(clean: Check, hook: str, enabled: str) -> None:
    clean(ACCUMULATED.format(hook=hook, enabled=enabled).replace('"cuda"):', '"cuda", torch.bfloat16):'))


IN_NUMBERS = """
    def clip(model, most):
        total = 0.0
        for p in model.parameters():
            if p.grad is not None:
                total += p.grad.data.norm(2).item() ** 2
        {use}

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            clip(model, 1.0){mark}
            scaler.step(optimizer)
            scaler.update()
"""
MULTIPLY = "\n        for p in model.parameters(): p.grad.data.mul_(by)"


@pytest.mark.parametrize(
    "use",
    [
        f"by = most / (total ** 0.5 + 1e-6)\n        if by >= 1: return{MULTIPLY}",
        f"by = most / total ** 0.5\n        if by >= 1: return{MULTIPLY}",
        f"by = min(most / total ** 0.5, 1.0){MULTIPLY}",
        "if total ** 0.5 > most: model.zero_grad()",
        "return total + most",
    ],
)
def test_a_size_of_scaled_gradients_that_is_a_number_is_told_where_it_meets_others(marked: Check, use: str) -> None:
    marked(IN_NUMBERS.format(use=use, mark="  # AMP601"))


@pytest.mark.parametrize("test", ["total == float('inf')", "total != total", "total > 0", "isnan(total)"])
def test_what_is_asked_of_a_size_that_is_the_same_in_any_scale_is_right(clean: Check, test: str) -> None:
    text = IN_NUMBERS.format(use=f"if {test}: model.zero_grad()", mark="")
    for module in ("math", "numpy"):
        clean(f"    from {module} import isnan\n{text}")


def test_gradients_of_a_loss_of_which_nobody_has_seen_what_it_is_made_of_are_scaled(marked: Check) -> None:
    marked(
        """
        def adapt(model, tasks):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for support, query in tasks:
                optimizer.zero_grad()
                weights = dict(model.named_parameters())
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    inner = F.mse_loss(torch.func.functional_call(model, weights, support[0]), support[1])
                given = torch.autograd.grad(scaler.scale(inner), weights.values(), create_graph=True)  # AMP610
                weights = {name: p - 0.1 * g for (name, p), g in zip(weights.items(), given)}
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    outer = F.mse_loss(torch.func.functional_call(model, weights, query[0]), query[1])
                scaler.scale(outer).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )


REDUCED = """
import torch
from torch import nn
from library import named_0, named_1
from processes import reduce

def train(loader):
    model = nn.Linear(8, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    named_0(model)
    named_1(model)
    for x in loader:
        optimizer.zero_grad()
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = model(x.cuda()).mean()
        scaler.scale(loss).backward()
        grads = [p.grad.data for p in model.parameters() if p.grad is not None]{mark}
        {call}
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
PROCESSES = """
import torch.distributed

def reduce(tensors):
    for each in tensors:
        torch.distributed.all_reduce(each)
"""


@pytest.mark.parametrize(
    ("lines", "call", "mark"), [(3, "reduce(grads)", ""), (900, "reduce(grads)", ""), (900, "print(grads)", "AMP601")]
)
def test_gradients_are_reduced_while_they_are_scaled_be_it_where_a_run_does_not_come_to(
    monkeypatch: pytest.MonkeyPatch, marked_files: Check, lines: int, call: str, mark: str
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 20)
    library = "".join(f"def named_{n}(model):\n" + "    named = [model]\n" * lines for n in range(2))
    text = REDUCED.format(call=call, mark=mark and f"  # {mark}")
    marked_files(train=text, library=library, processes=PROCESSES)
