"""AMP609 to AMP612 and AMP629: closures, penalties, checkpoints, half weights, and no scaler at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_a_closure_and_lbfgs_are_told(marked: Check) -> None:
    marked(
        """
        def closure_by_position(optimizer, scaler, closure, loss):
            scaler.scale(loss).backward()
            scaler.step(optimizer, closure)  # AMP609
            scaler.update()

        def closure_by_name(optimizer, scaler, again, loss):
            scaler.scale(loss).backward()
            scaler.step(optimizer, closure=again)  # AMP609
            scaler.update()

        def lbfgs(model, scaler, loss):
            optimizer = torch.optim.LBFGS(model.parameters())
            scaler.scale(loss).backward()
            scaler.step(optimizer)  # AMP609
            scaler.update()
        """
    )


def test_other_arguments_and_other_optimizers_are_no_closures(clean: Check) -> None:
    clean(
        """
        def scaled(optimizer, scaler, loss, factor):
            scaler.scale(loss).backward()
            scaler.step(optimizer, scale=1.0 / factor)
            scaler.update()

        def chosen(model, scaler, loss, name):
            if name == "lbfgs":
                optimizer = torch.optim.LBFGS(model.parameters())
            else:
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        def its_own_arguments(optimizer, scaler, loss, grad_scale, group):
            scaler.scale(loss).backward()
            scaler.step(optimizer, grad_scale)
            scaler.step(optimizer=group)
            scaler.update()

        def unknown(optimizers, scaler, loss):
            scaler.scale(loss).backward()
            for optimizer in optimizers:
                scaler.step(optimizer)
            scaler.update()

        def plain(model, loss, closure):
            optimizer = torch.optim.LBFGS(model.parameters())
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss(model)
            optimizer.step(closure)
        """
    )


def test_a_penalty_on_scaled_gradients_is_told(marked: Check) -> None:
    marked(
        """
        def penalty(model, scaler, loss):
            grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)  # AMP610
            scaler.scale(loss + sum(g.square().sum() for g in grads)).backward()
        """
    )


def test_a_penalty_that_a_loop_sums_up_from_zero_is_told(marked: Check) -> None:
    marked(
        """
        def norm(loss, model, scaler):
            total = 0
            for g in torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True):  # AMP610
                total = total + g.square().sum()
            return total.sqrt()

        def penalty(model, scaler, loss):
            scaler.scale(loss + 0.1 * norm(loss, model, scaler)).backward()
        """
    )


def test_a_penalty_on_true_gradients_is_right(clean: Check) -> None:
    clean(
        """
        def divided(model, scaler, loss):
            grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
            inverse = 1.0 / scaler.get_scale()
            return sum((g * inverse).square().sum() for g in grads)

        def never_scaled(model, scaler, loss):
            grads = torch.autograd.grad(loss, model.parameters(), create_graph=True)
            return scaler.scale(sum(g.square().sum() for g in grads))

        def not_differentiated(model, scaler, loss):
            return torch.autograd.grad(scaler.scale(loss), model.parameters())
        """
    )


def test_a_checkpoint_without_the_scaler_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, loader, path):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),  # AMP611
            }
            torch.save(state, path)
        """
    )
    assert found[0].hint == 'add "scaler": scaler.state_dict(), and load it where the optimizer is loaded'


def test_a_scaler_that_may_be_saved_is_enough(clean: Check) -> None:
    clean(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()

        def save(model, optimizer, scaler, path):
            torch.save({"optimizer": optimizer.state_dict(), "amp": scaler.state_dict()}, path)
        """
    )
    clean(
        """
        def train(model, optimizer, scaler, loader, save):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
            save({"optimizer": optimizer.state_dict()}, scaler)
        """
    )
    clean(
        """
        def train(model, optimizer, scaler, loader, path):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
            torch.save({"model": model.state_dict()}, path)

        def other(model, sparse, path):
            torch.save({"model": model.state_dict(), "sparse": sparse.state_dict()}, path)
        """
    )


def test_half_weights_under_a_scaler_are_told(marked: Check) -> None:
    marked(
        """
        def train(model, loader):
            model.half()  # AMP612
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )


