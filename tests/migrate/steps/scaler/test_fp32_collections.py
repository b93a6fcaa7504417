"""Optimizers in lists and dictionaries share one scaler, which is updated once they all have stepped."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

import pytest

Check = Callable[..., Any]


def test_list_of_optimizers(rewrites: Check) -> None:
    rewrites(
        """
          models = nn.ModuleList([nn.Linear(2, 2)])
          optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = sum(nn.functional.mse_loss(model(x), y) for model in models)
              for optimizer in optimizers:
                  optimizer.zero_grad()
        ~     loss.backward()
              for optimizer in optimizers:
        -         optimizer.step()
        +         scaler.step(optimizer)
        +     scaler.update()
        """
    )


AVERAGE = """
class Average{base}:
    def __init__(self, model):
        self.weights, self.inner = [p.clone() for p in model.parameters()], model

    @torch.no_grad()
    def step(self):
        for p, weight in zip(self.inner.parameters(), self.weights):
            {stepped}
"""


@pytest.mark.parametrize("base", ["", "(object)"])
def test_an_average_of_weights_with_the_name_of_an_optimizer_steps_as_before(rewrites: Check, base: str) -> None:
    average = AVERAGE.format(base=base, stepped="weight.lerp_(p, 0.1)")
    rewrites(
        indent(average, "  ")
        + """
        ~ MODEL
          ema_optimizer = Average(model)
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        ~     optimizer.step()
              ema_optimizer.step()
        """.replace("\n        ", "\n")
    )


@pytest.mark.parametrize("stepped", ["p -= 0.1 * p.grad", "self.inner.step(p)", "getattr(self, 'update')(p)"])
def test_what_may_step_by_gradients_of_its_own_is_none(leaves: Check, stepped: str) -> None:
    text = AVERAGE.format(base="", stepped=stepped)
    step = """
        model = nn.Linear(2, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        own_optimizer = Average(model)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            own_optimizer.step()
    """
    leaves(text + dedent(step), "left as it was")


def test_gradients_that_are_clipped_before_a_loop_over_the_optimizers(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizers = {"all": torch.optim.SGD(model.parameters(), lr=0.1)}
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        +     for optimizer in optimizers.values():
        +         scaler.unscale_(optimizer)
              nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              for optimizer in optimizers.values():
        -         optimizer.step()
        +         scaler.step(optimizer)
                  optimizer.zero_grad()
        +     scaler.update()
        """
    )


def test_gradients_that_are_clipped_in_a_loop_over_the_optimizers(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
              for optimizer in optimizers:
        +         scaler.unscale_(optimizer)
                  nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -         optimizer.step()
        +         scaler.step(optimizer)
                  optimizer.zero_grad()
        +     scaler.update()
        """
    )


def test_dictionary_in_self(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model):
                  self.model = model
                  self.optimizers = {"all": torch.optim.SGD(model.parameters(), lr=0.1)}
        +         self.scaler = torch.amp.GradScaler("cuda")

              def train(self, x, y):
        ~         loss = nn.functional.mse_loss(self.model(x), y)
        -         loss.backward()
        -         self.optimizers["all"].step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizers["all"])
        +         self.scaler.update()
        """
    )


def test_dictionary_that_is_filled(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
          optimizers = {}
          optimizers["all"] = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
              model.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        -     loss.backward()
        -     optimizers["all"].step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizers["all"])
        +     scaler.update()
        """
    )


@pytest.mark.parametrize(
    "gathered",
    [
        "[self.optimizers[k] for k in self.optimizers]",
        "[optimizer for optimizer in self.optimizers.values()]",
        "list(self.optimizers.values())",
    ],
)
def test_list_that_is_taken_from_a_dictionary(gathered: str, rewrites: Check) -> None:
    rewrites(
        f"""
          class T:
              def __init__(self, model):
                  self.model = model
                  self.optimizers = {{"all": torch.optim.SGD(model.parameters(), lr=0.1)}}
        +         self.scaler = torch.amp.GradScaler("cuda")
              def step(self, x):
                  optimizers = {gathered}
        ~         loss = self.model(x).mean()
        -         loss.backward()
        +         self.scaler.scale(loss).backward()
                  for optimizer in optimizers:
        -             optimizer.step()
        +             self.scaler.step(optimizer)
        +         self.scaler.update()
                  tidy(self.model)
        """
    )


def test_list_of_optimizers_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         loss = nn.functional.mse_loss(model(x), y)
              loss.backward()
              for optimizer in optimizers:
                  optimizer.step()
                  optimizer.zero_grad()
        """,
        "bf16",
    )


