"""The net under a refactoring: what the codemod makes of whole checkouts, to the byte, before and after.

    python benchmarks/output_net.py record ~/src/examples ~/src/apex ... --out net.json --keep ~/net
    python benchmarks/output_net.py compare net.json ~/src/examples ~/src/apex ... --keep ~/net
    python benchmarks/output_net.py again ~/src/examples ~/src/apex ... --keep ~/net

For every checkout and `--dtype`, the net holds a hash of each file that `amp-migrate` would write, and a hash of all
that it says of each file: place, code, kind, message and hint. No text of a checkout is in it. `compare` does the same
with the code as it is now, names what differs, and exits with 1 if anything does; where `record` kept its outputs
(`--keep`, a folder outside of this repository), it shows unified diffs from what was written and said then. `again`
runs over the checkouts as they are once that is written: a second run changes nothing. Checkouts stay as they are.

The `amp_migrate` that Python imports is run, so `PYTHONPATH=~/other-worktree/migrate` nets other code. Every run is a
fork of this process, which has imported all of it, and has one processor; times are processor time.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import amp_migrate
from amp_migrate.cli import main as migrate

PACKAGE = Path(amp_migrate.__file__).parent
DTYPES = ("fp16", "bf16", "auto")
_DIGITS = 16  # of a SHA-256: 64 bits keep a few thousand files apart


@dataclass(frozen=True)
class Texts:
    """What one run writes and says: the bytes of each file that changes, and lines on each file, by its name."""

    written: Mapping[str, bytes]
    said: Mapping[str, list[str]]

    def save(self, folder: Path) -> None:
        """Write them below `folder`, instead of what was there."""
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in self.written.items():
            path = folder / "written" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "said.json").write_text(json.dumps(self.said, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Texts | None:
        """What `save` wrote; None where it was not called."""
        if not (folder / "said.json").exists():
            return None
        top = folder / "written"
        files = [path for path in top.rglob("*") if path.is_file()]
        said = json.loads((folder / "said.json").read_text(encoding="utf-8"))
        return cls({path.relative_to(top).as_posix(): path.read_bytes() for path in files}, said)


@dataclass(frozen=True)
class Output:
    """What the codemod makes of one checkout in one dtype.

    Attributes:
        source: a hash of the checkout's Python files and notebooks: outputs of other sources are not compared.
        seconds: its processor time, which is not compared.
        skipped: why there is no output; empty where there is one.
        exit_code: of the run.
        files: how many files the codemod read.
        written: a hash of the new bytes of each file that changes.
        said: a hash of the findings of each file that has some.
    """

    repository: str
    commit: str
    source: str
    dtype: str
    seconds: float = 0.0
    skipped: str = ""
    exit_code: int = 0
    files: int = 0
    written: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A checkout to run the codemod over in one dtype, for `limit` seconds of processor time at most."""

    folder: Path
    dtype: str
    excluded: tuple[str, ...]
    limit: int

    def start(self, scratch: Path) -> int:
        """Begin the run in a process of its own, and return its number; what comes of it goes below `scratch`."""
        sys.stdout.flush()
        process = os.fork()
        if process:
            return process
        code = 2
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (self.limit, self.limit + 5))
            for stream, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(scratch / name, os.O_WRONLY | os.O_CREAT), stream)
            # No path of this machine may be in what is said of the checkout.
            os.chdir(self.folder)
            excluded = [word for pattern in self.excluded for word in ("--exclude", pattern)]
            options = ["--dtype", self.dtype, "--workers", "1", "--format", "json", "--output", f"{scratch}/tree"]
            sys.argv = ["amp-migrate", *excluded, *options, "."]
            migrate()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 2
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def ended(self, scratch: Path, status: int, seconds: float) -> tuple[Output, Texts | None]:
        """What came of it; no texts where there was no report."""
        output = partial(Output, self.folder.name, commit(self.folder), source_of(self.folder), self.dtype, seconds)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return output(f"took longer than {self.limit} s of processor time"), None
        try:
            report = json.loads((scratch / "stdout").read_bytes())
        except ValueError:
            said = (scratch / "stderr").read_text(errors="replace").strip().splitlines()
            return output(f"ended with {code}: {said[-1] if said else 'nothing was said'}"), None
        written = {path: (scratch / "tree" / path).read_bytes() for path in report["changed"]}
        texts = Texts(written, _said(report["findings"]))
        hashes = {path: _hash(data) for path, data in texts.written.items()}
        said_hashes = {path: _hash("\n".join(lines).encode()) for path, lines in texts.said.items()}
        return output("", code, report["summary"]["files"], hashes, said_hashes), texts


