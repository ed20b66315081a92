"""`graphrt language-server` as an editor uses it: a process, on its standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

pytest.importorskip("pygls", reason="the extra graphrt[editor] is not installed")

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

GRAPH = """\
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "middle" }
node { calculator: "Own" input_stream: "IN:middle" output_stream: "OUT:out" }
"""
SUBGRAPH = """\
type: "Own"
input_stream: "IN:a"
output_stream: "OUT:b"
node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }
"""


class Editor(LanguageClient):
    """An editor with one file open."""

    def __init__(self, file: Path) -> None:
        super().__init__("an editor", "1")
        self.uri = file.as_uri()
        self.found: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.number = 1

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def take(params: types.PublishDiagnosticsParams) -> None:
            self.found.put_nowait(params)

    @property
    def document(self) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri)

    def open(self, text: str) -> None:
        item = types.TextDocumentItem(self.uri, "textproto", self.number, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, text: str) -> None:
        self.number += 1
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.number, self.uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def diagnostics(self) -> list[types.Diagnostic]:
        """The diagnostics of the newest text."""
        while True:
            params = await self.found.get()
            if params.version == self.number:
                return list(params.diagnostics)


def place(text: str, word: str, offset: int = 1) -> types.Position:
    """The position in a word of a text, in UTF-16 units."""
    before = text[: text.index(word) + offset]
    line = before.rpartition("\n")[2]
    return types.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)


def edited(folder: Path, scenario: Callable[[Editor], Awaitable[None]]) -> None:
    """Run a scenario with an editor of a graph, which a subgraph's file is beside."""
    (folder / "graph.pbtxt").write_text(GRAPH)
    (folder / "own.pbtxt").write_text(SUBGRAPH)

    async def run() -> None:
        editor = Editor(folder / "graph.pbtxt")
        async with asyncio.timeout(PATIENCE):
            await editor.start_io(sys.executable, "-m", "servers.cli", "language-server", cwd=ROOT)
            await editor.initialize_async(
                types.InitializeParams(capabilities=types.ClientCapabilities())
            )
            editor.initialized(types.InitializedParams())
            await scenario(editor)
            await editor.shutdown_async(None)
            editor.exit(None)
            await editor.stop()  # type: ignore[no-untyped-call]

    asyncio.run(run())


def test_an_editor_is_served(tmp_path: Path) -> None:
    """One process for everything: its start takes longest."""

    async def scenario(editor: Editor) -> None:
        editor.open(GRAPH)
        assert await editor.diagnostics() == []
        await _finds_errors(editor)
        await _completes(editor)
        await _finds_places(editor, tmp_path)
        await _renames(editor)
        await _outlines(editor)
        await _draws(editor)

    edited(tmp_path, scenario)


async def _finds_errors(editor: Editor) -> None:
    # The letter before the word takes two units in UTF-16.
    text = "# \U0001f600\n" + GRAPH.replace('"PassThrough', '"\U0001f600PasThrough')
    editor.change("node {")
    editor.change(text)  # before the first is checked, so it never is
    (found,) = await editor.diagnostics()
    assert found.severity is types.DiagnosticSeverity.Error
    assert "Unable to find Calculator" in found.message
    assert found.range == types.Range(types.Position(3, 19), types.Position(3, 43))
    text = GRAPH.replace('"IN:middle"', '"IN:midle"')
    editor.change(text)
    (found,) = await editor.diagnostics()
    actions = await editor.text_document_code_action_async(
        types.CodeActionParams(editor.document, found.range, types.CodeActionContext([found]))
    )
    assert actions is not None
    (action,) = actions
    assert isinstance(action, types.CodeAction)
    assert action.edit is not None
    assert action.edit.changes is not None
    (edit,) = action.edit.changes[editor.uri]
    assert (edit.range, edit.new_text) == (found.range, '"IN:middle"')
    editor.change(GRAPH)
    assert await editor.diagnostics() == []


