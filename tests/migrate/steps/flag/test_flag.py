"""`--add-flag`: one option that switches all that was moved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

Check = Callable[..., Any]
ARGPARSE = "import argparse\n\nimport torch\nfrom torch import nn\n\n"


def test_parsed_arguments_in_sight_are_asked_and_those_out_of_sight_are_handed_on(rewrites: Check) -> None:
    plan = rewrites(
        """
        - def train(model, loader, optimizer):
        + def train(model, loader, optimizer, scaler):
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(model(x), y)
        ~         STEP

        - def evaluate(model, loader):
        + def evaluate(model, loader, amp):
              with torch.no_grad():
                  for x, y in loader:
        -             loss = nn.functional.mse_loss(model(x), y)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp):
        +                 loss = nn.functional.mse_loss(model(x), y)
                      print(loss.item())

          def main():
              parser = argparse.ArgumentParser()
              parser.add_argument("--lr", type=float, default=0.1)
        +     parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
              args = parser.parse_args()
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
        -     train(model, loader, optimizer)
        -     evaluate(model, loader)
        +     scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
        +     train(model, loader, optimizer, scaler)
        +     evaluate(model, loader, amp=args.amp)
        """,
        head=ARGPARSE,
        add_flag=True,
    )
    assert [finding.code for finding in plan.findings] == ["AMP501", "AMP503"]


def test_a_function_that_trains_and_evaluates_asks_no_scaler_that_it_has_not(rewrites: Check) -> None:
    rewrites(
        """
        - def run(model, loader, optimizer=None):
        + def run(model, loader, optimizer=None, scaler=None, amp=True):
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp):
        +             loss = nn.functional.mse_loss(model(x), y)
                  if optimizer is not None:
        ~             STEP
                  print(loss.item())

          def main():
              parser = argparse.ArgumentParser()
              parser.add_argument("--lr", type=float, default=0.1)
        +     parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
              args = parser.parse_args()
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
        -     run(model, loader, optimizer)
        +     scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
        +     run(model, loader, optimizer, scaler, amp=args.amp)
              with torch.no_grad():
        -         run(model, loader)
        +         run(model, loader, amp=args.amp)
        """,
        head=ARGPARSE,
        add_flag=True,
    )


def test_without_a_scaler_the_flag_goes_to_every_region_by_itself(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, loader, optimizer, epochs=1):
        + def train(model, loader, optimizer, epochs=1, amp=True):
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=amp):
        +             loss = nn.functional.mse_loss(model(x), y)
                  STEP

          def get_args():
              p = argparse.ArgumentParser()
              p.add_argument("--lr", type=float, default=0.1)
        +     p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
              return p.parse_args()

          def main(options):
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
        -     train(model, loader, optimizer)
        +     train(model, loader, optimizer, amp=options.amp)

          main(get_args())
        """,
        dtype="bf16",
        head=ARGPARSE,
        add_flag=True,
    )


def test_scaler_that_is_off_beside_bfloat16_is_not_asked(rewrites: Check) -> None:
    plan = rewrites(
        """
        +
        + amp_dtype = (
        +     torch.bfloat16
        +     if torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        +     else torch.float16
        + )
          parser = argparse.ArgumentParser()
        + parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
          args, _ = parser.parse_known_args()

        - def train(optimizer):
        + def train(optimizer, scaler):
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=amp_dtype, enabled=args.amp):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
                  optimizer.zero_grad()

          MODEL
        - train(optimizer)
        + scaler = torch.amp.GradScaler("cuda", enabled=args.amp and amp_dtype == torch.float16)
        + train(optimizer, scaler)
        """,
        dtype="auto",
        head="import argparse\nimport torch\nfrom torch import nn\n",
        add_flag=True,
    )
    assert plan.after.count("args.amp") == 2


def test_trainer_asks_its_own_arguments_or_its_own_scaler(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
        -     def __init__(self, model, lr):
        +     def __init__(self, model, lr, amp):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=amp)

              def train(self, x, y):
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()

              @torch.no_grad()
              def evaluate(self, x):
        -         return self.model(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             return self.model(x)

          if __name__ == "__main__":
              parser = argparse.ArgumentParser()
              parser.add_argument("--lr", type=float, default=0.1)
        +     parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
              args = parser.parse_args()
        -     Trainer(nn.Linear(2, 2), args.lr).train(loader)
        +     Trainer(nn.Linear(2, 2), args.lr, amp=args.amp).train(loader)
        """,
        head=ARGPARSE,
        add_flag=True,
    )


def test_arguments_that_an_object_keeps_are_asked_in_its_methods(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model, args):
                  self.args = args
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)

              def train(self, x, y):
        -         loss = nn.functional.mse_loss(self.model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=self.args.amp):
        +             loss = nn.functional.mse_loss(self.model(x), y)
                  loss.backward()
                  self.optimizer.step()

          if __name__ == "__main__":
              parser = argparse.ArgumentParser()
              parser.add_argument("--lr", type=float, default=0.1)
        +     parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
              args = parser.parse_args()
              Trainer(nn.Linear(2, 2), args).train(x, y)
        """,
        "bf16",
        head=ARGPARSE,
        add_flag=True,
    )