HALF = """
    {made}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("made", "is_half"),
    [
        ("model = nn.Linear(8, 1).half().cuda()", True),
        ("model = nn.Linear(8, 1).cuda().to(torch.float16)", True),
        ("model = build(); model = model.half().cuda()", True),
        ("model = build(); model.half(); model = nn.DataParallel(model)", True),
        ("model = nn.Linear(8, 1); model.weight.data = model.weight.data.half()", True),
        ("model = nn.Linear(8, 1); model.weight = nn.Parameter(model.weight.half())", True),
        ("model = nn.Linear(8, 1); model.weight.data = model.weight.data.half().float()", False),
        ("model = nn.Linear(8, 1).half().float().cuda()", False),
        ("model = nn.Linear(8, 1).half(); model = model.cuda().float()", False),
        ("model = nn.Linear(8, 1).half(); model = nn.Linear(8, 1).cuda()", False),
        ("model = build(torch.ones(1).half())", False),
        ("model = nn.Linear(8, 1); y = model(x).half()", False),
    ],
)
def test_half_weights_are_told_behind_other_calls(marked: Check, made: str, is_half: bool) -> None:
    marked(HALF.format(made=f"{made}  # AMP612" if is_half else made))


IN_CLASS = """
    def build(width):
        net = nn.Sequential(nn.Linear(8, width), nn.Linear(width, 1))
        {built}

    class Trainer:
        def __init__(self, net):
            self.net = net
            {before}
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            self.scaler = torch.amp.GradScaler("cuda")

        def run(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(self.net(x), y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()

        def export(self, path):
            {export}

    trainer = Trainer(build(4))
    trainer.run(loader)
    trainer.export("net.pt")
"""


@pytest.mark.parametrize(
    ("built", "before", "export", "is_half"),
    [
        ("return net.half()", "pass", "pass", True),
        ("return net", "self.net.cuda().half()", "pass", True),
        ("return net", "self.net = net.to('cuda', torch.float16)", "pass", True),
        ("return net", "if half: self.net.half()", "pass", False),
        ("return net.half()", "self.net.float()", "pass", False),
        ("return net", "pass", "torch.save(self.net.half().state_dict(), path)", False),
    ],
)
def test_half_weights_are_told_where_the_model_is_built(
    marked: Check, built: str, before: str, export: str, is_half: bool
) -> None:
    cast = "built" if "half" in built else "before"
    parts = {"built": built, "before": before, "export": export}
    marked(IN_CLASS.format(**parts | ({cast: f"{parts[cast]}  # AMP612"} if is_half else {})))


def test_half_weights_that_are_not_trained_are_right(clean: Check) -> None:
    clean(
        """
        import copy

        def train(model, teacher, loader, args):
            teacher.half()
            if args.pure:
                model.half()
            model.half().float()
            model.to(torch.float16)
            model.to(torch.float32)
            model.to("cuda")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(F.mse_loss(model(x), teacher(x))).backward()
                scaler.step(optimizer)
                scaler.update()
            torch.save(copy.deepcopy(model).half(), args.path)
            model.half()

        def evaluate(model, loader):
            model.half()
            with torch.autocast("cuda"):
                return [model(x) for x in loader]
        """
    )


def test_float16_without_a_scaler_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader, use_amp):
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = F.mse_loss(model(x), y)
                loss.backward()  # AMP629
                optimizer.step()
        """
    )


def test_the_default_dtype_of_cuda_is_float16(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader):
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                loss.backward()  # AMP629
                optimizer.step()
        """
    )


ON_A_DEVICE = """
    device = {device}
    def train(model, optimizer, loader):
        for x, y in loader:
            with torch.autocast(device_type={given}):
                loss = F.mse_loss(model(x), y)
            loss.backward(){told}
            optimizer.step()
"""


@pytest.mark.parametrize("given", ["str(device)", "device.type"])
@pytest.mark.parametrize(
    ("device", "told"),
    [
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "  # AMP629"),
        ('torch.device("cuda:1")', "  # AMP629"),
        ('torch.device("cpu")', ""),
        ("torch.device(input())", ""),
    ],
)
def test_the_default_dtype_is_that_of_the_device(given: str, device: str, told: str, marked: Check) -> None:
    marked(ON_A_DEVICE.format(given=given, device=device, told=told))


CHOSEN = """
    def train(model, optimizer, loader, device, choice):
        chosen = torch.float16 if choice else torch.bfloat16
        for x, y in loader:
            with torch.autocast(device_type=device.type, dtype={dtype}):
                loss = F.mse_loss(model(x), y)
            loss.backward(){told}
            optimizer.step()
"""


@pytest.mark.parametrize("dtype", ['torch.half if device.type == "cuda" else torch.bfloat16', "chosen"])
def test_a_choice_of_dtypes_may_be_float16(marked: Check, dtype: str) -> None:
    (found,) = marked(CHOSEN.format(dtype=dtype, told="  # AMP629"))
    assert "is the backward of a loss that may be in float16" in found.message


@pytest.mark.parametrize("dtype", ["choice", "torch.float16 if choice else choice.dtype", "torch.bfloat16"])
def test_of_a_dtype_that_nobody_knows_nothing_is_said(clean: Check, dtype: str) -> None:
    clean(CHOSEN.format(dtype=dtype, told=""))


ENABLED = """
    KINDS = {{"float16": torch.float16, "bfloat16": torch.bfloat16}}

    class Trainer:
        def __init__(self, model, config):
            self.model, self.config = model, config
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            self.context = torch.autocast("cuda", dtype=KINDS[config.dtype])
            kind = KINDS[config.dtype]
            self.scaler = torch.amp.GradScaler("cuda", enabled=({enabled})){told}

        def train(self, loader):
            for x, y in loader:
                with self.context:
                    loss = F.mse_loss(self.model(x), y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "enabled", ['config.dtype == "bfloat16"', 'self.config.dtype != "float16"', "kind == torch.bfloat16"]
)
def test_a_scaler_that_is_off_in_float16_alone_is_told(marked: Check, enabled: str) -> None:
    for text in (ENABLED, ENABLED.replace("enabled=(", "2.0, 2.0, 0.5, 100, (")):
        (found,) = marked(text.format(enabled=enabled, told="  # AMP629"))
        assert "is switched off in float16, which needs it" in found.message


@pytest.mark.parametrize(
    "enabled", ['config.dtype == "float16"', 'config.dtype != "bfloat16"', "kind == torch.float16", "config.scales"]
)
def test_a_scaler_that_is_on_in_float16_is_right(clean: Check, enabled: str) -> None:
    clean(ENABLED.format(enabled=enabled, told=""))


ATTACK = """
    def train(model, optimizer, scaler, loader, use_amp, second_order, factor):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.{dtype}, enabled=use_amp):
                x_adv = (x + 0.001 * torch.randn_like(x)).requires_grad_()
                kl = F.mse_loss(model(x_adv), y)
                (grad,) = {taken}
                loss = F.mse_loss(model((x_adv + 0.003 * grad.sign()).detach()), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    "taken",
    [
        "torch.autograd.grad(kl, [x_adv])",
        "torch.autograd.grad(outputs=kl, inputs=x_adv, retain_graph=True)",
        "torch.autograd.grad(kl.float(), x_adv, torch.ones_like(kl))",
    ],
)
def test_gradients_that_are_taken_of_an_unscaled_loss_beside_a_scaler_are_told(marked: Check, taken: str) -> None:
    (found,) = marked(ATTACK.format(dtype="float16", taken=f"{taken}  # AMP629"))
    assert "takes gradients of a float16 loss that is not scaled" in found.message


@pytest.mark.parametrize(
    "taken",
    [
        "torch.autograd.grad(kl * scaler.get_scale(), [x_adv])",  # scaled
        "torch.autograd.grad(kl, [x_adv], create_graph=True)",  # for a penalty
        "torch.autograd.grad(kl, [x_adv], create_graph=second_order)",
        "torch.autograd.grad(kl, [x_adv], factor)",  # of a scale that nobody sees
        "torch.autograd.grad(x_adv.square().sum(), [x_adv])",  # in float32
        "torch.autograd.grad(factor(kl), [x_adv])",
    ],
)
def test_gradients_that_are_scaled_or_float32_or_a_penalty_are_right(clean: Check, taken: str) -> None:
    clean(ATTACK.format(dtype="float16", taken=taken))


def test_gradients_through_bfloat16_need_no_scale(clean: Check) -> None:
    clean(ATTACK.format(dtype="bfloat16", taken="torch.autograd.grad(kl, [x_adv])"), dtype="bf16")


def test_gradients_that_a_function_of_another_file_takes_in_the_region_are_told_there(marked_files: Check) -> None:
    marked_files(
        train="""
        import torch
        from attacks import attacked

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = torch.nn.functional.cross_entropy(model(attacked(model, x, y)), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """,
        attacks="""
        import torch
        from torch.nn import functional as F

        def attacked(model, x, y):
            x = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad(F.cross_entropy(model(x), y), [x])  # AMP629
            return (x + 0.003 * grad.sign()).detach()
        """,
    )


def test_gradients_through_float16_are_followed_into_methods_and_out_of_the_region(marked: Check) -> None:
    marked(
        """
        class Attack:
            def __init__(self, model, patch):
                self.model = model
                self.patch = nn.Parameter(patch)
                self.opt = torch.optim.Adam([self.patch])

            def logits(self, x):
                return self.model(x)

            def loss(self, logits, y):
                return -F.cross_entropy(logits.float(), y)

            def train(self, x, y, target):
                with torch.autocast("cuda", dtype=torch.float16):
                    out = self.logits(x + self.patch)
                total = self.loss(out, y)
                self.opt.zero_grad()
                total.backward()  # AMP629
                self.opt.step()
                with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
                    seen = self.logits(x)
                plain = F.mse_loss(self.logits(x + self.patch), seen)
                plain.backward()
                self.opt.step()

        def target_with_gradients(model, optimizer, x, y):
            with torch.autocast("cuda"):
                target = model(y)
            loss = F.mse_loss(model(x), target)
            loss.backward()  # AMP629
            optimizer.step()
        """
    )


def test_a_loss_that_is_made_anew_outside_the_region_needs_no_scaler(clean: Check) -> None:
    clean(
        """
        def looked_at_first(model, optimizer, loader, x, y):
            with torch.no_grad(), torch.autocast("cuda"):
                loss = F.mse_loss(model(x), y)
            print(loss)
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                loss = loss / 2
                loss.backward()
                optimizer.step()

        def twice(model, optimizer, x, y):
            with torch.autocast("cuda"):
                output, loss = model(x, y)
            output, loss = model(x.float(), y)
            loss.backward()
            optimizer.step()
        """
    )


def test_a_loss_that_is_only_changed_outside_the_region_needs_one(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader, twice):
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                loss = loss / 2
                if twice:
                    loss = F.mse_loss(model(x), y)
                loss.backward()  # AMP629
                optimizer.step()
        """
    )


def test_other_dtypes_and_hidden_scalers_need_none(clean: Check) -> None:
    clean(
        """
        def bfloat16(model, optimizer, loader):
            for x, y in loader:
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()

        def chosen(model, optimizer, loader, dtype):
            for x, y in loader:
                with torch.autocast("cuda", dtype=dtype):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()

        def cpu(model, optimizer, loader):
            for x, y in loader:
                with torch.autocast("cpu"):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()

        def off(model, optimizer, loader):
            for x, y in loader:
                with torch.autocast("cuda", enabled=False):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()

        def compared(model, x, y):
            with torch.autocast("cuda"):
                loss = F.mse_loss(model(x), y)
            loss.backward()
            return model.weight.grad

        def other_loss(model, optimizer, x, y):
            with torch.no_grad(), torch.autocast("cuda"):
                target = model(y)
            loss = F.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
        """
    )
    clean(
        """
        def by_wrapper(model, optimizer, loader, loss_scaler):
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                if loss_scaler is None:
                    loss.backward()
                    optimizer.step()
                else:
                    loss_scaler(loss, optimizer)
        """
    )


BESIDE_SCALED = """
    class Trainer:
        def __init__(self, gen, disc, use_amp, make_scaler):
            self.gen, self.disc, self.use_amp = gen, disc, use_amp
            self.opt_g = torch.optim.Adam(gen.parameters())
            self.opt_d = torch.optim.Adam(disc.parameters())
            self.scaler = {scaler}

        def train(self, loader, bad):
            for x, y in loader:
                self.opt_d.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.{dtype}, enabled=self.use_amp):
                    loss = F.mse_loss(self.disc(x), y)
                {between}
                {plain}
                self.opt_d.step()
                self.opt_g.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.{dtype}, enabled=self.use_amp):
                    loss_g = -self.disc(self.gen(x)).mean()
                self.scaler.scale(loss_g).backward()
                self.scaler.step(self.opt_g)
                self.scaler.update()

        def scaled(self, loss):
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt_d)
            self.scaler.update()
"""
SCALER = 'torch.amp.GradScaler("cuda", enabled=self.use_amp)'


@pytest.mark.parametrize("between", ["pass", "if bad(loss): continue", "if not loss.isfinite(): raise ValueError"])
def test_a_plain_loss_beside_one_that_is_scaled_is_told(marked: Check, between: str) -> None:
    plain = "loss.backward()  # AMP629"
    marked(BESIDE_SCALED.format(scaler=SCALER, dtype="float16", between=between, plain=plain))


@pytest.mark.parametrize(
    ("scaler", "dtype", "between", "plain"),
    [
        (SCALER, "bfloat16", "pass", "loss.backward()"),
        (SCALER, "float16", "pass", "if not self.use_amp: loss.backward()"),  # another may scale where it is on
        (SCALER, "float16", "pass", "self.use_amp or loss.backward()"),
        (SCALER, "float16", "pass", "self.scaled(loss) if self.use_amp else loss.backward()"),
        (SCALER, "float16", "loss = self.scaler.scale(loss) if self.use_amp else loss", "loss.backward()"),
        (SCALER, "float16", "if self.use_amp: self.scaled(loss); continue", "loss.backward()"),
        ("make_scaler()", "float16", "pass", "loss.backward()"),  # whatever it is
        (SCALER, "float16", "scale = 128.0", "(loss * scale).backward()"),
    ],
)
def test_a_plain_loss_that_may_be_one_of_another_way_is_left_alone(
    clean: Check, scaler: str, dtype: str, between: str, plain: str
) -> None:
    clean(BESIDE_SCALED.format(scaler=scaler, dtype=dtype, between=between, plain=plain))


def test_a_scaler_that_scales_nothing_or_in_another_method_is_none(marked: Check) -> None:
    marked(
        """
        class Trainer:
            def __init__(self, model):
                self.model, self.scaler = model, torch.amp.GradScaler("cuda")
                self.optimizer = torch.optim.Adam(model.parameters())

            def train(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = F.mse_loss(self.model(x), y)
                    self.scaler.scale(loss).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()

            def tune(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = F.mse_loss(self.model(x), y)
                    loss.backward()  # AMP629
                    self.optimizer.step()

        def unused(model, loader):
            optimizer = torch.optim.Adam(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y)
                loss.backward()  # AMP629
                optimizer.step()
        """
    )


MADE_LATER = """
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.head = nn.Linear(8, 16), None

        def forward(self, x):
            hidden = self.net(x)
            if self.head is None:
                self.head = nn.Linear(16, 2).cuda(){like}
            return self.head(hidden)

    model = Wrapper().cuda()
    {first}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(scaler.state_dict())
"""
IN_REGION = 'with torch.amp.autocast("cuda", dtype=torch.float16): model(torch.rand(2, 8).cuda())'


@pytest.mark.parametrize("like", [".to(hidden)", ".to(hidden.dtype)", ".type(hidden.dtype)"])
@pytest.mark.parametrize("first", [IN_REGION, "pass"])
def test_weights_that_are_made_like_what_a_region_gives(marked: Check, like: str, first: str) -> None:
    marked(MADE_LATER.format(like=f"{like}  # AMP612", first=first))


@pytest.mark.parametrize(
    ("like", "first"),
    [
        (".to(hidden.device)", IN_REGION),
        (".to(hidden.float())", IN_REGION),
        (".to(hidden)", "model(torch.rand(2, 8).cuda())"),  # it is there before any region is
    ],
)
def test_weights_that_stay_float32_beside_a_region(clean: Check, like: str, first: str) -> None:
    clean(MADE_LATER.format(like=like, first=first))


BY_OPTIONS = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--use_amp", action="store_true")
    parser.add_argument("--scaler", action="store_true")
    args = parser.parse_args()
    {before}
    model = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=args.use_amp)
    for x, y in [(torch.randn(4, 8), torch.randn(4, 1))] * 3:
        optimizer.zero_grad()
        with torch.amp.autocast(device_type="cuda", dtype=torch.{dtype}, enabled=args.use_amp):
            loss = F.mse_loss(model(x.cuda()), y.cuda())
        if {option}:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward(){told}
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("option", "before", "dtype", "is_told"),
    [
        ("args.scaler", "pass", "float16", True),
        ("args.use_amp", "pass", "float16", False),
        ("args.scaler", "pass", "bfloat16", False),
        ("args.scaler", "args.scaler = args.use_amp", "float16", False),
        ("args.scaler", "assert args.scaler or not args.use_amp", "float16", False),
        ("args.get('scaler', False)", "pass", "float16", True),
        ("args['scaler']", "pass", "float16", True),
        ("args.get('use_amp')", "pass", "float16", False),
        ("args.get('scaler')", "args['scaler'] = args.use_amp", "float16", False),
        ("args['scaler']", "assert args.get('scaler') or not args.use_amp", "float16", False),
        ("config.get('scaler')", "import config", "float16", False),
        ("args.scaler or args.use_amp", "pass", "float16", False),
        ("scaler.is_enabled()", "pass", "float16", False),
    ],
)
def test_a_region_by_one_option_and_a_scaler_by_another(
    marked: Check, option: str, before: str, dtype: str, is_told: bool
) -> None:
    told = "  # AMP629" if is_told else ""
    marked(BY_OPTIONS.format(option=option, before=before, dtype=dtype, told=told))


