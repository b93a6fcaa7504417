"""Scripts that are named alone: what they import is looked at, and stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from amp_migrate.engine.outcome import Outcome
from amp_migrate.engine.parts.given_files import migrate_named
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

TRAIN = """\
import torch
from torch import nn
from models import Net
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
NET = """\
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
    def forward(self, x):
        return self.linear(x)
"""
SPARSE = """\
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        return torch.sparse.mm(self.weight, x)
"""
LOOPS = """\
def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
"""
CALLER = """\
import torch
from torch import nn
from helper.loops import train
model = nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, [])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def migrated(files: Mapping[str, str], *names: str, settings: Settings | None = None) -> Outcome:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    paths = [Path(name) for name in names]
    return migrate_named(Workspace.open(paths), paths, settings or Settings())


NO_KERNEL = "no kernel takes half precision"


def said(outcome: Outcome) -> list[tuple[str, Kind, str]]:
    return [(each.path, each.kind, each.message) for each in outcome.findings]


def test_a_model_in_another_file_is_seen() -> None:
    outcome = migrated({"train.py": TRAIN, "models.py": SPARSE}, "train.py")
    assert not outcome.changed
    assert said(outcome) == [
        ("train.py", Kind.LEFT, f"left as it was: under autocast {NO_KERNEL}: sparse.mm (models.py:5)")
    ]
    assert outcome.files == 1


def test_what_is_seen_is_annotated_in_named_files_alone() -> None:
    settings = Settings(annotate=True)
    assert not migrated({"train.py": TRAIN, "models.py": SPARSE}, "models.py", settings=settings).changed
    both = migrated({}, "train.py", "models.py", settings=settings)
    assert [each.source.name for each in both.changed] == ["train.py"]


def test_deprecated_names_in_what_is_imported_stay_unsaid() -> None:
    old = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
    outcome = migrated({"train.py": TRAIN, "models.py": NET + old}, "train.py")
    assert [each.source.name for each in outcome.changed] == ["train.py"]
    assert {path for path, _, _ in said(outcome)} == {"train.py"}


def test_an_import_that_cannot_be_read_is_no_error() -> None:
    outcome = migrated({"train.py": TRAIN, "models.py": "def ("}, "train.py")
    assert [each.source.name for each in outcome.changed] == ["train.py"]
    assert not any(kind is Kind.ERROR for _, kind, _ in said(outcome))


@pytest.mark.parametrize("given", [("train.py",), ("train.py", "other.py")])
def test_a_step_in_another_file_is_told(given: tuple[str, ...]) -> None:
    outcome = migrated({"train.py": CALLER, "helper/loops.py": LOOPS, "other.py": "x = 1\n"}, *given)
    assert not outcome.changed
    message = "its part in helper/loops.py left as it was: not among the files that were given"
    assert said(outcome) == [("train.py", Kind.LEFT, message)]
    assert outcome.files == len(given)


def test_a_step_that_was_given_with_its_caller_moves() -> None:
    outcome = migrated({"train.py": CALLER, "helper/loops.py": LOOPS}, "train.py", "helper/loops.py")
    assert [each.source.name for each in outcome.changed] == ["helper/loops.py", "train.py"]


def test_what_another_file_would_do_for_the_step_is_told() -> None:
    save = (
        "import torch\ndef save(model, optimizer):\n    torch.save({'optimizer': optimizer.state_dict()}, 'last.pt')\n"
    )
    train = TRAIN.replace("models import Net", "models import Net\nfrom util import save") + "save(model, optimizer)\n"
    outcome = migrated({"train.py": train, "models.py": NET, "util.py": save}, "train.py")
    assert [each.source.name for each in outcome.changed] == ["train.py"]
    assert outcome.changed[0].after.endswith("\nsave(model, optimizer)\n")
    message = "its part in util.py left as it was: not among the files that were given"
    assert ("train.py", Kind.LEFT, message) in said(outcome)
    assert not any(
        "its part" in text
        for _, _, text in said(migrated({}, "train.py", "util.py"))  # now the scaler is saved, too
    )


def test_a_script_that_needs_another_file_keeps_no_other_from_being_seen_whole() -> None:
    save = (
        "import torch\ndef save(model, optimizer):\n    torch.save({'optimizer': optimizer.state_dict()}, 'last.pt')\n"
    )
    train = TRAIN.replace("models import Net", "models import Net\nfrom util import save") + "save(model, optimizer)\n"
    files = {"train.py": train, "models.py": NET, "util.py": save}
    other = {"other.py": TRAIN.replace("models", "graphs"), "graphs.py": SPARSE}
    outcome = migrated({**files, **other}, "train.py", "other.py")
    assert [each.source.name for each in outcome.changed] == ["train.py"]
    assert [path for path, kind, _ in said(outcome) if kind is Kind.LEFT] == ["other.py", "train.py"]
    assert outcome.files == 2
    annotated = migrated({}, "train.py", "other.py", settings=Settings(annotate=True))
    assert [each.source.name for each in annotated.changed] == ["other.py", "train.py"]
    assert annotated.plans[-1].after == outcome.plans[-1].after


def test_notes_can_be_ignored() -> None:
    files = {"train.py": CALLER, "helper/loops.py": LOOPS}
    assert said(migrated(files, "train.py", settings=Settings(ignore=("AMP590",)))) == []


def test_modules_of_the_repository_are_found_from_its_top(folder: Path) -> None:
    (folder / ".git").mkdir()
    train = TRAIN.replace("from models", "from lib.models")
    assert not migrated({"tools/train.py": train, "lib/models.py": SPARSE}, "tools/train.py").changed
    (folder / ".git").rmdir()
    assert migrated({}, "tools/train.py").changed
