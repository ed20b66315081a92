"""Descriptions of the word under the cursor, in Markdown."""

from __future__ import annotations

from typing import Final

from graph_runtime.language.statements import DraftText, Statement
from servers.cli.editor.catalog import Catalog, type_name
from servers.cli.editor.completion import calculator_of
from servers.cli.editor.streams import produced_names, uses
from servers.page.calculator_page import CalculatorPage

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


def page_text(page: CalculatorPage) -> str:
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
