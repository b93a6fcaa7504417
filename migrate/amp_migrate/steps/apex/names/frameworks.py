"""Switches of training frameworks that ask for Apex: what they ask for is gone, and the framework has its own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.catalog.apex_rules import APEX_FRAMEWORK
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.tables.apex_frameworks import CLASSES, KEYWORDS, METHODS


def framework_switches(file: File) -> Iterator[Finding]:
    """A finding for each place where a framework is told to use Apex, with the edit to make."""
    for call in file.calls:
        for arg in call.args:
            keyword = "" if arg.keyword is None else arg.keyword.value
            if keyword in KEYWORDS and _string(arg.value) == "apex":
                yield _finding(file, arg.value, f'{keyword}="apex"', KEYWORDS[keyword])
            elif keyword == "type" and _string(arg.value) in CLASSES:  # dict(type="ApexOptimWrapper")
                yield _finding(file, arg.value, _string(arg.value), CLASSES[_string(arg.value)])
        yield from _told_of_method(file, call)
    for name, hint in CLASSES.items():
        for node in file.uses.get(name, ()):
            yield _finding(file, node, name, hint)


def _told_of_method(file: File, call: cst.Call) -> Iterator[Finding]:
    """Arguments of a method that ran Apex in old versions of its package, of an object that the package has made."""
    func = call.func
    path = dotted(func.value) if isinstance(func, cst.Attribute) else None
    if path is None or not isinstance(func, cst.Attribute):
        return
    made = [each.value for each in file.scopes.of(call).lookup(path) if isinstance(each.value, cst.Call)]
    packages = {file.names.callee(each).partition(".")[0] for each in made if isinstance(each, cst.Call)}
    for package, (method, keywords, hint) in METHODS.items():
        if func.attr.value == method and package in packages:
            asked = [each for each in call.args if each.keyword is not None and each.keyword.value in keywords]
            names = ", ".join(f"{cst.ensure_type(each.keyword, cst.Name).value}=" for each in asked)
            yield from (_finding(file, each, f"{method}({names})", hint) for each in asked[:1])


def _string(value: cst.BaseExpression) -> str:
    return str(value.evaluated_value) if isinstance(value, cst.SimpleString) else ""


def _finding(file: File, node: cst.CSTNode, what: str, hint: str) -> Finding:
    message = f"left as it was: {what} asks the framework for Apex, whose mixed precision is gone"
    return Finding.at(file.tree, node, APEX_FRAMEWORK.code, Kind.LEFT, message, hint)
