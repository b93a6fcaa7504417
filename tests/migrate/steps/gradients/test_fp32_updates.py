"""One `scaler.update()` in each iteration, after the last optimizer has stepped."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

Check = Callable[..., Any]


def test_two_optimizers_of_one_iteration_share_an_update(rewrites: Check) -> None:
    rewrites(
        """
          netD, netG = Disc(), Gen()
          criterion = nn.BCEWithLogitsLoss()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for real, noise in loader:
              netD.zero_grad()
        ~     errD_real = criterion(netD(real), ones)
        ~     errD_real.backward()
        ~     fake = netG(noise)
        ~     errD_fake = criterion(netD(fake.detach()), zeros)
        ~     errD_fake.backward()
        -     optD.step()
        +     scaler.step(optD)
              netG.zero_grad()
        ~     errG = criterion(netD(fake), ones)
        ~     errG.backward()
        ~     optG.step()
        """
    )


def test_optimizers_that_step_on_one_line_share_an_update(rewrites: Check) -> None:
    rewrites(
        """
          a, b = nn.Linear(2, 2), nn.Linear(2, 2)
          opt_a = torch.optim.SGD(a.parameters(), lr=0.1)
          opt_b = torch.optim.SGD(b.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(b(a(x)), y)
              opt_a.zero_grad(); opt_b.zero_grad()
        ~     loss.backward()
        -     opt_a.step(); opt_b.step()
        +     scaler.step(opt_a)
        +     scaler.step(opt_b)
        +     scaler.update()
        """
    )


def test_optimizers_in_branches_update_in_their_branch(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          sgd = torch.optim.SGD(model.parameters(), lr=0.1)
          adam = torch.optim.Adam(model.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for i, (x, y) in enumerate(loader):
        ~     loss = nn.functional.mse_loss(model(x), y)
              model.zero_grad()
        ~     loss.backward()
              if i % 2:
        ~         sgd.step()
              else:
        ~         adam.step()
        """
    )


def test_optimizer_that_steps_now_and_then_updates_with_the_one_that_always_does(rewrites: Check) -> None:
    rewrites(
        """
          netD, netG = A(), B()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for i, x in enumerate(loader):
              optD.zero_grad()
        ~     d = netD(x).mean() - netD(netG(x).detach()).mean()
        ~     d.backward()
        -     optD.step()
        +     scaler.step(optD)
              if i % 5 == 0:
                  optG.zero_grad()
        ~         g = -netD(netG(x)).mean()
        ~         g.backward()
        -         optG.step()
        +         scaler.step(optG)
        +     scaler.update()
        """
    )


def test_loops_of_their_own_have_updates_of_their_own(rewrites: Check) -> None:
    rewrites(
        """
          netD, netG = A(), B()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for epoch in range(10):
              for x in loader:
                  optD.zero_grad()
        ~         d = netD(x).mean()
        ~         d.backward()
        ~         optD.step()
              for x in loader:
                  optG.zero_grad()
        ~         g = netD(netG(x)).mean()
        ~         g.backward()
        ~         optG.step()
        """
    )


def test_step_in_a_try_updates_there(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
              try:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
              except RuntimeError:
                  continue
        """
    )


def test_one_line_branch_becomes_a_block(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        -     if ready: optimizer.step()
        +     if ready:
        +         scaler.step(optimizer)
        +         scaler.update()
              optimizer.zero_grad()
        """
    )


def test_scheduler_steps_as_before(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        ~ EPOCH
              scheduler.step()
        """
    )


def test_schedulers_of_a_collection_step_as_before(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          from torch.optim.lr_scheduler import LinearLR, StepLR
          rates = [LinearLR(optimizer), StepLR(optimizer, 1)]
          of_each = {name: StepLR(o, 1) for name, o in (("net", optimizer),)}
        ~ EPOCH
              for each in rates:
                  each.step()
              for each in of_each.values():
                  each.step()
              of_each["net"].step()
        """
    )


