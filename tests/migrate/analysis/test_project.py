"""Who calls a function, across files; None where it is used in any other way."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import pytest
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project

Make = Callable[..., tuple[Project, dict[str, File]]]


def sites(made: tuple[Project, dict[str, File]], where: str, name: str) -> list[tuple[str, str]] | None:
    """The calls of the function `name` of the file `where`: file and text of each."""
    project, files = made
    node = next(n for n in files[where].tree.order if isinstance(n, cst.FunctionDef) and n.name.value == name)
    found = project.call_sites(project.reference(files[where], node))
    return None if found is None else [(site.file.name, site.file.tree.code(site.call)) for site in found]


def test_calls_in_its_own_file(project: Make) -> None:
    assert sites(project(a="def f(): ...\n\nf()\nx.f()\n"), "a", "f") == [("a", "f()")]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("from a import f\nf()\n", "f()"),
        ("from a import f as g\ng()\n", "g()"),
        ("import a\na.f()\n", "a.f()"),
        ("import a as b\nb.f()\n", "b.f()"),
        ("from a import *\nf()\n", "f()"),
        ("from .a import f\nf()\n", "f()"),
        ("def g():\n    from a import f\n    f()\n", "f()"),
    ],
)
def test_calls_in_another_file(project: Make, text: str, call: str) -> None:
    assert sites(project(a="def f(): ...\n", other=text), "a", "f") == [("other", call)]


def test_calls_of_a_class_by_its_class_methods(project: Make) -> None:
    text = """\
class A:
    def __init__(self, x): ...
    @classmethod
    def of(cls, args):
        cls.made = isinstance(args, cls)
        return cls(args.x)
    def named(self):
        return self.__class__.__name__
