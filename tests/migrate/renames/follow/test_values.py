"""A class that is handed on as a value: its calls are followed, and where they cannot be, it stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.report.finding import Kind

Check = Callable[..., Any]
TWO = ({"name": "train"}, {"name": "evaluate"})


def test_choice_between_autocast_and_nothing(rewrites: Check) -> None:
    rewrites(
        """
        + import functools
          from contextlib import suppress
          import torch

          def train(model, loader, amp_autocast=suppress):
              for x in loader:
                  with amp_autocast():
                      model(x)

          amp_autocast = suppress
          if use_amp:
        -     amp_autocast = torch.cuda.amp.autocast
        +     amp_autocast = functools.partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16)
          train(model, loader, amp_autocast=amp_autocast)
          train(model, loader, amp_autocast)
        """,
        head="",
    )


def test_partial_by_the_name_that_it_has_there(rewrites: Check) -> None:
    rewrites(
        """
          from functools import partial
        - from torch.cuda.amp import autocast
        + from torch.amp import autocast

        - region = autocast if use_amp else nullcontext
        + region = partial(autocast, device_type="cuda", dtype=torch.float16) if use_amp else nullcontext
          with region(enabled=True):
              pass
        """
    )


def test_conditional_expression(rewrites: Check) -> None:
    rewrites(
        """
          import functools
        - from torch.cuda.amp import autocast
        + from torch.amp import autocast

        - region = autocast if use_amp else nullcontext
        + region = functools.partial(autocast, device_type="cuda", dtype=torch.float16) if use_amp else nullcontext
          with region(enabled=True):
              pass
        """
    )


def test_choices_of_the_same_name_in_several_functions(migrate: Check) -> None:
    function = """
def {name}(args, x):
    autocast = th.cuda.amp.autocast if args.amp else suppress
    with autocast():
        return model(x)