def test_function_of_another_file_does_not_ask_the_scaler_of_an_object(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "evaluation.py": """
                  import torch

                  @torch.no_grad()
                - def evaluate(model, x):
                + def evaluate(model, x, amp):
                -     return model(x)
                +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp):
                +         return model(x)
            """,
            "train.py": """
                  import argparse
                  import torch
                  from torch import nn
                  from evaluation import evaluate

                  class Trainer:
                      def __init__(self, model, args):
                          self.args = args
                          self.model = model
                          self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
                +         self.scaler = torch.amp.GradScaler("cuda", enabled=args.amp)

                      def train(self, x, y):
                -         loss = nn.functional.mse_loss(self.model(x), y)
                -         loss.backward()
                -         self.optimizer.step()
                -         evaluate(self.model, x)
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.args.amp):
                +             loss = nn.functional.mse_loss(self.model(x), y)
                +         self.scaler.scale(loss).backward()
                +         self.scaler.step(self.optimizer)
                +         self.scaler.update()
                +         evaluate(self.model, x, amp=self.args.amp)

                  def main():
                      parser = argparse.ArgumentParser()
                      parser.add_argument("--lr", type=float)
                +     parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
                      Trainer(nn.Linear(2, 2), parser.parse_args()).train(x, y)
            """,  # noqa: E501
        },
        add_flag=True,
    )


def test_function_that_is_spawned_is_known_by_the_options_it_reads(rewrites: Check) -> None:
    rewrites(
        """
          def worker(gpu, args):
              model = nn.Linear(2, 2).to(gpu)
              optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
        +     scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp):
        +             loss = nn.functional.mse_loss(model(x), y)
        ~         STEP

          parser = argparse.ArgumentParser()
          parser.add_argument("--lr", type=float, default=0.1)
        + parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
          torch.multiprocessing.spawn(worker, nprocs=2, args=(parser.parse_args(),))
        """,
        head=ARGPARSE,
        add_flag=True,
    )


def test_dictionary_of_parsed_arguments_is_asked_by_key(rewrites: Check) -> None:
    rewrites(
        """
          def run(config):
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=config["amp"]):
        +         loss = nn.functional.mse_loss(model(x), y)
              STEP

          parser = argparse.ArgumentParser()
          group = parser.add_argument_group("training")
          group.add_argument("--lr", type=float, default=0.1)
        + parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
          run(vars(parser.parse_args()))
        """,
        dtype="bf16",
        head=ARGPARSE,
        add_flag=True,
    )


