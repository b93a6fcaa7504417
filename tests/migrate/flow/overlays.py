"""Regions and scalers that a text does not have: by the lines that they would go over."""

from __future__ import annotations

import ast

from amp_migrate.flow.overlay import Overlay, Region
from amp_migrate.flow.source import Site, site_of

from .conftest import HEAD


def migrated(text: str, *, cache: bool = True) -> Overlay:
    """What a float32 step would be if it were moved.

    A line that ends in `# region` is in a region, with those that follow it and are marked as well; each `backward()`
    is scaled, and each optimizer's `step()` the scaler's.
    """
    whole = HEAD + text
    lines = whole.splitlines()
    tree = ast.parse(whole)
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# region")}
    regions: list[Region] = []
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse")):
            run: list[ast.stmt] = []
            for statement in [*(block if isinstance(block, list) else []), None]:
                if isinstance(statement, ast.stmt) and statement.lineno in marked:
                    run.append(statement)
                elif run:
                    first, last = site_of("train.py", run[0]), site_of("train.py", run[-1])
                    regions.append(Region(first, last, cache=cache))
                    run = []

    def calls(name: str) -> frozenset[Site]:
        return frozenset(
            site_of("train.py", node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        )

    return Overlay(tuple(regions), frozenset(), calls("backward"), calls("step"))