@pytest.mark.parametrize(
    ("made", "cleared", "stepped", "through_scaler"),
    [
        (
            "opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]",
            "[o.zero_grad() for o in opts]",
            "[o.step() for o in opts]",
            "[scaler.step(o) for o in opts]",
        ),
        (
            "opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]",
            "list(map(lambda o: o.zero_grad(), opts))",
            "list(o.step() for o in opts)",
            "list(scaler.step(o) for o in opts)",
        ),
        (
            "opts = {str(i): torch.optim.SGD(m.parameters(), lr=0.1) for i, m in enumerate(models)}",
            "[o.zero_grad() for o in opts.values()]",
            "[o.step() for _, o in opts.items()]",
            "[scaler.step(o) for _, o in opts.items()]",
        ),
        (
            "opts = {str(i): torch.optim.SGD(m.parameters(), lr=0.1) for i, m in enumerate(models)}",
            "for _, o in opts.items(): o.zero_grad()",
            "for _, o in opts.items(): o.step()",
            "for _, o in opts.items(): scaler.step(o)",
        ),
        (
            "opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]",
            "for _, o in enumerate(opts): o.zero_grad()",
            "for _, o in enumerate(opts): o.step()",
            "for _, o in enumerate(opts): scaler.step(o)",
        ),
        (
            "opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]",
            "for _, (m, o) in enumerate(zip(models, opts)): o.zero_grad()",
            "for _, (m, o) in enumerate(zip(models, opts)): o.step()",
            "for _, (m, o) in enumerate(zip(models, opts)): scaler.step(o)",
        ),
    ],
)
def test_loop_in_whatever_words(made: str, cleared: str, stepped: str, through_scaler: str, rewrites: Check) -> None:
    rewrites(
        f"""
          models = nn.ModuleList([nn.Linear(2, 2)])
          {made}
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = sum(nn.functional.mse_loss(model(x), y) for model in models)
              {cleared}
        ~     loss.backward()
        -     {stepped}
        +     {through_scaler}
        +     scaler.update()
        """
    )


