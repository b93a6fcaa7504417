"""Evaluation beside migrated training: a region for the forwards, and no scaler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Dtype, Settings

Check = Callable[..., Any]


def test_forward_and_loss_under_no_grad(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          with torch.no_grad():
              for x, y in loader:
                  x = x.cuda()
        ~         out = model(x)
        ~         total += nn.functional.mse_loss(out, y).item()
                  correct += (out.argmax(1) == y).sum()
        """
    )


def test_forwards_that_follow_each_other_share_a_region(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          with torch.no_grad():
        ~     one = model(x)
        ~     other = model(y)
              print(one)
        ~     last = model(z)
        """
    )


def test_a_region_round_an_evaluation_ends_where_that_of_a_step_begins(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
              with torch.no_grad():
        ~         before = model(x)
        ~     out = model(x)
        ~     loss = nn.functional.mse_loss(out, y)
        -     print(nn.functional.mse_loss(before, y), loss.item())
        +     print(nn.functional.mse_loss(before.float(), y), loss.item())
        ~     STEP
        """
    )


def test_forwards_that_follow_each_other_in_cells_of_a_notebook_have_a_region_each(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          # amp-migrate: cell 1
        ~ with torch.no_grad():
        ~     one = model(x)
        ~ print(nn.functional.mse_loss(one, y))
          # amp-migrate: cell 2
        ~ with torch.no_grad():
        ~     other = model(y)
        ~ print(nn.functional.mse_loss(other, y))
          # amp-migrate: cell 3
          with torch.no_grad():
        ~     third = model(z)
          # amp-migrate: cell 4
        - print(nn.functional.mse_loss(one, third))
        + print(nn.functional.mse_loss(one.float(), third.float()))
        """
    )


def test_functions_decorated_as_evaluation(rewrites: Check) -> None:
    rewrites(
        """
          def train(loader):
        ~     EPOCH

          @torch.inference_mode()
          def forecast(x):
        ~     return model(x)

          @torch.no_grad()
          def score(x):
        ~     out = model(x)
        -     return out.softmax(-1)
        +     return out.float().softmax(-1)

        ~ MODEL
        """
    )


def test_function_that_calls_eval(rewrites: Check) -> None:
    rewrites(
        """
          def train(loader):
        ~     EPOCH

          def measure(x):
              model.eval()
        ~     out = model(x)
              return out

        ~ MODEL
        """
    )


def test_evaluation_behind_training_in_one_function(rewrites: Check) -> None:
    rewrites(
        """
          def train(loader):
        ~     EPOCH
              model.eval()
              with torch.no_grad():
        ~         print(model(x))

        ~ MODEL
        """
    )


def test_two_forwards_of_one_result_share_a_region(rewrites: Check) -> None:
    rewrites(
        """
          encoder, decoder = Encoder(), Decoder()
        ~ optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(decoder(encoder(x)), y)
        ~     STEP
          with torch.no_grad():
        ~     z = encoder(x)
        ~     z = z + noise
        ~     out = decoder(z)
              print(out)
        """
    )


def test_banned_loss_stays_outside_and_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          criterion = nn.BCELoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     out = model(x)
        -     loss = criterion(out, y)
        +     loss = criterion(out.float(), y)
        ~     STEP
          with torch.no_grad():
        ~     out = model(x)
        -     print(criterion(out, y))
        +     print(criterion(out.float(), y))
        """
    )


def test_teacher_of_unknown_class_is_left_as_it_was(rewrites: Check) -> None:
    rewrites(
        """
          teacher, student = A(), B()
        ~ optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
          for x, y in loader:
              with torch.no_grad():
                  target = teacher(x)
        ~     out = student(x)
        ~     loss = nn.functional.mse_loss(out, target)
        ~     STEP
        """
    )


def test_method_of_a_module_runs_in_its_callers_region(rewrites: Check) -> None:
    rewrites(
        """
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(2, 2)
              def forward(self, x):
                  return self.fc(x)
              @torch.no_grad()
              def generate(self, x):
                  return self(x)
          net = Net()
        ~ optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
          for x in loader:
        ~     loss = net(x).mean()
        ~     STEP
        """
    )