async def _completes(editor: Editor) -> None:
    text = GRAPH + 'node { calculator: "Gate'
    editor.change(text)
    position = types.Position(text.count("\n"), len('node { calculator: "Gate'))
    items = await editor.text_document_completion_async(
        types.CompletionParams(editor.document, position)
    )
    assert isinstance(items, list)
    found = {each.label: each for each in items}
    gate = found["GateCalculator"]
    assert isinstance(gate.text_edit, types.TextEdit)
    assert gate.text_edit.new_text == "GateCalculator"
    assert gate.text_edit.range.start.character == len('node { calculator: "')
    editor.change(GRAPH)


async def _finds_places(editor: Editor, folder: Path) -> None:
    async def definition(position: types.Position) -> list[types.Location]:
        found = await editor.text_document_definition_async(
            types.DefinitionParams(editor.document, position)
        )
        assert isinstance(found, list)
        return [each for each in found if isinstance(each, types.Location)]

    (maker,) = await definition(place(GRAPH, "IN:middle", 4))
    assert maker.uri == editor.uri
    assert maker.range.start == place(GRAPH, "middle", 0)
    (file,) = await definition(place(GRAPH, '"Own"', 2))
    assert file.uri == (folder / "own.pbtxt").resolve().as_uri()
    hover = await editor.text_document_hover_async(
        types.HoverParams(editor.document, place(GRAPH, "PassThrough"))
    )
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    assert hover.contents.value.startswith("**PassThroughCalculator**")


async def _renames(editor: Editor) -> None:
    edit = await editor.text_document_rename_async(
        types.RenameParams(editor.document, place(GRAPH, "middle"), "between")
    )
    assert edit is not None
    assert edit.changes is not None
    assert [each.new_text for each in edit.changes[editor.uri]] == ["between", "between"]
    for position, name, refusal in (
        (place(GRAPH, "middle"), "No Name", "small letters"),
        (place(GRAPH, "middle"), "out", 'there is a stream "out" already'),
        (place(GRAPH, "calculator"), "between", "no stream and no side packet is named here"),
    ):
        with pytest.raises(JsonRpcException, match=refusal) as caught:
            await editor.text_document_rename_async(
                types.RenameParams(editor.document, position, name)
            )
        assert caught.value.code == types.ErrorCodes.InvalidParams


async def _outlines(editor: Editor) -> None:
    text = f'# one\n# two\n{GRAPH}node {{\n  name: "last"\n  calculator: "Own"\n}}\n'
    editor.change(text)
    symbols = await editor.text_document_document_symbol_async(
        types.DocumentSymbolParams(editor.document)
    )
    assert symbols is not None
    nodes = [each for each in symbols if isinstance(each, types.DocumentSymbol)]
    assert [each.name for each in nodes] == ["in", "out", "PassThroughCalculator", "Own", "last"]
    assert [port.name for port in nodes[3].children or ()] == ["IN:middle", "OUT:out"]
    assert nodes[4].detail == "Own"
    folds = await editor.text_document_folding_range_async(
        types.FoldingRangeParams(editor.document)
    )
    assert folds is not None
    lines = [(each.start_line, each.end_line, each.kind) for each in folds]
    assert sorted(lines) == [
        (0, 1, types.FoldingRangeKind.Comment),
        (6, 8, types.FoldingRangeKind.Region),
    ]
    editor.change(GRAPH)


async def _draws(editor: Editor) -> None:
    answer: Any = await editor.protocol.send_request_async("graphrt/drawing", {"uri": editor.uri})
    assert answer.svg.startswith("<svg")
    assert "PassThrough" in answer.svg
    editor.change("node {")
    answer = await editor.protocol.send_request_async("graphrt/drawing", {"uri": editor.uri})
    assert answer.svg == ""
    assert answer.error


def test_without_pygls_the_command_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError('no', name='pygls')")
    done = graphrt("language-server", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'graphrt[editor]'" in done.stderr