"""
    text = "import torch as th\nfrom contextlib import suppress\n" + "".join(map(function.format_map, TWO))
    plan = migrate(text, head="")
    partial = 'autocast = functools.partial(th.amp.autocast, device_type="cuda", dtype=th.float16) if args.amp'
    assert plan.after.count(partial) == 2
    assert {each.kind for each in plan.findings} == {Kind.MIGRATED}


def test_partial_that_is_there_already(rewrites: Check) -> None:
    rewrites(
        """
          from functools import partial

          class Trainer:
              def __init__(self):
        -         self.region = partial(torch.cuda.amp.autocast, dtype=torch.bfloat16)
        +         self.region = partial(torch.amp.autocast, device_type="cuda", dtype=torch.bfloat16)

              def step(self):
                  with self.region():
                      pass
        """
    )


def test_class_of_another_file(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "loop.py": """
                def train(model, region=None):
                    if region is not None:
                        with region():
                            model()
            """,
            "main.py": """
                + import functools
                  import torch
                  from loop import train

                - train(model, region=torch.cuda.amp.autocast)
                + train(model, region=functools.partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16))
            """,
        }
    )


@pytest.mark.parametrize(
    "use",
    [
        "with region(False):\n    pass",
        "with region(*flags):\n    pass",
        "run(region)",
        "regions = [region]\nrun(regions)",
        "regions = [region]\nregions[0](False)",
        "regions = [region]\nfor each in regions:\n    each(False)",
        "regions = {}\nregions.update(a=region)",
        "regions = {1: region}\nfor each in regions.values():\n    each()",
        "run([region])",
        "regions = [region]\nother = regions\nother[0](False)",
        "make = lambda: region\nrun(make)",
        "make = lambda: region\nmake()(False)",
        "one, two = region, 1\none(False)",
        "*rest, one = region, 1\nrest[0]()",
        "other = region\nother(True)",
        "def make():\n    return region\nwith make()(True):\n    pass",
        "def make():\n    return region\nrun(make)",
        "if region is torch.no_grad:\n    pass",
        "class A:\n    def make(self):\n        return region\nA().make()(False)",
        "class A:\n    def make(self):\n        return region\nrun(A().make)",
        "class A:\n    @cache\n    def make(self):\n        return region",
        "class A:\n    @property\n    def make(self):\n        return region\nA().make(False)",
        "@cache\ndef make():\n    return region",
        "async def make():\n    return region",
        "for context in (region, nullcontext):\n    context(True)",
        "for context, name in ((region, 1),):\n    context()",
        "@region\ndef f():\n    pass",
        "region.__name__",
    ],
)
def test_value_that_cannot_be_followed(leaves: Check, use: str) -> None:
    leaves(f"region = torch.cuda.amp.autocast if use_amp else None\n{use}\n", "used as a value")


@pytest.mark.parametrize(
    "made",
    [
        "([torch.cuda.amp.autocast],)",
        "(lambda: (torch.cuda.amp.autocast,))",
        "dict(region=torch.cuda.amp.autocast)",
        "f(torch.cuda.amp.autocast)",
        "pool.submit(torch.cuda.amp.autocast)",
        "other = torch.cuda.amp.autocast",
    ],
)
def test_value_that_has_no_name(leaves: Check, made: str) -> None:
    leaves(f"regions = {made}\n", "used as a value")


PARTIAL = 'functools.partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16)'


@pytest.mark.parametrize(
    "text",
    [
        "with ({0} if c else nullcontext)():\n    pass",
        "({0} if c else nullcontext)(enabled=True)",
        "def make():\n    return {0} if c else nullcontext\n\nwith make()(enabled=True):\n    pass",
        "def make():\n    return {0}\n\nregion = make()\nwith region():\n    pass",
        "region = {0}\nother = region\nif other:\n    other(enabled=False)",
        "def train(context):\n    with context(enabled=False):\n        pass\n\ntrain({0})",
        "for context in ({0}, nullcontext):\n    with context():\n        pass",
        "made = [context(enabled=False) for context in [{0}, nullcontext]]",
        "def make(n):\n    return make(n - 1) if n else {0}",
        "regions = [{0}, nullcontext]\nwith regions[0]():\n    pass",
        "regions = [{0}]\nregions.append(nullcontext)\nfor each in regions:\n    each(enabled=True)",
        "regions = []\nif regions or x:\n    regions.append({0})\nentered = [each() for each in regions]",
        "regions = {{1: {0}, 2: None}}\nwith regions.get(1)(), regions[1](enabled=False):\n    pass",
        "make = lambda: {0} if c else nullcontext\nwith make()():\n    pass",
        "class A:\n    def make(self):\n        return {0}\n\n    def run(self):\n        return self.make()()",
        "class A:\n    @staticmethod\n    def make():\n        return {0}\n\nA.make()(enabled=True)",
        "class A:\n    @property\n    def region(self):\n        return {0}\n\nA().region(enabled=True)",
        "class A:\n    def __init__(self):\n        self.cast, self.n = {0}, 1\n        self.cast()",
    ],
)
def test_value_that_is_followed_to_its_calls(migrate: Check, text: str) -> None:
    plan = migrate(text.format("torch.cuda.amp.autocast") + "\n", head="import functools\nimport torch\n\n")
    assert plan.after == f"import functools\nimport torch\n\n{text.format(PARTIAL)}\n"


def test_attribute_of_a_class_is_no_method(rewrites: Check) -> None:
    rewrites(
        """
        + import functools
          import torch

          class Trainer:
        -     region = torch.cuda.amp.autocast
        +     region = staticmethod(functools.partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16))

              def step(self):
                  with self.region(enabled=False):
                      pass
        """,
        head="",
    )


@pytest.mark.parametrize(
    "use",
    [
        '@mock.patch("torch.cuda.amp.autocast")\ndef test(fake):\n    pass',
        'with patch("torch.cuda.amp.GradScaler", None):\n    pass',
        'monkeypatch.setattr("torch.cuda.amp.autocast", fake)',
    ],
)
def test_name_that_a_test_replaces_is_told(leaves: Check, use: str) -> None:
    leaves(f"{use}\n", "it is replaced by its name")


@pytest.mark.parametrize(
    "call", ['patch("torch.amp.autocast")', 'setattr(model, "autocast", 1)', "patch(name)", "patch()"]
)
def test_replacing_something_else(ignores: Check, call: str) -> None:
    ignores(f"{call}\n")


def test_value_handed_to_a_parameter_of_another_name(leaves: Check) -> None:
    leaves(
        """
        def train(context):
            with context(False):
                pass

        region = torch.cuda.amp.autocast if use_amp else None
        train(region)
        """,
        "used as a value",
    )


def test_subclass_that_calls_its_base(rewrites: Check) -> None:
    rewrites(
        """
        - class Scaler(torch.cuda.amp.GradScaler):
        + class Scaler(torch.amp.GradScaler):
              def __init__(self, growth=100):
        -         super().__init__(growth_interval=growth)
        +         super().__init__("cuda", growth_interval=growth)

          scaler = Scaler(growth=10)
        """
    )


def test_subclass_made_with_the_arguments_of_its_base(leaves: Check) -> None:
    leaves(
        """
        class Scaler(torch.cuda.amp.GradScaler):
            def state(self):
                return self._scale

        scaler = Scaler(1024.0)
        """,
        "a class derives from it",
    )


def test_type_in_quotes(rewrites: Check) -> None:
    rewrites(
        """
          from typing import Optional
        - def f(a: "torch.cuda.amp.GradScaler", b: Optional["torch.cuda.amp.GradScaler"] = None):
        + def f(a: "torch.amp.GradScaler", b: Optional["torch.amp.GradScaler"] = None):
              return "torch.cuda.amp.GradScaler"
        """
    )


def test_quotes_that_name_something_else(ignores: Check) -> None:
    ignores(
        """
        def f(a: "mytorch.cuda.amp.GradScaler", b: "torch.cuda.amp.GradScalers") -> "print":
            pass
        """
    )


def test_getattr_is_told(leaves: Check) -> None:
    leaves('region = getattr(torch.cuda.amp, "autocast")\nwith region():\n    pass\n', "getattr takes it by its name")


@pytest.mark.parametrize(
    "test",
    [
        'getattr(torch.cuda.amp, "autocast") is not None',
        'getattr(torch.cuda.amp, "autocast", None)',
        'fp16 and not getattr(torch.cuda.amp, "autocast", None)',
    ],
)
def test_getattr_that_only_asks_whether_a_name_is_there(ignores: Check, test: str) -> None:
    ignores(f"has_amp = False\nif {test}:\n    has_amp = True\n")


@pytest.mark.parametrize(
    "call", ['getattr(torch, "float16")', 'getattr(model, "autocast")', 'hasattr(torch.cuda.amp, "autocast")']
)
def test_getattr_of_something_else(ignores: Check, call: str) -> None:
    ignores(f"x = {call}\n")
