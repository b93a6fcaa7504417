"""What classes and objects have that no statement stores: a call of it returns, and what is behind it is reached."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amp_migrate.flow.domain.atoms import UNKNOWN, const, some

from .conftest import Told

Tell = Callable[..., Told]
MEMBERS = """\
import enum
from enum import Enum


class Method(Enum):
    PLAIN = "plain"
    DEEP = "deep"

    @property
    def label(self):
        return self.value.upper()

    @classmethod
    def names(cls):
        return [each.name.upper() for each in cls]


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Text(str, Enum):
    A = "a"
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("Method.PLAIN.value", const("plain")),
        ("Method.PLAIN.name", const("PLAIN")),
        ("Method.PLAIN.value.upper()", const("PLAIN")),
        ("Method.PLAIN.label", const("PLAIN")),
        ("Method('deep').name", const("DEEP")),
        ("Method['DEEP'].value", const("deep")),
        ("[each.value for each in Method][0]", const("plain") | const("deep")),
        ("Method(input()).value", const("plain") | const("deep")),
        ("Method.PLAIN == Method.PLAIN", const(True)),
        ("Method.PLAIN is Method.DEEP", const(False)),
        ("Method.PLAIN == 'plain'", const(False)),
        ("{Method.PLAIN: 1.5, Method.DEEP: 2.5}[Method.DEEP]", const(2.5)),
        ("[key.value for key, each in {Method.PLAIN: 1}.items()][0]", const("plain")),
        ("[key.value for key in {Method.PLAIN: 1}][0]", const("plain")),
        ("Size.LARGE + 1", const(3)),
        ("Size.LARGE.value", const(2)),
        ("Text.A.upper()", const("A")),
        ("Text.A == 'a'", const(True)),
        ("Method.names()[0]", const("PLAIN") | const("DEEP")),
        ("type(Method.PLAIN)", UNKNOWN),
    ],
)
def test_a_member_has_its_value_and_its_name(told: Tell, expression: str, value: object) -> None:
    answer = told(f"{MEMBERS}x = {expression}\n")
    assert answer.value("x") == value
    assert not any(answer.analysis.ends.values())


def test_a_member_is_of_its_class(told: Tell) -> None:
    text = f"{MEMBERS}def f(x):\n    if isinstance(x, Text):\n        y = 1\n    return 2\nf(Text.A)\n"
    assert told(text).value("y") == const(1)


OUT_OF_SIGHT = [
    "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    a: int\n"
    "    def __post_init__(self):\n        object.__setattr__(self, 'b', 'x')\nC(1).b.upper()",
    "class C:\n    def __init__(self, **more):\n        self.__dict__.update(more)\nC(b='x').b.upper()",
    "class C:\n    def __init__(self, more):\n        self.__dict__ = more\nC({'b': 'x'}).b.upper()",
    "class C:\n    def __init__(self, more):\n        vars(self).update(more)\nC({'b': 'x'}).b.upper()",
    "class C:\n    def __init__(self, a):\n        self.__dict__.update(locals())\nC('x').a.upper()",
    "class Meta(type):\n    def up(cls):\n        return 'a'\nclass C(metaclass=Meta):\n    pass\nC.up().upper()",
    "class C:\n    'about'\nC.__doc__.upper(); C().__doc__.upper(); C.__module__.upper()",
    "class C:\n    pass\nC.__name__.upper(); C().__class__.__name__.upper(); type(C()).__name__.upper()",
    "class C:\n    pass\nfor each in C.__subclasses__():\n    pass\nC.mro()",
    "class C:\n    pass\nC().__hash__(); C().__repr__(); C().__eq__(1); C().__sizeof__()",
    "class C:\n    pass\nc = C()\nc.__setattr__('a', 'b')\nc.a.upper()",
    "class C:\n    def __setattr__(self, name, value):\n        super().__setattr__(name, value)\nc = C()\nc.a = 'b'",
    "class C:\n    def __getattribute__(self, name):\n        return 'x'\nC().a.upper()",
    "import functools\n@functools.total_ordering\nclass C:\n"
    "    def __lt__(self, other):\n        return True\nC().__ge__(1)",
    "from elsewhere import register\n@register\nclass C:\n    pass\nC().label.upper()",
    "class D:\n    def __get__(self, owner, kind):\n        return 'x'\nclass C:\n    b = D()\nC().b.upper()",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: str = 'x'\nC().__dataclass_fields__.items()",
    "from abc import ABC\nclass C(ABC):\n    pass\nC.register(int)",
    "class C:\n    def __new__(cls):\n        made = object.__new__(cls)\n        made.a = 'x'\n"
    "        return made\nC().a.upper()",
    "class C:\n    one = None\n    def __new__(cls):\n        cls.one = cls.one or super().__new__(cls)\n"
    "        return cls.one\n    def hi(self):\n        return 'x'\nC().hi()\nC.one.hi().upper()",
    "class C:\n    a = 'x'\nfor name, value in C.__dict__.items():\n    name.upper()",
    "from enum import Enum\nclass M(Enum):\n    A = 'a'\n"
    "for name, value in M.__members__.items():\n    value.value.upper()",
    "import numpy\nnumpy.finfo(numpy.float32).eps.item()",
    "import layers\nlayers.Chain(8).conv1d(4)(torch.ones(1))",
    "import layers\nlayers.Chain(8).repeat(4)(torch.ones(1))",
    "import layers\nlayers.Chain(8).size(0)(torch.ones(1))",
    "import layers\nlayers.Chain(8).chunk(4)(torch.ones(1))",
    "import layers\nlayers.make(8).dtype(4).foo()",
    "import layers\nlayers.make(8).device().foo()",
    "import layers\nlayers.Chain(8).register_post_accumulate_grad_hook()",
]


@pytest.mark.parametrize("text", OUT_OF_SIGHT)
def test_what_is_given_out_of_sight_is_not_missing(told: Tell, text: str) -> None:
    answer = told(f"{text}\nx = 1\n")
    assert not any(answer.analysis.ends.values())
    assert answer.value("x") == const(1)


def test_what_a_base_gives_the_classes_derived_from_it_is_theirs(told: Tell) -> None:
    answer = told("""\
class Base:
    known = {}

    def __init_subclass__(cls, tag="t", **more):
        cls.known[cls.__name__] = cls
        cls.tag = tag


class Own(Base, tag="own"):
    pass


x = Own.tag
y = Base.known["Own"]().tag.upper()
""")
    assert answer.value("x") == const("own")
    assert not any(answer.analysis.ends.values())


@pytest.mark.parametrize(
    "text",
    [
        "class C:\n    pass\nC().missing()",
        "class C:\n    pass\nC.missing()",
        "'a'.value.upper()",
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 1\nC().missing()",
        "a = None\na()",
        "None.item()",
    ],
)
def test_what_is_missing_for_certain_ends_the_program(told: Tell, text: str) -> None:
    assert any(told(text).analysis.ends.values())


def test_a_file_of_data_gives_dictionaries_lists_texts_and_numbers(told: Tell) -> None:
    answer = told("""\
import json
data = json.load(open("x"))
x = data["a"]["b"][0] * torch.ones(3)
y = [key for key in data]
for name, value in data.items():
    z = name
""")
    assert [repr(each) for each in answer.value("x")] == ["Tensor(float32)"]
    assert answer.value("z") == some("str")
