"""The language server of graph files, on pygls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import TextDocument

from graph_runtime import GraphError, Registry
from graph_runtime.language.statements import Block, DraftText, Statement
from graph_runtime.language.tag_map import is_stream_name
from servers import version
from servers.cli.editor.completion import (
    Catalog,
    Kind,
    calculator_of,
    complete,
    produced_names,
    type_name,
    use_at,
    uses,
    uses_like,
)
from servers.cli.graph_check import GraphCheck
from servers.contract.finding import Finding
from servers.drawing.description import describe_graph
from servers.drawing.layout import draw
from servers.drawing.svg import to_svg
from servers.page.scratch_messages import CalculatorView
from servers.serving.graph_source import answer_problems

_TITLES: Final = {
    "input_stream": "Inputs",
    "output_stream": "Outputs",
    "input_side_packet": "Input side packets",
    "output_side_packet": "Output side packets",
}


def hover(draft: DraftText, offset: int, catalog: Catalog) -> tuple[str, int, int] | None:
    """Return the description and the range that it is about; None if there is nothing to say."""
    statement = draft.statement_at(offset)
    if statement is None:
        return None
    if offset < statement.start and statement.name_start + len(statement.name) >= offset:
        text = _field_text(draft, statement, catalog)
        start, end = statement.name_start, statement.name_start + len(statement.name)
    elif statement.name == "calculator" and statement.path == ("node",):
        page = catalog.page(statement.value)
        text = page_text(page) if page is not None else ""
        start, end = statement.start, statement.end
    elif statement.is_port:
        text = _port_text(draft, statement, catalog)
        start, end = statement.start, statement.end
    else:
        return None
    return (text, start, end) if text else None


def page_text(page: CalculatorView) -> str:
    """Return the description of a calculator in Markdown."""
    parts = [f"**{page.name}**", page.doc]
    for field, title in _TITLES.items():
        rows = [
            f"- `{row.tag or row.name}` {row.type}"
            f"{', optional' if row.is_optional else ''}{f': {row.doc}' if row.doc else ''}"
            for row in page.ports or ()
            if row.field == field
        ]
        if rows:
            parts.append("\n".join([f"{title}:", *rows]))
    for table in page.options:
        rows = [
            f"- `{each.name}` {each.type}"
            f"{f', default {each.default}' if each.default is not None else ''}"
            f"{f': {each.doc}' if each.doc else ''}"
            for each in table.fields
        ]
        parts.append("\n".join([f"Options, `{table.message_type}`:", *rows]))
    if page.ports is None:
        parts.append(f"```textproto\n{page.snippet}```")
    return "\n\n".join(filter(None, parts))


def _port_text(draft: DraftText, statement: Statement, catalog: Catalog) -> str:
    name = statement.value.rpartition(":")[2]
    tag = statement.value.partition(":")[0] if ":" in statement.value else ""
    parts = []
    for row in catalog.ports(calculator_of(draft, statement.node), statement.name):
        if statement.node is not None and row.tag == tag:
            parts.append(
                f"`{row.tag or row.name}` {row.type}" + (f": {row.doc}" if row.doc else "")
            )
            break
    is_side = statement.name.endswith("side_packet")
    makers = dict(produced_names(draft, is_side=is_side))
    readers = sum(
        (each.name, each.is_side) == (name, is_side) and not each.is_producer
        for each in uses(draft)
    )
    kind = "side packet" if is_side else "stream"
    made = makers.get(name, "made by nothing in this file")
    parts.append(f"{kind} `{name}`, {made}; read in {readers} place{'' if readers == 1 else 's'}")
    return "\n\n".join(parts)


def _field_text(draft: DraftText, statement: Statement, catalog: Catalog) -> str:
    message = catalog.message_at(statement.path)
    field = None if message is None else message.fields_by_name.get(statement.name)
    if field is None:
        return ""
    doc = catalog.option_doc(
        message.full_name, statement.name, calculator_of(draft, statement.node)
    )
    parts = [f"`{statement.name}` {type_name(field)}", doc]
    if field.enum_type is not None:
        parts.append(", ".join(f"`{value.name}`" for value in field.enum_type.values))
    return "\n\n".join(filter(None, parts))


_MEANT: Final = re.compile(r'[Dd]id you mean ["`]([^"`\n]{1,200})["`]')


def suggested(message: str, hint: str | None) -> str | None:
    """Return the word that a finding proposes; None if it proposes none."""
    match = _MEANT.search(message) or _MEANT.search(hint or "")
    return None if match is None else match[1]


def replacement(written: str, word: str) -> str:
    """Return a text with the proposed word in place of the wrong one.

    ``written``: a field's name, or a value as it stands in the text, with quotes.
    """
    if written[:1] not in ("'", '"'):
        return word
    quote, value = written[0], written.strip("'\"")
    tag, colon, name = value.rpartition(":")
    if not colon or ":" in word:
        return f"{quote}{word}{quote}"
    # Tags are upper case, names of streams are not.
    return f"{quote}{word}:{name}{quote}" if word.isupper() else f"{quote}{tag}:{word}{quote}"


class Remedy(NamedTuple):
    """A change that a finding proposes: ``text`` instead of what is between two offsets."""

    title: str
    start: int
    end: int
    text: str


_ADDED: Final = re.compile(r"add `([^`\n]{1,40})`")
_WRITTEN: Final = re.compile(r"write `([^`\n]{1,200})` here")
_MISSING: Final = re.compile(r'(?:write|give it one:) ([a-z_]+: "[^"\n]{1,200}")')


def remedies(draft: DraftText, start: int, end: int, finding: Finding) -> list[Remedy]:
    """Return what can be changed to follow a finding, which is about the text between offsets."""
    said = f"{finding.message}\n{finding.hint or ''}"
    written = draft.text[start:end]
    found: list[Remedy] = []
    word = suggested(finding.message, finding.hint)
    if word is not None:
        text = replacement(written, word)
        found.append(Remedy(f"Change to {text}", start, end, text))
    if (added := _ADDED.search(said)) is not None:
        at = len(draft.text.rstrip()) if end >= len(draft.text) else start
        found.append(Remedy(f"Add {added[1]}", at, at, added[1]))
    if (meant := _WRITTEN.search(said)) is not None:
        found.append(Remedy(f"Change to {meant[1]}", start, end, meant[1]))
    if "write it without quotes" in said and written[:1] in ("'", '"'):
        found.append(Remedy("Remove the quotes", start, end, written[1:-1]))
    if "put it in quotes" in said and written:
        found.append(Remedy("Put it in quotes", start, end, f'"{written}"'))
    block = draft.block_at(start) or next((b for b in draft.blocks if b.name_start == start), None)
    if block is not None and block.path[:1] == ("node",):
        outer = next(
            each for each in draft.blocks if each.path == ("node",) and each.node == block.node
        )
        found += [_first_in(draft, outer, missing) for missing in _MISSING.findall(said)]
    return found


def _first_in(draft: DraftText, block: Block, line: str) -> Remedy:
    """Return the remedy that puts a field at the beginning of a block."""
    after = draft.text[block.start :]
    if after.lstrip(" \t").startswith(("\n", "\r\n")):
        indent = re.match(r"[ \t]*\r?\n(?:[ \t]*\r?\n)*([ \t]*)", after)
        line = f"\n{indent[1] if indent is not None else '  '}{line}"
    else:
        line = f" {line}"
    return Remedy(f"Add {line.strip()}", block.start, block.start, line)


#: The values of a node by which an outline names it.
_NODE_NAMES: Final = ("name", "calculator")


def outline(document: TextDocument, draft: DraftText) -> list[types.DocumentSymbol]:
    """Return the graph's ports, its nodes with their ports, and its other blocks."""
    symbols: list[tuple[int, types.DocumentSymbol]] = [
        (each.name_start, _port_symbol(document, each)) for each in draft.ports() if not each.path
    ]
    for block in draft.blocks:
        if len(block.path) != 1:
            continue
        whole = range_of(document, block.name_start, min(block.end + 1, len(draft.text)))
        name = range_of(document, block.name_start, block.name_start + len(block.path[0]))
        values = {each.name: each.value for each in draft.in_block(block)}
        title = next((values[key] for key in _NODE_NAMES if values.get(key)), block.path[0])
        calculator = values.get("calculator", "")
        symbols.append(
            (
                block.name_start,
                types.DocumentSymbol(
                    title,
                    types.SymbolKind.Class if calculator else types.SymbolKind.Struct,
                    whole,
                    name,
                    detail=calculator if calculator != title else None,
                    children=[
                        _port_symbol(document, each)
                        for each in draft.in_block(block)
                        if each.is_port
                    ],
                ),
            )
        )
    return [symbol for _, symbol in sorted(symbols, key=lambda each: each[0])]