COMPLEX = """
    class Spectral(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 8)
            self.weights = nn.Parameter({weights})

        def forward(self, x):
            found = torch.fft.rfft(self.body(x).float())
            return torch.fft.irfft(found * {used})

    model = Spectral().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda"{enabled})
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16{enabled}):
            loss = F.mse_loss(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer){mark}
        scaler.update()
"""


@pytest.mark.parametrize("enabled", ["", ", enabled=options.amp"])
def test_a_scaler_that_steps_complex_parameters_is_told(marked: Check, enabled: str) -> None:
    made = "torch.rand(5, dtype=torch.cfloat)"
    marked(COMPLEX.format(weights=made, used="self.weights", enabled=enabled, mark="  # AMP612"))


@pytest.mark.parametrize(
    ("weights", "used", "enabled"),
    [
        ("torch.rand(5, 2)", "torch.view_as_complex(self.weights)", ""),
        ("torch.rand(5, dtype=torch.cfloat)", "self.weights", ", enabled=False"),
        ("torch.rand(5, dtype=options.dtype)", "self.weights", ""),
    ],
)
def test_a_scaler_that_steps_real_parameters_or_is_off_is_right(
    clean: Check, weights: str, used: str, enabled: str
) -> None:
    clean(COMPLEX.format(weights=weights, used=used, enabled=enabled, mark=""))


