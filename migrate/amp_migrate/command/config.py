"""`[tool.amp-migrate]` in pyproject.toml: the defaults of the command line's options for one project."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from amp_migrate.frozen import frozen
from amp_migrate.pyproject import toml_tables

TABLE = "amp-migrate"
# These say what one run is to do, not how a project wants its code.
COMMAND_LINE_ONLY = frozenset(
    "check compare diff explain explain_plan help language_server list_rules output paths profile stdin_filename "
    "undo version".split()
)


class ConfigError(Exception):
    """A configuration that cannot be used; the message names the file, the key and the next step."""


@frozen
class Config:
    """The options that a project sets.

    Attributes:
        folder: where the pyproject.toml is; None where no project sets anything.
        options: the values by the name of the command's parameter.
    """

    folder: Path | None
    options: Mapping[str, Any]


def find_config(paths: Sequence[Path], context: click.Context) -> Config:
    """The configuration for `paths`: the nearest one at or above the folder that they have in common.

    A pyproject.toml without the table is passed by, as it says nothing about this tool.

    Raises:
        ConfigError: a pyproject.toml is no TOML, or its table has an unknown key or a bad value.
    """
    common = common_folder(paths)
    for folder in [common, *common.parents]:
        file = folder / "pyproject.toml"
        if file.is_file():
            table = _table(file)
            if table is not None:
                return Config(folder, _options(table, file, context))
    return Config(None, {})


def common_folder(paths: Sequence[Path]) -> Path:
    """The innermost folder that holds all `paths`; of one folder, itself."""
    tops = [path if path.is_dir() else path.parent for path in (path.absolute() for path in paths)]
    return next(folder for folder in [tops[0], *tops[0].parents] if all(top.is_relative_to(folder) for top in tops))


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        document = toml_tables(file.read_bytes().decode())
    except ValueError as error:
        raise ConfigError(f"{file}: not TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    tool = document.get("tool", {})
    table = tool.get(TABLE) if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{file}: tool.{TABLE} is not a table; write [tool.{TABLE}]")
    return table


def _options(table: Mapping[str, Any], file: Path, context: click.Context) -> dict[str, Any]:
    known = {
        max(parameter.opts, key=len).lstrip("-"): parameter
        for parameter in context.command.params
        if parameter.name not in COMMAND_LINE_ONLY
    }
    options: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{file}: [tool.{TABLE}] {key}"
        parameter = known.get(key)
        if parameter is None:
            raise ConfigError(f"{where}: {_unknown(key, list(known))}")
        problem = _mismatch(parameter, value)
        if problem:
            raise ConfigError(f"{where}: {problem}")
        try:
            is_path = isinstance(parameter.type, click.Path)
            given = str(file.parent / str(value)) if is_path else _as_words(value)
            options[str(parameter.name)] = parameter.type_cast_value(context, given)
        except click.BadParameter as error:
            raise ConfigError(f"{where}: {error.message}") from None
    return options


def _unknown(key: str, known: list[str]) -> str:
    if key.replace("-", "_") in COMMAND_LINE_ONLY:
        return "is for the command line only"
    nearest = difflib.get_close_matches(key, known, n=1)
    if nearest:
        return f"unknown key; did you mean {nearest[0]}?"
    return f"unknown key; the keys are {', '.join(sorted(known))}"


def _mismatch(parameter: click.Parameter, value: object) -> str:
    """Why a TOML value is not of the kind that an option takes, empty where it is."""
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return "" if isinstance(value, bool) else "must be true or false"
    if parameter.name == "per_path_ignores":
        tables = isinstance(value, dict) and all(_is_list_of_strings(each) for each in value.values())
        return "" if tables else 'must be a table of lists of codes: "tests/" = ["AMP5"]'
    if parameter.multiple:
        return "" if _is_list_of_strings(value) else "must be a list of strings"
    if isinstance(parameter.type, click.IntRange):
        return "" if isinstance(value, int) and not isinstance(value, bool) else "must be a whole number"
    return "" if isinstance(value, str) else "must be a string"


def _as_words(value: object) -> object:
    """A value as the command line would give it: of a table, a word for each entry."""
    return [f"{key}:{','.join(codes)}" for key, codes in value.items()] if isinstance(value, dict) else value


def _is_list_of_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