def test_gradients_that_are_clipped_before_a_comprehension_over_the_optimizers(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          opts = {"all": torch.optim.SGD(model.parameters(), lr=0.1)}
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
              [o.zero_grad() for _, o in opts.items()]
        ~     loss.backward()
        +     for _, o in opts.items():
        +         scaler.unscale_(o)
              nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -     [o.step() for _, o in opts.items()]
        +     [scaler.step(o) for _, o in opts.items()]
        +     scaler.update()
        """
    )


@pytest.mark.parametrize(
    ("stepped", "why"),
    [
        ("steps = [o.step() for o in opts]", "the result of o.step() is used"),
        ("[o.step() for o in opts if o.state]", "o.step() is part of a longer expression"),
        ("any(o.step() for o in opts)", "o.step() is part of a longer expression"),
        ("len(opts) and [o.step() for o in opts]", "o.step() is part of a longer expression"),
    ],
)
def test_steps_that_may_not_all_be_made(stepped: str, why: str, leaves: Check) -> None:
    leaves(
        f"""
        model = nn.Linear(2, 2)
        opts = [torch.optim.SGD(model.parameters(), lr=0.1)]
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            [o.zero_grad() for o in opts]
            loss.backward()
            {stepped}
        """,
        why,
    )


@pytest.mark.parametrize("numbers", ["range(2)", "range(len(optimizers))", "range(count)"])
def test_optimizers_by_number(rewrites: Check, numbers: str) -> None:
    rewrites(
        f"""
          first, second = nn.Linear(2, 2), nn.Linear(2, 2)
          count = 2
          optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (first, second)]
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              first.zero_grad()
              second.zero_grad()
        ~     loss = second(first(x)).mean()
        -     loss.backward()
        +     scaler.scale(loss).backward()
              for i in {numbers}:
        -         optimizers[i].step()
        +         scaler.step(optimizers[i])
        +     scaler.update()
        """
    )


@pytest.mark.parametrize("taken", ["for o in self.optimizers.values():", "for key, o in self.optimizers.items():"])
def test_an_optimizer_is_known_by_the_collection_that_a_loop_takes_it_from(rewrites: Check, taken: str) -> None:
    rewrites(
        f"""
          class Trainer:
              def __init__(self):
                  self.model = nn.ModuleDict({{"encoder": nn.Linear(2, 2), "disc": nn.Linear(2, 1)}})
                  self.optimizers = {{}}
        +         self.scaler = torch.amp.GradScaler("cuda")
                  for key, net in self.model.items():
                      self.optimizers[key] = torch.optim.SGD(net.parameters(), lr=0.1)

              def step(self, x):
        ~         loss = self.model["disc"](self.model["encoder"](x)).mean()
                  self.model.zero_grad()
        -         loss.backward()
        +         self.scaler.scale(loss).backward()
                  {taken}
        -             o.step()
        +             self.scaler.step(o)
        +         self.scaler.update()

          trainer = Trainer()
          for x in loader:
              trainer.step(x)
        """
    )


def test_an_optimizer_is_known_by_what_its_list_is_made_of(rewrites: Check) -> None:
    rewrites(
        """
          first, second = nn.Linear(2, 2), nn.Linear(2, 2)
          both = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (first, second)]
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              first.zero_grad()
              second.zero_grad()
        ~     loss = second(first(x)).mean()
        -     loss.backward()
        -     both[0].step()
        -     both[1].step()
        +     scaler.scale(loss).backward()
        +     scaler.step(both[0])
        +     scaler.step(both[1])
        +     scaler.update()
        """
    )


@pytest.mark.parametrize(
    "nets",
    [
        'nn.ModuleDict({"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)}).cuda()',
        "nn.ModuleDict(load())",
        '{"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)}',
    ],
)
def test_a_module_is_known_by_the_collection_that_it_is_in(rewrites: Check, nets: str) -> None:
    rewrites(
        f"""
          nets = {nets}
        ~ optimizer = torch.optim.SGD(parameters, lr=0.1)
          for x in loader:
        ~     loss = nets["d"](nets["g"](x)).mean()
        ~     STEP
        """
    )


def test_criteria_in_a_collection_are_no_modules(leaves: Check) -> None:
    leaves(
        """
        criteria = nn.ModuleList([nn.MSELoss(), nn.L1Loss()])
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        for x, y in loader:
            loss = criteria[0](x, y)
            STEP
        """,
        "the forward pass behind `loss` is not in this function",
    )


def test_model_under_a_key_that_says_so(rewrites: Check) -> None:
    rewrites(
        """
          parts = {"model": make()}
        ~ optimizer = torch.optim.SGD(parameters, lr=0.1)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(parts["model"](x), y)
        ~     STEP
        """
    )


TRAIN = """
def train(loader, model, optimizers):
    first, second = optimizers
    for x, y in loader:
        first.zero_grad()
        second.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        first.step()
        second.step()
"""


@pytest.mark.parametrize(
    ("kept", "given"),
    [
        ("", "(first, second)"),
        ("", "[first, second]"),
        ("both = first, second", "both"),
    ],
)
def test_optimizers_that_a_caller_gives_as_one_tuple(migrate: Check, kept: str, given: str) -> None:
    after = migrate(
        f"""{TRAIN}
