"""`Catalog`: the words that a graph may have at a place, with their descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from graph_runtime import Registry
from graph_runtime.language.statements import DraftText
from protos.pool import find_extension, find_message
from servers.page.calculator_page import CalculatorPage, PortRow, summary_of
from servers.page.calculator_views import find_page

_ROOT: Final = "mediapipe.CalculatorGraphConfig"


class Catalog:
    """Calculators of a registry, and fields of messages. Descriptions are made once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pages: dict[str, CalculatorPage | None] = {}

    def calculators(self) -> Iterator[tuple[str, str]]:
        """Yield names and summaries of everything that a node may name."""
        for name, calculator in self._registry.calculators().items():
            yield name, summary_of(calculator)
        for name in self._registry.subgraphs():
            yield name, "(subgraph)"

    def page(self, name: str) -> CalculatorPage | None:
        """Return the description of a calculator; None if it is not known."""
        if name not in self._pages:
            self._pages[name] = find_page(name, self._registry)
        return self._pages[name]

    def ports(self, calculator: str, field: str) -> list[PortRow]:
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


def _rows_of(snippet: str) -> list[PortRow]:
    """Return the ports of a node as it is written."""
    rows = []
    for each in DraftText.read(snippet).ports():
        tag, index, name = ("", "0", "", *each.value.split(":"))[-3:]
        if each.value.count(":") == 1:
            tag, index = index, "0"
        number = int(index) if index.isdecimal() else 0
        rows.append(PortRow(each.name, tag, number, name, "", False, False, ""))
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
