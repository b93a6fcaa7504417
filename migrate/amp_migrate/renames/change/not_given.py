"""What a file takes from files that were not given, and that take it from a deprecated module."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source, local_name
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.tables.star_names import OF_TORCH_AMP

GIVE_ALL = "give all files of the project at once"
_OLD_PACKAGE = re.compile(r"\btorch\.c(?:uda|pu)(?:\.|\s+import\s+)amp\b")


def taken_from_others(file: File, project: Project) -> Iterator[tuple[cst.ImportAlias, str]]:
    """The imports that bring an old name from a file which was not given, with what is to be said of them."""
    for node in file.tree.every(cst.ImportFrom):
        if isinstance(node.names, cst.ImportStar):
            continue
        module = import_source(node)
        for alias in node.names:
            if dotted(alias.name) not in OF_TORCH_AMP or module.startswith("torch."):
                continue
            text = project.library.text_not_given(module, file)
            if text is not None and _OLD_PACKAGE.search(text):
                yield alias, f"{local_name(alias)} left as it was: {module} takes it from torch, and was not given"
