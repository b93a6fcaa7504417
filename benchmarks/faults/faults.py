"""Faults to plant in right migrations: what people get wrong, as edits of the text that amp-migrate writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Edit = Callable[[str], str]


@dataclass(frozen=True)
class Fault:
    """A fault and the edit that makes it."""

    name: str
    edit: Edit

    def plant(self, text: str) -> str | None:
        """The text with the fault in it; None where there is no place for it."""
        changed = self.edit(text)
        return changed if changed != text else None


def words(pattern: str, replacement: str) -> Edit:
    """Replace what matches, wherever it stands."""
    return lambda text: re.sub(pattern, replacement, text, flags=re.MULTILINE)


def lines(pattern: str, replacement: str) -> Edit:
    """Replace whole lines; group 1 is their indentation."""
    return words(rf"^( *){pattern}\n", replacement)


def together(*edits: Edit) -> Edit:
    """One edit after the other, as far as they apply."""

    def edit(text: str) -> str:
        for each in edits:
            text = each(text)
        return text

    return edit


_SCALER = r"(?:self\.)?scaler"
_STEP = rf"({_SCALER})\.step\(((?:self\.)?optimizer\w*)\)"
_UNSCALE = rf"{_SCALER}\.unscale_\(.*\)"
_UPDATE = rf"({_SCALER})\.update\(\)"
_CLIP = r"(?:torch\.)?nn\.utils\.clip_grad_norm_\(.*\)"
_ZERO = r"(?:self\.)?optimizer\w*\.zero_grad\(\)"
_REGION = re.compile(r"^( *)with torch\.amp\.autocast\(.*\):\n((?:\1    .*\n)+)", re.MULTILINE)
_MODULES = r"^((?!.*stack).*\))(\.cuda\(\)|\.to\(device\))$"


def _scaler_with(argument: str) -> Edit:
    return words(r'GradScaler\("cuda"\)', f'GradScaler("cuda", {argument})')


def _dedented(text: str) -> str:
    return re.sub(r"^    ", "", text, flags=re.MULTILINE)


def _without_regions(text: str) -> str:
    return _REGION.sub(lambda region: _dedented(region[2]), text)


def _region_round_the_loop(text: str) -> str:
    enter = 'torch.amp.autocast(device_type="cuda", dtype=torch.float16).__enter__()'
    plain = _without_regions(text)
    return re.sub(r"^( *)for (?:step|i|epoch) in ", rf"\1{enter}\n\g<0>", plain, count=1, flags=re.MULTILINE)


def _region_over_backward(text: str) -> str:
    tail = rf"((?:\1(?! ).*\n){{0,3}}?\1{_SCALER}\.scale\(\w+\)\.backward\(\)\n)"
    return re.sub(
        _REGION.pattern + tail,
        lambda found: (
            found[0][: -len(found[3])] + re.sub(r"^", "    ", found[3].rstrip("\n"), flags=re.MULTILINE) + "\n"
        ),
        text,
        flags=re.MULTILINE,
    )


def _step_past_the_scaler(text: str) -> str:
    unscale = "" if "unscale_" in text else r"\1\2.unscale_(\3)\n"
    return lines(_STEP, unscale + r"\1\3.step()\n")(text)


_HALF_WEIGHTS = words(_MODULES, r"\1\2.half()")

FAULTS = (
    Fault("clip without unscale", lines(_UNSCALE, "")),
    Fault("clip before unscale", lines(rf"({_UNSCALE})\n\1({_CLIP})", r"\1\3\n\1\2\n")),
    Fault("never unscaled", together(lines(_STEP, r"\1\3.step()\n"), lines(_UNSCALE, ""), lines(_UPDATE, ""))),
    Fault("unscaled twice", lines(rf"({_UNSCALE})", r"\1\2\n\1\2\n")),
    Fault("update missing", lines(_UPDATE, "")),
    Fault("update doubled", lines(_UPDATE, r"\1\2.update()\n\1\2.update()\n")),
    Fault("step past the scaler", _step_past_the_scaler),
    Fault("one of two optimizers past the scaler", words(r"scaler\.step\(optimizer_g\)", "optimizer_g.step()")),
    Fault("stepped twice", lines(_STEP, r"\1\2.step(\3)\n\1\3.step()\n")),
    Fault("steps left out", lines(_STEP, r"\1\2.step(\3) if torch.rand(1) < 0.5 else None\n")),
    Fault("backward not scaled", words(rf"{_SCALER}\.scale\((\w+)\)\.backward", r"\1.backward")),
    Fault("loss scaled twice", words(rf"({_SCALER})\.scale\((\w+)\)", r"\1.scale(\1.scale(\2))")),
    Fault("float16 without a scaler", _scaler_with("enabled=False")),
    Fault("scale below one", _scaler_with("init_scale=1e-3")),
    Fault("scale grows at every step", _scaler_with("growth_interval=1")),
    Fault(
        "a scaler for every step",
        lines(
            rf"({_SCALER})(\.scale\(\w+\)\.backward\(\))",
            r'\1\2 = torch.amp.GradScaler("cuda")' + "\n" + r"\1\2\3\n",
        ),
    ),
    Fault("autocast missing", _without_regions),
    Fault("autocast round the loop", _region_round_the_loop),
    Fault("autocast over backward", _region_over_backward),
    Fault(
        "half loss",
        together(
            lines(
                r"    (loss = (?:self\.)?criterion)\(((?:self\.)?model\(.*?\)), (.*)\)",
                r"\1    outputs = \3\n\1\2(outputs, \4)\n",
            ),
            lines(r"    (loss = nn\.functional\.cross_entropy.*)", r"\1\2\n"),
            lines(
                r"    (loss = nn\.functional\.mse_loss)\(model\(x\), y\)(.*)",
                r"\1    outputs = model(x)\n\1\2(outputs, y.half())\3\n",
            ),
            words(r"criterion\(output\.float\(\), batch\)", "criterion(output, batch.half())"),
        ),
    ),
    Fault("probabilities under autocast", lines(r"(loss = criterion\(output)\.float\(\)(.*)", r"\1    \2\3\n")),
    Fault("half weights", _HALF_WEIGHTS),
    Fault("half weights, no scaler", together(_HALF_WEIGHTS, _scaler_with("enabled=False"))),
    Fault("scaler not saved", words(r', "scaler": self\.scaler\.state_dict\(\)', "")),
    Fault("zero_grad missing", lines(_ZERO, "")),
    Fault("zero_grad now and then", lines(rf"({_ZERO})", r"\1\2 if torch.rand(1) < 0.5 else None\n")),
    Fault("clipping lost", lines(_CLIP, "")),
    Fault("clipping after the step", lines(rf"({_CLIP})\n\1({_STEP})", r"\1\3\n\1\2\n")),
    Fault("accumulation not divided", words(r" / micro$", "")),
    Fault("accumulation stepped too often", words(r"\(i \+ 1\) % micro", "(i + 1) % 2")),
    Fault("evaluation in training mode", lines(r"model\.eval\(\)", "")),
    Fault("evaluation mode kept", lines(r"model\.train\(\)", "")),
    Fault("part of the model detached", words(r"\bmodel\((x|images|batch)\)", r"model[1:](model[:1](\1).detach())")),
    Fault("learning rate changed", words(r"lr=(\d)", r"lr=1.1 * \1")),
    Fault("weight decay lost", words(r", weight_decay=[\de.-]+", "")),
    Fault("schedule lost", lines(r"scheduler\.step\(\)", "")),
    Fault("seed lost", lines(r"torch\.manual_seed\(\d\)", "")),
)
