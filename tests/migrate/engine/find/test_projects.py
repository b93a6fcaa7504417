"""Which files of a tree can have to do with one another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from amp_migrate.engine.find.projects import Projects
from amp_migrate.engine.workspace import Workspace

NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["import b.m\\n", "x = 1"]}], "nbformat": 4}'


def projects(files: Mapping[str, str]) -> list[list[str]]:
    found = Projects([f"/r/{name}" for name in files], ["/r"], lambda file: files[file.removeprefix("/r/")])
    together = dict.fromkeys(found.of(f"/r/{name}") for name in files)
    return [sorted(file.removeprefix("/r/") for file in project) for project in together]


def test_files_of_one_folder_belong_together_and_those_of_others_do_not() -> None:
    assert projects({"a/x.py": "", "a/y.py": "", "b/x.py": "", "b/c/x.py": ""}) == [
        ["a/x.py", "a/y.py"],
        ["b/x.py"],
        ["b/c/x.py"],
    ]


@pytest.mark.parametrize(
    ("importer", "text"),
    [
        ("a/x.py", "import b.m\n"),
        ("a/x.py", "from b import m as n\n"),
        ("a/x.py", "def f():\n    from ..b.m import g\n"),
        ("b/tools/x.py", "import m\n"),  # run from the folder above
        ("a/deep/x.py", "from b.m import g\n"),
        ("a/x.py", "import sys\nsys.path.append('../b')\nimport m\n"),
        ("x.py", "importlib.import_module(f'{package}.{name}')\n"),  # whatever is below it
    ],
)
def test_a_file_belongs_to_what_it_may_import(importer: str, text: str) -> None:
    assert projects({importer: text, "b/m.py": ""}) == [sorted([importer, "b/m.py"])]


@pytest.mark.parametrize(
    ("importer", "text"),
    [
        ("a/x.py", "import m\n"),  # nothing says that b is searched
        ("a/x.py", "import torch.b.m\n"),
        ("apex/x.py", "import apex.b.m\nfrom apex.b import m\n"),  # will not be there after the run
        ("a/x.py", "importlib.import_module(name)\n"),
    ],
)
def test_a_file_that_only_looks_alike_is_another_project(importer: str, text: str) -> None:
    assert projects({importer: text, "b/m.py": ""}) == [[importer], ["b/m.py"]]


def test_a_helper_may_say_where_modules_are_looked_for() -> None:
    files = {"a/x.py": "import _paths\nimport m\n", "a/_paths.py": "sys.path.append('../b')\n", "b/m.py": ""}
    assert projects(files) == [["a/_paths.py", "a/x.py", "b/m.py"]]


def test_a_chain_of_imports_is_one_project() -> None:
    files = {"a/x.py": "import b.y", "b/y.py": "", "c/z.py": "from b import y", "d/w.py": ""}
    assert projects(files) == [["a/x.py", "b/y.py", "c/z.py"], ["d/w.py"]]


def test_a_module_that_changes_the_path_speaks_for_the_script_that_imports_it() -> None:
    script = "import _init_paths\nfrom core.t import f\n"
    files = {"lib/core/t.py": "", "tools/_init_paths.py": "sys.path.insert(0, '../lib')\n", "tools/x.py": script}
    assert projects(files) == [sorted(files)]
    assert len(projects({**files, "tools/_init_paths.py": ""})) == 2


def test_an_import_off_the_usual_folders_is_the_one_file_that_it_may_mean(tmp_path: Path) -> None:
    texts = {
        "core/model.py": "",
        "core/deep/layers.py": "",
        "evaluate.py": "import sys\nsys.path.append('core')\nfrom model import Net\n",
        "plain.py": "from model import Net\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    workspace = Workspace.open([tmp_path])
    assert workspace.locate("model", tmp_path / "evaluate.py") == tmp_path / "core/model.py"
    assert workspace.locate("model", tmp_path / "core/deep/layers.py") == tmp_path / "core/model.py"
    assert workspace.locate("model", tmp_path / "plain.py") is None
    (tmp_path / "other").mkdir()
    (tmp_path / "other/model.py").write_text("")
    assert Workspace.open([tmp_path]).locate("model", tmp_path / "evaluate.py") is None


@pytest.mark.parametrize(
    ("package", "declared", "is_found"),
    [
        ("folding/folding", {"folding/setup.py": "setup(packages=find_packages())\n"}, True),
        ("folding-1.0/folding", {"folding-1.0/setup.py": 'setup(name="folding")\n'}, True),
        ("far/away/folding", {"far/away/pyproject.toml": '[project]\nname = "folding"\n'}, True),
        ("far/src/folding", {"far/setup.cfg": "[metadata]\n"}, True),
        ("far/folding", {"far/setup.py": 'setup(name="other")\n'}, False),  # a copy of something has its own `utils`
        ("folding/folding", {}, False),
        ("far/src/folding", {}, False),
    ],
)
def test_what_a_tree_installs_is_found_from_everywhere(
    tmp_path: Path, package: str, declared: dict[str, str], is_found: bool
) -> None:
    model, script = tmp_path / package / "model.py", tmp_path / "nets/deep/train.py"
    texts = {script: "from folding.model import Block\n", model: "", model.with_name("__init__.py"): ""}
    for path, text in {**texts, **{tmp_path / name: text for name, text in declared.items()}}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert Workspace.open([tmp_path]).locate("folding.model", script) == (model if is_found else None)
    other = model.parent.with_name("second") / "folding/model.py"
    other.parent.mkdir(parents=True)
    other.write_text("")
    assert Workspace.open([tmp_path]).locate("folding.model", script) == (model if is_found else None)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"setup.py": "setup(packages=['folding'], package_dir={'folding': 'code/lib'})\n"}, "code/lib/model.py"),
        ({"setup.py": "where = {'folding': 'code/lib'}\nsetup(package_dir=where)\n"}, "code/lib/model.py"),
        ({"setup.py": "setup(package_dir={'': 'code', 'folding': 'code/lib'})\n"}, "code/lib/model.py"),
        ({"setup.cfg": "[options]\npackage_dir =\n    =code\n    folding = code/lib\n"}, "code/lib/model.py"),
        ({"pyproject.toml": '[tool.setuptools.package-dir]\nfolding = "code/lib"\n'}, "code/lib/model.py"),
        ({"setup.py": "setup(package_dir={'': 'code'})\n", "code/folding/model.py": ""}, "code/folding/model.py"),
        ({"setup.py": "setup(package_dir={'folding.model': 'code/lib'})\n"}, "code/lib/__init__.py"),
        ({"setup.py": "setup(package_dir={'other': 'code/lib'})\n"}, None),
        ({"setup.py": "setup(package_dir={'folding': WHERE})\n"}, None),
        ({"setup.py": "print 'folding'\nsetup(package_dir={'folding': 'code/lib'})\n"}, None),
        ({"setup.cfg": "package_dir = folding = code/lib\n"}, None),
        ({"pyproject.toml": '[tool]\nsetuptools = "code/lib"\n'}, None),
        ({"far/setup.py": "setup(package_dir={'folding': '../code/lib'})\n"}, None),  # another project's
    ],
)
@pytest.mark.parametrize("script", ["train.py", "code/lib/train.py"])
def test_a_package_may_be_declared_to_be_in_a_folder_of_another_name(
    tmp_path: Path, script: str, declared: dict[str, str], expected: str | None
) -> None:
    lib = tmp_path / "code/lib"
    texts = {tmp_path / script: "from folding.model import Block\n", lib / "model.py": "", lib / "__init__.py": ""}
    files = {**texts, **{tmp_path / name: text for name, text in declared.items()}}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = Workspace.open([tmp_path]).locate("folding.model", tmp_path / script)
    assert (None if found is None else found.relative_to(tmp_path).as_posix()) == expected
    project = Projects(list(map(str, files)), [str(tmp_path)], lambda file: files[Path(file)]).of(
        str(tmp_path / script)
    )
    assert found is None or str(found) in project


def test_files_run_together_where_one_loads_both() -> None:
    files = {
        "main.py": "import data, a.model\n",
        "data.py": "",
        "a/model.py": "import b.layers\n",
        "b/layers.py": "",
        "c/main.py": "import data, d.net\n",
        "d/net.py": "",
        "e/main.py": "importlib.import_module(name)\n",
        "e/f/plugin.py": "",
    }
    found = Projects([f"/r/{name}" for name in files], ["/r"], lambda file: files[file.removeprefix("/r/")])
    assert found.may_run_together("/r/data.py", "/r/b/layers.py")
    assert found.may_run_together("/r/main.py", "/r/data.py")
    assert found.may_run_together("/r/e/f/plugin.py", "/r/e/main.py")
    assert not found.may_run_together("/r/d/net.py", "/r/b/layers.py")
    assert not found.may_run_together("/r/d/net.py", "/r/main.py")


def test_a_workspace_comes_apart_where_there_is_something_to_migrate(tmp_path: Path) -> None:
    texts = {
        "a/x.py": "loss.backward()\n",
        "a/y.py": "def train(): ...\n",
        "b/m.py": "import apex\n",
        "d/z.py": "def train(): ...\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = list(Workspace.open([tmp_path]).by_project())
    assert [[source.path.name for source in each.candidates()] for each in found] == [["x.py"], ["m.py"]]
    assert [[source.path.name for source in each.mentioning("train")] for each in found] == [["y.py"], []]
    assert [path.name for path in found[1].files] == ["m.py"]


def test_what_does_not_parse_in_a_project_is_told_by_the_whole(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("loss.backward(\n")
    workspace = Workspace.open([tmp_path])
    (project,) = workspace.by_project()
    (source,) = project.candidates()
    assert project.parse(source) is None
    assert [finding.code for finding in workspace.problems] == ["AMP001"]


def test_a_notebook_imports_like_a_script(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/m.py").write_text("import apex\n")
    (tmp_path / "n.ipynb").write_text(NOTEBOOK)
    (project,) = Workspace.open([tmp_path]).by_project()
    assert [path.name for path in project.files] == ["m.py", "n.ipynb"]