def test_branches_that_are_whole_steps_update_each_in_itself(rewrites: Check) -> None:
    rewrites(
        """
          generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
          opt_g = torch.optim.Adam(generator.parameters())
          opt_d = torch.optim.Adam(discriminator.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for epoch in range(max(g_epochs, d_epochs)):
              for x, y in loader:
                  if epoch < g_epochs:
                      generator.zero_grad()
        ~             g_loss = nn.functional.mse_loss(generator(x), y)
        ~             g_loss.backward()
        ~             opt_g.step()
                  if epoch < d_epochs:
                      discriminator.zero_grad()
        ~             d_loss = discriminator(y).mean()
        ~             d_loss.backward()
        ~             opt_d.step()
        """
    )


IN_BRANCHES = """\
  g, d = nn.Linear(2, 2).cuda(), nn.Linear(2, 1).cuda()
  opt = {"g": torch.optim.Adam(g.parameters()), "d": torch.optim.Adam(d.parameters())}
+ scaler = torch.amp.GradScaler("cuda")
  for x, y in loader:
-     g_loss = nn.functional.mse_loss(g(x.cuda()), y.cuda())
+     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+         g_loss = nn.functional.mse_loss(g(x.cuda()), y.cuda())
      if mode == "train":
          g.zero_grad()
-         g_loss.backward()
-         opt["g"].step()
+         scaler.scale(g_loss).backward()
+         scaler.step(opt["g"])
+         scaler.update()
      if with_d:
-         d_loss = d(x.cuda()).square().mean()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+             d_loss = d(x.cuda()).square().mean()
          if mode == "train":
              d.zero_grad()
-             d_loss.backward()
-             opt["d"].step()
+             scaler.scale(d_loss).backward()
+             scaler.step(opt["d"])
+             scaler.update()
"""


def test_a_branch_of_a_branch_may_be_a_whole_step(rewrites: Check) -> None:
    rewrites(IN_BRANCHES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('opt["d"].step()', 'if len(x) > 2:\n                opt["d"].step()'),
        (
            'if mode == "train":\n            d.zero',
            'd_loss.backward()\n        if mode == "train":\n            d.zero',
        ),
    ],
)
def test_a_branch_of_a_branch_that_goes_backward_and_may_not_step(leaves: Check, old: str, new: str) -> None:
    lines = [each[2:] for each in IN_BRANCHES.splitlines() if not each.startswith("+")]
    leaves("\n".join(lines).replace(old, new), "an iteration may step no optimizer at all")


def test_branches_of_which_one_leaves_gradients_to_wait(leaves: Check) -> None:
    leaves(
        """
        a, b = nn.Linear(2, 2), nn.Linear(2, 2)
        opt_a = torch.optim.Adam(a.parameters())
        opt_b = torch.optim.Adam(b.parameters())
        for i, (x, y) in enumerate(loader):
            if first:
                a_loss = nn.functional.mse_loss(a(x), y)
                a_loss.backward()
                if i % 2:
                    opt_a.step()
                    opt_a.zero_grad()
            if second:
                opt_b.zero_grad()
                b_loss = nn.functional.mse_loss(b(a(x)), y)
                b_loss.backward()
                opt_b.step()
        """,
        "may step no optimizer at all",
    )


def test_branches_of_which_one_adds_to_the_gradients_of_the_other(leaves: Check) -> None:
    leaves(
        """
        generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
        opt_g = torch.optim.Adam(generator.parameters())
        opt_d = torch.optim.Adam(discriminator.parameters())
        for x, y in loader:
            if first:
                opt_g.zero_grad()
                g_loss = discriminator(generator(x)).mean()
                g_loss.backward()
                opt_g.step()
            if second:
                d_loss = discriminator(y).mean()
                d_loss.backward()
                opt_d.step()
                opt_d.zero_grad()
        """,
        "gradients of an older scale and of a newer one are added up",
    )