def test_evaluation_with_a_region_of_its_own_is_left_as_it_was(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL

          def train():
        ~     EPOCH

          @torch.no_grad()
          def evaluate(x):
              with torch.autocast("cuda", dtype=torch.bfloat16):
                  return model(x)
        """
    )


def test_forward_that_gradients_may_flow_through_is_left_as_it_was(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL

          def train():
        ~     EPOCH

          def features(x):
              return model(x)
        """
    )


def test_weights_changed_under_no_grad_need_no_region(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          with torch.no_grad():
              for p in model.parameters():
                  p.mul_(0.9)
              state = model.state_dict()
        """
    )


def test_evaluation_without_training_is_left_as_it_was(ignores: Check) -> None:
    ignores(
        """
        model = nn.Linear(2, 2)
        model.eval()
        with torch.no_grad():
            print(model(torch.ones(2)))
        """
    )


def test_function_of_a_module_that_is_named_like_a_network_is_no_forward(rewrites: Check) -> None:
    rewrites(
        """
          import networks

          def evaluate(model):
              model.eval()
              networks.print_network(model)

        ~ MODEL
        ~ EPOCH
        """
    )


def test_forward_without_gradients_in_a_function_that_a_region_calls_gets_no_second_region(rewrites: Check) -> None:
    rewrites(
        """
          model, target = nn.Linear(2, 2), nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

          def compute_loss(x):
              with torch.no_grad():
                  wanted = target(x)
              return nn.functional.mse_loss(model(x), wanted)

          for x in loader:
        ~     loss = compute_loss(x)
        ~     STEP
        """
    )


TRAIN = """
      import torch
      from torch import nn
      from evaluate import validate

      MODEL
      for x, y in loader:
    -     loss = nn.functional.mse_loss(model(x), y)
    +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
    +         loss = nn.functional.mse_loss(model(x), y)
          STEP
      validate(model, loader)
    """


def test_function_of_another_file_that_evaluates_for_a_migrated_step_gets_regions(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "train.py": TRAIN,
            "evaluate.py": """
                - def validate(model, loader):
                + import torch
                + def validate(model, loader):
                      model.eval()
                      for x, _ in loader:
                ~         predicted = model(x)
                -         print(predicted.detach().numpy())
                +         print(predicted.float().detach().numpy())

                  def predict(model, x):
                      model.eval()
                      return model(x)
                """,
        },
        dtype="bf16",
    )


def test_function_that_also_evaluates_for_training_that_stays_is_left(rewrites_files: Check) -> None:
    validate = "import torch\n\ndef validate(model, x):\n    model.eval()\n    return model(x)\n"
    other = "from evaluate import validate\n\nvalidate(torch.load('model.pt'), x)\n"
    rewrites_files({"train.py": TRAIN, "evaluate.py": validate, "other.py": other}, dtype="bf16")


def test_inherited_method_that_is_given_a_network_is_no_forward(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer(Base):
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
                  self.print_network(self.net)
                  self.ema = nn.Linear(2, 2).eval()

              def train(self, x):
        ~         loss = self.net(x).sum()
                  loss.backward()
                  self.optimizer.step()
        """,
        dtype="bf16",
    )


def test_name_of_a_model_and_a_method_that_restores_one_are_no_forwards(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

              def restore_model(self, path):
                  self.net.load_state_dict(torch.load(path))

              def train(self, x):
        ~         loss = self.net(x).sum()
                  loss.backward()
                  self.optimizer.step()

              def test(self, chosen_model, x):
                  self.restore_model(chosen_model.split(" ")[0])
        ~         return self.net(x)
        """,
        dtype="bf16",
    )


def test_loss_behind_no_grad_shares_the_region_of_its_forward(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          for x, y in loader:
        ~     with torch.no_grad():
        ~         out = model(x)
        ~     loss = nn.functional.mse_loss(out, y)
              total += loss.item()
        """
    )


def test_loss_that_is_chosen_behind_no_grad_shares_the_region_of_its_forward(rewrites: Check) -> None:
    rewrites(
        """
          def train(net, criterion, optimizer, loader):
              for x, y in loader:
        ~         loss = criterion(net(x), y)
                  STEP

          def validate(net, criterion, loader, joint):
              net.eval()
              for x, y in loader:
        ~         with torch.no_grad():
        ~             out, edge = net(x)
        ~         if joint:
        ~             total += criterion((out, edge), y).item()
        ~         else:
        ~             total += criterion(out, y).item()
                  hits += out.argmax(1).eq(y).sum()
        """,
        dtype="bf16",
    )


