"""AMP620 to AMP623: what does not belong into an autocast region, and what does not come out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_a_backward_or_step_in_a_region_is_told_once(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                    scaler.scale(loss).backward()  # AMP620
                    scaler.step(optimizer)
                    scaler.update()

        def by_name(model, optimizer, loader, dtype, device):
            region = torch.autocast(device, dtype=dtype)
            for x, y in loader:
                optimizer.zero_grad()
                with region:
                    loss = F.mse_loss(model(x), y)
                    if loss.isfinite():
                        loss.backward()  # AMP620
                optimizer.step()
        """
    )


def test_what_only_looks_like_training_may_be_in_a_region(clean: Check) -> None:
    clean(
        """
        def outside(model, optimizer, scaler, loader):
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

        def off(model, optimizer, loader):
            with torch.autocast("cuda", enabled=False):
                for x, y in loader:
                    F.mse_loss(model(x), y).backward()
                    optimizer.step()

        def island(model, scaler, x):
            with torch.autocast("cuda"):
                y = model(x)
                with torch.autocast("cuda", enabled=False):
                    scaler.scale(y.float().mean()).backward()

        def defined(model, optimizer, run, x):
            with torch.autocast("cuda"):
                def later():
                    model(x).mean().backward()
                    optimizer.step()
            run(later)

        def walked(env, model, scheduler, accelerator, x):
            with torch.autocast("cuda"):
                y = env.step(model(x))
                scheduler.step()
                accelerator.backward(y)
            return y
        """
    )


def test_a_region_around_the_loop_is_told_in_its_place(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            with torch.autocast("cuda"):  # AMP621
                for x, y in loader:
                    scaler.scale(F.mse_loss(model(x), y)).backward()
                    scaler.step(optimizer)
                    scaler.update()
        """
    )


def test_a_region_around_a_loop_that_does_not_step_keeps_good_copies(clean: Check) -> None:
    clean(
        """
        def evaluate(model, loader):
            with torch.no_grad(), torch.autocast("cuda"):
                return [model(x) for x in loader]

        def unrolled(model, optimizer, scaler, x):
            with torch.autocast("cuda"):
                for _ in range(8):
                    x = model(x)
            scaler.scale(x.mean()).backward()
            scaler.step(optimizer)
            scaler.update()

        def inside(model, optimizer, scaler, loader):
            for epoch in range(3):
                for x in loader:
                    with torch.autocast("cuda"):
                        loss = model(x).mean()
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
        """
    )


def test_without_the_cache_only_the_backward_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            with torch.autocast("cuda", cache_enabled=False):
                for x, y in loader:
                    scaler.scale(F.mse_loss(model(x), y)).backward()  # AMP620
                    scaler.step(optimizer)
                    scaler.update()
        """
    )


def test_a_refused_loss_in_a_region_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, scaler, x, y):
            criterion = nn.BCELoss()
            with torch.amp.autocast("cuda"):
                out = model(x)
                loss = F.binary_cross_entropy(torch.sigmoid(out), y)  # AMP622
                loss = loss + criterion(out, y)  # AMP622
                loss = loss + nn.BCELoss()(out, y)  # AMP622
            scaler.scale(loss).backward()
        """
    )
    assert "on out without the sigmoid" in found[0].hint
    assert "on out.float(), y.float()" in found[1].hint


def test_the_sigmoid_behind_a_refused_loss_is_named(marked: Check) -> None:
    found = marked(
        """
        class Critic(nn.Module):
            def forward(self, x):
                return self.head(x).sigmoid()

        class Rater(nn.Module):
            def __init__(self):
                self.layers = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())

            def forward(self, x):
                return self.layers(x)

        def train(model, x, y):
            critic, rater, squash = Critic(), Rater(), nn.Sigmoid()
            with torch.amp.autocast("cuda"):
                logits = model(x)
                rated = torch.sigmoid(logits)
                loss = F.binary_cross_entropy(rated.view(-1), y)  # AMP622
                loss = loss + F.binary_cross_entropy(target=y, input=squash(logits))  # AMP622
                judged = critic(x)
                loss = loss + F.binary_cross_entropy(judged, y)  # AMP622
                loss = loss + F.binary_cross_entropy(rater(x), y)  # AMP622
                loss = loss + F.binary_cross_entropy(model(x), y)  # AMP622
            return loss
        """
    )
    assert [each.hint.removeprefix("use the form with logits, on ") for each in found] == [
        "logits, which the sigmoid in line 20 is given",
        "logits without the sigmoid",
        "self.head(x), which the sigmoid in line 7 is given",
        "let the model end without its sigmoid, and use the form with logits",
        "compute it behind the region, on model(x).float(), y.float(), or use the form with logits",
    ]


def test_a_refused_loss_out_of_a_dictionary_is_seen(marked: Check) -> None:
    marked(
        """
        LOSSES = {"bce": nn.BCELoss, "ce": nn.CrossEntropyLoss}

        def train(cfg, model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            criterion = LOSSES[cfg.loss](reduction="mean")
            for x, y in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = criterion(model(x), y)  # AMP622
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )


def test_a_refused_loss_that_autocast_does_not_see_is_right(clean: Check) -> None:
    clean(
        """
        def train(model, scaler, x, y, logits):
            criterion = nn.BCEWithLogitsLoss() if logits else nn.BCELoss()
            other = nn.BCEWithLogitsLoss()
            with torch.amp.autocast("cuda"):
                out = model(x)
                loss = F.binary_cross_entropy_with_logits(out, y) + other(out, y)
                with torch.amp.autocast("cuda", enabled=False):
                    loss = loss + F.binary_cross_entropy(out.float(), y)
            loss = loss + F.binary_cross_entropy(out.float(), y)
            scaler.scale(loss).backward()

        def on_cpu(model, x, y):
            criterion = nn.BCELoss()
            with torch.amp.autocast("cpu"):
                return F.binary_cross_entropy(model(x), y) + criterion(torch.sigmoid(model(x)), y)

        def switched_off(model, x, y):
            with torch.cuda.amp.autocast(enabled=False):
                return nn.BCELoss()(torch.sigmoid(model(x)), y)

        def made_only(model, x):
            with torch.amp.autocast("cuda"):
                return model(x), nn.BCELoss(), F.binary_cross_entropy

        def own(model, x, y, binary_cross_entropy):
            with torch.amp.autocast("cuda"):
                return binary_cross_entropy(torch.sigmoid(model(x)), y)

        def defined(model, x, y):
            with torch.amp.autocast("cuda"):
                out = model(x)
                later = lambda: F.binary_cross_entropy(out.float(), y)
            return later()

        def somewhere(model, x, y, device):
            with torch.amp.autocast(device):
                return F.binary_cross_entropy(model(x), y)
        """
    )


def test_a_bfloat16_output_for_numpy_is_repaired(rewrites: Check) -> None:
    rewrites(
        """
          def evaluate(model: nn.Module, loader):
              for x in loader:
                  with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
                      out = model(x)
        -         yield out.cpu().numpy()
        +         yield out.float().cpu().numpy()
        """
    )


def test_a_bfloat16_output_of_a_region_whose_dtype_callers_give_is_repaired(rewrites: Check, clean: Check) -> None:
    text = """
          def evaluate(model: nn.Module, loader, dtype):
              for x in loader:
                  with torch.no_grad(), torch.autocast("cuda", dtype=dtype):
                      out = model(x)
        {yielded}

          print(list(evaluate(nn.Linear(3, 1), [torch.randn(2, 3)], torch.bfloat16)))
          {more}
    """
    plain = "yield out.cpu().numpy()"
    changed = f"-         {plain}\n        +         yield out.float().cpu().numpy()"
    rewrites(text.format(yielded=changed, more=""))
    also = "print(list(evaluate(nn.Linear(3, 1), [torch.randn(2, 3)], torch.float16)))"
    for more in (also, also.replace("torch.float16", "load()")):
        clean(text.format(yielded=f"          {plain}", more=more).replace("\n          ", "\n        "))


def test_a_bfloat16_output_is_repaired_where_a_function_gets_it_that_gives_it_to_numpy(rewrites: Check) -> None:
    rewrites(
        """
          def to_numpy(tensor):
              return tensor.detach().cpu().numpy()

          def evaluate(model: nn.Module, loader):
              for x, y in loader:
                  with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
                      out = model(x)
        -         yield to_numpy(out), to_numpy(y)
        +         yield to_numpy(out.float()), to_numpy(y)
        """
    )


def test_what_unread_code_gives_may_be_float32(clean: Check) -> None:
    clean(
        """
        from elsewhere import to_mel

        def evaluate(nets, loader, amp):
            net, _ = nets
            for x in loader:
                with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
                    out, weights = net(x)
                    mel = to_mel(x)
                yield mel[0].cpu().numpy(), weights.cpu().numpy()
        """
    )


def test_what_numpy_can_take_is_left_alone(clean: Check) -> None:
    clean(
        """
        def evaluate(model: nn.Module, loader):
            for x, y in loader:
                with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
                    out = model(x)
                    loss = F.cross_entropy(out, y)
                yield out.float().numpy(), out.argmax(1).cpu().numpy(), loss.cpu().numpy(), x.numpy()

        def half(model: nn.Module, loader):
            for x in loader:
                with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
                    out = model(x)
                yield out.cpu().numpy()
        """
    )


