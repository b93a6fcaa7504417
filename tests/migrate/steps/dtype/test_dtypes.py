"""The same step in float16, in bfloat16, and in what the script finds at run time."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

HEAD = "import torch\nfrom torch import nn\n\n"
Check = Callable[..., Any]


def test_float16_has_a_scaler(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
          criterion = nn.CrossEntropyLoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for inputs, targets in loader:
              optimizer.zero_grad()
        ~     outputs = model(inputs)
        ~     loss = criterion(outputs, targets)
        ~     STEP
              print(loss.item())
        """
    )


def test_bfloat16_has_none(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
          criterion = nn.CrossEntropyLoss()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for inputs, targets in loader:
              optimizer.zero_grad()
        ~     outputs = model(inputs)
        ~     loss = criterion(outputs, targets)
              STEP
              print(loss.item())
        """,
        dtype="bf16",
    )


def test_closure_moves_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizer = torch.optim.LBFGS(model.parameters())
          def closure():
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
              loss.backward()
              return loss
          for _ in range(10):
              optimizer.step(closure)
        """,
        dtype="bf16",
    )


def test_step_in_another_function_moves_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          def accumulate(model, x, y):
        ~     loss = nn.functional.mse_loss(model(x), y)
              loss.backward()

          def main():
              MODEL
              for x, y in loader:
                  accumulate(model, x, y)
                  optimizer.step()
                  optimizer.zero_grad()
        """,
        dtype="bf16",
    )


def test_gradient_penalty_moves_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          D = Disc()
          optimizer = torch.optim.Adam(D.parameters())
          for x, y in loader:
        ~     out = D(x)
        ~     g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
        ~     loss = out.mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()
              STEP
        """,
        dtype="bf16",
    )


def test_output_for_numpy_is_float32_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
          for x, y in loader:
        ~     out = model(x)
        ~     loss = nn.functional.mse_loss(out, y)
              STEP
        -     preds.append(out.detach().cpu().numpy())
        +     preds.append(out.float().detach().cpu().numpy())
              ids.append(out.argmax(1).cpu().numpy())
              ok.append(out.float().numpy())
        """,
        dtype="bf16",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """
            model = nn.Linear(2, 2)
            for x, y in loader:
                with torch.autocast("cuda"):
                    out = model(x)
                preds.append(out.cpu().numpy())
            """,
            id="native",
        ),
        pytest.param(
            """
            model = nn.Linear(2, 2)
            for x, y in loader:
                with torch.cuda.amp.autocast():
                    out = model(x)
                preds.append(out.cpu().numpy())
            """,
            id="deprecated",
        ),
        pytest.param(
            """
            from apex import amp

            model = nn.Linear(2, 2).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for x, y in loader:
                out = model(x)
                loss = nn.functional.mse_loss(out, y)
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                preds.append(out.cpu().numpy())
            """,
            id="apex",
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["bf16", "auto"])
def test_output_for_numpy_is_float32_where_a_region_leaves_float16(migrate: Check, text: str, dtype: str) -> None:
    assert "preds.append(out.float().cpu().numpy())" in migrate(text, dtype).after


def test_indices_that_a_region_computes_stay_indices_for_numpy(migrate: Check) -> None:
    plan = migrate(
        """
        MODEL
        for x, y in loader:
            out = model(x)
            picked = out.argmax(1)
            loss = nn.functional.cross_entropy(out, y)
            STEP
            counts.append(picked.cpu().numpy())
        """,
        dtype="bf16",
    )
    assert "counts.append(picked.cpu().numpy())" in plan.after


def test_output_for_numpy_stays_in_float16(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        ~     out = model(x)
        ~     loss = nn.functional.mse_loss(out, y)
        ~     STEP
              preds.append(out.detach().cpu().numpy())
              ids.append(out.argmax(1).cpu().numpy())
              ok.append(out.float().numpy())
        """
    )


def test_a_function_that_gives_an_output_to_numpy_gets_it_in_float32(rewrites: Check) -> None:
    rewrites(
        """
          def save(path, scores, labels, index=0):
              draw(path, scores[index].cpu().numpy(), labels.cpu().numpy())

          MODEL
          for x, y in loader:
        ~     out = model(x)
        ~     loss = nn.functional.mse_loss(out, y)
              STEP
        -     save("out", labels=y, scores=out)
        -     save("all", out.view(-1), y)
        +     save("out", labels=y, scores=out.float())
        +     save("all", out.float().view(-1), y)
        """,
        dtype="bf16",
    )