def test_refused_loss_behind_no_grad_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          for x, y in loader:
        ~     with torch.no_grad():
        ~         out = model(x)
        -     total += nn.functional.binary_cross_entropy(out, y)
        +     total += nn.functional.binary_cross_entropy(out.float(), y)
        """
    )


def test_function_that_runs_in_a_region_however_deep_gets_none_of_its_own(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.model = nn.Linear(2, 2)
                  self.head = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def train(self, x):
        ~         loss = self.losses(x)
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()

              def losses(self, x):
                  return self.predict(self.model(x)).mean()

              def predict(self, features):
                  return self.head(features)
        """
    )


def test_parts_of_a_model_that_are_run_one_by_one_are_in_one_region_however_deep_they_are(rewrites: Check) -> None:
    rewrites(
        """
          class Decoder(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.lstm = nn.LSTM(2, 2)

          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.encoder = nn.Linear(2, 2)
                  self.decoder = Decoder()

              def forward(self, x):
                  return self.decoder.lstm(self.encoder(x))[0]

          def tell(net, x):
              with torch.no_grad():
        ~         features = net.encoder(x)
        ~         hidden, states = net.decoder.lstm(features, None)
                  return hidden.argmax(-1)

          def fit(net, x):
              print(tell(net, x))

          model = Net().cuda()
          fit(model, torch.rand(2, 2, 2).cuda())
          optimizer = torch.optim.Adam(model.parameters())
        + scaler = torch.amp.GradScaler("cuda")
        ~ EPOCH
        """
    )


@pytest.mark.parametrize(
    "kept", ['{}\n{indent}parts["bank"] = Bank()', '{"bank": Bank()}', '{"rate": 8, "bank": Bank()}']
)
def test_module_that_a_dictionary_brings_is_in_the_region_of_the_model(rewrites: Check, kept: str) -> None:
    rewrites(
        """
          class Bank(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.register_buffer("kernel", torch.randn(2, 2))

              def synthesis(self, x):
                  return torch.nn.functional.linear(x, self.kernel)

          def tell(model, parts, x):
              with torch.no_grad():
        ~         y = model(x)
        ~         y = parts["bank"].synthesis(y)
                  return y.argmax(-1)

          def fit(model, parts, x):
              print(tell(model, parts, x))

          model = nn.Sequential(nn.Linear(2, 2), getattr(nn, name)()).cuda()
          parts = KEPT
          fit(model, parts, torch.rand(2, 2).cuda())
          optimizer = torch.optim.Adam(model.parameters())
        + scaler = torch.amp.GradScaler("cuda")
        ~ EPOCH
        """.replace("KEPT", kept.replace("{indent}", " " * 10))
    )


def test_what_only_tells_the_model_something_needs_no_region(rewrites: Check) -> None:
    rewrites(
        """
          class Painter(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.decoder = nn.Linear(2, 2)
              def forward(self, x):
                  return self.decoder(x)
              def paint(self):
                  self.image = self.decoder(self.code)

          model = Painter()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ EPOCH

          def evaluate(x):
              model.unused_modules_off()
        ~     model.paint()
        ~     out = model(x)
              model.unused_modules_back()
              return out
        """
    )


def test_method_of_a_module_that_trains_it_is_no_forward_of_an_evaluation(rewrites: Check) -> None:
    rewrites(
        """
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.layer = nn.Linear(2, 2)
                  self.optimizer = torch.optim.Adam(self.parameters())
        +         self.scaler = torch.amp.GradScaler("cuda")
              def forward(self, x):
                  return self.layer(x)
              def go_back(self, loss):
        -         loss.backward()
        +         self.scaler.scale(loss).backward()
              def train_step(self, x, y):
                  self.optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(self(x), y)
                  self.go_back(loss)
        -         self.optimizer.step()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
          def train_and_validate(model, loader):
              for x, y in loader:
                  model.train_step(x, y)
              for x, y in loader:
        ~         out = model(x)
          train_and_validate(Net(), loader)
        """
    )


