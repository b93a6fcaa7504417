"""One side of a comparison: the files of a project as they are before a migration, or after it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial

from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.installed import PACKAGES, Fold, Installed, may_choose
from amp_migrate.prove.code.public_names import public
from amp_migrate.prove.code.scopes import (
    DEFINITIONS,
    Definition,
    Scopes,
    full_module,
    member,
    parameters,
    place_of,
)
from amp_migrate.prove.code.values import Values
from amp_migrate.tables.star_names import brings

_HOPS = 8  # files that hand a name on
_WORD = re.compile(r"[^\W\d]\w*")
# What an import from a module names: to the end of its line, or of its parentheses.
_FROM = re.compile(r"\bimport\b((?:[^\n(\\]|\\\r?\n)*(?:\([^)]*\))?)")
# What is imported from torch, and what is called as one of its modules is.
_FROM_TORCH = re.compile(
    r"\bfrom\s+torch[\w.]*\s+import\b(\s*\([^)]*\)|.*)|\bimport\s+(?:torch[\w.]*\s+as\s+(\w+)|(torch)\b)"
)
# Gives the file that an import in a file loads, if it is one of the project.
Locate = Callable[[str, str], "str | None"]


class Others:
    """The files of a project that are the same on both sides.

    Args:
        text: gives the text of the file that an import in a file loads, if it is one of these.
        mentions: whether one of them has a word.
    """

    def __init__(self, text: Callable[[str, str], str | None], mentions: Callable[[str], bool]) -> None:
        self.text = text
        self._known: dict[tuple[str, str], dict[str, Definition | ast.ClassDef]] = {}
        self._bodies: dict[tuple[str, str], list[ast.stmt]] = {}
        self._words: dict[tuple[str, str], set[str]] = {}
        self.mentions = cache(mentions)

    def imported(self, importer: str, module: str, name: str) -> list[tuple[str, str, bool]]:
        """Where such a file may take a name from that is imported from it, the likeliest first.

        Each is a module as the file says it, a name, and whether it is imported as one of all names of the module.
        """
        found: list[tuple[str, str, bool]] = []
        for node in self._body(importer, module) if self._may_import(importer, module, name) else ():
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    found.append((full_module(node), alias.name, False))
                elif alias.name == "*":
                    found.append((full_module(node), name, True))
        found.reverse()
        return sorted(found, key=lambda each: each[2])

    def _may_import(self, importer: str, module: str, name: str) -> bool:
        """Whether a look at its text leaves it open that such a file imports a name: most need not be parsed."""
        if (importer, module) not in self._words:
            text = self.text(module, importer) or ""
            self._words[importer, module] = set(re.findall(r"\w+|\*", " ".join(_FROM.findall(text))))
        return not self._words[importer, module].isdisjoint({name, "*"})

    def _body(self, importer: str, module: str) -> list[ast.stmt]:
        if (importer, module) not in self._bodies:
            try:
                body = ast.parse(self.text(module, importer) or "").body
            except (SyntaxError, ValueError, RecursionError):
                body = []
            self._bodies[importer, module] = body
        return self._bodies[importer, module]

    def defined(self, importer: str, module: str, name: str) -> Definition | ast.ClassDef | None:
        """A function or class of such a file, as a file imports it."""
        if (importer, module) not in self._known:
            kinds = (*DEFINITIONS, ast.ClassDef)
            found = {each.name: each for each in self._body(importer, module) if isinstance(each, kinds)}
            self._known[importer, module] = found
        return self._known[importer, module].get(name)


@dataclass(eq=False)
class Program:
    """Some files as they are on one machine.

    Attributes:
        texts: the text of each file by its name.
        installed: what the machine has.
        consulted: the packages that some choice of the files depends on.
        asks_for_living: whether a choice asks the shim for something that Apex itself still has.
        decides: whether what is installed has decided something, in these files or in those compared with them.
        switches: what decides whether the regions and scalers of each file are on, filled when it is erased.
        shared: the parameters that the program that it is compared with has as well.
    """

    texts: Mapping[str, str]
    installed: Installed
    locate: Locate
    others: Others
    consulted: set[str] = field(default_factory=set)
    asks_for_living: bool = False
    decides: bool = False
    switches: dict[str, list[str]] = field(default_factory=dict)
    shared: set[tuple[str, str, str]] = field(default_factory=set)
    _loaded: dict[tuple[str, str], File | None] = field(default_factory=dict)

    @cached_property
    def files(self) -> dict[str, File]:
        """The files as trees.

        Raises:
            SyntaxError: one is written in a Python that this one does not read.
        """
        return {name: self._file(name, text) for name, text in self.texts.items()}

    def _file(self, name: str, text: str) -> File:
        tree = ast.parse(text)
        lines = text.splitlines()
        words = [set(_WORD.findall(line)) for line in lines]
        scopes = Scopes(tree, name, text)
        outside = partial(self.others.defined, name)
        handed_on, by_star = partial(self._handed_on, name), partial(self._by_star, name, scopes.module.stars)
        of_torch = partial(self._of_torch, name)
        file = File(name, tree, scopes, words, self._located(name), handed_on, by_star, of_torch, outside)
        chosen = [node for node in tree.body if may_choose(file.words_of(node))]
        if chosen:
            fold = Fold(scopes, self.installed, file.locate)
            tree.body = [each for node in tree.body for each in (fold.taken(node) if node in chosen else [node])]
            if fold.consulted:
                self.decides = True
                self.consulted |= fold.consulted
                self.asks_for_living |= fold.asks_for_living
                file.decides = True
            file.choices = tuple(fold.choices)
            file.needs = set(map(place_of, fold.needs))
            file.scopes = Scopes(tree, name, text)
            # What is there everywhere, and only branches import that are not taken, code says that never runs here.
            for word, fulls in scopes.module.imports.items():
                if word not in file.scopes.module.names and all(each.startswith("torch.") for each in fulls):
                    file.scopes.module.names.add(word)
                    file.scopes.module.imports[word] = fulls
        for node, scope in file.scopes.statements:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and self._is_missing(node):
                file.needs.add(place_of(scope))
        return file

    def _is_missing(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import ends with an error on this machine."""
        named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
        roots = {each.partition(".")[0] for each in named}
        return bool(roots & (set(PACKAGES) - self.installed.packages)) and not getattr(node, "level", 0)

    def loaded(self, module: str, importer: str) -> File | None:
        """The file that an import loads, be it one that is the same on both sides."""
        at = self.locate(module, importer)
        if at in self.files:
            return self.files[at]
        key = (importer, module)
        if key not in self._loaded:
            text = self.others.text(module, importer)
            try:
                self._loaded[key] = None if text is None else self._file(f"{module} of {importer}", text)
            except (SyntaxError, ValueError, RecursionError):
                self._loaded[key] = None
        return self._loaded[key]

    def _handed_on(self, importer: str, full: str) -> tuple[str, str] | None:
        """The file of this side that an import comes to through files that are the same on both, and the name there."""
        module, name = split(full)
        return self._through(importer, module, name, _HOPS) if module else None

    def _of_torch(self, importer: str, full: str) -> str:
        """The full name of what a file takes from another that has it from torch; empty where it is anything else."""
        module, name = split(full)
        text = (module and self.others.text(module, importer)) or ""
        if not any(name in _WORD.findall(match[match.lastindex or 0]) for match in _FROM_TORCH.finditer(text)):
            return ""
        found = self._by_one_star(importer, module, name, 0) or ""
        return found if found.partition(".")[0] == "torch" else ""

    def _by_star(self, importer: str, stars: Sequence[str], name: str, hops: int = _HOPS) -> str | None:
        """The full name of what star imports bring by a name; None where that is nothing, empty where nobody knows."""
        brought = {self._by_one_star(importer, module, name, hops) for module in stars} - {None}
        return brought.pop() if len(brought) == 1 else "" if brought else None

    def _by_one_star(self, importer: str, module: str, name: str, hops: int) -> str | None:
        if module.partition(".")[0] in sys.stdlib_module_names:
            return None
        file, at = self.loaded(module, importer), self.locate(module, importer)
        if file is None:
            is_brought = brings(public(module), name)
            return "" if is_brought is None else member(module, name) if is_brought else None
        inner = file.scopes.module
        if "__all__" in inner.names or name in inner.assigned | inner.nones | inner.definitions.keys():
            return ""
        if name in inner.names:
            fulls = inner.imports.get(name, set())
            return next(iter(fulls)) if len(fulls) == 1 else ""
        if not inner.stars:
            return None
        return self._by_star(at, inner.stars, name, hops - 1) if at is not None and hops else ""

    def _through(self, importer: str, module: str, name: str, hops: int) -> tuple[str, str] | None:
        at = self.locate(module, importer)
        if at is None or at in self.texts:
            return None if at is None else (at, name)
        for inner, its_name, is_one_of_all in self.others.imported(importer, module, name) if hops else ():
            found = self._through(at, inner, its_name, hops - 1)
            if found is not None and not (is_one_of_all and found[1] not in _WORD.findall(self.texts[found[0]])):
                return found
        return None

    def _located(self, name: str) -> Callable[[str], str | None]:
        known: dict[str, str | None] = {}

        def locate(dotted: str) -> str | None:
            if dotted not in known:
                found = self.locate(dotted, name)
                known[dotted] = found if found in self.texts else None
            return known[dotted]

        return locate

    @cached_property
    def code(self) -> Hashable:
        """What tells it from other machines' programs of the same texts: it is the same where this is."""
        return tuple((file.name, file.decides, file.choices) for file in self.files.values())

    @cached_property
    def values(self) -> Values:
        """What may have to do with precision."""
        return Values(self.files, follows_constants=self.decides, shared=self.shared)

    def beside(self, other: Program) -> None:
        """Look at both in the same way from now on.

        Constants matter where something is decided in either; what both have is there for more than precision.
        """
        decides = any(file.decides for each in (self, other) for file in each.files.values())
        shared = self.parameters & other.parameters
        for each in (self, other):
            if each.decides is not decides or each.shared != shared:
                each.decides, each.shared = decides, shared
                each.__dict__.pop("values", None)

    @cached_property
    def parameters(self) -> set[tuple[str, str, str]]:
        """The parameters of every function, each with its file and the place of the function there."""
        functions = (
            (file.scopes.inside(node, scope), node)
            for file in self.files.values()
            for node, scope in file.scopes.functions
        )
        return {(inner.file, place_of(inner), each.arg) for inner, node in functions for each in parameters(node.args)}

    @cached_property
    def signatures(self) -> set[tuple[str, str, str]]:
        """The parameters of every function, with its file and its name."""
        functions = ((file.name, node) for file in self.files.values() for node, _ in file.scopes.functions)
        return {(name, node.name, ast.unparse(node.args)) for name, node in functions}

    @cached_property
    def flags(self) -> dict[tuple[str, str], bool]:
        """What is always true, or always false: names of modules, and what their functions return."""
        found: dict[tuple[str, str], bool] = {}
        for file in self.files.values():
            for name in file.scopes.module.names if self.decides else ():
                value = self.values.constant(file.scopes.module, name)
                if value is not None:
                    found[file.name, name] = value
        return found

    def uses(self, word: str) -> int:
        """In how many lines of the files a word stands."""
        return sum(word in line for file in self.files.values() for line in file.words)

    @cached_property
    def imports(self) -> set[tuple[str, str]]:
        """The names that imports bind anywhere, each with what it is."""
        scopes = {scope for file in self.files.values() for _, scope in file.scopes.statements}
        return {(name, public(full)) for scope in scopes for name, found in scope.imports.items() for full in found}


def split(full: str) -> tuple[str, str]:
    """The module of a full name, and what is named in it: `.` for what is beside the file."""
    module, _, name = full.rpartition(".")
    return (module, name) if module.strip(".") else (full.removesuffix(name), name)