BY_OPTION = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    model = nn.Linear(8, 1).cuda()
    if args.half:
        model = model.half(){mark}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda"{enabled})
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x.cuda()), y.cuda())
        {step}
"""
STEP = "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"


@pytest.mark.parametrize("enabled", ["", ", enabled=args.half"])
@pytest.mark.parametrize("step", [STEP, f"if args.half: {STEP}"])
def test_half_weights_by_an_option_under_a_scaler_that_is_on_then_are_told(
    marked: Check, enabled: str, step: str
) -> None:
    marked(BY_OPTION.format(enabled=enabled, step=step, mark="  # AMP612"))


@pytest.mark.parametrize(
    ("enabled", "step"),
    [
        (", enabled=args.amp", STEP),
        (", enabled=not args.half", STEP),
        ("", f"if not args.half: {STEP}"),
        ("", f"if args.amp: {STEP}"),
    ],
)
def test_half_weights_by_an_option_that_another_may_exclude_are_left(clean: Check, enabled: str, step: str) -> None:
    clean(BY_OPTION.format(enabled=enabled, step=step, mark=""))


OFF_FOR_GOOD = """
    model = nn.Linear(8, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", enabled={enabled}){mark}
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.{dtype}, enabled={region}):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_a_scaler_that_is_off_for_good_beside_a_float16_region_is_told(marked: Check) -> None:
    marked(OFF_FOR_GOOD.format(enabled=False, dtype="float16", region=True, mark="  # AMP629"))


@pytest.mark.parametrize(
    ("enabled", "dtype", "region"), [("False", "bfloat16", True), ("False", "float16", False), ("on", "float16", "on")]
)
def test_a_scaler_that_is_off_where_nothing_needs_it_is_right(
    clean: Check, enabled: str, dtype: str, region: object
) -> None:
    clean("\n    on = False\n" + OFF_FOR_GOOD.format(enabled=enabled, dtype=dtype, region=region, mark=""))
