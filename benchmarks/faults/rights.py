"""Right operators: what a careful engineer could have written instead, with the same meaning.

They change what `amp-migrate` wrote: other spellings, other places for the same region, other ways through the scaler.
A verification must pass them all. But for the fused optimizer, which rounds otherwise, none of them changes what is
computed with mixed precision off, to the bit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from faults.operators import Mutant

KIND = "right"
_CALL = re.compile(r"torch\.amp\.autocast\(device_type=\"cuda\", dtype=torch\.(b?float16)\)")
_FUSED = re.compile(r"((?:optim\.)(?:Adam|AdamW|SGD))(\((?:[^()\n]|\([^()\n]*\))*)\)")
_MADE = re.compile(r"torch\.amp\.GradScaler\(\"cuda\"\)")
_STEP = re.compile(r"^( *)(scaler)\.step\(((?:[\w.]|\[\w+\])+)\)\n", re.MULTILINE)
_BACKWARD = re.compile(r"^( *)scaler\.scale\(((?:[\w.]|\[\w+\])+)\)\.backward\(\)\n", re.MULTILINE)
_WITH_LOSS = re.compile(
    r"^( *)(with torch\.amp\.autocast\(.*\):\n)\1    (\w+) = (\w+)\((.*)\)\n\1    (\w*loss\w*) = (\w+)\(\3, (.*)\)\n",
    re.MULTILINE,
)


def rights(text: str) -> Iterator[Mutant]:
    """Every right variant of a migrated script."""
    for name, new in _variants(text):
        if new != text and _parses(new):
            yield Mutant(KIND, name, 0, new)


def _parses(text: str) -> bool:
    """Whether the text was simple enough for the change that was made."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _variants(text: str) -> Iterator[tuple[str, str]]:
    scaled = "scaler.scale(" in text
    yield "torch.autocast", _CALL.sub(r'torch.autocast("cuda", dtype=torch.\1)', text)
    yield (
        "torch.cuda.amp",
        _MADE.sub("torch.cuda.amp.GradScaler()", _CALL.sub(r"torch.cuda.amp.autocast(dtype=torch.\1)", text)),
    )
    yield (
        "enabled=True spelled",
        _MADE.sub(
            'torch.amp.GradScaler("cuda", enabled=True)',
            _CALL.sub(r'torch.amp.autocast(device_type="cuda", dtype=torch.\1, enabled=True)', text),
        ),
    )
    yield "an object for all regions", _one_object(text)
    yield "decorator on a function of its own", _function(text)
    yield (
        "loss outside the region, in float32",
        _WITH_LOSS.sub(r"\1\2\1    \3 = \4(\5)\n\1\6 = \7(\3.float(), \8)\n", text),
    )
    yield "evaluation without a region", _without_evaluation(text)
    yield "set_to_none=True spelled", re.sub(r"\.zero_grad\(\)", ".zero_grad(set_to_none=True)", text)
    yield "gradients zeroed behind the step", _zeroed_behind(text)
    yield "fused optimizer", _FUSED.sub(r"\1\2, fused=True)", text)
    if not scaled:
        yield "a scaler that is off", _scaler_off(text)
        return
    yield "another name for the scaler", re.sub(r"\bscaler\b", "loss_scaling", text)
    yield "scaled loss in a variable", _BACKWARD.sub(r"\1_scaled = scaler.scale(\2)\n\1_scaled.backward()\n", text)
    if ".unscale_(" not in text and text.count("scaler.step(") == text.count(".backward("):
        yield "unscaled before the step", _STEP.sub(r"\1scaler.unscale_(\3)\n\g<0>", text)
    yield "init_scale=1024", _MADE.sub('torch.amp.GradScaler("cuda", init_scale=1024.0)', text)
    yield "growth after 100 steps", _MADE.sub('torch.amp.GradScaler("cuda", growth_interval=100)', text)
    yield "scale read before the step", _STEP.sub(r"\1_scale_before = scaler.get_scale()\n\g<0>", text)


