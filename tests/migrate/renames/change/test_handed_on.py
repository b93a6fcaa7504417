"""Old names that files take from one another: the definition and every use move in one go, or none does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.engine.parts import in_parts
from amp_migrate.engine.parts.in_parts import migrate_in_parts
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

Check = Callable[..., Any]


def test_class_by_name(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "compat.py": """
                - from torch.cuda.amp import autocast, GradScaler as Scaler
                + from torch.amp import autocast, GradScaler as Scaler
            """,
            "train.py": """
                  import torch
                  from compat import Scaler, autocast as region

                - scaler = Scaler(1024.0)
                - with region(False):
                + scaler = Scaler("cuda", init_scale=1024.0)
                + with region(device_type="cuda", enabled=False):
                      pass
            """,
        }
    )


def test_class_from_a_folder_that_the_script_puts_on_the_path(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "core/model.py": """
                  import torch

                - autocast = torch.cuda.amp.autocast
                + autocast = torch.amp.autocast
            """,
            "evaluate.py": """
                  import sys
                  sys.path.append("core")
                  import torch
                  from model import autocast

                - with autocast(enabled=mixed):
                + with autocast(device_type="cuda", dtype=torch.float16, enabled=mixed):
                      out = model(x)
            """,
        }
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import compat", "compat"),
        ("import compat as c", "c"),
        ("import pkg.compat", "pkg.compat"),
        ("from pkg import compat", "compat"),
        ("from pkg import compat as c", "c"),
    ],
)
def test_attribute_of_a_module(rewrites_files: Check, line: str, name: str) -> None:
    home = "pkg/compat.py" if "pkg" in line else "compat.py"
    rewrites_files(
        {
            home: "- from torch.cuda.amp import autocast\n+ from torch.amp import autocast",
            "train.py": f"""
                  import torch
                  {line}

                - with {name}.autocast(False):
                + with {name}.autocast(device_type="cuda", enabled=False):
                      pass
            """,
        }
    )


def test_name_that_packages_hand_on(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "pkg/__init__.py": "from .utils import *\nfrom . import train",
            "pkg/utils/__init__.py": "from .compat import autocast",
            "pkg/utils/compat.py": "- from torch.cuda.amp import autocast\n+ from torch.amp import autocast",
            "pkg/train.py": """
                  import torch
                  from .utils import autocast

                - with autocast(False):
                + with autocast(device_type="cuda", enabled=False):
                      pass
            """,
            "main.py": """
                  import pkg
                  import torch

                - with pkg.autocast():
                + with pkg.autocast(device_type="cuda", dtype=torch.float16):
                      pass
            """,
        }
    )


def test_star_import_of_the_project(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "common.py": """
                  import math
                  import torch
                - from torch.cuda.amp import *
                + from torch.amp import autocast, GradScaler

                  __all__ = ["autocast", "GradScaler", "torch"]
            """,
            "train.py": """
                  from math import *
                  from common import *
                + import torch

                - scaler = GradScaler()
                + scaler = GradScaler("cuda")
                - with autocast():
                + with autocast(device_type="cuda", dtype=torch.float16):
                      pass
            """,
        }
    )


def test_star_import_brings_only_what_its_file_lists(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "common.py": """
                - from torch.cuda.amp import autocast
                + import torch
                + from torch.amp import autocast

                  __all__ = ["region"]

                  def region():
                -     return autocast()
                +     return autocast(device_type="cuda", dtype=torch.float16)
            """,
            "slow.py": """
                  import torch
                - from torch.cpu.amp import autocast
                + from torch.amp import autocast
            """,
            "train.py": """
                  import torch
                  from slow import *
                  from common import *

                - with autocast():
                + with autocast(device_type="cpu", dtype=torch.bfloat16):
                      pass
            """,
        }
    )


def test_torch_itself_by_star(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "common.py": "import torch\nimport numpy as np",
            "train.py": """
                  from common import *

                ~ with torch.cuda.amp.autocast():
                      pass
            """,
        }
    )


def test_guard_with_a_stand_in(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "compat.py": """
                  import torch
                - try:
                -     from torch.cuda.amp import autocast
                - except ImportError:
                -     class autocast:
                -         def __init__(self, enabled):
                -             pass
                + from torch.amp import autocast
            """,
            "train.py": """
                  import torch
                  from compat import autocast

                  def step():
                -     with autocast(enabled=False):
                +     with autocast(device_type="cuda", enabled=False):
                          pass
            """,
        }
    )


def test_stand_in_that_a_file_without_torch_may_get(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "compat.py": """
                try:
                    from torch.cuda.amp import autocast
                except ImportError:
                    autocast = None
            """,
            "train.py": "import torch\nfrom compat import autocast\n\nwith autocast():\n    pass",
            "tool.py": "from compat import autocast\n\nif autocast is not None:\n    autocast()",
        }
    )
    assert {finding.kind for finding in findings} == {Kind.LEFT}


def test_assignment(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "compat.py": """
                  import torch

                - autocast = torch.cuda.amp.autocast
                + autocast = torch.amp.autocast
                - amp = torch.cuda.amp
                + amp = torch.amp
            """,
            "train.py": """
                  import torch
                  from compat import amp, autocast

                - scaler = amp.GradScaler()
                + scaler = amp.GradScaler("cuda")
                - with autocast():
                + with autocast(device_type="cuda", dtype=torch.float16):
                      pass
            """,
        }
    )


def test_every_kind_of_use(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "compat.py": """
                - from torch.cuda.amp import GradScaler, autocast, custom_fwd
                + from torch.amp import GradScaler, autocast, custom_fwd
            """,
            "use.py": """
                + import functools
                  import torch

                  def local(flag, scaler):
                      from compat import GradScaler as Scaler, autocast
                      if Scaler is not None and isinstance(scaler, Scaler):
                -         cast = autocast if flag else None
                +         cast = functools.partial(autocast, device_type="cuda", dtype=torch.float16) if flag else None
                          with cast():
                              pass

                  import compat

                  class F:
                -     @compat.custom_fwd
                +     @compat.custom_fwd(device_type="cuda")
                      def forward(ctx, x: compat.GradScaler):
                          return x
            """,
        }
    )


LEFT = {
    "handed further": "run(autocast)\n",
    "called with stars": "with autocast(*flags):\n    pass\n",
    "given another value": "import compat\n\ncompat.autocast = None\n",
    "a base class": "class Region(autocast):\n    pass\n",
    "bound twice": "if flag:\n    autocast = None\nwith autocast():\n    pass\n",
    "not to be touched": "with autocast():  # amp-migrate: ignore[AMP101]\n    pass\n",
    "a file to be skipped": "# amp-migrate: skip-file\nwith autocast():\n    pass\n",
}


@pytest.mark.parametrize("use", LEFT.values(), ids=LEFT)
def test_use_that_is_not_understood_keeps_all_files_as_they_are(rewrites_files: Check, use: str) -> None:
    findings = rewrites_files(
        {
            "compat.py": "from torch.cuda.amp import autocast",
            "good.py": "import torch\nfrom compat import autocast\n\nwith autocast():\n    pass",
            "odd.py": f"import torch\nfrom compat import autocast\n\n{use}",
        }
    )
    told = {(finding.path.rpartition("/")[2], finding.line): finding for finding in findings}
    assert "other files import it from here (" in told["compat.py", 1].message
    assert "odd.py:" in told["compat.py", 1].message
    assert "it comes from" in told["good.py", 4].message


def test_what_does_not_stay_moves_beside_what_does(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "compat.py": """
                - from torch.cuda.amp import autocast, GradScaler
                + from torch.cuda.amp import GradScaler
                + from torch.amp import autocast
            """,
            "train.py": """
                  import torch
                  from compat import autocast, GradScaler

                  run(GradScaler)
                - with autocast():
                + with autocast(device_type="cuda", dtype=torch.float16):
                      pass
            """,
        }
    )


def test_star_import_of_which_one_name_stays(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "compat.py": "from torch.cuda.amp import *",
            "train.py": """
                import torch
                from compat import autocast, GradScaler

                run(GradScaler)
                with autocast():
                    pass
            """,
        }
    )
    assert {finding.kind for finding in findings} == {Kind.LEFT}


def test_name_that_a_file_of_the_project_defines_itself(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "compat.py": "import torch\n\nclass autocast:\n    def __init__(self, enabled):\n        pass",
            "train.py": "import torch\nfrom compat import autocast\n\nwith autocast(False):\n    pass",
        }
    )
    assert findings == ()


def test_choice_that_the_definition_leaves_open(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "compat.py": """
                import torch
                if torch.cuda.is_available():
                    from torch.cuda.amp import autocast
                else:
                    from helpers import autocast
            """,
            "train.py": "import torch\nfrom compat import autocast\n\nwith autocast(False):\n    pass",
        }
    )
    assert {finding.kind for finding in findings} == {Kind.LEFT}


def test_files_that_import_each_other(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "a.py": """
                - from torch.cuda.amp import autocast
                + from torch.amp import autocast
                  from b import train, unknown
            """,
            "b.py": """
                  import torch
                  from a import autocast, unknown

                  def train():
                -     with autocast(False):
                +     with autocast(device_type="cuda", enabled=False):
                          pass
            """,
        }
    )


def test_other_dtype(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "compat.py": """
                - from torch.cuda.amp import autocast, GradScaler
                + from torch.amp import autocast, GradScaler
            """,
            "train.py": """
                  import torch
                  from compat import autocast, GradScaler

                - scaler = GradScaler()
                - with autocast():
                + with autocast(device_type="cuda", dtype=torch.bfloat16):
                      loss = model(x)
                - scaler.scale(loss).backward()
                - scaler.step(optimizer)
                - scaler.update()
                + loss.backward()
                + optimizer.step()
            """,
        },
        "bf16",
    )


@pytest.mark.parametrize("dtype", ["bf16", "auto"])
def test_region_that_stays_keeps_its_dtype_and_its_scaler(rewrites_files: Check, dtype: str) -> None:
    findings = rewrites_files(
        {
            "compat.py": """
                - from torch.cuda.amp import autocast, GradScaler
                + from torch.cuda.amp import autocast
                + from torch.amp import GradScaler
            """,
            "train.py": """
                  import torch
                  from compat import autocast, GradScaler

                  run(autocast)
                - scaler = GradScaler()
                + scaler = GradScaler("cuda")
                  with autocast():
                      loss = model(x)
                  scaler.scale(loss).backward()
                  scaler.step(optimizer)
                  scaler.update()
            """,
        },
        dtype,
    )
    assert ["float16 stays" in finding.message for finding in findings if finding.code == "AMP510"] == [True]


@pytest.mark.parametrize("workers", [1, 2])
def test_parts_and_processes_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(in_parts, "PART_BYTES", 1)
    use = "import torch\nfrom compat import autocast, region\n\nwith autocast(False):\n    pass\n"
    texts = {
        "compat.py": "import torch\nfrom torch.cuda.amp import autocast\n",
        **{f"train{number}.py": use for number in range(3)},
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    whole = migrate([tmp_path], Settings())
    apart = migrate_in_parts(Workspace.open([tmp_path]), Settings(), workers)
    assert [(each.source.name, each.after) for each in apart.changed] == [
        (each.source.name, each.after) for each in whole.changed
    ]
    assert len(apart.changed) == len(texts)
    assert apart.findings == whole.findings


def test_definition_alone_stays_beside_files_that_were_not_given(tmp_path: Path) -> None:
    (tmp_path / "compat.py").write_text("from torch.cuda.amp import autocast\n")
    (tmp_path / "train.py").write_text("from compat import autocast\n\nwith autocast():\n    pass\n")
    outcome = migrate([tmp_path / "compat.py"], Settings())
    assert outcome.changed == ()
    assert ["files that were not given" in finding.message for finding in outcome.findings] == [True]


def test_use_alone_is_told(tmp_path: Path) -> None:
    (tmp_path / "compat.py").write_text("from torch.cuda.amp import autocast\n")
    (tmp_path / "train.py").write_text("from compat import autocast\n\nwith autocast():\n    pass\n")
    outcome = migrate([tmp_path / "train.py"], Settings())
    assert outcome.changed == ()
    assert ["compat" in finding.message for finding in outcome.findings] == [True]


@pytest.mark.torch
def test_what_is_written_runs(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from .compat import *\n",
        "pkg/compat.py": """
            try:
                from torch.cuda.amp import GradScaler, autocast, custom_fwd
            except ImportError:
                autocast = GradScaler = custom_fwd = None
        """,
        "train.py": """
            import torch
            import pkg
            from pkg import GradScaler
            from pkg.compat import autocast as region

            scaler = GradScaler(1024.0, enabled=False)
            assert isinstance(scaler, pkg.GradScaler)
            with region(False), pkg.autocast(enabled=False):
                @pkg.custom_fwd
                def forward(ctx, x):
                    return x
        """,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text).removeprefix("\n"))
    command = [sys.executable, "-W", "error::FutureWarning", "train.py"]
    assert b"FutureWarning" in subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stderr
    outcome = migrate([tmp_path], Settings())
    for plan in outcome.changed:
        plan.source.path.write_text(plan.after)
    subprocess.run(command, cwd=tmp_path, check=True)
