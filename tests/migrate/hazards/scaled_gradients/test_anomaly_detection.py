"""AMP615: anomaly detection beside a scaler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_anomaly_detection_beside_a_scaler_is_told(marked: Check) -> None:
    marked(
        """
        torch.autograd.set_detect_anomaly(True)  # AMP615

        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                with torch.autograd.detect_anomaly():  # AMP615
                    with torch.autocast("cuda"):
                        loss = F.mse_loss(model(x), y)
                    scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

        if __name__ == "__main__":
            torch.autograd.set_detect_anomaly(True)  # AMP615
        if args.amp:
            torch.autograd.set_detect_anomaly(True)  # AMP615
            scaler.scale(F.mse_loss(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    )


FLAG = """
    import os

    {flag}
    torch.autograd.set_detect_anomaly(DEBUG){mark}

    def train(model, optimizer, scaler, loader):
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


def test_anomaly_detection_by_a_name_that_is_true_is_told(marked: Check) -> None:
    (found,) = marked(FLAG.format(flag="DEBUG = True", mark="  # AMP615"))
    assert found.hint.startswith("switch it off")


@pytest.mark.parametrize(
    "flag", ["DEBUG = False", 'DEBUG = "DEBUG" in os.environ', "DEBUG = True\n    DEBUG &= bool(os.name)"]
)
def test_anomaly_detection_by_a_name_that_may_be_false_is_not(clean: Check, flag: str) -> None:
    clean(FLAG.format(flag=flag, mark=""))


def test_anomaly_detection_that_is_off_or_without_a_scaler_is_not(clean: Check) -> None:
    clean(
        """
        torch.autograd.set_detect_anomaly(False)
        if args.debug:
            torch.autograd.set_detect_anomaly(True)

        def train(model, optimizer, scaler, loader, debug):
            torch.autograd.set_detect_anomaly(debug)
            torch.autograd.set_detect_anomaly(True, check_nan=False)
            for x, y in loader:
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )
    clean(
        """
        torch.autograd.set_detect_anomaly(True)

        def predict(model, x):
            with torch.autocast("cuda"):
                return model(x)
        """
    )


def test_a_float32_step_that_moves_is_told_of_it(rewrites: Check) -> None:
    text = """
        ~ MODEL
          torch.autograd.set_detect_anomaly(True)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP
    """
    assert "AMP615" in {each.code for each in rewrites(text).findings}
    assert "AMP615" not in {each.code for each in rewrites(text, "bf16").findings}


def test_a_file_that_imports_the_step_is_told_too(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "engine.py": """
                  import torch

                  def train(model, optimizer, scaler, loader):
                      for x, y in loader:
                          optimizer.zero_grad()
                          with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                              loss = torch.nn.functional.mse_loss(model(x), y)
                          scaler.scale(loss).backward()
                          scaler.step(optimizer)
                          scaler.update()
            """,
            "main.py": """
                  import torch
                  from engine import train

                  torch.autograd.set_detect_anomaly(True)
            """,
            "other.py": """
                  import torch

                  torch.autograd.set_detect_anomaly(True)
            """,
        }
    )
    assert [(each.path.rpartition("/")[2], each.code) for each in findings] == [("main.py", "AMP615")]


@pytest.mark.parametrize("imported", ["from settings import *", "import settings, torch; from torch import nn"])
def test_a_file_that_the_step_imports_is_told_of_what_runs_then(marked_files: Check, imported: str) -> None:
    marked_files(
        settings="""
        import torch
        from torch import nn

        torch.autograd.set_detect_anomaly(True)  # AMP615

        def debug():
            torch.autograd.set_detect_anomaly(True)

        if __name__ == "__main__":
            torch.autograd.set_detect_anomaly(True)
        """,
        train=f"""
        {imported}

        net = nn.Linear(8, 1).cuda()
        optimizer = torch.optim.Adam(net.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    )


def test_a_step_that_moves_is_told_of_what_it_imports(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "settings.py": """
                  import torch

                  torch.autograd.set_detect_anomaly(True)
            """,
            "train.py": """
                  import settings
                  import torch
                  from torch import nn

                ~ MODEL
                  for x, y in loader:
                ~     loss = nn.functional.mse_loss(model(x), y)
                ~     STEP
            """,
        }
    )
    assert [(each.path.rpartition("/")[2], each.code) for each in findings if each.code != "AMP501"] == [
        ("settings.py", "AMP615")
    ]