def _port_symbol(document: TextDocument, port: Statement) -> types.DocumentSymbol:
    whole = range_of(document, port.name_start, port.end)
    value = range_of(document, port.start, port.end)
    is_side = port.name.endswith("side_packet")
    kind = types.SymbolKind.Constant if is_side else types.SymbolKind.Variable
    return types.DocumentSymbol(port.value or port.name, kind, whole, value, detail=port.name)


def folds(draft: DraftText) -> list[types.FoldingRange]:
    """Return the blocks, and the comments, of more than one line; lines from 0."""
    found = []
    for block in draft.blocks:
        first, last = draft.place(block.name_start)[0], draft.place(block.end)[0]
        if last - 1 > first:  # the closing brace stays
            found.append(
                types.FoldingRange(first - 1, last - 2, kind=types.FoldingRangeKind.Region)
            )
    lines = draft.text.split("\n")
    is_comment = [line.lstrip().startswith("#") for line in lines]
    start = 0
    for at, comments in enumerate([*is_comment, False]):
        if not comments:
            if at - start > 1:
                found.append(types.FoldingRange(start, at - 1, kind=types.FoldingRangeKind.Comment))
            start = at + 1
    return found


#: Seconds without a key stroke before a text is checked.
PAUSE: Final = 0.15
#: The request for a drawing: ``{"uri": ...}``.
DRAWING: Final = "graphrt/drawing"