ACCUMULATED = """
    encoder, judge = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
    optimizer = torch.optim.Adam(encoder.parameters())
    judging = torch.optim.Adam(judge.parameters())
    for i, (x, y) in enumerate(loader):
        code = encoder(x)
        judged = nn.functional.cross_entropy(judge(code.detach()), y)
        judged.backward()
        if {first}:
            judging.step()
            judging.zero_grad()
        {between}
        loss = code.square().mean()
        loss.backward()
        if {last}:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("test", ["(i + 1) % 4 == 0", "i % 4 == 3 or i + 1 == len(loader)"])
def test_optimizers_that_step_under_one_test_share_the_update_of_the_last(rewrites: Check, test: str) -> None:
    rewrites(
        f"""
          encoder, judge = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
          optimizer = torch.optim.Adam(encoder.parameters())
          judging = torch.optim.Adam(judge.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for i, (x, y) in enumerate(loader):
        ~     code = encoder(x)
        ~     judged = nn.functional.cross_entropy(judge(code.detach()), y)
        ~     judged.backward()
              if {test}:
        -         judging.step()
        +         scaler.step(judging)
                  judging.zero_grad()
        ~     loss = code.square().mean()
        ~     loss.backward()
              if {test}:
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize(
    ("first", "between", "last"),
    [
        ("i % 4 == 3", "pass", "i % 2 == 1"),
        ("i % n == 0", "n = 3", "i % n == 0"),
        ("loader.is_due()", "pass", "loader.is_due()"),
        ("i % 4 == 3", "if True: i = 3", "i % 4 == 3"),
    ],
)
def test_optimizers_that_step_under_several_tests_are_left(leaves: Check, first: str, between: str, last: str) -> None:
    text = ACCUMULATED.format(first=first, between=between, last=last).replace(".detach()", "")
    leaves(text, "an iteration may step no optimizer at all")


ROUNDS = """
    {made}
    for i, (x, y) in enumerate(loader):
        {clear}
        code = encoder(x)
        for _ in range(2):
            judged = nn.functional.cross_entropy(judge(code.detach()), y)
            judged.backward()
            {judge}: judging.step(); judging.zero_grad()
        loss = code.square().mean()
        loss.backward()
        {test}: optimizer.step()
        {behind}
"""
SEEN = """encoder, judge = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
    optimizer = torch.optim.Adam(encoder.parameters())
    judging = torch.optim.Adam(judge.parameters())"""


UNSEEN = f"{SEEN.partition(chr(10))[0]}\n    optimizer, judging = make_optimizers(args, encoder, judge)"


@pytest.mark.parametrize(("made", "seen"), [(SEEN, "code"), (UNSEEN, "code.detach()")])
def test_a_scale_is_not_updated_while_gradients_of_another_optimizer_add_up(
    leaves: Check, made: str, seen: str
) -> None:
    parts = {"made": made, "clear": "pass", "judge": "if i % 4 == 3"}
    text = ROUNDS.format(test="if i % 4 == 3", behind="if i % 4 == 3: optimizer.zero_grad()", **parts)
    found = leaves(
        text.replace("code.detach()", seen),
        "the scale is updated behind the step of judging while gradients of optimizer add up for a later one",
    )
    assert found.hint.startswith("give each optimizer a scaler of its own")


@pytest.mark.parametrize(
    ("clear", "test", "behind"),
    [
        ("pass", "with span()", "optimizer.zero_grad()"),
        ("encoder.zero_grad()", "if loss < 9", "pass"),
        ("optimizer.zero_grad()", "if loss < 9", "pass"),
    ],
)
def test_a_scale_is_updated_in_rounds_whose_gradients_add_up_to_no_others(
    migrate: Check, clear: str, test: str, behind: str
) -> None:
    assert migrate(ROUNDS.format(made=SEEN, clear=clear, judge="with span()", test=test, behind=behind)).changed


TWICE = """
    judge, maker = nn.Linear(2, 1), nn.Linear(2, 2)
    judging = torch.optim.Adam(judge.parameters())
    making = torch.optim.Adam(maker.parameters())
    for i, (x, y) in enumerate(loader):
        judging.zero_grad()
        made = maker(x)
        loss = nn.functional.mse_loss(judge(made.detach()), y)
        loss.backward()
        judging.step()
        if args.twice:
            {clear}
            loss = nn.functional.mse_loss(judge(x), y)
            {backward}
            {step}
        if i % 5 == 0:
            making.zero_grad()
            loss = nn.functional.mse_loss(judge(made), y)
            loss.backward()
            making.step()
"""


def test_an_optimizer_that_may_step_again_has_an_update_behind_each_step(migrate: Check) -> None:
    text = TWICE.format(clear="judging.zero_grad()", backward="loss.backward()", step="judging.step()")
    after = migrate(text).after
    assert after.count("scaler.update()") == 3
    assert "        scaler.step(judging)\n        scaler.update()\n    if i % 5 == 0:" in after


@pytest.mark.parametrize(
    ("clear", "backward", "step", "why"),
    [
        ("pass", "loss.backward()", "judging.step()", "true gradients are added to scaled ones"),
        ("pass", "loss.backward()", "if i % 2: judging.step()", "with no zero_grad() between the two"),
        ("judging.zero_grad()", "loss.backward()", "if i % 2: judging.step()", "one of the two times perhaps"),
    ],
)
def test_an_optimizer_that_steps_again_on_what_may_add_up_is_left(
    leaves: Check, clear: str, backward: str, step: str, why: str
) -> None:
    leaves(TWICE.format(clear=clear, backward=backward, step=step), why)


def test_iteration_that_may_step_no_optimizer(leaves: Check) -> None:
    leaves(
        """
        MODEL
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if a:
                optimizer.step()
            if b:
                other_optimizer.step()
        """,
        "may step no optimizer at all",
    )


def test_result_of_the_step_is_used(leaves: Check) -> None:
    leaves(
        """
        MODEL
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            r = optimizer.step()
        """,
        "the result of optimizer.step() is used",
    )


def test_step_by_another_name(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        optimizer = SAM(model.parameters(), torch.optim.SGD)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.first_step(zero_grad=True)
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.second_step(zero_grad=True)
        """,
        "no optimizer.step() belongs to this backward()",
    )


def test_weights_updated_by_hand(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            model.zero_grad()
            loss.backward()
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-0.1)
        """,
        "no optimizer.step() belongs to this backward()",
    )


def test_weights_updated_by_hand_need_no_scaler_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
              model.zero_grad()
              loss.backward()
              for p in model.parameters():
                  p.data.add_(p.grad, alpha=-0.1)
        """,
        dtype="bf16",
    )


def test_optimizer_that_steps_twice_updates_in_between(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
              optimizer.zero_grad()
        ~     first = model(x).mean()
        ~     first.backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        ~     second = model(y).mean()
        ~     second.backward()
        ~     optimizer.step()
        """
    )