model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).cuda()
first = torch.optim.SGD(model[0].parameters(), lr=0.1)
second = torch.optim.SGD(model[1].parameters(), lr=0.1)
{kept}
train(loader, model, {given})
"""
    ).after
    assert "def train(loader, model, optimizers, scaler):\n" in after
    assert "    scaler.step(first)\n        scaler.step(second)\n        scaler.update()\n" in after
    assert f"train(loader, model, {given}, scaler)\n" in after
    assert after.count("GradScaler(") == 1


@pytest.mark.parametrize("given", ["load()", "(first, load())"])
def test_optimizers_in_a_tuple_that_is_not_written_out(migrate: Check, given: str) -> None:
    text = f"""{TRAIN}
first = torch.optim.SGD(model.parameters(), lr=0.1)
train(loader, model, {given})
"""
    after = migrate(text).after
    assert '    scaler = torch.amp.GradScaler("cuda")\n    for x, y in loader:\n' in after
    assert f"train(loader, model, {given})\n" in after


@pytest.mark.parametrize("loop", ["opt, loss in zip(opts, losses)", "_, (loss, opt) in enumerate(zip(losses, opts))"])
def test_each_optimizer_steps_behind_the_backward_of_its_own_loss(loop: str, rewrites: Check) -> None:
    rewrites(
        f"""
          class Trainer:
              def __init__(self):
                  self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
                  a_opt, b_opt = torch.optim.Adam(self.a.parameters()), torch.optim.Adam(self.b.parameters())
                  self.opts = [a_opt, b_opt]
        +         self.scaler = torch.amp.GradScaler("cuda")

              def train(self, loader):
                  for x in loader:
        ~             a_loss = self.a(x).square().mean()
        ~             b_loss = self.b(x).abs().mean()
        -             self.update(self.opts, [a_loss, b_loss])
        +             self.update(self.opts, self.scaler, [a_loss, b_loss])

        -     def update(self, opts, losses):
        +     def update(self, opts, scaler, losses):
                  for {loop}:
                      opt.zero_grad()
        -             loss.backward()
        -             opt.step()
        +             scaler.scale(loss).backward()
        +             scaler.step(opt)
        +             scaler.update()
        """
    )


UNUSED = """
  a, b, c = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)
  nets = MADE
  optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
+ scaler = torch.amp.GradScaler("cuda")
  for x, y in loader:
      for net in nets:
          net.zero_grad()
~     loss = LOSS
~     loss.backward()
      for optimizer in optimizers:
-         optimizer.step()
+         scaler.step(optimizer)
+     scaler.update()
"""
OF_TWO = "(nets[0](x) - nets[2](x) - y).square().mean()"


@pytest.mark.parametrize(
    "made",
    [
        "[nn.Linear(2, 1) for _ in range(3)]",
        "[a, b, c]",
        "[nn.Linear(2, 1) for _ in range(n)]",
        "nn.ModuleList([nn.Linear(2, 1) for _ in range(3)])",
    ],
)
def test_one_of_several_optimizers_has_parameters_of_which_no_loss_is_computed(made: str, leaves: Check) -> None:
    text = "\n".join(line[2:] for line in UNUSED.splitlines() if line[:1] != "+")
    leaves(text.replace("MADE", made).replace("LOSS", OF_TWO), "from whose parameters no loss is computed")


@pytest.mark.parametrize(
    "made",
    [
        "[nn.Linear(2, 1) for _ in range(3)]",
        "[a, b, c]",
        "[nn.Linear(2, 1) for _ in range(n)]",
        "nn.ModuleList([nn.Linear(2, 1) for _ in range(3)])",
    ],
)
@pytest.mark.parametrize(
    "loss",
    [
        "(nets[0](x) - nets[2](x) - nets[1](x) - y).square().mean()",
        "sum(net(x).mean() for net in nets)",
        "sum(nets[i](x).mean() for i in range(3))",
        "(nets[0](x) + nets[-1](x)).mean() + apply(nets, x)",
    ],
)
def test_each_of_several_optimizers_has_parameters_that_a_loss_may_be_computed_from(
    made: str, loss: str, rewrites: Check
) -> None:
    rewrites(UNUSED.replace("MADE", made).replace("LOSS", loss))