_SOURCE: Final = "graphrt"
_KINDS: Final[dict[Kind, types.CompletionItemKind]] = {
    "calculator": types.CompletionItemKind.Class,
    "field": types.CompletionItemKind.Field,
    "message": types.CompletionItemKind.Struct,
    "value": types.CompletionItemKind.EnumMember,
    "stream": types.CompletionItemKind.Variable,
    "tag": types.CompletionItemKind.Property,
}


class GraphLanguageServer(LanguageServer):
    """Checks graph files while they are edited. Their contents stay in this process."""

    def __init__(self, registry: Registry) -> None:
        super().__init__("graphrt", version())
        self.registry = registry
        self.catalog = Catalog(registry)
        self._waiting: dict[str, asyncio.Task[None]] = {}

    def check_soon(self, uri: str, pause: float = PAUSE) -> None:
        """Check a document after a pause; a further call restarts the pause."""
        self.forget(uri)
        self._waiting[uri] = asyncio.get_running_loop().create_task(self._check(uri, pause))

    def forget(self, uri: str) -> None:
        """Drop a check that has not begun."""
        task = self._waiting.pop(uri, None)
        if task is not None:
            task.cancel()

    async def _check(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        document = self.workspace.get_text_document(uri)
        text, number = document.source, document.version
        findings = await asyncio.to_thread(check_file, path_of(uri), text, self.registry)
        if self.workspace.get_text_document(uri).version != number:
            return  # a check of the newer text follows
        draft = DraftText.read(text)
        diagnostics = [diagnostic_of(document, draft, each) for each in findings]
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, diagnostics, number)
        )

    def draft(self, uri: str) -> tuple[TextDocument, DraftText]:
        """Return a document and its statements."""
        document = self.workspace.get_text_document(uri)
        return document, DraftText.read(document.source)


