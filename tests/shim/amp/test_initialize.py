"""`amp.initialize`: options, checks, messages, return shapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from amp_shim import amp
from amp_shim.amp.state import AmpState
from torch import nn
from torch.optim import SGD


def parts() -> tuple[nn.Module, SGD]:
    model = nn.Linear(2, 2)
    return model, SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("O0", (torch.float32, False, None, False, 1.0)),
        ("O1", (None, True, None, None, "dynamic")),
        ("O2", (torch.float16, False, True, True, "dynamic")),
        ("O3", (torch.float16, False, False, False, 1.0)),
        ("O4", (None, True, None, None, 1.0)),
        ("O5", (torch.bfloat16, False, True, True, 1.0)),
    ],
)
def test_level_sets_its_properties(level: str, expected: tuple[object, ...]) -> None:
    amp.initialize(*parts(), opt_level=level, verbosity=0)
    found = amp._amp_state.opt_properties
    assert found is not None
    assert (
        found.cast_model_type,
        found.patch_torch_functions,
        found.keep_batchnorm_fp32,
        found.master_weights,
        found.loss_scale,
    ) == expected


def test_level_and_overrides_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    amp.initialize(*parts(), opt_level="O2", loss_scale="128.0")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Selected optimization level O2:  FP16 training with FP32 batchnorm and FP32 master weights."
    assert "Defaults for this optimization level are:" in lines
    assert [line for line in lines if line.startswith("loss_scale")] == [
        "loss_scale             : dynamic",
        "loss_scale             : 128.0",
    ]


def test_verbosity_zero_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    amp.initialize(*parts(), opt_level="O1", verbosity=0)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("level", ["O4x", "00", "01", "o1"])
def test_unknown_level_is_refused(level: str) -> None:
    with pytest.raises(RuntimeError, match="letter O, not zero"):
        amp.initialize(*parts(), opt_level=level)


@pytest.mark.parametrize(
    ("level", "override"),
    [
        ("O1", {"cast_model_type": torch.float16}),
        ("O2", {"patch_torch_functions": True}),
        ("O1", {"keep_batchnorm_fp32": False}),
        ("O1", {"keep_batchnorm_fp32": "True"}),
        ("O1", {"master_weights": False}),
    ],
)
def test_override_that_contradicts_its_level_is_refused(level: str, override: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError):
        amp.initialize(*parts(), opt_level=level, verbosity=0, **override)


@pytest.mark.parametrize(
    ("level", "override"),
    [
        ("O0", {"keep_batchnorm_fp32": True}),
        ("O3", {"master_weights": True}),
        ("O0", {"loss_scale": "dynamic"}),
        ("O1", {"patch_torch_functions": False}),
        ("O1", {"patch_torch_functions": True}),
        ("O1", {"cast_model_type": torch.float32}),
        ("O2", {"cast_model_type": False}),
        ("O3", {"keep_batchnorm_fp32": "True"}),
    ],
)
def test_override_within_its_level_is_accepted(level: str, override: dict[str, Any]) -> None:
    amp.initialize(*parts(), opt_level=level, verbosity=0, **override)
    assert amp._amp_state.opt_properties is not None
    assert amp._amp_state.opt_properties.enabled


def test_hard_override_prints_instead_of_raising(capsys: pytest.CaptureFixture[str]) -> None:
    amp._amp_state.hard_override = True
    amp.initialize(*parts(), opt_level="O1", master_weights=False)
    assert "Warning: O1 trains float32 weights" in capsys.readouterr().out


def test_batchnorm_option_must_be_a_boolean_or_its_name() -> None:
    with pytest.raises(AssertionError, match="found 'true'"):
        amp.initialize(*parts(), opt_level="O2", verbosity=0, keep_batchnorm_fp32="true")


def test_loss_scale_must_be_a_number() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        amp.initialize(*parts(), opt_level="O2", verbosity=0, loss_scale="much")


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_what_comes_back_is_what_went_in(level: str) -> None:
    def initialize(models: Any, optimizers: Any = None) -> Any:
        return amp.initialize(models, optimizers, opt_level=level, verbosity=0)

    model, _ = parts()
    models = [parts()[0]]
    assert initialize(model) is model
    assert initialize(models) is models
    for as_list in (False, True):
        for optimizers_in in (parts()[1], [parts()[1]], []):
            models_in = [parts()[0]] if as_list else parts()[0]
            out = initialize(models_in, optimizers_in)
            assert isinstance(out, tuple)
            assert out[0] is models_in
            assert out[1] is optimizers_in


@pytest.mark.parametrize("kind", ["models", "optimizers"])
def test_a_tuple_is_refused(kind: str) -> None:
    model, optimizer = parts()
    pair: tuple[Any, Any] = ((model,), optimizer) if kind == "models" else (model, (optimizer,))
    with pytest.raises(TypeError, match=f"{kind} must be .* found tuple"):
        amp.initialize(*pair, verbosity=0)


def test_wrapped_model_is_refused() -> None:
    with pytest.raises(RuntimeError, match="initialize it first, then wrap it"):
        amp.initialize(nn.DataParallel(parts()[0]), verbosity=0)


def test_half_model_is_refused_unless_the_script_allows_it() -> None:
    with pytest.raises(RuntimeError, match="parameter weight is in half already"):
        amp.initialize(nn.Linear(2, 2).half(), verbosity=0)
    amp._amp_state.allow_incoming_model_not_fp32 = True
    amp.initialize(nn.Linear(2, 2).half(), verbosity=0)


def test_optimizer_is_initialized_once() -> None:
    model, optimizer = parts()
    amp.initialize(model, optimizer, verbosity=0)
    with pytest.raises(RuntimeError, match="only once"):
        amp.initialize(model, optimizer, verbosity=0)


def test_disabled_api_passes_everything_through() -> None:
    model, optimizer = parts()
    assert amp.initialize(model, optimizer, enabled=False, opt_level="nonsense") == (model, optimizer)
    loss = model(torch.ones(1, 2)).sum().double()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss is loss
    assert list(amp.master_params(optimizer)) == list(model.parameters())
    assert amp.state_dict() == {}
    with amp.disable_casts():
        assert model(torch.ones(1, 2)).dtype is torch.float32


def test_scale_loss_before_initialize_is_refused() -> None:
    model, optimizer = parts()
    with (
        pytest.raises(RuntimeError, match=r"call amp\.initialize first"),
        amp.scale_loss(model(torch.ones(1, 2)).sum(), optimizer),
    ):
        raise AssertionError("the block must not run")


def test_second_initialize_gives_fresh_scalers() -> None:
    amp.initialize(*parts(), num_losses=3, verbosity=0)
    first = amp._amp_state.loss_scalers
    amp.initialize(*parts(), verbosity=0)
    assert len(first) == 3
    assert len(amp._amp_state.loss_scalers) == 1


def test_settled_options_can_be_read_by_name() -> None:
    amp.initialize(nn.Linear(2, 2), opt_level="O2", keep_batchnorm_fp32=False, verbosity=0)
    properties = amp._amp_state.opt_properties
    assert properties is not None
    assert properties.options["cast_model_type"] is properties.cast_model_type is torch.float16
    assert properties.options["keep_batchnorm_fp32"] is False


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_reset_leaves_nothing_in_force(level: str) -> None:
    amp.initialize(*parts(), opt_level=level, min_loss_scale=4.0, verbosity=0)
    for _ in range(2):
        amp.reset()
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype is torch.float32
        assert vars(amp._amp_state) == vars(AmpState())
    model, optimizer = amp.initialize(*parts(), opt_level="O1", verbosity=0)
    with amp.scale_loss(model(torch.ones(1, 2)).sum(), optimizer) as scaled_loss:
        scaled_loss.backward()
    assert model(torch.ones(1, 2)).dtype is torch.float16