def test_click_command_gets_an_option_and_a_parameter(rewrites: Check) -> None:
    rewrites(
        """
          @click.command()
          @click.option("--lr", default=0.1)
        - def main(lr):
        + @click.option("--amp/--no-amp", default=True, help="mixed precision")
        + def main(lr, amp):
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=lr)
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=amp):
        +             loss = nn.functional.mse_loss(model(x), y)
                  STEP
        """,
        dtype="bf16",
        head="import click\nimport torch\nfrom torch import nn\n\n",
        add_flag=True,
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("", "amp"),
        ("lr, *rest", "lr, *rest, amp"),
        ("lr, /", "lr, /, amp"),
        ("lr=0.1", "lr=0.1, amp=True"),
        ("lr: float", "lr: float, amp: bool"),
    ],
)
def test_the_parameter_of_a_command_comes_behind_all_others(migrate: Check, given: str, wanted: str) -> None:
    body = (
        f"@click.command()\ndef main({given}):\n"
        "    model = nn.Linear(2, 2)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    loss = nn.functional.mse_loss(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    after = migrate(body, "bf16", "import click\nimport torch\nfrom torch import nn\n\n", add_flag=True).after
    assert f"def main({wanted}):\n" in after
    assert "dtype=torch.bfloat16, enabled=amp)" in after


@pytest.mark.parametrize(
    ("decorator", "call"), [("", "typer.run(main)"), ("@app.command()\n", "app()")], ids=["run", "app"]
)
def test_typer_command_gets_a_parameter(migrate: Check, decorator: str, call: str) -> None:
    head = "import torch\nimport typer\nfrom torch import nn\n\napp = typer.Typer()\n\n"
    body = (
        f"{decorator}def main(lr: float = 0.1):\n"
        "    model = nn.Linear(2, 2)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=lr)\n"
        "    loss = nn.functional.mse_loss(model(x), y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n\n"
        f"{call}\n"
    )
    after = migrate(body, "bf16", head, add_flag=True).after
    assert "def main(lr: float = 0.1, amp: bool = True):" in after
    assert "dtype=torch.bfloat16, enabled=amp)" in after


OTHER_FILE = {
    "options.py": """
        - from argparse import ArgumentParser
        + import argparse
        + from argparse import ArgumentParser

          def parse():
              parser = ArgumentParser()
        +     parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
              return parser.parse_args()
        """,
    "train.py": """
          import torch
          from torch import nn
          from options import parse

          args = parse()
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - loss = nn.functional.mse_loss(model(x), y)
        + with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=args.amp):
        +     loss = nn.functional.mse_loss(model(x), y)
          loss.backward()
          optimizer.step()
        """,
}


def test_option_is_made_where_the_parser_is_in_another_file(rewrites_files: Check) -> None:
    rewrites_files(OTHER_FILE, dtype="bf16", add_flag=True)


NO_LINE = """
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    """
ONE_WITHOUT = """
    def train(model, optimizer):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    def forgotten():
        model = nn.Linear(2, 2)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))

    args = argparse.ArgumentParser().parse_args()
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    """
TAKEN = """
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", type=int)
    args = parser.parse_args()
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    """


@pytest.mark.parametrize(
    ("text", "why"),
    [(NO_LINE, "no argparse, click or typer"), (ONE_WITHOUT, "no call of forgotten()"), (TAKEN, "has `amp` already")],
    ids=["none", "one caller without", "taken"],
)
def test_step_moves_without_an_option_where_there_is_no_way_for_one(migrate: Check, text: str, why: str) -> None:
    plan = migrate(text, "bf16", ARGPARSE, add_flag=True)
    assert {finding.code: finding.kind for finding in plan.findings} == {"AMP501": Kind.MIGRATED, "AMP593": Kind.LEFT}
    assert why in next(finding.message for finding in plan.findings if finding.code == "AMP593")
    assert "enabled=" not in plan.after
    assert "dtype=torch.bfloat16):" in plan.after


OPTIONS = """
    import argparse

    def parse():
        parser = argparse.ArgumentParser()
        return parser.parse_args()
    """
IN_SIGHT = """
    import torch
    from torch import nn
    from options import parse

    args = parse()
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    """
OUT_OF_SIGHT = """
    import torch
    from torch import nn
    from options import parse

    def train(model, optimizer):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    def main():
        args = parse()
        model = nn.Linear(2, 2)
        run(train, model, torch.optim.SGD(model.parameters(), lr=0.1))

    @torch.no_grad()
    def predict(args, model):
        return model(x)

    predict(parse(), nn.Linear(2, 2))
    """


@pytest.mark.parametrize(("second", "has_option"), [(IN_SIGHT, True), (OUT_OF_SIGHT, False)])
def test_files_that_share_a_command_line_get_the_option_together_or_not(
    tmp_path: Path, second: str, has_option: bool
) -> None:
    for name, text in (("options.py", OPTIONS), ("first.py", IN_SIGHT), ("second.py", second)):
        (tmp_path / name).write_text(dedent(text))
    outcome = migrate_paths([tmp_path], Settings(Dtype.BF16, add_flag=True))
    after = {plan.source.path.name: plan.after for plan in outcome.changed}
    assert ("options.py" in after, "args.amp" in after["first.py"]) == (has_option, has_option)
    assert {finding.code for finding in outcome.findings} == {"AMP501", "AMP503" if has_option else "AMP593"}


RECORDING = """
import json, runpy, sys, torch
seen = []
for owner in (torch.amp.autocast, torch.amp.GradScaler):
    def record(self, *args, _made=owner.__init__, **options):
        seen.append(options.get("enabled", "always"))
        _made(self, *args, **options)
        self.wanted = seen[-1]
    owner.__init__ = record
torch.amp.GradScaler.is_enabled = lambda self: self.wanted  # without a GPU it would say False
arguments = sys.argv
for words in (["--no-amp"], []):
    seen.clear()
    sys.argv = [*arguments, *words]
    runpy.run_path("train.py", run_name="__main__")
    print(json.dumps(seen))
"""


@pytest.mark.slow
def test_option_of_a_migrated_fixture_switches_all_of_it(tmp_path: Path) -> None:
    fixture = Path(__file__).parents[4] / "fixtures" / "fp32_two_files"
    for script in fixture.glob("*.py"):
        (tmp_path / script.name).write_text(script.read_text())
    for plan in migrate_paths([tmp_path], Settings(add_flag=True)).changed:
        plan.source.path.write_text(plan.after)
    (tmp_path / "recorded.py").write_text(RECORDING)
    done = subprocess.run(
        [sys.executable, "recorded.py", *(fixture / "quick.args").read_text().split(), "--device", "cpu"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [set(each) for each in said] == [{False}, {True}]