A(1)
"""
    assert sites(project(a=text), "a", "__init__") == [("a", "cls(args.x)"), ("a", "A(1)")]
    assert sites(project(a=text.replace("__class__.__name__", "__class__(2)")), "a", "__init__") is None


def test_calls_through_a_module_that_hands_it_on(project: Make) -> None:
    made = project(a="def f(): ...\n", b="from a import f\n", c="from b import f\nf(1)\n")
    assert sites(made, "a", "f") == [("c", "f(1)")]


@pytest.mark.parametrize("first", ["from helper import *\n", "from helper import f\n"])
@pytest.mark.parametrize("second", ["from package import *\n", "from package import f\n"])
def test_name_that_leads_back_to_itself_is_no_function(project: Make, first: str, second: str) -> None:
    made, files = project(package=first, helper=second, other="from package import f\nf()\n")
    (call,) = files["other"].calls
    assert made.called(files["other"], call) is None


def test_calls_through_a_star_import_of_a_star_import(project: Make) -> None:
    made = project(a="def f(): ...\n", b="from a import *\n", c="from b import *\nf(1)\n")
    assert sites(made, "a", "f") == [("c", "f(1)")]


@pytest.mark.parametrize(
    "use",
    [
        "run(f)",
        "g = f",
        "table = {'f': f}",
        "[f]",
        "partial(f, 1)",
        "@f\ndef g(): ...",
        "Thread(target=f)",
        "x = f or g",
        "print(f if x else g)",
        "h(f and x)",
    ],
)
def test_function_used_as_a_value_has_unknown_callers(project: Make, use: str) -> None:
    assert sites(project(a=f"def f(): ...\n\nf()\n{use}\n"), "a", "f") is None
    assert sites(project(a="def f(): ...\n", b=f"from a import f\n{use}\n"), "a", "f") is None


@pytest.mark.parametrize("test", ["not f", "x and not f", "f and x", "not (x or f)", "f.done"])
def test_a_function_that_is_tested_is_no_value_that_goes_elsewhere(project: Make, test: str) -> None:
    assert sites(project(a=f"def f(): ...\n\nf()\nif {test}:\n    g()\n"), "a", "f") == [("a", "f()")]


@pytest.mark.parametrize(
    "text",
    [
        "def f(): ...\n\nf()\n",
        "from elsewhere import f\nf()\n",
        "def g(f):\n    f()\n",
        "f = other\nf()\n",
    ],
)
def test_another_thing_of_the_same_name_is_no_call(project: Make, text: str) -> None:
    assert sites(project(a="def f(): ...\n", b=text), "a", "f") == []


def test_methods_are_called_on_self_and_on_objects(project: Make) -> None:
    made = project(
        a="class T:\n    def f(self): ...\n    def g(self):\n        self.f()\n", b="from a import T\nT().f()\n"
    )
    assert sites(made, "a", "f") == [("a", "self.f()"), ("b", "T().f()")]


def test_method_that_two_classes_define_is_known_on_self_only(project: Make) -> None:
    text = "class T:\n    def f(self): ...\n    def g(self):\n        self.f()\n"
    text += "class S:\n    def f(self): ...\nx.f()\n"
    assert sites(project(a=text), "a", "f") == [("a", "self.f()")]


@pytest.mark.parametrize(
    "made",
    [
        *("x = T()", "x = T().to(device)", "x = T()\nx = x.cuda()", "x = None\nx = T()", "y = T()\nx = y", "x = Sub()"),
        "def make(y):\n    if y:\n        return Sub()\n    made = T()\n    return made\nx = make(1)",
    ],
)
def test_method_that_two_classes_define_is_known_on_objects_whose_class_is_seen(project: Make, made: str) -> None:
    text = "class T:\n    def f(self): ...\nclass S:\n    def f(self): ...\nclass Sub(T): ...\n"
    assert sites(project(a=f"{text}{made}\nx.f()\ns = S()\ns.f()\n"), "a", "f") == [("a", "x.f()")]


def test_inherited_method_is_called_on_self(project: Make) -> None:
    text = "class T:\n    def f(self): ...\nclass S:\n    def f(self): ...\n"
    derived = "from a import T\nclass Sub(T):\n    def g(self):\n        self.f()\n"
    assert sites(project(a=text, b=derived), "a", "f") == [("b", "self.f()")]


def test_so_is_one_of_what_a_function_of_another_file_makes_of_what_it_imports(project: Make) -> None:
    text = "class T:\n    def f(self): ...\nclass S:\n    def f(self): ...\n"
    made = project(
        a=text, b="def make():\n    from a import T as M\n    return M()\n", c="import b\nx = b.make()\nx.f()\n"
    )
    assert sites(made, "a", "f") == [("c", "x.f()")]


@pytest.mark.parametrize(
    "made",
    [
        *("x = make()", "x = S() if y else T()", "x = T()\nx = make()", "for x in xs: ..."),
        "def make(y):\n    if y:\n        return other()\n    return T()\nx = make(1)",
        "@memo\ndef make():\n    return T()\nx = make()",
        "def make():\n    yield T()\nx = make()",
        "def make():\n    return make()\nx = make()",
    ],
)
def test_call_on_an_object_of_unknown_class_may_be_of_any_class_that_has_the_method(project: Make, made: str) -> None:
    text = "class T:\n    def f(self, a): ...\nclass S:\n    def f(self, a): ...\n"
    found, files = project(a=f"{text}{made}\nx.f(1)\nx.f()\nS().f(1)\n")
    method = files["a"].methods["f"][0]
    possible = found.possible_calls(found.reference(files["a"], method))
    assert [files["a"].tree.code(each.call) for each in possible] == ["x.f(1)"]


@pytest.mark.parametrize(
    "other",
    [
        "def g(model):\n    model.f()\n",  # the method needs an argument
        "import tf\ntf.f.Saver()\n",
        "import tensorflow as tf\ntf.f.Saver()\n",
        "from tf import python\npython.f(1)\n",
    ],
)
def test_what_only_has_the_name_of_a_method_is_no_call(project: Make, other: str) -> None:
    made = project(a="class T:\n    def f(self, x): ...\n\nT().f(1)\n", b=other)
    assert sites(made, "a", "f") == [("a", "T().f(1)")]


@pytest.mark.parametrize("call", ["t.f(1)", "t.f(x=1)", "t.f(*xs)", "T.f(t, 1)"])
def test_method_is_called_on_what_another_file_hands_on(project: Make, call: str) -> None:
    made = project(a="class T:\n    def f(self, x): ...\nt = T()\n", b=f"from a import T, t\n{call}\n")
    assert sites(made, "a", "f") == [("b", call)]


def test_bound_method_as_a_value_has_unknown_callers(project: Make) -> None:
    assert sites(project(a="class T:\n    def f(self): ...\n    def g(self):\n        run(self.f)\n"), "a", "f") is None


def test_constructor_is_called_by_the_name_of_its_class(project: Make) -> None:
    made = project(a="class T:\n    def __init__(self, x): ...\n", b="import a\na.T(1)\n")
    assert sites(made, "a", "__init__") == [("b", "a.T(1)")]


def test_class_used_as_a_value_has_unknown_callers(project: Make) -> None:
    made = project(a="class T:\n    def __init__(self, x): ...\n", b="from a import T\nrun(T)\n")
    assert sites(made, "a", "__init__") is None


def test_function_defined_twice_is_no_function_in_particular(project: Make) -> None:
    _, files = made = project(a="if x:\n    def f(): ...\nelse:\n    def f(): ...\nf()\n")
    call = files["a"].calls[0]
    assert made[0].called(files["a"], call) is None
