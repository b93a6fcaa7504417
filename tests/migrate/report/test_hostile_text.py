"""Whatever a file is called and whatever stands in it: reports show it, and no terminal or CI service obeys it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.formats import Format, render
from amp_migrate.report.forms.markdown import code, words
from amp_migrate.report.plain import plain
from amp_migrate.report.report import Report

OLD = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
HOSTILE = [
    "\x1b]0;owned\x07\x1b[2J.py",
    "::error file=x::owned.py",
    "  ::stop-commands::x.py",
    "##[error]owned.py",
    "x##vso[task.setvariable variable=a]b.py",
    "##teamcity[buildStop]",
    "a\nb: 9 files read.py",
    "a\r\n::error::b.py",
    "<script>alert(1)<" + "\uff0f" + "script>.py",
    "a`b|c`<img src=x onerror=alert(1)>.py",
    "[x](javascript:alert(1)) ![y](http:example.org) @everyone #1.py",
    "\u202egpj.exe.py",
    "a%0A::error::b.py",
    "``` |.py",
    "a\u2028b\x85c.py",
    "*_~&lt;.py",
    "\x9b31m.py",
]
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]")


class Tags(HTMLParser):
    """The tags that a browser would see in a text."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)


def rendered(text: str, form: Format) -> str:
    findings = (
        Finding(text, 3, 1, "AMP590", Kind.LEFT, f"left: {text}", text),
        Finding("b.py", 3, 1, "AMP601", Kind.HAZARD, text, f"`{text}`"),
    )
    return render(Report(findings, 2, (text,), written=True), form)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", list(Format))
def test_no_control_character_is_printed_and_no_line_begins_but_those_that_are_meant(text: str, form: Format) -> None:
    shown, harmless = rendered(text, form), rendered("harmless.py", form)
    assert CONTROL.search(shown) is None
    if form is not Format.JSON:  # which lists what may be empty
        assert shown.count("\n") == harmless.count("\n")
    for line in shown.splitlines():
        if form is not Format.GITHUB:
            assert not line.strip().startswith("::")
        if form not in (Format.JSON, Format.SARIF):
            assert not re.search(r"##\w*\[", line)


@pytest.mark.parametrize("text", HOSTILE)
def test_github_gets_two_commands_and_no_others(text: str) -> None:
    commands = [line for line in rendered(text, Format.GITHUB).splitlines() if line.strip().startswith("::")]
    assert [re.match(r"::(\w+) file=[^:,]*,title=AMP\d+,line=3,col=1::", each)[1] for each in commands] == [  # type: ignore[index]
        "warning",
        "warning",
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_json_and_sarif_are_read_back(text: str) -> None:
    document = json.loads(rendered(text, Format.JSON))
    assert document["changed"] == [document["findings"][0]["path"]] == [text]
    (run,) = json.loads(rendered(text, Format.SARIF))["runs"]
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9_.~/%-]+", uri)


@pytest.mark.parametrize("form", [Format.JSON, Format.SARIF])
def test_half_a_character_makes_no_invalid_text(form: Format) -> None:
    assert "\\ud800" not in rendered("a\ud800.py", form).replace("\\\\ud800", "")
    json.loads(rendered("a\ud800.py", form))


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_it_as_text(text: str) -> None:
    shown = rendered(text, Format.MARKDOWN)
    rows = [line for line in shown.splitlines() if line.startswith("| ") and "AMP" in line]
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 5  # four cells
    # What is outside of code spans has no tag, no link, no picture, nobody who is told and no issue.
    outside = re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", shown)
    tags = Tags()
    tags.feed(outside)
    assert tags.seen == []
    assert not re.search(r"(?<!\\)\]\(|(?<!\\)!\[|@\w|(?<![#\w])#\d", unescape(outside))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train.py:3:1", "`train.py:3:1`"),
        ("a`b", "``a`b``"),
        ("`a``b`", "``` `a``b` ```"),
        ("a|b", "`a\\|b`"),
        ("a\nb", "`a\\nb`"),
    ],
)
def test_a_code_span_holds_anything(text: str, shown: str) -> None:
    assert code(text) == shown


def test_words_are_words() -> None:
    assert words("a*b_c <d> [e](f) @g #1 &lt; 100%") == (
        "a\\*b\\_c &lt;d&gt; \\[e\\](f) @&#8203;g #&#8203;1 &amp;lt; 100%"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\tb\nc", "a\\tb\\nc"),
        ("::error::x", "\\x3a:error::x"),
        ("a ::error::x", "a ::error::x"),
        (" ::error::x", " \\x3a:error::x"),
        ("##[group]", "\\x23#[group]"),
        ("## title", "## title"),
        ("tr\u00e4in \u6a21.py", "tr\u00e4in \u6a21.py"),
    ],
)
def test_plain_text_is_shown(text: str, shown: str) -> None:
    assert plain(text) == shown


def in_a_process(folder: Path, *args: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": encoding}
    code = "from amp_migrate.__main__ import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *args], cwd=folder, env=environment, capture_output=True, check=False
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize(("form", "encoding"), [(Format.TEXT, "utf-8"), *((form, "ascii") for form in Format)])
def test_files_of_such_names_are_reported_and_migrated(tmp_path: Path, form: Format, encoding: str) -> None:
    names = [os.fsencode(name) for name in HOSTILE if "/" not in name]
    names = [name if name.endswith(b".py") else name + b".py" for name in names] + [b"\xff\xfe.py"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_text(OLD)
    done = in_a_process(tmp_path, "--format", form.value, ".", encoding=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert CONTROL.search(text) is None
    if form in (Format.JSON, Format.SARIF):
        found = json.loads(text)
        assert form is Format.SARIF or len(found["changed"]) == len(names)
    undone = in_a_process(tmp_path, "--undo", encoding=encoding)
    assert undone.returncode == 0, undone
    assert CONTROL.search(undone.stdout.decode(encoding)) is None
    assert len(undone.stdout.splitlines()) == len(names) + 1
    assert {(tmp_path / os.fsdecode(name)).read_text() for name in names} == {OLD}


def test_a_usage_error_that_quotes_a_file_obeys_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.amp-migrate]\n"\\u001b[2Jx" = 1\ndtype = "\\u001b[31m"\n')
    (tmp_path / "a.py").write_text(OLD)
    done = in_a_process(tmp_path, ".")
    assert done.returncode == 2
    assert CONTROL.search(done.stderr.decode()) is None