def check_file(path: str, text: str, registry: Registry) -> list[Finding]:
    """Return the findings about an edited file; its options may name files, which are not read."""
    check = GraphCheck(path, registry, text)
    if check.plan is not None:
        for problem in answer_problems(check.plan):
            check.add("error", problem)
    return [each for each in check.placed_findings() if each.file == path]


def path_of(uri: str) -> str:
    """Return the path of a document; its name for one that is not a file."""
    return to_fs_path(uri) or uri.rpartition("/")[2] or "graph.pbtxt"


def range_of(document: TextDocument, start: int, end: int) -> types.Range:
    """Return the range between two offsets."""
    return types.Range(
        document.client_position_at_offset(start), document.client_position_at_offset(end)
    )


def diagnostic_of(document: TextDocument, draft: DraftText, finding: Finding) -> types.Diagnostic:
    """Return a finding as editors show it, with what is proposed as its data."""
    start = draft.offset(finding.line or 1, finding.column or 1)
    end = start
    if finding.end_line is not None and finding.end_column is not None:
        end = draft.offset(finding.end_line, finding.end_column)
    found = [
        {"title": title, "range": _plain(range_of(document, begin, stop)), "text": text}
        for title, begin, stop, text in remedies(draft, start, end, finding)
    ]
    hint = "" if finding.hint is None else f"\n{finding.hint}"
    is_error = finding.severity == "error"
    return types.Diagnostic(
        range_of(document, start, end),
        finding.message + hint,
        types.DiagnosticSeverity.Error if is_error else types.DiagnosticSeverity.Warning,
        source=_SOURCE,
        data={"remedies": found} if found else None,
    )


