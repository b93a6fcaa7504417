"""Which tests come to the same whenever a place is reached."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from amp_migrate.flow.chains import steady
from amp_migrate.flow.source import read_module

TEXT = """
    def main(config):
        scaler = make(config)
        for epoch in range(3):
            for x in config.loader:
                {changed}
                if scaler is not None:
                    unscale()
"""
TESTS = frozenset({("scaler is not None", True, frozenset({"scaler"}))})


@pytest.mark.parametrize(("changed", "is_steady"), [("pass", True), ("scaler = make(x)", False)])
def test_what_a_function_has_chosen_before_its_loop_is_steady_in_all_rounds(changed: str, is_steady: bool) -> None:
    module = read_module("train.py", dedent(TEXT.format(changed=changed)))
    assert module is not None
    (main,) = [code for code in module.codes.values() if code.name == "main"]
    (place,) = [node for node in module.calls if ast.unparse(node) == "unscale()"]
    assert steady(TESTS, main, place) == (TESTS if is_steady else frozenset())
    assert steady(TESTS, main) == frozenset()  # in the function's next call it may be another
