"""What an editor sees: findings at their places, and quick fixes that are what the command would write."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.command.language_server import make_server
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings
from click.testing import CliRunner
from lsprotocol import types
from pygls.lsp.client import LanguageClient

SCRIPT = """\
import torch

größe = "\N{GRINNING FACE}"; model = torch.nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.ones(3, 2, 3).cuda():
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
SECONDS = 60


class Editor(LanguageClient):
    """A client that waits for what the server publishes."""

    def __init__(self) -> None:
        super().__init__("test", "1")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.shown: asyncio.Queue[types.ShowMessageParams] = asyncio.Queue()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params)

        @self.feature(types.WINDOW_SHOW_MESSAGE)  # type: ignore[untyped-decorator]
        def shown(params: types.ShowMessageParams) -> None:
            self.shown.put_nowait(params)

    async def open(self, path: Path) -> None:
        await self.start_io(sys.executable, "-m", "amp_migrate", "--language-server")
        begin = self.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        await asyncio.wait_for(begin, SECONDS)
        self.initialized(types.InitializedParams())
        document = types.TextDocumentItem(path.as_uri(), "python", 1, path.read_text(encoding="utf-8"))
        self.text_document_did_open(types.DidOpenTextDocumentParams(document))

    async def diagnostics(self) -> Sequence[types.Diagnostic]:
        return (await asyncio.wait_for(self.published.get(), SECONDS)).diagnostics

    async def actions(self, path: Path, diagnostics: Sequence[types.Diagnostic]) -> Sequence[types.CodeAction]:
        asked = types.CodeActionParams(
            types.TextDocumentIdentifier(path.as_uri()),
            diagnostics[0].range,
            types.CodeActionContext(list(diagnostics)),
        )
        found = await asyncio.wait_for(self.text_document_code_action_async(asked), SECONDS)
        return [each for each in found or () if isinstance(each, types.CodeAction)]

    async def end(self) -> None:
        await asyncio.wait_for(self.shutdown_async(None), SECONDS)
        self.exit(None)
        await asyncio.wait_for(self.stop(), SECONDS)  # type: ignore[no-untyped-call]


def applied(text: str, edits: Sequence[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]) -> str:
    """A text with edits at lines' beginnings."""
    lines = text.splitlines(keepends=True)
    for edit in reversed(edits):
        assert isinstance(edit, types.TextEdit)
        assert edit.range.start.character == edit.range.end.character == 0
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    return "".join(lines)


def test_a_file_shows_what_would_be_done_and_the_quick_fix_does_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")

    async def edit() -> None:
        editor = Editor()
        await editor.open(path)
        (step,) = await editor.diagnostics()
        assert (step.code, step.severity, step.range.start) == (
            "AMP501",
            types.DiagnosticSeverity.Information,
            types.Position(7, 4),
        )
        assert step.message.startswith("would be done: training step moved to float16 autocast")
        migrate, ignore = await editor.actions(path, [step])
        assert migrate.title == "Migrate this file"
        assert migrate.edit is not None
        assert migrate.edit.changes is not None
        assert applied(SCRIPT, migrate.edit.changes[path.as_uri()]) == migrate_text(SCRIPT, Settings()).after
        assert ignore.edit is not None
        assert ignore.edit.changes is not None
        ignored = applied(SCRIPT, ignore.edit.changes[path.as_uri()])
        assert "    # amp-migrate: ignore[AMP501]\n    loss.backward()\n" in ignored

        whole = types.TextDocumentContentChangeWholeDocument(ignored)
        version = types.VersionedTextDocumentIdentifier(2, path.as_uri())
        editor.text_document_did_change(types.DidChangeTextDocumentParams(version, [whole]))
        assert await editor.actions(path, [step]) == []  # found in another text
        path.write_text(ignored, encoding="utf-8")
        saved = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(path.as_uri()))
        editor.text_document_did_save(saved)
        assert not await editor.diagnostics()
        await editor.end()

    asyncio.run(edit())


def test_columns_are_counted_as_the_editor_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text('import torch\nx = "\N{GRINNING FACE}", torch.cuda.amp.GradScaler()\n', encoding="utf-8")

    async def edit() -> None:
        editor = Editor()
        await editor.open(path)
        (found,) = await editor.diagnostics()
        assert found.code == "AMP103"
        assert found.range.start == types.Position(1, len('x = "__", '))  # two units of UTF-16
        await editor.end()

    asyncio.run(edit())


def test_settings_that_cannot_be_used_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.amp-migrate]\ndtype = 'fp8'\n", encoding="utf-8")

    async def edit() -> None:
        editor = Editor()
        await editor.open(path)
        shown = await asyncio.wait_for(editor.shown.get(), SECONDS)
        assert "[tool.amp-migrate] dtype: 'fp8' is not one of" in shown.message
        await editor.end()

    asyncio.run(edit())


def test_what_cannot_be_sent_as_the_editor_is_gone_ends() -> None:
    sent: list[bytes] = []

    class Gone:
        def write(self, data: bytes) -> None:
            sent.append(data)
            raise ValueError("write to closed file")

        def close(self) -> None: ...

    server = make_server(lambda path: Settings())
    server.protocol.set_writer(Gone())
    for _ in range(2):
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams("file:///train.py", []))
    assert [b"window/showMessage" in each for each in sent] == [False, True, False, True]


def test_without_pygls_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("amp_migrate.cli.find_spec", importlib.util.find_spec)
    result = CliRunner().invoke(command, ["--language-server"])
    assert result.exit_code == 2
    assert "--language-server needs pygls: pip install 'amp-migrate[lsp]'" in result.stderr
