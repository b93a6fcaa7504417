"""A planner with simple rules, to test the engine without the real ones; and ways to state what the real ones do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.parsed_files import Parsed
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.programs import Programs
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype, Settings

# What the planner makes of a word: a good change, and every kind of bad one that the engine must stop.
CHANGES = {
    "old_amp": "new_amp",
    "make_unbound": "surprise",
    "make_broken": "def (",
    "make_return": "return",
    "make_accented": "'\u0394'",
}


def _change(source: Source, line: str, number: int) -> tuple[str, Finding | None]:
    for old, new in CHANGES.items():
        if old in line:
            finding = Finding(source.name, number, line.index(old) + 1, "AMP101", Kind.MIGRATED, f"{old} is now {new}")
            return line.replace(old, new), finding
    if "leave" in line:
        hint = "write it by hand"
        return line, Finding(source.name, number, 1, "AMP590", Kind.LEFT, "step left as it was: a closure", hint)
    return line, None


def toy_plan(workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs) -> tuple[FilePlan, ...]:
    """Change `old_amp` and its like, leave `leave`, and fail on `crash`, as a rule with a fault in it would."""
    plans = []
    for source in workspace.candidates():
        module = workspace.parse(source)
        if module is None:
            continue
        if "crash" in source.text:
            raise KeyError("no such node")
        changes = [
            _change(source, line, number) for number, line in enumerate(module.code.splitlines(keepends=True), start=1)
        ]
        told = (finding for _, finding in changes if finding is not None)
        findings = tuple(finding for finding in told if settings.applies(finding.code))
        if findings:
            plans.append(FilePlan(source, "".join(line for line, _ in changes), findings))
    return tuple(plans)


@pytest.fixture
def toy_planner(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Workspace, Settings, Parsed, Programs], tuple[FilePlan, ...]]:
    """The engine with `toy_plan` in the place of the real planner; its results are other programs, and not proved."""
    monkeypatch.setattr("amp_migrate.engine.migrate.plan", toy_plan)
    monkeypatch.setattr("amp_migrate.engine.migrate.refuted", lambda *_: {})
    return toy_plan


HEAD = "import torch\nfrom torch import nn\n\n"


# What many texts have, by the name that stands for it there: the diff that a migration makes of it.
USUAL = {
    "MODEL": """
          model = nn.Linear(2, 2).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    """,
    "STEP": """
        ~ loss.backward()
        ~ optimizer.step()
          optimizer.zero_grad()
    """,
    "EPOCH": """
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP
    """,
    "APEX": """
        - from apex import amp
        -
    """,
    "INITIALIZE": """
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
    """,
    "SCALE_LOSS": """
        - with amp.scale_loss(loss, optimizer) as scaled_loss:
        -     scaled_loss.backward()
        + scaler.scale(loss).backward()
    """,
    "APEX_STEP": """
        ~ SCALE_LOSS
        ~ optimizer.step()
          optimizer.zero_grad()
    """,
    "APEX_EPOCH": """
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     APEX_STEP
    """,
    "SCALED_STEP": """
        - scaler.scale(loss).backward()
        - scaler.step(optimizer)
        - scaler.update()
        + loss.backward()
        + optimizer.step()
    """,
}


@pytest.fixture
def migrate() -> Callable[..., FilePlan]:
    """Migrate one text. What comes out compiles, is no fault of the tool, and is left alone by a second run."""

    def run(text: str, dtype: str = "fp16", head: str = HEAD, **options: Any) -> FilePlan:
        settings = Settings(dtype=Dtype(dtype), **options)
        plan = migrate_text(head + spelt_out(dedent(text)).removeprefix("\n"), settings)
        assert [finding for finding in plan.findings if finding.kind is Kind.ERROR] == []
        compile(plan.after, plan.source.name, "exec")
        if plan.changed:  # what stays is what that run was of
            assert migrate_text(plan.after, settings).after == plan.after
        return plan

    return run


@pytest.fixture
def rewrites(migrate: Callable[..., FilePlan]) -> Callable[..., FilePlan]:
    """Assert a rewrite that is written as a diff: lines with `-` are before, with `+` after, all others both.

    Lines with `~` are what every step has, and become what they become in every step: see `natively`. Names in capitals
    are what many texts have: see `USUAL`.
    """

    def check(diff: str, dtype: str = "fp16", head: str = HEAD, **options: Any) -> FilePlan:
        before, after = sides(diff, dtype)
        plan = migrate(before, dtype, head, **options)
        same("the result", head + after, plan.after, plan.findings)
        assert Kind.MIGRATED in {finding.kind for finding in plan.findings}
        return plan

    return check


@pytest.fixture
def leaves(migrate: Callable[..., FilePlan]) -> Callable[..., Finding]:
    """Assert that a text stays as it is, and that a finding says `why`."""

    def check(text: str, why: str, dtype: str = "fp16", head: str = HEAD) -> Finding:
        plan = migrate(text, dtype, head)
        same("a text that stays", plan.source.text, plan.after, plan.findings)
        found = [finding for finding in plan.findings if finding.kind is Kind.LEFT]
        assert [finding for finding in found if why in finding.message], found
        return next(finding for finding in found if why in finding.message)

    return check


@pytest.fixture
def ignores(migrate: Callable[..., FilePlan]) -> Callable[..., None]:
    """Assert that a text stays as it is, and that there is nothing to say about it."""

    def check(text: str, dtype: str = "fp16", head: str = HEAD) -> None:
        plan = migrate(text, dtype, head)
        same("a text that stays", plan.source.text, plan.after, plan.findings)
        assert plan.findings == ()

    return check


@pytest.fixture
def rewrites_files(tmp_path: Path) -> Callable[..., tuple[Finding, ...]]:
    """Like `rewrites`, for files that belong together; a file whose diff has no `-` and no `+` stays as it is."""

    def check(diffs: dict[str, str], dtype: str = "fp16", **options: Any) -> tuple[Finding, ...]:
        settings = Settings(dtype=Dtype(dtype), **options)
        texts = {name: sides(diff, dtype) for name, diff in diffs.items()}
        for name, (before, _) in texts.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(before)
        outcome = migrate_paths([tmp_path], settings)
        assert [finding for finding in outcome.findings if finding.kind is Kind.ERROR] == []
        for plan in outcome.changed:
            compile(plan.after, plan.source.name, "exec")
            plan.source.path.write_text(plan.after)
        for name, (_, after) in texts.items():
            same(name, after, (tmp_path / name).read_text(), outcome.findings)
        if outcome.changed:
            assert migrate_paths([tmp_path], settings).changed == ()
        return outcome.findings

    return check


def same(name: str, expected: str, result: str, findings: Iterable[Finding]) -> None:
    """Assert that a text came out as expected; where it did not, show a diff and what was said."""
    if result != expected:
        lines = difflib.unified_diff(expected.splitlines(), result.splitlines(), "expected", "result", lineterm="")
        said = (f"{each.line}:{each.column} {each.code} {each.kind.value}: {each.message}" for each in findings)
        pytest.fail("\n".join((f"{name} is another:", *lines, "what was said:", *said)), pytrace=False)


def sides(diff: str, dtype: str = "fp16") -> tuple[str, str]:
    """The texts before and after; a diff without `-`, `+` and `~` is a text that stays."""
    lines = spelt_out(dedent(diff), dtype).removeprefix("\n").splitlines()
    if not any(line.startswith(("+", "-", "~")) for line in lines):
        lines = [f"  {line}" for line in lines]
    before = "".join(f"{line[2:]}\n" for line in lines if not line.startswith("+"))
    after: list[str] = []
    for is_usual, run in groupby(lines, lambda line: line.startswith("~")):
        kept = [line[2:] for line in run if not line.startswith("-")]
        after += natively(kept, dtype) if is_usual else kept
    return before, "".join(f"{line}\n" for line in after)


def spelt_out(text: str, dtype: str = "fp16") -> str:
    """A text with what is `USUAL` in the place of its names: as it becomes with `~`, and as it was without."""
    lines: list[str] = []
    for line in text.split("\n"):
        named = _NAMED.fullmatch(line)
        if named is None:
            lines.append(line)
            continue
        sign, indent, name = named.groups()
        piece = spelt_out(dedent(USUAL[name]).strip("\n"), dtype).split("\n")
        if sign and dtype != "fp16":
            piece = [re.sub(r"^(\+ *)scaler\.scale\(loss\)", r"\1loss", each) for each in piece]
            piece = [each for each in piece if not each.startswith("+ scaler =")]
        if sign:
            lines += (each[0] + indent + each[2:] for each in piece)
        else:
            lines += (indent + each[2:] for each in piece if not each.startswith("+"))
    return "\n".join(lines)


def natively(lines: Sequence[str], dtype: str) -> Iterator[str]:
    """The usual lines of a step as native AMP.

    In float16 an optimizer is followed by its scaler, `loss.backward()` goes backward from the scaled loss, and
    `optimizer.step()` is left to the scaler, which is updated after the last of them. A deprecated region is a native
    one. All other lines are put into a region, those that follow each other into one, unless the next is less indented.
    """
    region: list[str] = []
    for line, behind in zip(lines, (*lines[1:], ""), strict=True):
        what = next((name for name in _SCALED if re.search(name, line)), None)
        if region and (what is not None or _indent(line) < _indent(region[0])):
            yield from _in_region(region, dtype)
            region = []
        if what is None:
            region.append(line)
        elif what == _REGION:
            yield next(_in_region([line], dtype))
        elif dtype != "fp16":
            yield line
        else:
            yield re.sub(what, _SCALED[what], line)
            if what == _STEP and not re.search(_STEP, behind):
                yield f"{_indent(line)}scaler.update()"
    if region:
        yield from _in_region(region, dtype)


def _in_region(lines: list[str], dtype: str) -> Iterator[str]:
    yield f'{_indent(lines[0])}with torch.amp.autocast(device_type="cuda", dtype={_DTYPES[dtype]}):'
    yield from (f"    {line}" for line in lines)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


_STEP = r"^( *)([\w.]+)\.step\(\)$"
_REGION = r"^ *with torch\.cuda\.amp\.autocast\(\):$"
_SCALED = {
    r"^( *)(\w+)\.backward\((.*)\)$": r"\1scaler.scale(\2).backward(\3)",
    r"^( *)(optimizer = .*)$": '\\1\\2\n\\1scaler = torch.amp.GradScaler("cuda")',
    _STEP: r"\1scaler.step(\2)",
    _REGION: "",
}
_NAMED = re.compile(rf"(~?)( *)({'|'.join(USUAL)})")
_DTYPES = {"fp16": "torch.float16", "bf16": "torch.bfloat16"}
