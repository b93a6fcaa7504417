"""Does the check of results find what a faulty migration would have done? Mutants of real results are its test.

    python benchmarks/mutate_results.py --known CHECKOUTS... --kept OUTPUTS... --output results/mutants.json
    python benchmarks/mutate_results.py --table

`CHECKOUTS/name/` is a repository as it is, `OUTPUTS/name/fp16/written/` what `amp-migrate` makes of its files, as
`output_net.py record --keep` writes them. A mutant is a result with one fault that a reader or a writer could make. The
file is checked as before it is written, with the files that it belongs to; a mutant is caught where that refuses it.
No text of a checkout is kept in the results.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import proved_results
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.results.check_text import Refused, check_text
from amp_migrate.engine.results.proof import project_of
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace
from amp_migrate.prove.check import Change, Project, faults
from idle_mutants import is_scaler, why_idle

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "mutants.json"
PAGE = HERE.parent / "docs" / "mutants.md"
_TORCH = (2, 6)
_LARGEST = 48_000  # characters of the files that belong together: a sample has to come to an end
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign)

Edit = tuple[int, int, list[str]]  # the lines from here to there, and what stands there instead


@dataclass(frozen=True)
class Code:
    """A result to be mutated."""

    tree: ast.Module
    lines: list[str]

    def indent(self, node: ast.stmt) -> str:
        return self.lines[node.lineno - 1][: node.col_offset]

    def of(self, node: ast.stmt) -> list[str]:
        return self.lines[node.lineno - 1 : node.end_lineno]

    @cached_property
    def blocks(self) -> list[list[ast.stmt]]:
        """All lists of statements in which each begins a line of its own."""
        found = []
        for node in ast.walk(self.tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if not isinstance(block, list) or not block or not isinstance(block[0], ast.stmt):
                    continue
                if not any(self.lines[each.lineno - 1][: each.col_offset].strip() for each in block):
                    found.append(block)
        return found

    def statements(self) -> Iterator[ast.stmt]:
        for block in self.blocks:
            yield from block

    def without(self, node: ast.stmt) -> Edit:
        return node.lineno, node.end_lineno or node.lineno, [f"{self.indent(node)}pass"]

    def with_text(self, node: ast.stmt, old: str, new: str) -> Edit:
        text = "\n".join(self.of(node)).replace(old, new, 1)
        return node.lineno, node.end_lineno or node.lineno, text.split("\n")


def _method(node: ast.stmt) -> str:
    """The method that a statement calls, and what it gives is not kept, or of which it keeps what is given."""
    value = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    return value.func.attr if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else ""


def _of_scaler(node: ast.stmt, method: str) -> bool:
    value = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    func = value.func if isinstance(value, ast.Call) else None
    return _method(node) == method and isinstance(func, ast.Attribute) and is_scaler(func.value)


def _scales(node: ast.stmt) -> ast.Call | None:
    """The call of `scale` in `scaler.scale(loss).backward()`."""
    value = node.value if isinstance(node, ast.Expr) and _method(node) == "backward" else None
    inner = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
    func = inner.func if isinstance(inner, ast.Call) and len(inner.args) == 1 else None
    return inner if isinstance(inner, ast.Call) and isinstance(func, ast.Attribute) and func.attr == "scale" else None


def _makes_scaler(node: ast.stmt) -> bool:
    """Whether a statement does nothing but say which scaler there is: whether mixed precision is on."""
    return isinstance(node, ast.Assign) and all(map(is_scaler, node.targets))


def _is_clip(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    if not isinstance(value, ast.Call):
        return False
    func = value.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    return name.startswith("clip_grad_")


def drop_statement(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, _SIMPLE) and not is_text and "scaler" not in "\n".join(code.of(node)):
            yield code.without(node)


def swap_statements(code: Code) -> Iterator[Edit]:
    for block in code.blocks:
        for one, other in pairwise(block):
            texts = "\n".join(code.of(one)), "\n".join(code.of(other))
            is_simple = isinstance(one, _SIMPLE) and isinstance(other, _SIMPLE) and texts[0].strip() != texts[1].strip()
            if is_simple and not any("scaler" in text for text in texts):
                yield one.lineno, other.end_lineno or 0, [*code.of(other), *code.of(one)]


def repeat_statement(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and "scaler" not in "\n".join(code.of(node)):
            yield node.lineno, node.end_lineno or 0, [*code.of(node), *code.of(node)]


def drop_clip(code: Code) -> Iterator[Edit]:
    yield from (code.without(node) for node in code.statements() if _is_clip(node))


def drop_branch(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        if isinstance(node, ast.If) and not all(map(_makes_scaler, node.body)):
            first, last = node.body[0], node.body[-1]
            if first.lineno > node.lineno and not all(isinstance(each, ast.Pass) for each in node.body):
                yield first.lineno, last.end_lineno or 0, [f"{code.indent(first)}pass"]


def turn_test(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        if isinstance(node, ast.If) and node.test.lineno == node.test.end_lineno == node.lineno:
            line = code.lines[node.lineno - 1]
            start, end = node.test.col_offset, node.test.end_col_offset or 0
            if line.isascii() and "scaler" not in line and not all(map(_makes_scaler, node.body + node.orelse)):
                yield node.lineno, node.lineno, [f"{line[:start]}not ({line[start:end]}){line[end:]}"]


def change_number(code: Code) -> Iterator[Edit]:
    for node in ast.walk(code.tree):
        if not isinstance(node, ast.Constant) or node.lineno != node.end_lineno:
            continue
        line, value = code.lines[node.lineno - 1], node.value
        is_other = not any(word in line for word in ("GradScaler", "autocast", "scaler"))
        if isinstance(value, (int, float)) and not isinstance(value, bool) and line.isascii() and is_other:
            yield node.lineno, node.lineno, [f"{line[: node.col_offset]}{value + 1}{line[node.end_col_offset :]}"]


def change_key(code: Code) -> Iterator[Edit]:
    for node in ast.walk(code.tree):
        keys: list[ast.expr | None] = list(node.keys) if isinstance(node, ast.Dict) else []
        keys += [node.slice] if isinstance(node, ast.Subscript) else []
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and "scaler" not in key.value:
                line, start, end = code.lines[key.lineno - 1], key.col_offset, key.end_col_offset or 0
                if line.isascii() and key.lineno == key.end_lineno and "scaler" not in line and "amp" not in line:
                    yield key.lineno, key.lineno, [f"{line[:start]}{key.value + '_'!r}{line[end:]}"]


def drop_argument(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        if not isinstance(node, _SIMPLE) or node.lineno != node.end_lineno:
            continue
        line = code.lines[node.lineno - 1]
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and len(call.args) > 1 and line.isascii() and "scaler" not in line:
                one, other = call.args[-2], call.args[-1]
                if not any(word in line for word in ("autocast", "GradScaler")):
                    end, last = one.end_col_offset or 0, other.end_col_offset or 0
                    yield node.lineno, node.lineno, [line[:end] + line[last:]]


def drop_scaler_statement(method: str) -> Callable[[Code], Iterator[Edit]]:
    def made(code: Code) -> Iterator[Edit]:
        for block in code.blocks:
            for index, node in enumerate(block):
                # An `unscale_` that nothing reads behind is made up for by `step`.
                if _of_scaler(node, method) and (method != "unscale_" or any(map(_is_clip, block[index:]))):
                    yield code.without(node)

    return made


def repeat_unscale(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        if _of_scaler(node, "unscale_"):
            yield node.lineno, node.end_lineno or 0, [*code.of(node), *code.of(node)]


def clip_first(code: Code) -> Iterator[Edit]:
    for block in code.blocks:
        for one, other in pairwise(block):
            if _of_scaler(one, "unscale_") and _is_clip(other):
                yield one.lineno, other.end_lineno or 0, [*code.of(other), *code.of(one)]


def update_first(code: Code) -> Iterator[Edit]:
    for block in code.blocks:
        for one, other in pairwise(block):
            if _of_scaler(one, "step") and _of_scaler(other, "update"):
                yield one.lineno, other.end_lineno or 0, [*code.of(other), *code.of(one)]


def do_not_scale(code: Code) -> Iterator[Edit]:
    # Where no step goes through a scaler, gradients may be scaled or not: no order is broken.
    for node in code.statements() if any(_of_scaler(each, "step") for each in code.statements()) else ():
        call = _scales(node)
        if call is not None:
            yield code.with_text(node, ast.unparse(call), ast.unparse(call.args[0]))


def step_past_the_scaler(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        call = node.value if isinstance(node, ast.Expr) and _of_scaler(node, "step") else None
        if isinstance(call, ast.Call) and len(call.args) == 1:
            yield node.lineno, node.end_lineno or 0, [f"{code.indent(node)}{ast.unparse(call.args[0])}.step()"]


def rename_scaler(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        for method in ("step", "update", "unscale_"):
            if _of_scaler(node, method):
                yield code.with_text(node, "scaler", "other_scaler")


def make_scaler_on_one_way(code: Code) -> Iterator[Edit]:
    for block in code.blocks:
        for index, node in enumerate(block):
            text = "\n".join(code.of(node))
            is_made = isinstance(node, ast.Assign) and text.lstrip().startswith("scaler =") and "GradScaler" in text
            if is_made and any(map(_reads_scaler, block[index + 1 :])):
                indented = [f"    {line}" for line in code.of(node)]
                yield node.lineno, node.end_lineno or 0, [f"{code.indent(node)}if __doc__:", *indented]


def _reads_scaler(node: ast.AST) -> bool:
    return any(isinstance(e, ast.Name) and e.id == "scaler" and isinstance(e.ctx, ast.Load) for e in ast.walk(node))


def backward_in_region(code: Code) -> Iterator[Edit]:
    for block in code.blocks:
        for one, other in pairwise(block):
            if isinstance(one, ast.With) and "autocast" in code.lines[one.lineno - 1] and _scales(other) is not None:
                by = code.indent(one.body[0])[len(code.indent(one)) :]
                yield other.lineno, other.end_lineno or 0, [f"{by}{line}" for line in code.of(other)]


def shorten_region(code: Code) -> Iterator[Edit]:
    for node in code.statements():
        if isinstance(node, ast.With) and "autocast" in code.lines[node.lineno - 1] and len(node.body) > 1:
            last = node.body[-1]
            cut = len(code.indent(last)) - len(code.indent(node))
            if all(line[:cut].isspace() or not line for line in code.of(last)) and cut > 0:
                yield last.lineno, last.end_lineno or 0, [line[cut:] for line in code.of(last)]


def drop_cast(code: Code) -> Iterator[Edit]:
    for number, line in enumerate(code.lines, 1):
        if ".float()" in line and "scaler" not in line:
            yield number, number, [line.replace(".float()", "", 1)]


# What each changes, and whether a program with its precision taken out, or the order of its scaler, is then another.
OPERATORS: dict[str, tuple[Callable[[Code], Iterator[Edit]], bool]] = {
    "drop a statement": (drop_statement, True),
    "swap two statements": (swap_statements, True),
    "do a call twice": (repeat_statement, True),
    "lose a clip": (drop_clip, True),
    "leave out a branch": (drop_branch, True),
    "turn a test round": (turn_test, True),
    "change a number": (change_number, True),
    "edit a key": (change_key, True),
    "drop an argument": (drop_argument, True),
    "drop `update()`": (drop_scaler_statement("update"), True),
    "drop `scaler.step()`": (drop_scaler_statement("step"), True),
    "drop `unscale_()` before a clip": (drop_scaler_statement("unscale_"), True),
    "unscale twice": (repeat_unscale, True),
    "clip before `unscale_()`": (clip_first, True),
    "update before the step": (update_first, True),
    "do not scale the loss": (do_not_scale, True),
    "step past the scaler": (step_past_the_scaler, True),
    "rename a scaler": (rename_scaler, True),
    "make the scaler on one way only": (make_scaler_on_one_way, True),
    "backward in the region": (backward_in_region, True),
    "shorten a region by a statement": (shorten_region, False),
    "drop a cast": (drop_cast, False),
}


@dataclass(frozen=True)
class Result:
    """One written file, with those that it belongs to."""

    source: Source
    changes: tuple[Change, ...]
    project: Project

    def is_refused(self, after: str) -> str:
        """What a check says of another text of the file; empty where it passes."""
        try:
            check_text(self.source, after)
        except Refused as error:
            return str(error)
        name = str(self.source.path)
        changes = [Change(name, each.before, after) if each.name == name else each for each in self.changes]
        found = faults(changes, self.project, is_strict=False)
        return next(iter(found.values())).message if found else ""


def results(top: Path, written: Path) -> Iterator[Result]:
    """The results of one checkout, without those of groups that take too long."""
    workspace = Workspace.open([top])
    pairs: dict[Source, str] = {}
    for path in sorted(each for each in written.rglob("*.py") if each.is_file()):
        source, after = workspace.file(top / path.relative_to(written)), Workspace.open([path]).file(path)
        if source is not None and after is not None and source.text != after.text:
            pairs[source] = after.text
    for group in ImportGraph(workspace).groups(pairs):
        changes = tuple(Change(str(each.path), each.text, pairs[each]) for each in group)
        if sum(len(each.after) for each in changes) <= _LARGEST:
            project = project_of(workspace, (source.path for source in group), _TORCH)
            yield from (Result(source, changes, project) for source in group)


def mutants(after: str, number: int, chance: random.Random) -> Iterator[tuple[str, int, str]]:
    """Mutants of a text, each of another operator as long as there are others: the operator, the line, the text."""
    code = Code(ast.parse(after), after.split("\n"))
    edits = {name: list(operator(code)) for name, (operator, _) in OPERATORS.items()}
    for each in edits.values():
        chance.shuffle(each)
    while number > 0 and any(edits.values()):
        names = [name for name, each in edits.items() if each]
        chance.shuffle(names)
        for name in names[:number]:
            first, last, lines = edits[name].pop()
            text = "\n".join([*code.lines[: first - 1], *lines, *code.lines[last:]])
            try:
                compile(text, "", "exec", flags=ast.PyCF_ONLY_AST)
            except SyntaxError:
                continue
            if text != after:
                number -= 1
                yield name, first, text


def measure(
    pools: Sequence[tuple[Path, Path]], dtype: str, each: int, seconds: float, missed: Path | None
) -> dict[str, Any]:
    """Mutants of all results, until the time is up.

    Args:
        pools: folders of checkouts, each with the folder of what became of them.
        missed: where the mutants that are not caught are kept.
    """
    rows: list[dict[str, Any]] = []
    idle: Counter[str] = Counter()
    refused: list[str] = []
    files = 0
    began = time.process_time()
    for known, folder in (
        (known, path) for known, kept in pools for path in sorted(kept.iterdir()) if (known / path.name).is_dir()
    ):
        if time.process_time() - began > seconds or not (folder / dtype / "written").is_dir():
            continue
        for result in results(known / folder.name, folder / dtype / "written"):
            name = str(result.source.path)
            after = next(change.after for change in result.changes if change.name == name)
            file = f"{folder.name}/{result.source.path.relative_to(known / folder.name)}"
            if "\r" in after or result.is_refused(after):
                refused += [] if "\r" in after else [file]
                continue
            files += 1
            for operator, line, text in mutants(after, each, random.Random(file)):
                why = why_idle(after, text)
                if why:
                    idle[why] += 1
                    continue
                said = result.is_refused(text)
                rows.append({"operator": operator, "caught": bool(said), "place": f"{file}:{line}"})
                if not said and missed is not None:
                    kept = missed / f"{file}:{line} {operator}.json".replace("/", "+")
                    changes = [(c.name, c.before, text if c.name == name else c.after) for c in result.changes]
                    kept.write_text(json.dumps({**rows[-1], "top": str(known / folder.name), "changes": changes}))
        print(folder.name, files, len(rows), sum(not row["caught"] for row in rows), file=sys.stderr, flush=True)
    return {"results": files, "refused": refused, "idle": dict(sorted(idle.items())), "mutants": rows}


def page(measured: dict[str, Any], proved: dict[str, Any]) -> str:
    """The docs page of a measurement, and of what was proved (`proved_results.py`)."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for row in measured["mutants"]:
        counts[row["operator"]][row["caught"]] += 1
    text = (HERE / "mutants.head.md").read_text(encoding="utf-8")
    seen = [name for name, (_, is_seen) in OPERATORS.items() if is_seen and counts[name]]
    caught, total = sum(counts[name][True] for name in seen), sum(counts[name].total() for name in seen)
    idle = ", ".join(f"{why} ({number})" for why, number in measured["idle"].items())
    text += f"\n{total:,} mutants of {measured['results']} results change the program or the order of its scaler; "
    text += f"{caught:,} are caught ({100 * caught / max(total, 1):.2f} %). Not counted: {idle}.\n\n"
    for names, head in (
        (seen, "| mutant | made | caught |"),
        ([name for name in OPERATORS if name not in seen and counts[name]], "| precision alone | made | caught |"),
    ):
        text += f"{head}\n|---|---|---|\n"
        text += "".join(f"| {name} | {counts[name].total()} | {counts[name][True]} |\n" for name in names) + "\n"
    return text + proved_results.section(proved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", type=Path, nargs="+", help="folders of checkouts")
    parser.add_argument("--kept", type=Path, nargs="+", help="what became of each, in the same order")
    parser.add_argument("--missed", type=Path, help="a folder for the mutants that are not caught, to be looked at")
    parser.add_argument("--dtype", default="fp16")
    parser.add_argument("--each", type=int, default=12, help="mutants of one result")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="of processor time, after which no checkout is begun"
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only write the page of the latest results")
    options = parser.parse_args()
    if not options.table:
        pools = list(zip(options.known, options.kept, strict=True))
        found = measure(pools, options.dtype, options.each, options.seconds, options.missed)
        options.output.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    if options.output == RESULTS:
        measured, proved = (json.loads(e.read_text(encoding="utf-8")) for e in (RESULTS, proved_results.RESULTS))
        PAGE.write_text(page(measured, proved), encoding="utf-8")


if __name__ == "__main__":
    main()