def make_server(registry: Registry) -> GraphLanguageServer:
    """Return a server with all features; `GraphLanguageServer.start_io` serves one editor."""
    server = GraphLanguageServer(registry)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.check_soon(params.text_document.uri, 0.0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.check_soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        # Another file, which may use this one as a subgraph, has findings of its own.
        for uri in server.workspace.text_documents:
            server.check_soon(uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.forget(uri)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=['"', ":", "[", "'"]),
    )
    async def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        document, draft = server.draft(params.text_document.uri)
        offset = document.offset_at_position(params.position)
        return [
            types.CompletionItem(
                each.text.strip("\"' :{}"),
                kind=_KINDS[each.kind],
                detail=each.detail or None,
                text_edit=types.TextEdit(range_of(document, each.start, each.end), each.text),
            )
            for each in complete(draft, offset, server.catalog)
        ]

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(params: types.HoverParams) -> types.Hover | None:
        document, draft = server.draft(params.text_document.uri)
        found = hover(draft, document.offset_at_position(params.position), server.catalog)
        if found is None:
            return None
        text, start, end = found
        content = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(content, range_of(document, start, end))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: types.DefinitionParams) -> list[types.Location]:
        uri = params.text_document.uri
        document, draft = server.draft(uri)
        offset = document.offset_at_position(params.position)
        use = use_at(draft, offset)
        if use is not None:
            makers = [each for each in uses_like(draft, use) if each.is_producer]
            return [
                types.Location(uri, range_of(document, each.start, each.end)) for each in makers
            ]
        statement = draft.statement_at(offset)
        if statement is None or statement.name != "calculator":
            return []
        check = await asyncio.to_thread(GraphCheck, path_of(uri), server.registry, document.source)
        return _subgraph_file(check, statement.value)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    async def references(params: types.ReferenceParams) -> list[types.Location]:
        uri = params.text_document.uri
        document, draft = server.draft(uri)
        use = use_at(draft, document.offset_at_position(params.position))
        found = uses_like(draft, use) if use is not None else []
        return [types.Location(uri, range_of(document, each.start, each.end)) for each in found]

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepare_rename(params: types.PrepareRenameParams) -> types.Range | None:
        document, draft = server.draft(params.text_document.uri)
        use = use_at(draft, document.offset_at_position(params.position))
        return None if use is None else range_of(document, use.start, use.end)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    async def rename(params: types.RenameParams) -> types.WorkspaceEdit | None:
        uri = params.text_document.uri
        document, draft = server.draft(uri)
        use = use_at(draft, document.offset_at_position(params.position))
        if use is None:
            raise JsonRpcInvalidParams("no stream and no side packet is named here")
        if not is_stream_name(params.new_name):
            raise JsonRpcInvalidParams(
                f'"{params.new_name}" cannot be a name: names of streams and side packets have '
                "small letters, digits and _, no digit first"
            )
        taken = next((each for each in uses(draft) if each.name == params.new_name), None)
        if taken is not None and params.new_name != use.name:
            kind = "side packet" if taken.is_side else "stream"
            raise JsonRpcInvalidParams(f'there is a {kind} "{params.new_name}" already')
        edits = [
            types.TextEdit(range_of(document, each.start, each.end), params.new_name)
            for each in uses_like(draft, use)
        ]
        return types.WorkspaceEdit(changes={uri: edits})

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    )
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        return [
            _fix(uri, each, remedy)
            for each in params.context.diagnostics
            if isinstance(each.data, dict)
            for remedy in each.data.get("remedies", ())
        ]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        return outline(*server.draft(params.text_document.uri))

    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    async def folding(params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        return folds(server.draft(params.text_document.uri)[1])

    @server.feature(DRAWING)
    async def drawing(params: Any) -> dict[str, str]:
        uri = str(params.uri)
        document = server.workspace.get_text_document(uri)
        return await asyncio.to_thread(svg_of, path_of(uri), document.source, server.registry)

    return server


def svg_of(path: str, text: str, registry: Registry) -> dict[str, str]:
    """Return a drawing as ``svg``, or the reason why there is none as ``error``."""
    check = GraphCheck(path, registry, text)
    if check.source is None:
        return {"svg": "", "error": "\n".join(each.message for each in check.findings)}
    problems = tuple(each.message for each in check.findings if each.severity == "error")
    try:
        description = describe_graph(
            check.source.config, check.source.registry, check.plan, expand=False, problems=problems
        )
        return {"svg": to_svg(draw(description, Path(path).name)), "error": ""}
    except GraphError as error:
        return {"svg": "", "error": str(error)}


def _subgraph_file(check: GraphCheck, name: str) -> list[types.Location]:
    """Return the beginning of the file beside this one that defines a subgraph."""
    if check.source is None:
        return []
    files: Sequence[Path] = check.source.files[1:]
    for config, file in zip(check.source.configs[1:], files, strict=False):
        uri = from_fs_path(str(file.resolve()))
        if (config.type or file.stem) == name and uri is not None:
            start = types.Position(0, 0)
            return [types.Location(uri, types.Range(start, start))]
    return []


def _plain(place: types.Range) -> list[int]:
    """Return a range as an editor keeps it with a diagnostic."""
    return [place.start.line, place.start.character, place.end.line, place.end.character]


def _fix(uri: str, diagnostic: types.Diagnostic, remedy: dict[str, Any]) -> types.CodeAction:
    line, character, last_line, last_character = remedy["range"]
    place = types.Range(types.Position(line, character), types.Position(last_line, last_character))
    edit = types.WorkspaceEdit(changes={uri: [types.TextEdit(place, remedy["text"])]})
    return types.CodeAction(
        remedy["title"],
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostic],
        edit=edit,
        is_preferred=True,
    )
