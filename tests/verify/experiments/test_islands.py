"""Parts of a model that may have to stay in float32: how they are ranked, measured, written and chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from amp_migrate.verify.experiments import islands
from amp_migrate.verify.experiments.float32_parts import choose
from amp_migrate.verify.recorded.recording import Model
from amp_migrate.verify.recorder.part import Part

FINE = Part(0, "fc", "Linear", True, 4, False, False, 1.0, 0.0, 1e-4, 0.1, 100, 2048)


def named(*names: str) -> list[Part]:
    return [replace(FINE, name=name) for name in names]


def test_infinities_come_first_then_the_ends_of_the_range_then_harm() -> None:
    harmful = replace(FINE, name="harmful", harm=9.0)
    large = replace(FINE, name="large", largest=5000.0)
    small = replace(FINE, name="small", vanishing=0.5, harm=0.2)
    backward = replace(FINE, name="backward", overflow=True)
    infinite = replace(FINE, name="infinite", nonfinite=True)
    order = islands.ranked([FINE, harmful, large, small, backward, infinite])
    assert [part.name for part in order] == ["infinite", "backward", "small", "large", "harmful", "fc"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nonfinite": True, "largest": 1e5}, "infinite or NaN in half precision, at most 1e+05 in float32"),
        ({"overflow": True}, "gradients become infinite"),
        ({"largest": 5000.0}, "values up to 5e+03"),
        ({"vanishing": 0.25}, "25% of its values are zero in float16"),
        ({}, "1.0e-04 relative error"),
    ],
)
def test_evidence_is_what_was_measured(changes: dict[str, float], words: str) -> None:
    assert islands.evidence(replace(FINE, **changes)).startswith(words)  # type: ignore[arg-type]


def test_shares_are_of_all_models_and_bytes_of_each_backward_pass() -> None:
    parts = [replace(FINE, name="", flops=300), FINE, replace(FINE, model=1, name="", flops=100)]
    assert islands.share(FINE, parts) == 0.25
    assert islands.more_bytes(FINE, passes=2) == 4096


def test_a_line_names_the_same_part_of_every_block_by_a_pattern() -> None:
    parts = named("", "blocks.0.norm", "blocks.1.norm", "blocks.0.fc", "blocks.1.fc", "head.0", "head.1")
    chosen = [part for part in parts if "norm" in part.name or part.name == "head.1"]
    assert islands.lines(chosen, parts, [Model("net", "", 0)]) == ['keep_fp32(net, "blocks.*.norm", "head.1")']


def test_a_pattern_that_would_mean_more_is_not_used() -> None:
    parts = named("", "blocks.0.norm", "blocks.1.norm", "blocks.2.norm")
    written = ['keep_fp32(net, "blocks.0.norm", "blocks.1.norm")']
    assert islands.lines(parts[1:3], parts, [Model("net", "", 0)]) == written
    nested = [*named("blocks.0.inner.norm"), *parts]
    written = ['keep_fp32(net, "blocks.0.norm", "blocks.1.norm", "blocks.2.norm")']
    assert islands.lines(parts[1:], nested, [Model("net", "", 0)]) == written


def test_each_model_has_a_line_and_a_whole_model_has_none() -> None:
    parts = [*named("", "a"), replace(FINE, model=1, name="b"), replace(FINE, model=2, name="")]
    models = [Model(name, "", 0) for name in ("netG", "self.netD", "other")]
    assert islands.lines(parts[1:], parts, models) == ['keep_fp32(netG, "a")', 'keep_fp32(self.netD, "b")']


def chosen(needed: set[str], parts: Sequence[Part]) -> list[str]:
    return [part.name for part in choose(parts, lambda some: needed <= {part.name for part in some})]


def test_leaves_are_chosen_before_what_holds_them_and_that_before_the_model() -> None:
    parts = [replace(part, leaf=part.name in ("block.fc", "head")) for part in named("", "block", "block.fc", "head")]
    assert chosen({"block.fc"}, parts) == ["block.fc"]
    assert chosen({"block"}, parts) == ["block"]
    assert chosen({""}, parts) == [""]


@pytest.mark.parametrize(
    ("changes", "suspected"),
    [
        ({"largest": 4094.0}, False),
        ({"largest": 4095.0}, True),
        ({"vanishing": 0.01}, False),
        ({"vanishing": 0.011}, True),
    ],
)
def test_the_ends_of_the_range_begin_at_a_sixteenth_and_at_a_hundredth(
    changes: dict[str, float], suspected: bool
) -> None:
    part = replace(FINE, name="part", harm=0.0, **changes)  # type: ignore[arg-type]
    assert (islands.ranked([FINE, part])[0] is part) is suspected
    assert ("relative error" not in islands.evidence(part)) is suspected


def test_parts_of_another_model_do_not_keep_a_pattern_from_being_used() -> None:
    ours = named("", "blocks.0.norm", "blocks.1.norm")
    theirs = [replace(part, model=1) for part in named("", "blocks.2.norm")]
    models = [Model("netG", "", 0), Model("netD", "", 0)]
    assert islands.lines(ours[1:], [*ours, *theirs], models) == ['keep_fp32(netG, "blocks.*.norm")']


def test_a_model_without_products_has_no_share_of_them() -> None:
    assert islands.share(FINE, [replace(FINE, name="", flops=0)]) == 0.0
    assert islands.share(FINE, [replace(FINE, name="", flops=10)]) == 1.0