def run(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Output, Texts | None]]:
    """Run all jobs, some at once, and give what came of them in their order."""
    pending = list(enumerate(jobs))[::-1]
    running: dict[int, tuple[int, Job, Path]] = {}
    done: dict[int, tuple[Job, Output, Texts | None]] = {}
    with tempfile.TemporaryDirectory() as name:
        try:
            while pending or running:
                while pending and len(running) < processes:
                    number, job = pending.pop()
                    scratch = Path(name, str(number))
                    scratch.mkdir()
                    running[job.start(scratch)] = number, job, scratch
                process, status, usage = os.wait4(-1, 0)
                number, job, scratch = running.pop(process)
                done[number] = job, *job.ended(scratch, status, round(usage.ru_utime + usage.ru_stime, 1))
                shutil.rmtree(scratch)
                while (first := len(jobs) - len(pending) - len(running) - len(done)) in done:
                    yield done.pop(first)
        finally:
            for process in running:
                os.kill(process, signal.SIGKILL)


def import_all() -> None:
    """Import the whole codemod, so that no run has to."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[1] not in ("verify", "__main__") and parts[-1] != "__init__":
            importlib.import_module(".".join(parts))


def _said(findings: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """A line for each finding, by file, in order of place."""
    said: dict[str, list[str]] = {}
    for each in findings:
        place = f"{each['line'] or 0}:{each['column'] or 0}"
        hint = f" [{each['hint']}]" if each["hint"] else ""
        said.setdefault(each["path"], []).append(f"{place}: {each['code']} {each['kind']}: {each['message']}{hint}")
    return said


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


@cache
def source_of(folder: Path) -> str:
    """A hash of the names and bytes of all Python files and notebooks of a checkout."""
    whole = hashlib.sha256()
    for path in sorted(each for suffix in ("*.py", "*.ipynb") for each in folder.rglob(suffix)):
        inner = path.relative_to(folder)
        if inner.parts[0] != ".git" and path.is_file():
            whole.update(f"{inner.as_posix()}\0{_hash(path.read_bytes())}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()[:_DIGITS]


def commit(folder: Path) -> str:
    """The commit of a checkout; empty for a folder that is none, or part of one."""
    if not (folder / ".git").exists():
        return ""
    return _git(folder, "rev-parse", "--short=8", "HEAD")


def tool() -> str:
    """The version of `amp_migrate`, and where it is of a checkout its commit, with `-dirty` if that was edited."""
    described = _git(PACKAGE, "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*")
    return f"{version('amp-migrate')} {described}".strip()


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def differences(then: Output, now: Output) -> Iterator[str]:
    """What is no longer as it was, a line for each file."""
    for name in ("exit_code", "files"):
        if getattr(then, name) != getattr(now, name):
            yield f"{name.replace('_', ' ')}: {getattr(then, name)} then, {getattr(now, name)} now"
    for path in sorted({*then.written, *now.written}):
        if path not in now.written:
            yield f"{path}: was changed, is not now"
        elif path not in then.written:
            yield f"{path}: is changed, was not then"
        elif then.written[path] != now.written[path]:
            yield f"{path}: is changed otherwise"
    for path in sorted({*then.said, *now.said}):
        if then.said.get(path) != now.said.get(path):
            yield f"{path}: other findings"


def diffs(folder: Path, then: Texts, now: Texts) -> Iterator[str]:
    """Unified diffs from what was written and said then to what is now; of a file that did not change, its original."""
    for path in sorted({*then.written, *now.written}):
        old, new = (_text(each.written.get(path), folder / path) for each in (then, now))
        yield from _diff(old, new, path)
    for path in sorted({*then.said, *now.said}):
        yield from _diff(then.said.get(path, []), now.said.get(path, []), f"findings of {path}")


def _text(written: bytes | None, original: Path) -> list[str]:
    data = original.read_bytes() if written is None else written
    # Latin-1 stands for "bytes as characters"; a carriage return must be seen.
    return [line.replace("\r", "\\r") for line in data.decode("latin-1").split("\n")]


def _diff(old: Sequence[str], new: Sequence[str], name: str) -> Iterator[str]:
    yield from difflib.unified_diff(old, new, f"then: {name}", f"now: {name}", lineterm="")


def record(options: argparse.Namespace) -> int:
    """Write the net, and keep the texts if that was asked for."""
    jobs = [
        Job(folder, dtype, tuple(options.exclude), options.limit)
        for folder in _folders(options.folders)
        for dtype in options.dtype or DTYPES
    ]
    outputs: list[Output] = []
    start, code = time.monotonic(), tool()
    for _, output, texts in run(jobs, options.processes):
        outputs.append(output)
        if texts is not None and options.keep is not None:
            texts.save(options.keep / output.repository / output.dtype)
        became = output.skipped or f"{len(output.written)} of {output.files} files changed"
        print(f"{output.repository:54}{output.dtype:6}{output.seconds:7.1f} s  {became}", flush=True)
    result = {
        "date": date.today().isoformat(),
        "tool": code,
        "excluded": options.exclude,
        "outputs": [asdict(each) for each in outputs],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    skipped = sum(each.skipped != "" for each in outputs)
    print(f"{len(outputs)} runs of {code}, {skipped} skipped, {time.monotonic() - start:.0f} s")
    return 0


def compare(options: argparse.Namespace) -> int:
    """Run again, print what differs, and return 1 if anything does or could not be compared."""
    net = _net(options.net)
    recorded = [Output(**each) for each in net["outputs"]]
    dtypes = options.dtype or DTYPES
    folders = {folder.name: folder for folder in _folders(options.folders)}
    unknown = sorted(set(folders) - {each.repository for each in recorded})
    if unknown:
        raise SystemExit(f"{options.net} does not have {', '.join(unknown)}; record it first")
    wanted = [each for each in recorded if each.repository in folders and each.dtype in dtypes]
    for each in wanted:
        if each.skipped:
            print(f"{each.repository} {each.dtype}: not compared: {each.skipped} when it was recorded")
    then = {(each.repository, each.dtype): each for each in wanted if not each.skipped}
    jobs = [Job(folders[name], dtype, tuple(net["excluded"]), options.limit) for name, dtype in then]
    differing, failed = 0, 0
    start, code = time.monotonic(), tool()
    for job, output, texts in run(jobs, options.processes):
        old = then[output.repository, output.dtype]
        reason = output.skipped
        if output.source != old.source:
            reason = f"its files are not those of the net (commit {old.commit or 'unknown'}, now {output.commit})"
        if reason:
            failed += 1
            print(f"{output.repository} {output.dtype}: not compared: {reason}", flush=True)
            continue
        lines = list(differences(old, output))
        differing += bool(lines)
        print("".join(f"{output.repository} {output.dtype}: {line}\n" for line in lines), end="", flush=True)
        if lines and texts is not None and options.keep is not None:
            _show(job, options.keep / output.repository / output.dtype, texts)
    seconds = sum(each.seconds for each in then.values())
    print(f"{len(jobs)} runs of {code} beside {net['tool']}: {differing} differ, {failed} not compared")
    print(f"{time.monotonic() - start:.0f} s; the same runs, one by one, were {seconds:.0f} s when they were recorded")
    return int(differing + failed > 0)


def again(options: argparse.Namespace) -> int:
    """Run over what was written, and return 1 if that would change again anywhere."""
    folders = {folder.name: folder for folder in _folders(options.folders)}
    changing, failed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        jobs: list[Job] = []
        for dtype in options.dtype or DTYPES:
            for repository, folder in folders.items():
                kept = options.keep / repository / dtype
                texts = Texts.load(kept)
                if texts is None:
                    print(f"{repository} {dtype}: no outputs are kept in {kept}")
                elif texts.written:
                    migrated = Path(name, dtype, repository)
                    _overlaid(folder, texts, migrated)
                    jobs.append(Job(migrated, dtype, (), options.limit))
        for job, output, texts in run(jobs, options.processes):
            changing += bool(output.written)
            failed += bool(output.skipped)
            said = [output.skipped] if output.skipped else [f"{each}: is changed again" for each in output.written]
            print("".join(f"{output.repository} {output.dtype}: {each}\n" for each in said), end="", flush=True)
            if texts is not None:
                (options.keep / output.repository / output.dtype / "again.json").write_text(
                    json.dumps(sorted(output.written)) + "\n", encoding="utf-8"
                )
                before = {path: (job.folder / path).read_bytes() for path in texts.written}
                print(
                    "".join(f"    {e}\n" for e in diffs(job.folder, Texts(before, {}), Texts(texts.written, {}))),
                    end="",
                )
    print(f"{len(jobs)} runs over results of {tool()}: {changing} change again, {failed} did not end")
    return int(changing + failed > 0)


def _overlaid(folder: Path, texts: Texts, copy: Path) -> None:
    """A checkout as a run leaves it."""
    shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    for path, data in texts.written.items():
        (copy / path).write_bytes(data)


def _show(job: Job, kept: Path, now: Texts) -> None:
    then = Texts.load(kept)
    if then is None:
        print(f"    no outputs are kept in {kept}")
        return
    print("".join(f"    {line}\n" for line in diffs(job.folder, then, now)), end="", flush=True)


def _net(path: Path) -> Mapping[str, Any]:
    try:
        net: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}; `record` writes a net") from None
    except ValueError:
        net = {}
    if "outputs" not in net:
        raise SystemExit(f"{path} is not a net; `record` writes one")
    return net


def _folders(paths: Sequence[Path]) -> list[Path]:
    """The checkouts, by name.

    Raises:
        SystemExit: one is not a folder, or two have one name, by which the net knows them.
    """
    folders: dict[str, Path] = {}
    for path in paths:
        folder = Path(os.path.abspath(path))
        if not folder.is_dir():
            raise SystemExit(f"{path} is not a folder; name the top of a checkout")
        if folders.setdefault(folder.name, folder) != folder:
            raise SystemExit(f"{path} and {folders[folder.name]} have one name; rename one of them")
    return [folders[name] for name in sorted(folders)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or compare, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, what: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(what=what)
        return added

    recording = command("record", record, "run the codemod over checkouts, and write the hashes of its output")
    comparing = command("compare", compare, "run it again, and show what is no longer as it was recorded")
    recording.add_argument("--out", type=Path, required=True, metavar="NET", help="the file to write")
    recording.add_argument(
        "--exclude", action="append", default=[], metavar="PATTERN", help="as for amp-migrate; may be repeated"
    )
    comparing.add_argument("net", type=Path, metavar="NET", help="what `record` wrote")
    rerunning = command("again", again, "run over what `record` kept, and show what a second run would change")
    for each in (recording, comparing, rerunning):
        each.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="a checkout")
        each.add_argument("--dtype", choices=DTYPES, action="append", help="only this one; may be repeated")
        each.add_argument(
            "--keep",
            type=Path,
            required=each is rerunning,
            metavar="DIR",
            help="where the whole outputs are, outside of this repository",
        )
        each.add_argument("--limit", type=int, default=600, metavar="SECONDS", help="of one run (default: %(default)s)")
        each.add_argument("--processes", type=int, choices=(1, 2), default=2, help="at once (default: %(default)s)")
    options = parser.parse_args(arguments)
    import_all()
    result: int = options.what(options)
    return result


if __name__ == "__main__":
    sys.exit(main())
