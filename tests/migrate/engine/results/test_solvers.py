"""A solver of equations takes its steps by how much a function differs: a model in it stays in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]
HEAD = """import numpy as np
import torch
from multiprocessing.pool import ThreadPool
from scipy import integrate, optimize
from torch import nn

"""
EVALUATED = """
def evaluated(x):
    return model(torch.tensor(x).float().cuda()).double().cpu().numpy()

"""
REGION = 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):'


@pytest.mark.parametrize(
    ("run", "is_float32"),
    [
        ("integrate.solve_ivp(field, (0.0, 1.0), np.ones(3), rtol=1e-5)", True),
        ("integrate.solve_ivp(lambda t, x: field(t, x), (0.0, 1.0), np.ones(3))", True),
        ("optimize.minimize(lambda x: field(0.0, x).sum(), np.ones(3))", True),
        ("field(0.0, np.ones(3))", False),
        ("ThreadPool().starmap(field, [(0.0, np.ones(3))])", False),
    ],
)
@pytest.mark.parametrize("inner", ["model(torch.tensor(x).float().cuda()).double().cpu().numpy()", "evaluated(x)"])
def test_what_a_solver_runs_is_evaluated_in_float32(migrate: Check, run: str, is_float32: bool, inner: str) -> None:
    text = f"\nMODEL\nEPOCH\n{EVALUATED if inner == 'evaluated(x)' else ''}"
    text += f"def field(t, x):\n    with torch.no_grad():\n        found = {inner}\n    return found\n\nprint({run})\n"
    plan = migrate(text, "fp16", HEAD)
    assert plan.after.count(REGION) == 1 + (not is_float32)
    assert "scaler.scale(loss).backward()" in plan.after
