"""`amp-migrate --language-server`: findings and quick fixes in an editor (Language Server Protocol, standard streams).

A file is looked at when it is opened and when it is saved: a plan reads what the file imports, and takes seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from amp_migrate import __version__
from amp_migrate.engine.outcome import changes_of
from amp_migrate.engine.parts.given_files import migrate_named
from amp_migrate.engine.source import Source, display_name
from amp_migrate.engine.workspace import Workspace
from amp_migrate.frozen import frozen
from amp_migrate.report.change import FileChange
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.forms.diff import split_lines
from amp_migrate.report.plain import plain
from amp_migrate.report.rules.doc_link import doc_link
from amp_migrate.rulebook import rules_of
from amp_migrate.settings import Settings

if TYPE_CHECKING:
    from pygls.server import ServerErrors

_SEVERITIES = {
    Kind.ERROR: types.DiagnosticSeverity.Error,
    Kind.LEFT: types.DiagnosticSeverity.Warning,
    Kind.HAZARD: types.DiagnosticSeverity.Warning,
    Kind.NOTE: types.DiagnosticSeverity.Information,
    Kind.MIGRATED: types.DiagnosticSeverity.Information,
}
# What happened, in a report, and would happen, in an editor.
_WOULD = {Kind.MIGRATED: "would be done: ", Kind.NOTE: "of what would be done: "}


@frozen
class Looked:
    """What came of a look at one file.

    Attributes:
        text: the file's text at that time; what was found holds for no other.
        findings: those of this file.
        changes: it and the files that change with it; none where it stays.
    """

    text: str
    findings: tuple[Finding, ...]
    changes: tuple[FileChange, ...]


def look(path: Path, text: str, settings: Settings) -> Looked:
    """What would become of a file that is open in an editor, with the text that it has there."""
    named = Source(path, display_name(path), text)
    workspace = Workspace.open([path]).with_texts([named])
    outcome = migrate_named(workspace, [path], settings)
    found = tuple(each for each in outcome.findings if each.path == named.name)
    groups = (group for group in changes_of(workspace, outcome) if any(each.path == named.name for each in group))
    return Looked(text, found, next(groups, ()))


class _Server(LanguageServer):
    """Tells an editor of errors, but not of those in telling it: once it is gone, each would bring the next."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name, version)
        self._telling = threading.local()

    def report_server_error(self, error: Exception, source: ServerErrors) -> None:
        """Show an error in the editor, if it does not come of that."""
        if getattr(self._telling, "is_on", False):
            return
        self._telling.is_on = True
        try:
            super().report_server_error(error, source)
        finally:
            self._telling.is_on = False


def make_server(settings_of: Callable[[Path], Settings]) -> LanguageServer:
    """The server.

    Args:
        settings_of: how a file is migrated by its project's settings; raises ClickException where they cannot be used.
    """
    server = _Server("amp-migrate", __version__)
    looked: dict[str, Looked] = {}
    one_at_a_time = threading.Lock()

    def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        path = Path(document.path)
        if path.suffix != ".py" or not path.is_file():
            return
        with one_at_a_time:
            try:
                looked[uri] = look(path, document.source, settings_of(path))
            except click.ClickException as error:
                said = types.ShowMessageParams(types.MessageType.Error, plain(error.format_message()))
                server.window_show_message(said)
                return
        diagnostics = [_diagnostic(document, each) for each in looked[uri].findings]
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, document.version))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    @server.thread()
    def opened(asked: types.DidOpenTextDocumentParams) -> None:
        publish(asked.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @server.thread()
    def saved(asked: types.DidSaveTextDocumentParams) -> None:
        publish(asked.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(asked: types.DidCloseTextDocumentParams) -> None:
        looked.pop(asked.text_document.uri, None)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def actions(asked: types.CodeActionParams) -> list[types.CodeAction]:
        document = server.workspace.get_text_document(asked.text_document.uri)
        known = looked.get(document.uri)
        own = [each for each in asked.context.diagnostics if each.source == "amp-migrate"]
        if known is None or known.text != document.source or not own:
            return []
        return [*_migrate(document, known.changes, own), *_ignore(document, own)]

    return server


def _diagnostic(document: TextDocument, finding: Finding) -> types.Diagnostic:
    """A finding at its place, to the end of its line; what has no line stands in the first."""
    line = max(finding.line - 1, 0)
    here = document.lines[line].rstrip("\r\n") if line < len(document.lines) else ""
    place = types.Range(types.Position(line, max(finding.column - 1, 0)), types.Position(line, len(here)))
    text = _WOULD.get(finding.kind, "") + finding.message
    links = [link for link in map(doc_link, rules_of({finding.code})) if link]
    return types.Diagnostic(
        range=document.position_codec.range_to_client_units(document.lines, place),
        message=plain(f"{text}\n{finding.hint}" if finding.hint else text, keep="\n"),
        severity=_SEVERITIES[finding.kind],
        code=finding.code,
        code_description=types.CodeDescription(links[0]) if links else None,
        source="amp-migrate",
        data=finding.kind.value,
    )


def _migrate(
    document: TextDocument, changes: Sequence[FileChange], own: list[types.Diagnostic]
) -> Iterator[types.CodeAction]:
    """The change of the file, and of those that only change together with it."""
    if not changes:
        return
    own_name = display_name(Path(document.path))
    edits = {
        document.uri if change.path == own_name else Path(change.path).absolute().as_uri(): list(
            _edits(document, change)
        )
        for change in changes
    }
    others = len(changes) - 1
    also = f", and {others} file{'s' if others > 1 else ''} that change{'' if others > 1 else 's'} with it"
    yield types.CodeAction(
        title=f"Migrate this file{also if others else ''}",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=own,
        edit=types.WorkspaceEdit(changes=edits),
    )


def _edits(document: TextDocument, change: FileChange) -> Iterator[types.TextEdit]:
    lines = split_lines(change.before)
    for hunk in change.hunks:
        begin = types.Position(hunk.line - 1, hunk.column - 1)
        end = types.Position(hunk.end_line - 1, hunk.end_column - 1)
        place = document.position_codec.range_to_client_units(lines, types.Range(begin, end))
        yield types.TextEdit(place, hunk.text)


def _ignore(document: TextDocument, own: list[types.Diagnostic]) -> Iterator[types.CodeAction]:
    """For each finding, a comment above its line that leaves the place to its author."""
    for each in own:
        line = each.range.start.line
        is_continued = line > 0 and document.lines[line - 1].rstrip("\r\n").endswith("\\")
        if each.data == Kind.ERROR.value or is_continued or line >= len(document.lines):
            continue
        here = document.lines[line]
        indent = here[: len(here) - len(here.lstrip())]
        at = types.Range(types.Position(line, 0), types.Position(line, 0))
        comment = types.TextEdit(at, f"{indent}# amp-migrate: ignore[{each.code}]\n")
        yield types.CodeAction(
            title=f"Leave this alone: ignore[{each.code}]",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[each],
            edit=types.WorkspaceEdit(changes={document.uri: [comment]}),
        )
