"""How a test that is written as a diff fails: with a diff of what came out, and with what was said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]
OLD = """
    - with torch.cuda.amp.autocast():
    + with torch.amp.autocast(device_type="cuda", dtype=torch.{}):
          pass
"""


def test_a_diff_that_holds_passes(rewrites: Check) -> None:
    rewrites(OLD.format("float16"))


def test_a_diff_that_does_not_hold_shows_what_came_out_and_what_was_said(rewrites: Check) -> None:
    with pytest.raises(pytest.fail.Exception) as failure:
        rewrites(OLD.format("half"))
    assert failure.value.msg is not None
    assert failure.value.msg.splitlines() == [
        "the result is another:",
        "--- expected",
        "+++ result",
        "@@ -1,5 +1,5 @@",
        " import torch",
        " from torch import nn",
        " ",
        '-with torch.amp.autocast(device_type="cuda", dtype=torch.half):',
        '+with torch.amp.autocast(device_type="cuda", dtype=torch.float16):',
        "     pass",
        "what was said:",
        "4:6 AMP101 migrated: torch.cuda.amp.autocast is now torch.amp.autocast",
    ]


@pytest.mark.parametrize("fixture", ["leaves", "ignores"])
def test_a_text_that_changes_though_it_should_stay_is_shown_as_well(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    check: Check = request.getfixturevalue(fixture)
    with pytest.raises(pytest.fail.Exception, match="a text that stays is another:\n--- expected"):
        check("with torch.cuda.amp.autocast():\n    pass\n", *(["why"] if fixture == "leaves" else []))


def test_usual_lines_are_those_of_every_step(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x in loader:
              with torch.no_grad():
        ~         target = model(x)
        ~     out = model(x)
        ~     loss = nn.functional.mse_loss(out, target)
        ~     loss.backward(retain_graph=True)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_usual_lines_in_bfloat16_are_in_a_region_of_bfloat16(rewrites: Check) -> None:
    diff = """
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x in loader:
        ~     loss = model(x).mean()
              loss.backward()
              optimizer.step()
              optimizer.zero_grad()
        """
    rewrites(diff, "bf16")
    with pytest.raises(pytest.fail.Exception, match=r"\n\+scaler = torch\.amp\.GradScaler"):
        rewrites(diff)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_name_is_what_many_texts_have_before_and_after(rewrites: Check, migrate: Check, dtype: str) -> None:
    plan = rewrites("~ MODEL\n~ EPOCH\n", dtype)
    assert plan.source.text == migrate("MODEL\nEPOCH\n", dtype).source.text
    assert plan.source.text.endswith("y)\n    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n")
    assert ("scaler.step(optimizer)\n    scaler.update()\n" in plan.after) == (dtype == "fp16")


def test_a_usual_line_that_stays_fails(rewrites: Check) -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"-scaler\.step\(optimizer\)\n-scaler\.update\(\)\n\+optimizer\.step\(\)"
    ):
        rewrites(
            """
              with torch.cuda.amp.autocast():
                  pass
            ~ optimizer.step()
            """
        )
