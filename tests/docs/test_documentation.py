"""Links in the documentation lead somewhere, code in it is code, and commands in it have the options they name."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from amp_migrate.cli import command
from amp_migrate.command.config import find_config
from amp_migrate.rulebook import all_rules
from amp_migrate.verify.cli import main as verify

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md")])
# Examples of rules are excerpts, among them code that Python 3 cannot parse.
GENERATED = DOCS / "rules.md"
OUTSIDE = re.compile(r"[a-z]+:")

_FENCE = re.compile(r"^( *)(`{3,})(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its first line of text in the page, what it says it is, and the text without its indentation."""

    line: int
    language: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    opened: tuple[int, re.Match[str]] | None = None
    lines = page.splitlines()
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = number, fence
        elif not fence[3] and len(fence[2]) >= len(opened[1][2]):
            first, begin = opened
            text = "\n".join(each.removeprefix(begin[1]) for each in lines[first : number - 1])
            yield Block(first + 1, begin[3].strip(), text + "\n")
            opened = None
    assert opened is None, f"the block of line {opened and opened[0]} does not end"


def unfenced(page: str) -> str:
    """A page without its fenced blocks."""
    kept: list[str] = []
    fence = ""
    for line in page.splitlines():
        match = _FENCE.match(line)
        if match is not None and (not fence or (not match[3] and len(match[2]) >= len(fence))):
            fence = "" if fence else match[2]
        elif not fence:
            kept.append(line)
    return "\n".join(kept)


def links(page: str) -> list[str]:
    """The targets of a page's links and pictures."""
    return re.findall(r"\]\(([^()\s]+)\)", re.sub(r"(`+).+?\1", "``", unfenced(page), flags=re.S))


def anchors(page: str) -> set[str]:
    """What a link can point to in a page: its explicit anchors, and its headings where all sites make the same of them.

    GitHub turns each blank of a heading into a hyphen, MkDocs runs of blanks and hyphens into one.
    """
    found = set(re.findall(r'<a id="([^"]+)"></a>', page))
    for heading in re.findall(r"^#+ (.+)$", unfenced(page), re.M):
        words = re.sub(r"[^\w\s-]", "", heading.strip()).lower()
        github, mkdocs = words.replace(" ", "-"), re.sub(r"[-\s]+", "-", words)
        if github == mkdocs:
            found.add(github)
    return found


def broken_links(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere, and those from the site to files that are not on it."""
    text = page.read_text(encoding="utf-8")
    for target in links(text):
        if OUTSIDE.match(target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            yield f"{target}: no such file"
        elif page.parent == DOCS and file.parent != DOCS:
            yield f"{target}: not a page of the site"
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{target}: no such anchor"


def options_of(main: click.Command) -> set[str]:
    """All spellings of a command's options."""
    return {name for each in main.params for name in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}


OPTIONS: Mapping[tuple[str, ...], set[str]] = {
    ("amp-migrate",): options_of(command),
    ("amp-verify",): options_of(verify),
    **{("amp-verify", name): options_of(each) for name, each in verify.commands.items()},
    ("python", "-m", "amp_shim"): {"--opt-level", "-m", "-h", "--help"},
}


def command_lines(block: Block) -> Iterator[list[str]]:
    """The words of each line that calls one of the project's commands; lines that end in a backslash go on."""
    joined = re.sub(r"\\\n\s*", " ", block.text)
    for line in joined.splitlines():
        if block.language == "console" and not line.lstrip().startswith("$ "):
            continue
        called = re.search(r"(?<![\w/.-])(amp-migrate|amp-verify|python -m amp_shim)(?= [^:=])[^|;&]*", line)
        if called is not None:
            yield shlex.split(called[0], comments=True)


def unknown_options(words: list[str]) -> list[str]:
    """The options of a command line that the command has not; what goes to a script is not looked at."""
    name = max((name for name in OPTIONS if tuple(words[: len(name)]) == name), key=len)
    rest = words[len(name) :]
    rest = rest[: rest.index("--")] if "--" in rest else rest
    if name[0] == "python":
        script = next((at for at, word in enumerate(rest) if word.endswith(".py")), len(rest))
        rest = rest[:script]
    given = [word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"]
    return [option for option in given if option not in OPTIONS[name]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != GENERATED], ids=lambda page: page.name)
def test_python_in_the_documentation_parses(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            ast.parse(block.text, f"{page.name}, block of line {block.line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_that_the_documentation_names(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        for words in command_lines(block):
            assert unknown_options(words) == [], f"{page.name}, block of line {block.line}: {shlex.join(words)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_in_the_documentation_are_settings(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "toml" and "[tool.amp-migrate]" in block.text:
            (tmp_path / "pyproject.toml").write_text(block.text, encoding="utf-8")
            assert find_config([tmp_path], click.Context(command)).options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_codes_in_the_documentation_are_rules(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    # A page may define a rule of its own, to show how that is done. `AMP6xx` and `AMP6` are groups of rules.
    codes = {rule.code for rule in all_rules()} | set(re.findall(r'code="(AMP\d{3})"', text))
    assert set(re.findall(r"\bAMP\d{3}\b", text)) <= codes


def test_every_page_is_in_the_menu_of_the_site() -> None:
    listed = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(page.name for page in DOCS.glob("*.md"))


PAGE = """\
# A page

See [this](#a-page), [that](other.md#gone) and `[not](a-link.md)`.

```console
$ amp-migrate --chekc .
amp-migrate --what is output
$ amp-verify run a.py \\
    --dtype bf16 --jsn out -- --epochs 1
```

```python
print "epoch"
# not a heading
```
"""


def test_faults_in_a_page_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    (tmp_path / "other.md").write_text("# Other\n", encoding="utf-8")
    assert list(broken_links(page)) == ["other.md#gone: no such anchor"]
    assert anchors(PAGE) == {"a-page"}
    shell, python = blocks(PAGE)
    assert [unknown_options(words) for words in command_lines(shell)] == [["--chekc"], ["--jsn"]]
    with pytest.raises(SyntaxError):
        ast.parse(python.text)


def test_only_headings_that_all_sites_link_alike_are_anchors() -> None:
    assert anchors('# Use `a_b`, twice\n## A - b\n<a id="amp1"></a>\n') == {"use-a_b-twice", "amp1"}