@pytest.mark.parametrize(
    ("off", "on"),
    [
        ("torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)"),
        ("torch.set_grad_enabled(mode=False)", "torch.autograd.set_grad_enabled(True)"),
        ("torch.set_grad_enabled(False)", "torch.set_grad_enabled(before)"),
    ],
)
def test_what_stands_behind_a_switch_of_gradients_until_they_are_switched_on(
    rewrites: Check, off: str, on: str
) -> None:
    rewrites(
        f"""
        ~ MODEL
        ~ EPOCH
          {off}
          for x in samples:
        ~     out = model(x)
              print(out)
          {on}
          print(model(x))
        """
    )


@pytest.mark.parametrize(
    "switch",
    [
        "torch.set_grad_enabled(flag)",
        "if flag:\n      torch.set_grad_enabled(False)",
        "torch.set_grad_enabled(False); torch.set_grad_enabled(flag)",
        "switch.set_grad_enabled(False)",
        "with torch.set_grad_enabled(False): pass",
        "with torch.inference_mode(False):\n      print(model(x))\nprint(x)",
        "def quiet():\n      torch.set_grad_enabled(False)",
    ],
)
def test_what_does_not_switch_gradients_off_for_certain_makes_no_evaluation(rewrites: Check, switch: str) -> None:
    block = indent(switch, " " * 10).strip()
    rewrites(f"\n        ~ MODEL\n        ~ EPOCH\n          {block}\n          print(model(x))\n        ")


def test_what_a_later_round_may_run_with_gradients_is_no_evaluation(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          torch.set_grad_enabled(False)
          for x in samples:
              out = model(x)
              torch.set_grad_enabled(True)
        """
    )


def test_a_forward_where_gradients_are_switched_off_shares_no_region_with_one_that_has_some(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x in loader:
              torch.set_grad_enabled(False)
        ~     target = model(x)
              torch.set_grad_enabled(True)
        ~     loss = nn.functional.mse_loss(model(x), target)
        ~     STEP
        """
    )


def test_what_computes_in_the_region_of_a_step_has_one_where_it_evaluates(rewrites: Check) -> None:
    rewrites(
        """
          def loss_of(net, x, y):
              return nn.functional.mse_loss(net(x), y)

        ~ MODEL
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = loss_of(model, x, y)
        -     loss.backward()
        -     optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()

          @torch.no_grad()
          def evaluate():
              for x, y in loader:
        ~         print(loss_of(model, x, y).item())
        """
    )


def test_so_has_a_helper_of_another_file_in_an_evaluation_of_a_third(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text(
        "import torch\n\n\ndef loss_of(net, x, y):\n    return torch.nn.functional.mse_loss(net(x), y)\n"
    )
    (tmp_path / "evaluation.py").write_text(
        dedent(
            """
            import torch
            from losses import loss_of

            def evaluate(net, loader):
                with torch.no_grad():
                    for x, y in loader:
                        print(loss_of(net, x, y).item())
            """
        )
    )
    (tmp_path / "train.py").write_text(
        dedent(
            """
            import torch
            from evaluation import evaluate
            from losses import loss_of

            def train(loader):
                net = torch.nn.Linear(2, 2).cuda()
                optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = loss_of(net, x, y)
                    loss.backward()
                    optimizer.step()
                evaluate(net, loader)
            """
        )
    )
    outcome = migrate([tmp_path], Settings(dtype=Dtype.BF16))
    region = '            with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):\n'
    plan = outcome.plan_of(tmp_path / "evaluation.py")
    assert plan is not None
    assert f"{region}                print(loss_of" in plan.after
    assert outcome.plan_of(tmp_path / "losses.py") is None


def test_forward_in_a_branch_of_what_has_a_region_gets_none_of_its_own(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
        + scaler = torch.amp.GradScaler("cuda")
          extra = nn.Linear(2, 2)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP

          @torch.no_grad()
          def evaluate(loader, use_extra):
              for x, y in loader:
        -         found = model(x)
        -         more = None
        -         if use_extra:
        -             more = extra(x)
        -         found = found if more is None else found + more
        -         print(model(found))
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             found = model(x)
        +             more = None
        +             if use_extra:
        +                 more = extra(x)
        +             found = found if more is None else found + more
        +             print(model(found))
        """
    )