def test_inputs_cast_by_hand_in_a_region_are_told(marked: Check) -> None:
    marked(
        """
        def train(model: nn.Module, optimizer, scaler, x, y):
            with torch.autocast("cuda"):
                out = model(x.half())  # AMP624
                out = model(x.to(torch.float16), y)  # AMP624
                loss = model(mask=x.bfloat16()).mean()  # AMP624
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    )


def test_inputs_cast_by_hand_above_a_region_are_told_where_they_are_cast(marked: Check) -> None:
    marked(
        """
        def train(model: nn.Module, optimizer, scaler, loader):
            for x, y in loader:
                x = x.to("cuda", non_blocking=True, dtype=torch.bfloat16)  # AMP624
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(x).mean() + model(x).sum()
                loss.backward()
                optimizer.step()
        """
    )


def test_what_is_cast_on_one_way_alone_or_for_something_else_is_not_told(clean: Check) -> None:
    clean(
        """
        def train(model: nn.Module, other, optimizer, loader, fast):
            for x, y in loader:
                low = x.half()
                if fast:
                    x = x.bfloat16()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(x).mean()
                loss.backward()
                optimizer.step()
                other.keep(low)
        """
    )


def test_other_casts_in_a_region_are_right(clean: Check) -> None:
    clean(
        """
        def train(model: nn.Module, optimizer, x, y, device):
            optimizer.step()
            with torch.autocast("cuda"):
                out = model(x.float(), y.to(device), x.to(torch.float32), x.long())
                stored = [x.half(), out.half()]
            with torch.autocast("cuda", enabled=False):
                out = model(x.half())
            return model(x.half()), stored, half(x.half())

        def half(x):
            with torch.autocast("cuda"):
                return x.half()
        """
    )


def test_a_comparison_that_trains_nothing_may_cast_as_it_likes(clean: Check) -> None:
    clean(
        """
        def compare(model: nn.Module, x):
            with torch.autocast("cuda"):
                return model(x.half()) - model(x)
        """
    )


def test_a_region_of_an_object_ends_by_whichever_exit_it_is_left(marked_files: Check) -> None:
    contexts = """
    import torch

    class Region:
        def __init__(self, **options):
            self.options = options

        def __enter__(self):
            self.region = torch.autocast("cuda", **self.options)
            return self.region.__enter__()

        def __exit__(self, *raised):
            return self.region.__exit__(*raised)
    """
    train = """
    import torch
    from contexts import Region

    def train(model, optimizer, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            with Region(dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
                if loss > 3:
                    continue
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            with Region(dtype=torch.float16):
                scaler.scale(torch.nn.functional.mse_loss(model(x), y)).backward()  # AMP620
            optimizer.zero_grad()
    """
    marked_files(train=train, contexts=contexts)


BY_NAME = """
    {device}

    def train(model, optimizer, loader):
        scaler = torch.amp.GradScaler(device)
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device, dtype={dtype}):
                loss = F.binary_cross_entropy(model(x.to(device)).sigmoid(), y.to(device)){mark}
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    "device",
    [
        'device = "cuda"',
        'device = "cuda" if torch.cuda.is_available() else "cpu"',
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu").type',
    ],
)
def test_a_refused_loss_in_a_region_whose_device_has_a_name_is_told(marked: Check, device: str) -> None:
    marked(BY_NAME.format(device=device, dtype="torch.float16", mark="  # AMP622"))


def test_a_loss_in_a_region_whose_name_says_that_it_is_for_the_cpu_is_right(clean: Check) -> None:
    clean(BY_NAME.format(device='device = "cpu"', dtype="torch.bfloat16", mark=""))


HELD_BY_ANOTHER = """
        class Trainer:
            def __init__(self, dtype):
                self.scaler = torch.amp.GradScaler("cuda")
                self.{held} = torch.autocast("cuda", dtype=dtype)

        class Probe:
            def learn(self, trainer, x, y):
                with {region}:
                    loss = F.mse_loss(self.model(x), y)
                    trainer.scaler.scale(loss).backward(){mark}
"""


@pytest.mark.parametrize(
    ("held", "region", "is_told"),
    [
        ("context", "trainer.context", True),
        ("autocast_context", "trainer.autocast_context", True),
        ("other", "trainer.autocast_context", True),  # which nobody sees made, and is called so
        ("context", "trainer.other", False),
        ("context", "trainer.model.lock", False),
    ],
)
def test_a_region_may_be_what_objects_of_the_project_keep_under_its_name(
    marked: Check, held: str, region: str, is_told: bool
) -> None:
    marked(HELD_BY_ANOTHER.format(held=held, region=region, mark="  # AMP620" if is_told else ""))