def test_optimizer_that_steps_twice_on_the_same_gradients_is_left(leaves: Check) -> None:
    leaves(
        """
        MODEL
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.step()
        """,
        "steps twice",
    )


def test_a_step_on_gradients_that_are_just_cleared_has_no_part_in_the_training(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          optimizer.zero_grad()
          if start == 0:
              optimizer.step()
          else:
              optimizer.step()
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_a_step_behind_a_loop_over_cleared_gradients_is_one_of_the_training(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          optimizer.zero_grad()
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
          else:
        ~     optimizer.step()
        """
    )


def test_scale_is_updated_where_an_iteration_ends_before_its_last_step(rewrites: Check) -> None:
    rewrites(
        """
          a, b = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
          a_optimizer = torch.optim.SGD(a.parameters(), lr=0.1)
          b_optimizer = torch.optim.SGD(b.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for i, x in enumerate(batches):
        ~     loss = a(x).mean()
              a_optimizer.zero_grad()
        -     loss.backward()
        -     a_optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(a_optimizer)
              if i % 2:
                  print(i)
        +         scaler.update()
                  continue
              for p in b.parameters():
                  if p.dim() < 2:
                      continue
                  print(p.shape)
        ~     other = b(x).mean()
              b_optimizer.zero_grad()
        -     other.backward()
        -     b_optimizer.step()
        +     scaler.scale(other).backward()
        +     scaler.step(b_optimizer)
        +     scaler.update()
        """
    )


def test_gradients_that_an_early_end_leaves_for_later_iterations_are_of_another_scale(leaves: Check) -> None:
    leaves(
        """
        a, b = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
        a_optimizer = torch.optim.SGD(a.parameters(), lr=0.1)
        b_optimizer = torch.optim.SGD(b.parameters(), lr=0.1)
        for i, x in enumerate(batches):
            loss = a(b(x)).mean()
            a_optimizer.zero_grad()
            loss.backward()
            a_optimizer.step()
            if i % 2:
                continue
            other = b(x).mean()
            other.backward()
            b_optimizer.step()
            b_optimizer.zero_grad()
        """,
        "gradients of an older scale and of a newer one are added up",
    )


def test_an_early_end_behind_a_step_that_may_not_be_made_has_nothing_to_go_by(leaves: Check) -> None:
    leaves(
        """
        def learn(a, b, a_optimizer, b_optimizer, x, i):
            a_optimizer.zero_grad()
            loss = a(x).mean()
            loss.backward()
            if i % 3:
                a_optimizer.step()
            if i % 2:
                return
            b_optimizer.zero_grad()
            other = b(x).mean()
            other.backward()
            b_optimizer.step()


        def main(batches):
            a, b = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
            a_optimizer = torch.optim.SGD(a.parameters(), lr=0.1)
            b_optimizer = torch.optim.SGD(b.parameters(), lr=0.1)
            for i, x in enumerate(batches):
                learn(a, b, a_optimizer, b_optimizer, x, i)
        """,
        "a scaler steps twice without an update",
    )


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        (
            "optimizer.step() if loss.isfinite() else optimizer.zero_grad()",
            """
            if loss.isfinite():
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.zero_grad()
            """,
        ),
        (
            "optimizer.zero_grad() if loss.isnan() else optimizer.step()",
            """
            if loss.isnan():
                optimizer.zero_grad()
            else:
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
        (
            "optimizer.step() if len(x) == 4 else None  # whole batches",
            """
            # whole batches
            if len(x) == 4:
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
        (
            "None if len(x) % 4 else optimizer.step()",
            """
            if not (len(x) % 4):
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
    ],
)
def test_step_in_an_arm_of_a_conditional_expression(rewrites: Check, statement: str, written: str) -> None:
    after = "\n".join(f"        +     {line}" for line in dedent(written).strip().splitlines())
    rewrites(
        f"""
        ~ MODEL
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        -     {statement}
        +     scaler.scale(loss).backward()
{after}
        """
    )


def test_step_that_a_norm_decides_about_in_a_conditional_expression(rewrites: Check) -> None:
    """Gradients that overflow fail the test: the scale comes down behind it."""
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
              norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -     optimizer.step() if norm.isfinite() else None
        +     scaler.step(optimizer) if norm.isfinite() else None
        +     scaler.update()
              optimizer.zero_grad()
        """
    )


def test_conditional_step_beside_one_that_always_comes(rewrites: Check) -> None:
    rewrites(
        """
          net, head = nn.Linear(2, 2), nn.Linear(2, 2)
          optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
          other = torch.optim.SGD(head.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for i, (x, y) in enumerate(loader):
              optimizer.zero_grad()
              other.zero_grad()
        ~     loss = nn.functional.mse_loss(head(net(x)), y)
        -     loss.backward()
        -     optimizer.step()
        -     other.step() if i > 100 else None
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.step(other) if i > 100 else None
        +     scaler.update()
        """
    )


def test_conditional_step_whose_value_is_used(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            result = optimizer.step() if loss.isfinite() else None
            optimizer.zero_grad()
        """,
        "the result of optimizer.step() is used",
    )


@pytest.mark.parametrize(("begins", "rest"), [("1", "accum > 1"), ("0", "accum != 0"), ("0", "accum >= 1")])
def test_the_rest_of_an_accumulation_steps_behind_the_loop(rewrites: Check, begins: str, rest: str) -> None:
    rewrites(
        f"""
        ~ MODEL
          accum = {begins}
          for x, y in loader:
        ~     loss = nn.functional.cross_entropy(model(x), y)
        ~     loss.backward()
              if accum % steps == steps - 1:
        ~         optimizer.step()
                  optimizer.zero_grad()
                  accum = {begins}
              else:
                  accum += 1
          if {rest}:
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize(("begins", "rest"), [("1", "accum > 0"), ("start", "accum > 1")])
def test_one_that_may_have_no_gradients_is_left(leaves: Check, begins: str, rest: str) -> None:
    leaves(
        f"""
        accum = {begins}
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            if accum % steps == 0:
                optimizer.step()
                optimizer.zero_grad()
                accum = {begins}
            else:
                accum += 1
        if {rest}:
            optimizer.step()
            optimizer.zero_grad()
        """,
        f"left as it was: a scaler steps an optimizer without gradients: {rest} is true",
    )