def test_what_is_handed_on_to_numpy_is_float32_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
        ~ EPOCH
          with torch.no_grad():
        ~     out = model(x)
              scores = out.relu()
        -     a = scores.cpu().numpy()
        -     b = out[0].cpu().numpy()
        +     a = scores.float().cpu().numpy()
        +     b = out[0].float().cpu().numpy()
              c = out.max(1)[1].numpy()
              d = x.numpy()
              e = out.to(torch.float32).numpy()
        """,
        dtype="bf16",
    )


def test_what_may_be_integers_is_cast_for_numpy_only_if_it_is_floating(rewrites: Check) -> None:
    rewrites(
        """
          class Agent(nn.Module):
              def act(self, x):
                  scores = self.actor(x)
                  return torch.distributions.Categorical(logits=scores).mode, self.critic(x)

          agent = Agent().cuda()
          optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(agent(x), y)
              STEP
          with torch.no_grad():
        ~     action, value = agent.act(x)
        -     env.step(action.cpu().numpy())
        +     env.step((action.float() if action.is_floating_point() else action).cpu().numpy())
        ~     scores = agent(x)
              scores += noise
              best = torch.argmax(scores, 1).cpu().numpy()
        -     shares = torch.softmax(scores, 1)
        -     shares = shares.cpu().numpy()
        +     shares = torch.softmax(scores, 1)
        +     shares = shares.float().cpu().numpy()
        """,
        dtype="bf16",
    )


AUTO = """\
amp_dtype = (
    torch.bfloat16
    if torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    else torch.float16
)
"""
LOOP = """\
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_dtype_is_found_at_run_time(migrate: Check) -> None:
    after = migrate(LOOP, "auto").after
    assert after == HEAD + AUTO + dedent(
        """
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype == torch.float16)
        for x in loader:
            with torch.amp.autocast(device_type="cuda", dtype=amp_dtype):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """
    )


def test_dtype_found_at_run_time_goes_through_the_users_name_for_torch(migrate: Check) -> None:
    after = migrate(LOOP.replace("torch.", "th."), "auto", head="import torch as th\nfrom torch import nn\n\n").after
    assert after.count("th.bfloat16") == 1
    assert "torch.float16" not in after
    assert "torch.amp" not in after


def test_output_for_numpy_is_float32_where_the_dtype_is_found_at_run_time(migrate: Check) -> None:
    after = migrate(
        LOOP + "    out = model(x)\n    loss = out.mean()\n    loss.backward()\n    print(out.numpy())\n", "auto"
    ).after
    assert "print(out.float().numpy())" in after


def test_name_of_the_dtype_is_not_one_of_the_users(migrate: Check) -> None:
    plan = migrate("amp_dtype = None\n" + LOOP, "auto")
    assert plan.after == plan.source.text or "dtype=amp_dtype)" not in plan.after


@pytest.mark.parametrize(
    ("given", "switch"),
    [
        ("", "enabled=amp_dtype == torch.float16"),
        (", enabled=args.amp", "enabled=args.amp and amp_dtype == torch.float16"),
        (", enabled=args.amp or args.half", "enabled=(args.amp or args.half) and amp_dtype == torch.float16"),
        (", 2.0, 2.0, 0.5, 9, args.amp", "2.0, 2.0, 0.5, 9, args.amp and amp_dtype == torch.float16"),
    ],
)
def test_a_native_scaler_is_on_where_the_dtype_found_at_run_time_needs_it(
    migrate: Check, given: str, switch: str
) -> None:
    plan = migrate(
        f"""
        model = nn.Linear(2, 2)
        scaler = torch.amp.GradScaler("cuda"{given})
        for x in loader:
            with torch.amp.autocast("cuda"):
                loss = model(x)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
        dtype="auto",
    )
    assert f'scaler = torch.amp.GradScaler("cuda", {switch})\n' in plan.after
    assert 'with torch.amp.autocast("cuda", dtype=amp_dtype):\n' in plan.after


def test_output_that_a_method_returns_is_float32_for_numpy_where_it_is_called(rewrites: Check) -> None:
    rewrites(
        """
          from experiments import Experiment

          class Forecast(Experiment):
              def predict(self, x, y):
                  if self.use_amp:
        ~             with torch.cuda.amp.autocast():
                          out = self.model(x)
                  else:
                      out = self.model(x)
                  return out[:, -1:], y

              def encode(self, x):
        ~         with torch.cuda.amp.autocast():
                      return self.model(x)

              def codes(self, x):
                  code = self.encode(x)
                  return code

              def test(self, loader):
                  for x, y in loader:
                      pred, true = self.predict(x, y)
        -             self.preds.append(pred.detach().cpu().numpy())
        +             self.preds.append((pred.float() if pred.is_floating_point() else pred).detach().cpu().numpy())
                      self.trues.append(true.detach().cpu().numpy())
                      codes = self.codes(x)
        -             self.codes.append(codes.cpu().numpy())
        +             self.codes.append((codes.float() if codes.is_floating_point() else codes).cpu().numpy())
                      self.best.append(codes.argmax(1).cpu().numpy())
        """,
        dtype="bf16",
    )


def test_output_that_a_helper_of_a_migrated_step_returns_is_float32_for_numpy(migrate: Check) -> None:
    helper = "def forward(x):\n    with torch.no_grad():\n        out = model(x)\n    return out\n"
    used = "codes = forward(x)\nprint(codes.cpu().numpy())\n"
    after = migrate(
        LOOP + "    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n" + helper + used, "bf16"
    ).after
    assert "print(codes.float().cpu().numpy())" in after
