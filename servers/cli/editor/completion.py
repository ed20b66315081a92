"""Completion in graph files, also where the text is unfinished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from graph_runtime import Registry
from graph_runtime.language.statements import PORT_FIELDS, Block, DraftText, Statement
from protos.pool import find_extension, find_message, is_repeated
from servers.page.calculator_page import find_page, summary_of
from servers.page.scratch_messages import CalculatorView, PortOfCalculator


@dataclass(frozen=True, slots=True)
class StreamUse:
    """A place that names a stream or a side packet; ``start`` and ``end`` are of its name."""

    name: str
    start: int
    end: int
    is_side: bool
    is_producer: bool


def uses(draft: DraftText) -> Iterator[StreamUse]:
    """Yield all uses of streams and side packets that have a name."""
    for each in draft.ports():
        name = each.value.rpartition(":")[2]
        if name:
            end = each.start + 1 + len(each.value)
            is_input = each.name.startswith("input")
            yield StreamUse(
                name,
                end - len(name),
                end,
                each.name.endswith("side_packet"),
                # The inputs of the graph are made outside; nodes make their outputs.
                is_input if not each.path else not is_input,
            )


def use_at(draft: DraftText, offset: int) -> StreamUse | None:
    """Return the use whose name is at an offset."""
    return next((each for each in uses(draft) if each.start <= offset <= each.end), None)


def uses_like(draft: DraftText, use: StreamUse) -> list[StreamUse]:
    """Return all uses of the same stream."""
    return [each for each in uses(draft) if (each.name, each.is_side) == (use.name, use.is_side)]


def produced_names(draft: DraftText, *, is_side: bool) -> list[tuple[str, str]]:
    """Return the names of streams that something makes, with the makers in words."""
    found: dict[str, str] = {}
    for each in draft.ports():
        name = each.value.rpartition(":")[2]
        is_input = each.name.startswith("input")
        is_producer = is_input if not each.path else not is_input
        if name and is_producer and each.name.endswith("side_packet") is is_side:
            found.setdefault(name, maker(draft, each))
    return list(found.items())


def maker(draft: DraftText, statement: Statement) -> str:
    """Describe the maker of a stream in words."""
    if statement.node is None:
        return "graph input"
    values = {each.name: each.value for each in draft.of_node(statement.node)}
    return f"of {values.get('name') or values.get('calculator', 'a node')}"


_ROOT: Final = "mediapipe.CalculatorGraphConfig"


class Catalog:
    """Calculators of a registry, and fields of messages. Descriptions are made once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pages: dict[str, CalculatorView | None] = {}

    def calculators(self) -> Iterator[tuple[str, str]]:
        """Yield names and summaries of everything that a node may name."""
        for name, calculator in self._registry.calculators().items():
            yield name, summary_of(calculator)
        for name in self._registry.subgraphs():
            yield name, "(subgraph)"

    def page(self, name: str) -> CalculatorView | None:
        """Return the description of a calculator; None if it is not known."""
        if name not in self._pages:
            self._pages[name] = find_page(name, self._registry)
        return self._pages[name]

    def ports(self, calculator: str, field: str) -> list[PortOfCalculator]:
        """Return the ports of a calculator that a field of its node names.

        If its ports depend on the node, these are the ports of the calculator's example.
        """
        page = self.page(calculator)
        if page is None:
            return []
        rows = page.ports if page.ports is not None else _rows_of(page.snippet)
        return [row for row in rows if row.field == field]

    def option_types(self, calculator: str) -> list[str]:
        """Return the full names of a calculator's types of options."""
        page = self.page(calculator)
        return [table.message_type for table in page.options] if page else []

    def option_doc(self, message_type: str, field: str, calculator: str) -> str:
        """Return the description of a field of options; "" if there is none."""
        page = self.page(calculator)
        for table in page.options if page else ():
            for each in table.fields:
                if table.message_type == message_type and each.name == field:
                    return each.doc
        return ""

    def message_at(self, path: tuple[str, ...]) -> Any:
        """Return the descriptor of the message at a path of fields; None if there is none."""
        message: Any = find_message(_ROOT)
        for name in path:
            if message is None:
                return None
            if name.startswith("["):
                message = _named(name.strip("[]"))
            else:
                field = message.fields_by_name.get(name)
                message = None if field is None else field.message_type
        return message


