"""Where the loss comes from: the criterion, the model, the call of `backward` itself."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

Check = Callable[..., Any]


def test_model_that_takes_the_name_of_the_module_it_comes_from(rewrites: Check) -> None:
    rewrites(
        """
          import model
          model = model.RNNModel(3)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ EPOCH
        """
    )


def test_module_that_computes_its_loss_is_a_forward(rewrites: Check) -> None:
    rewrites(
        """
          class ModelAndLoss(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(2, 2)
              def forward(self, x, y):
                  return nn.functional.mse_loss(self.fc(x), y), x
          model_and_loss = ModelAndLoss()
        ~ optimizer = torch.optim.SGD(model_and_loss.parameters(), lr=0.1)
          for x, y in loader:
        ~     loss, out = model_and_loss(x, y)
        ~     STEP
        """
    )


def test_loss_computed_in_the_call_of_backward_gets_a_name(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          criterion = nn.MSELoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
              optimizer.zero_grad()
        -     criterion(model(x), y).backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = criterion(model(x), y)
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


@pytest.mark.parametrize(
    ("taken", "name"),
    [
        ("loss", "step_loss"),
        ("loss = step_loss", "amp_loss"),
        ("loss = step_loss = amp_loss", "amp_loss_2"),
        ("loss = step_loss = amp_loss = amp_loss_2", "amp_loss_3"),
    ],
)
def test_loss_without_a_name_gets_one_that_nothing_has(migrate: Check, taken: str, name: str) -> None:
    plan = migrate(
        f"""
        {taken} = 0
        MODEL
        for x, y in loader:
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        """
    )
    assert f"        {name} = nn.functional.mse_loss(model(x), y)\n" in plan.after
    assert f"    scaler.scale({name}).backward()\n" in plan.after


def test_loss_computed_in_the_call_of_backward_joins_the_forward(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          criterion = nn.MSELoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        -     output = model(x)
        -     optimizer.zero_grad()
        -     criterion(output, y).backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         output = model(x)
        +         optimizer.zero_grad()
        +         loss = criterion(output, y)
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


STEP = """
    ~ MODEL
    DELTA
    ~     optimizer.step()
          optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param(
            """
              for x, y in loader:
            ~     out = model(x)
            ~     a = nn.functional.mse_loss(out, y)
            ~     b = nn.functional.l1_loss(out, y)
            ~     a.backward(retain_graph=True)
            ~     b.backward()
            """,
            id="arguments of backward stay",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     out = model(x)
            ~     a = nn.functional.mse_loss(out, y)
            ~     b = nn.functional.l1_loss(out, y)
            -     (a + 0.5 * b).backward()
            +     scaler.scale(a + 0.5 * b).backward()
            """,
            id="losses summed in the call of backward are scaled together",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     out = model(x)
            ~     loss = nn.functional.mse_loss(out, y)
            ~     for p in model.parameters():
            ~         loss += 1e-4 * p.norm()
            ~     loss.backward()
            """,
            id="penalty added to the loss is inside",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     out = model(x)
            ~     if args.l1:
            ~         loss = nn.functional.l1_loss(out, y)
            ~     else:
            ~         loss = nn.functional.mse_loss(out, y)
            ~     loss.backward()
            """,
            id="branches that choose the loss are inside",
        ),
        pytest.param(
            """
              for x, pose in loader:
                  pose = pose.scale(0.5)
            ~     loss = model(x).mean()
            ~     loss.backward()
            """,
            id="scale of something else is no loss scale",
        ),
    ],
)
def test_a_loss_is_computed_in_the_region_and_scaled(delta: str, rewrites: Check) -> None:
    rewrites(dedent(STEP).replace("DELTA\n", dedent(delta).removeprefix("\n")))


def test_loss_may_come_out_of_the_models_output(rewrites: Check) -> None:
    rewrites(
        """
        ~ optimizer = torch.optim.Adam(model.parameters())
          for batch in loader:
        ~     outputs = model(**batch)
        ~     loss = outputs.loss
        ~     STEP
              optimizer.zero_grad()
        """
    )


def test_loss_may_come_from_the_model_itself(rewrites: Check) -> None:
    rewrites(
        """
        ~ optimizer = torch.optim.Adam(model.parameters())
          for batch in loader:
        ~     loss = model(**batch)[0]
        ~     STEP
        """
    )


@pytest.mark.parametrize("step", ["amp.scale(loss).backward()", "scaled = amp.scale(loss)\n    scaled.backward()"])
def test_scale_whose_result_goes_backward_is_a_loss_scale(migrate: Check, step: str) -> None:
    text = (
        "model = nn.Linear(2, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        f"for x in loader:\n    loss = model(x).mean()\n    {step}\n    amp.step(optimizer)\n"
    )
    plan = migrate(text)
    assert plan.after == plan.source.text


NAMED_AS_LOSS = """
          class Loss(nn.Module):
              def __init__(self, net):
                  super().__init__()
                  self.net = net

              def forward(self, x):
                  return {"loss": (self.net(x) - x).square().mean()}

          def make_loss():
              return Loss(nn.Linear(2, 2).cuda())

"""


def test_what_holds_the_trained_network_is_the_forward_whatever_its_name(rewrites: Check) -> None:
    rewrites(
        NAMED_AS_LOSS
        + """
        - def train(criterion, optimizer):
        + def train(criterion, optimizer, scaler):
              for x in loader:
        ~         result = criterion(x)
                  optimizer.zero_grad()
        -         result["loss"].backward()
        -         optimizer.step()
        +         scaler.scale(result["loss"]).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          def main():
              criterion = make_loss()
        ~     optimizer = torch.optim.SGD(criterion.parameters(), lr=0.1)
        -     train(criterion, optimizer)
        +     train(criterion, optimizer, scaler)
        """
    )


def test_a_criterion_that_judges_by_a_network_of_its_own_is_no_forward(leaves: Check) -> None:
    leaves(
        dedent(NAMED_AS_LOSS)
        + dedent(
            """
            def train(outputs, optimizer):
                criterion = make_loss()
                for x in outputs:
                    result = criterion(x)
                    optimizer.zero_grad()
                    result["loss"].backward()
                    optimizer.step()
            """
        ),
        "the forward pass behind",
    )


@pytest.mark.parametrize("asked", ["loss.requires_grad = True", "loss.requires_grad_(True)"])
def test_a_loss_that_is_asked_for_gradients_is_what_it_was(rewrites: Check, asked: str) -> None:
    rewrites(
        f"""
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
              optimizer.zero_grad()
              {asked}
        ~     loss.backward()
        ~     optimizer.step()
        """
    )


def test_a_loss_that_is_made_a_leaf_comes_to_no_parameter(leaves: Check) -> None:
    leaves(
        """
        MODEL
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y).detach()
            optimizer.zero_grad()
            loss.requires_grad = True
            loss.backward()
            optimizer.step()
        """,
        "",
    )
