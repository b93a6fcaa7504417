"""Float32 texts as they are once they have moved: with regions over the lines that are marked, and a scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# What ends a line that the text did not have.
WRITTEN = "  # written"
_SCALER = f'scaler = torch.amp.GradScaler("cuda"){WRITTEN}'


def migrated(text: str, *, cache: bool = True) -> str:
    """What a float32 step is once it has moved.

    A line that ends in `# region` is in a region, with those that follow it and are marked as well; each `backward()`
    is scaled, and each optimizer's `step()` the scaler's.
    """
    lines = _scaled(text).splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# region")}
    switch = f'with torch.autocast("cuda", dtype=torch.float16, cache_enabled={cache}):{WRITTEN}'
    for first, last in sorted(_runs(ast.parse(text), marked), reverse=True):
        indent = lines[first - 1][: -len(lines[first - 1].lstrip())]
        lines[first - 1 : last] = [indent + switch, *(f"    {line}" for line in lines[first - 1 : last])]
    return "\n".join((_SCALER, *lines, ""))


def _runs(node: ast.AST, marked: set[int]) -> Iterator[tuple[int, int]]:
    """The lines of marked statements that follow each other in a block."""
    for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody", "handlers")):
        run: list[ast.stmt] = []
        for statement in [*(block if isinstance(block, list) else []), None]:
            if isinstance(statement, ast.stmt) and statement.lineno in marked:
                run.append(statement)
                continue
            if run:
                yield run[0].lineno, run[-1].end_lineno or 0
                run = []
            if statement is not None:
                yield from _runs(statement, marked)


def _scaled(text: str) -> str:
    """A text whose losses are scaled, and whose optimizers step by the scaler."""
    lines = text.splitlines()
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    methods = [(each, each.func) for each in calls if isinstance(each.func, ast.Attribute)]
    for call, method in sorted(methods, key=lambda each: (each[0].lineno, each[0].col_offset), reverse=True):
        assert isinstance(method, ast.Attribute)
        if method.attr == "backward":
            loss = call.args[0] if ast.unparse(method.value) == "torch.autograd" else method.value
            new = f"scaler.scale({ast.unparse(loss)})"
            old = loss
        elif method.attr == "step" and "sched" not in ast.unparse(method.value):
            given = ", ".join(map(ast.unparse, (method.value, *call.args)))
            old, new = call, f"scaler.step({given}); scaler.update()"
        else:
            continue
        line = lines[old.lineno - 1]
        assert old.lineno == old.end_lineno, "a call of one line"
        lines[old.lineno - 1] = line[: old.col_offset] + new + line[old.end_col_offset :]
    return "\n".join(lines)