def _rows_of(snippet: str) -> list[PortOfCalculator]:
    """Return the ports of a node as it is written."""
    rows = []
    for each in DraftText.read(snippet).ports():
        tag, index, name = ("", "0", "", *each.value.split(":"))[-3:]
        if each.value.count(":") == 1:
            tag, index = index, "0"
        number = int(index) if index.isdecimal() else 0
        rows.append(PortOfCalculator(each.name, tag, number, name, "", False, False, ""))
    return rows


def has_extension(message_type: str) -> bool:
    """Return whether a type of options is an extension: ``[TYPE.ext]`` in ``options``."""
    return find_extension(f"{message_type}.ext") is not None


def _named(name: str) -> Any:
    """Return the message of an extension, or of an Any's type."""
    extension = find_extension(name)
    if extension is not None:
        return extension.message_type
    return find_message(name.rpartition("/")[2])


def type_name(field: Any) -> str:
    """Return the type of a field as a ``.proto`` file has it."""
    if field.message_type is not None:
        return str(field.message_type.name)
    if field.enum_type is not None:
        return str(field.enum_type.name)
    names = {
        1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
        8: "bool", 9: "string", 12: "bytes", 13: "uint32", 17: "sint32", 18: "sint64",
    }  # fmt: skip
    return names.get(field.type, "")


Kind = Literal["calculator", "field", "message", "value", "stream", "tag"]


@dataclass(frozen=True, slots=True)
class EditorCompletion:
    """One proposal: ``text`` replaces what stands between the offsets ``start`` and ``end``."""

    text: str
    kind: Kind
    detail: str
    start: int
    end: int


def complete(draft: DraftText, offset: int, catalog: Catalog) -> list[EditorCompletion]:
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
    """Return True if the cursor is after the closing quote."""
    text = statement.text
    return offset == statement.end and len(text) > 1 and text[-1] == text[0]


def _values(
    draft: DraftText, statement: Statement, offset: int, catalog: Catalog
) -> Iterator[EditorCompletion]:
    is_string = statement.text[:1] in ("'", '"')
    start = statement.start + (1 if is_string else 0)
    end = start + len(statement.value)
    if not statement.text:
        start = end = offset
    quote = "" if is_string else '"'

    def proposal(text: str, kind: Kind, detail: str = "") -> EditorCompletion:
        return EditorCompletion(f"{quote}{text}{quote}", kind, detail, start, end)

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
) -> Iterator[EditorCompletion]:
    message = catalog.message_at(statement.path)
    field = None if message is None else message.fields_by_name.get(statement.name)
    if field is None:
        return
    if field.enum_type is not None:
        for value in field.enum_type.values:
            yield EditorCompletion(value.name, "value", field.enum_type.name, start, end)
    elif type_name(field) == "bool":
        for word in ("true", "false"):
            yield EditorCompletion(word, "value", "bool", start, end)


def _port_values(
    draft: DraftText, statement: Statement, offset: int, catalog: Catalog
) -> Iterator[EditorCompletion]:
    """Yield tags before a colon, and names of streams after it."""
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
                yield EditorCompletion(f"{quote}{label}:", "tag", detail, start, end)
    prefix = f"{tag}:" if colon else ""
    if reads:
        for name, producer in produced_names(draft, is_side=is_side):
            text = f"{quote}{prefix}{name}{quote}"
            yield EditorCompletion(text, "stream", producer, start, end)
    elif colon:
        for row in rows:
            if row.tag == tag.partition(":")[0]:
                yield EditorCompletion(
                    f"{quote}{prefix}{row.name}{quote}", "stream", "", start, end
                )


def _fields(draft: DraftText, offset: int, catalog: Catalog) -> Iterator[EditorCompletion]:
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
            yield EditorCompletion(
                f"{shown} {{  }}", "message", f"options of {calculator}", start, offset
            )
        return
    if message is None:
        return
    taken = _taken_names(draft, block)
    for field in message.fields:
        if field.name in taken and not is_repeated(field):
            continue
        detail = catalog.option_doc(message.full_name, field.name, calculator) or type_name(field)
        if field.message_type is not None:
            yield EditorCompletion(f"{field.name} {{  }}", "message", detail, start, offset)
        elif type_name(field) in ("string", "bytes"):
            yield EditorCompletion(f'{field.name}: ""', "field", detail, start, offset)
        else:
            yield EditorCompletion(f"{field.name}: ", "field", detail, start, offset)


def _taken_names(draft: DraftText, block: Block | None) -> set[str]:
    if block is None:
        return {each.name for each in draft.statements if not each.path} - set(PORT_FIELDS)
    return {each.name for each in draft.in_block(block)}
