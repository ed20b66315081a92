"""Completion in graph files, also where the text is unfinished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from graph_runtime.language.statements import PORT_FIELDS, Block, DraftText, Statement
from protos.pool import is_repeated
from servers.cli.editor.catalog import Catalog, has_extension, type_name
from servers.cli.editor.streams import produced_names

Kind = Literal["calculator", "field", "message", "value", "stream", "tag"]


@dataclass(frozen=True, slots=True)
class Completion:
    """One proposal: ``text`` replaces what stands between the offsets ``start`` and ``end``."""

    text: str
    kind: Kind
    detail: str
    start: int
    end: int


def complete(draft: DraftText, offset: int, catalog: Catalog) -> list[Completion]:
    """Return the proposals for the place of the cursor, unfiltered."""
    statement = _value_at(draft, offset)
    if statement is not None:
        return list(_values(draft, statement, offset, catalog))
    return list(_fields(draft, offset, catalog))


def calculator_of(draft: DraftText, node: int | None) -> str:
    """Return the calculator of a top-level node; "" if it has none yet."""
    if node is None:
        return ""
    values = (each.value for each in draft.of_node(node) if each.name == "calculator")
    return next(values, "")


def _value_at(draft: DraftText, offset: int) -> Statement | None:
    """Return the statement in whose value the cursor is; None if it is elsewhere."""
    for each in draft.statements:
        is_string = each.text[:1] in ("'", '"')
        if is_string and each.start < offset <= each.end and not _is_after(each, offset):
            return each
        if not is_string and each.text and each.start <= offset <= each.end:
            return each
        gap = draft.text[each.start : offset]
        if not each.text and each.start <= offset and not gap.strip() and "\n" not in gap:
            return each
    return None


def _is_after(statement: Statement, offset: int) -> bool:
    """True if the cursor is behind the closing quote."""
    text = statement.text
    return offset == statement.end and len(text) > 1 and text[-1] == text[0]


def _values(
    draft: DraftText, statement: Statement, offset: int, catalog: Catalog
) -> Iterator[Completion]:
    is_string = statement.text[:1] in ("'", '"')
    start = statement.start + (1 if is_string else 0)
    end = start + len(statement.value)
    if not statement.text:
        start = end = offset
    quote = "" if is_string else '"'

    def proposal(text: str, kind: Kind, detail: str = "") -> Completion:
        return Completion(f"{quote}{text}{quote}", kind, detail, start, end)

    if statement.name == "calculator" and statement.path == ("node",):
        for name, summary in catalog.calculators():
            yield proposal(name, "calculator", summary)
    elif statement.is_port:
        yield from _port_values(draft, statement, offset, catalog)
    elif statement.name == "executor" and statement.path == ("node",):
        for each in draft.statements:
            if each.path == ("executor",) and each.name == "name":
                yield proposal(each.value, "value", "executor")
    elif statement.name == "tag_index":
        for each in draft.of_node(statement.node or 0):
            if each.name == "input_stream":
                tag, _, _ = each.value.rpartition(":")
                yield proposal(tag or ":0", "tag", each.value)
    else:
        yield from _plain_values(statement, start, end, catalog)


def _plain_values(
    statement: Statement, start: int, end: int, catalog: Catalog
) -> Iterator[Completion]:
    message = catalog.message_at(statement.path)
    field = None if message is None else message.fields_by_name.get(statement.name)
    if field is None:
        return
    if field.enum_type is not None:
        for value in field.enum_type.values:
            yield Completion(value.name, "value", field.enum_type.name, start, end)
    elif type_name(field) == "bool":
        for word in ("true", "false"):
            yield Completion(word, "value", "bool", start, end)


def _port_values(
    draft: DraftText, statement: Statement, offset: int, catalog: Catalog
) -> Iterator[Completion]:
    """Yield tags before a colon, and names of streams behind it."""
    is_string = statement.text[:1] in ("'", '"')
    quote = "" if is_string else '"'
    start = statement.start + 1 if is_string else offset
    end = start + len(statement.value)
    typed = draft.text[start:offset] if is_string else ""
    tag, colon, _ = typed.rpartition(":")
    calculator = calculator_of(draft, statement.node)
    rows = catalog.ports(calculator, statement.name) if statement.path else []
    is_input = statement.name.startswith("input")
    reads = is_input if statement.path else not is_input
    is_side = statement.name.endswith("side_packet")
    if not colon:
        for row in rows:
            if row.tag:
                detail = ", ".join(filter(None, (row.type, row.doc.partition("\n")[0])))
                label = f"{row.tag}:{row.index}" if row.index else row.tag
                yield Completion(f"{quote}{label}:", "tag", detail, start, end)
    prefix = f"{tag}:" if colon else ""
    if reads:
        for name, producer in produced_names(draft, is_side=is_side):
            text = f"{quote}{prefix}{name}{quote}"
            yield Completion(text, "stream", producer, start, end)
    elif colon:
        for row in rows:
            if row.tag == tag.partition(":")[0]:
                yield Completion(f"{quote}{prefix}{row.name}{quote}", "stream", "", start, end)


def _fields(draft: DraftText, offset: int, catalog: Catalog) -> Iterator[Completion]:
    """Yield the fields of the message around the cursor, and types of options."""
    block = draft.block_at(offset)
    path = () if block is None else block.path
    start = offset
    while start > 0 and (draft.text[start - 1].isalnum() or draft.text[start - 1] in "_[./"):
        start -= 1
    if "#" in draft.text[draft.text.rfind("\n", 0, start) + 1 : start]:
        return  # in a comment
    message = catalog.message_at(path)
    calculator = calculator_of(draft, None if block is None else block.node)
    if path in (("node", "options"), ("node", "node_options")):
        for name in catalog.option_types(calculator):
            is_extension = path[-1] == "options"
            if is_extension and not has_extension(name):
                continue
            shown = f"[{name}.ext]" if is_extension else f"[type.googleapis.com/{name}]"
            yield Completion(
                f"{shown} {{  }}", "message", f"options of {calculator}", start, offset
            )
        return
    if message is None:
        return
    taken = _taken(draft, block)
    for field in message.fields:
        if field.name in taken and not is_repeated(field):
            continue
        detail = catalog.option_doc(message.full_name, field.name, calculator) or type_name(field)
        if field.message_type is not None:
            yield Completion(f"{field.name} {{  }}", "message", detail, start, offset)
        elif type_name(field) in ("string", "bytes"):
            yield Completion(f'{field.name}: ""', "field", detail, start, offset)
        else:
            yield Completion(f"{field.name}: ", "field", detail, start, offset)


def _taken(draft: DraftText, block: Block | None) -> set[str]:
    if block is None:
        return {each.name for each in draft.statements if not each.path} - set(PORT_FIELDS)
    return {each.name for each in draft.in_block(block)}