def _one_object(text: str) -> str:
    """One autocast object, made behind the imports."""
    formats = set(_CALL.findall(text))
    if len(formats) != 1 or len(set(_nested(text))) > 1:
        return text
    region = _CALL.search(text)
    assert region is not None
    return _behind_imports(_CALL.sub("_amp_region", text), f"_amp_region = {region[0]}\n")


def _nested(text: str) -> Iterator[int]:
    """Depths of regions: one object may not be entered within itself."""

    def look(node: ast.AST, depth: int) -> Iterator[int]:
        inside = depth
        if isinstance(node, ast.With) and any("autocast" in ast.unparse(item.context_expr) for item in node.items):
            inside += 1
            yield inside
        for child in ast.iter_child_nodes(node):
            yield from look(child, inside)

    yield from look(ast.parse(text), 0)


def _behind_imports(text: str, line: str) -> str:
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not any(isinstance(node, ast.Import) and any(name.name == "torch" for name in node.names) for node in imports):
        return text
    last = max(node.end_lineno or 0 for node in imports)
    lines = text.split("\n")
    return "\n".join([*lines[:last], line.rstrip("\n"), *lines[last:]])


def _function(text: str) -> str:
    """A call of a model that is alone in its region goes into a function with the decorator."""
    found = re.search(
        r"^( *)with (torch\.amp\.autocast\(.*\)):\n"
        r"\1    ((?:\w+, )*\w+) = ((?:self\.)?\w+)\(([\w., ()\[\]]*)\)\n(?!\1    )",
        text,
        re.MULTILINE,
    )
    if found is None:
        return text
    indent, region, results, model, arguments = found.groups()
    made = (
        f"{indent}@{region}\n{indent}def _in_half(_model, *_inputs):\n{indent}    return _model(*_inputs)\n"
        f"{indent}{results} = _in_half({model}{', ' if arguments else ''}{arguments})\n"
    )
    changed = text[: found.start()] + made + text[found.end() :]
    return changed if "=" not in arguments else text


def _without_evaluation(text: str) -> str:
    """Evaluation under `no_grad` goes on in float32."""
    tree, lines = ast.parse(text), text.split("\n")
    regions = [
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.With) and any("no_grad" in ast.unparse(item) for item in outer.items)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.With) and len(inner.items) == 1 and "autocast" in ast.unparse(inner.items[0])
    ]
    for region in sorted(regions, key=lambda each: each.lineno, reverse=True):
        first, last = region.body[0].lineno - 1, region.end_lineno or 0
        width = region.body[0].col_offset - region.col_offset
        lines[region.lineno - 1 : last] = [line[width:] if line.strip() else line for line in lines[first:last]]
    return "\n".join(lines)


def _zeroed_behind(text: str) -> str:
    """`scaler.update()` and then zero_grad(), once more than the original: what is zero already stays so."""
    found = re.search(r"^( *)scaler\.step\((\w+)\)\n\1scaler\.update\(\)\n", text, re.MULTILINE)
    if found is None or text.count("scaler.step(") != 1 or f"{found[2]}.zero_grad()" not in text:
        return text
    before = re.sub(rf"^( *){found[2]}\.zero_grad\(\)\n", r"", text, count=1, flags=re.MULTILINE)
    place = re.search(r"^( *)scaler\.step\((\w+)\)\n\1scaler\.update\(\)\n", before, re.MULTILINE)
    assert place is not None
    return before[: place.end()] + f"{place[1]}{place[2]}.zero_grad()\n" + before[place.end() :]


def _scaler_off(text: str) -> str:
    """bfloat16 with a scaler that is there and off, as who lets a flag choose writes it."""
    step = re.compile(r"^( *)(optimizer\w*)\.step\(\)\n", re.MULTILINE)
    backward = re.compile(r"^( *)(\w*loss\w*)\.backward\(\)\n", re.MULTILINE)
    if not step.search(text) or not backward.search(text):
        return text
    changed = step.sub(r"\1_off.step(\2)\n\1_off.update()\n", text)
    changed = backward.sub(r"\1_off.scale(\2).backward()\n", changed)
    return _behind_imports(changed, '_off = torch.amp.GradScaler("cuda", enabled=False)\n')
