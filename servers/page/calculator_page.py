"""Descriptions of registered calculators: ports, options, and a node to paste."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from graph_runtime import (
    Calculator,
    GraphError,
    NotFoundError,
    Registry,
    SubgraphContext,
    parse_graph_text,
)
from graph_runtime.authoring.calculator import options_of
from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.authoring.ports import Port, ports_of
from graph_runtime.errors import did_you_mean
from graph_runtime.language.tag_map import TagMap
from graph_runtime.options.options import OptionsType
from graph_runtime.options.options_text import describe_options, options_snippet
from graph_runtime.plan.subgraph import Subgraph
from graphrt_base.interrupts import raise_interrupt
from servers.page import scratch_messages as messages

#: Fields of a node by kind of port, in the usual order.
FIELDS = {
    "inputs": "input_stream",
    "outputs": "output_stream",
    "input_side_packets": "input_side_packet",
    "output_side_packets": "output_side_packet",
}


def summary_of(calculator: type[Calculator]) -> str:
    """Return the first line of the docstring; "" without one."""
    return _doc(calculator).partition("\n")[0]


def make_page(name: str, calculator: type[Calculator]) -> messages.CalculatorView:
    """Return the description of a calculator that is registered as ``name``."""
    is_static = _is_inherited(calculator, "contract")
    ports = ports_of(calculator)
    names = _names(calculator, ports)
    types = [descriptor.options_type for descriptor in options_of(calculator)]
    return messages.CalculatorView(
        name=name,
        summary=summary_of(calculator),
        doc=_doc(calculator),
        place=_place(calculator),
        ports=[_row(port, names[port]) for port in ports] if is_static else None,
        options=[
            messages.OptionsOfCalculator(OptionsType.of(each).full_name, describe_options(each))
            for each in types
        ],
        timestamp_offset=calculator.timestamp_offset,
        process_timestamp_bounds=calculator.process_timestamp_bounds,
        input_stream_handler=calculator.input_stream_handler,
        snippet=_snippet(name, calculator, names if is_static else None, types),
    )


def make_subgraph_page(subgraph: Subgraph) -> messages.CalculatorView:
    """Return the description of a subgraph; without ports if it is made for each node."""
    doc = inspect.cleandoc(getattr(subgraph, "doc", ""))
    ports: list[messages.PortOfCalculator] | None
    try:
        config = subgraph.make(SubgraphContext(None))
        ports = [
            messages.PortOfCalculator(field, tag, index, name, "", False, False, "")
            for field in FIELDS.values()
            for (tag, index), name in _entries(getattr(config, field))
        ] or None
    except BaseException as error:
        raise_interrupt(error)
        ports = None  # the function needs a node's options
    lines = ["node {", f'  calculator: "{subgraph.name}"']
    for row in ports or ():
        entry = f"{row.tag}:{row.index}:{row.name}" if row.index else f"{row.tag}:{row.name}"
        lines.append(f'  {row.field}: "{entry if row.tag else row.name}"')
    snippet = (
        "\n".join([*lines, "}"]) + "\n"
        if ports
        else _node_in(doc, subgraph.name, []) or _guess(subgraph.name, [])
    )
    return messages.CalculatorView(
        name=subgraph.name,
        summary=doc.partition("\n")[0] or "(subgraph)",
        doc=doc,
        place="subgraph",
        ports=ports,
        options=[],
        timestamp_offset=None,
        process_timestamp_bounds=False,
        input_stream_handler="",
        snippet=snippet,
    )


def _entries(entries: Iterable[str]) -> Iterable[tuple[tuple[str, int], str]]:
    ports = TagMap(entries)
    return zip(ports.keys, ports.names, strict=True)


def _is_inherited(calculator: type[Calculator], method: str) -> bool:
    """Return True if the class does not override this class method of `Calculator`."""
    return getattr(calculator, method).__func__ is getattr(Calculator, method).__func__


def _doc(calculator: type[Calculator]) -> str:
    # Not inspect.getdoc, which returns the docstring of a base class for a class without one.
    return inspect.cleandoc(calculator.__doc__ or "")


def _place(calculator: type[Calculator]) -> str:
    function = getattr(calculator, "function", calculator)
    return f"{calculator.__module__}.{getattr(function, '__qualname__', calculator.__name__)}"


def _names(calculator: type[Calculator], ports: list[Port[Any]]) -> dict[Port[Any], str]:
    """Return names for the ports: attributes of a class; parameters of a function, and ``out``."""
    if not hasattr(calculator, "function"):
        return {port: port.name for port in ports}
    single = sum(port.kind == "outputs" for port in ports) == 1
    return {
        port: "out" if port.name == "out_0" and single else port.name.removeprefix("in_")
        for port in ports
    }


def _row(port: Port[Any], name: str) -> messages.PortOfCalculator:
    if port.same_as is not None:
        kind = f"same as {_label(port.same_as)}"
    else:
        shown = PacketType().set(port.spec).name
        kind = "any" if shown == "[Any Type]" else shown
    return messages.PortOfCalculator(
        FIELDS[port.kind],
        port.tag,
        port.index,
        name,
        kind,
        port.is_optional,
        port.is_multiple,
        port.doc,
    )


def _label(port: Port[Any]) -> str:
    return f"{FIELDS[port.kind]} {port.tag or port.index}"


# The node to paste --------------------------------------------------------------------------------


def _snippet(
    name: str, calculator: type[Calculator], ports: dict[Port[Any], str] | None, types: list[Any]
) -> str:
    if ports is None or not _is_inherited(calculator, "update_contract"):
        # Prefer the node in the author's docstring, if it parses.
        shown = _node_in(_doc(calculator), name, types)
        if shown:
            return shown
    if ports is None:
        return _guess(name, types)
    lines = ["node {", f'  calculator: "{name}"']
    taken: set[str] = set()
    for kind, field in FIELDS.items():
        lines += [
            "  " + _port_line(port, name, field, taken)
            for port, name in ports.items()
            if port.kind == kind
        ]
    return "\n".join([*lines, *_options_lines(types), "}"]) + "\n"


def _guess(name: str, types: list[Any]) -> str:
    lines = [
        "node {",
        f'  calculator: "{name}"',
        "  # The ports depend on the graph; see the description.",
        '  input_stream: "in"',
        '  output_stream: "out"',
    ]
    return "\n".join([*lines, *_options_lines(types), "}"]) + "\n"


def _options_lines(types: list[Any]) -> list[str]:
    return [f"  {line}" for each in types for line in options_snippet(each).splitlines()]


def _port_line(port: Port[Any], name: str, field: str, taken: set[str]) -> str:
    row = _row(port, name)
    base = "".join(char for char in name.lower() if char.isascii())
    name = base if base.isidentifier() else port.tag.lower() or field
    if port.is_multiple:
        name += f"_{port.index}"
    while name in taken:
        name += "_"
    taken.add(name)
    entry = name
    if port.tag:
        entry = f"{port.tag}:{port.index}:{name}" if _has_index(port) else f"{port.tag}:{name}"
    notes = [row.type]
    if port.is_optional:
        notes.append("optional")
    if port.is_multiple:
        notes.append("as many as you like")
    if port.doc:
        notes.append(port.doc.partition("\n")[0])
    return f'{field}: "{entry}"  # {"; ".join(notes)}'


def _has_index(port: Port[Any]) -> bool:
    return port.index > 0 or port.is_multiple


def _node_in(doc: str, name: str, types: list[Any]) -> str:
    """Return the ``node { ... }`` for this calculator in a docstring, with all options as comments.

    The calculator's name is filled in, because several calculators may share a docstring.
    """
    found = _nodes_in(doc)
    own = f'calculator: "{name}"'
    text = next((each for each in found if own in each), found[0] if found else "")
    if own not in text:
        text = re.sub(r'calculator: "[^"]*"', own, text, count=1)
    if text and types and "options" not in text:
        body = text.rstrip().removesuffix("}").rstrip()
        text = "\n".join([body, *_options_lines(types), "}"]) + "\n"
    return text


def _nodes_in(doc: str) -> list[str]:
    """Return every ``node { ... }`` in a text that parses, without indentation."""
    found = []
    for match in re.finditer(r"^[ ]*node \{", doc, re.MULTILINE):
        end = _end_of_block(doc, match.end() - 1)
        text = inspect.cleandoc("\n" + doc[match.start() : end]) + "\n"
        try:
            parse_graph_text(text)
        except GraphError:
            continue
        found.append(text)
    return found


def _end_of_block(text: str, at: int) -> int:
    """Return the place after the brace that closes the one at ``at``, or the end of the text.

    Quotes are not considered.
    """
    depth = 0
    for place in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    return len(text)


def list_calculators(registry: Registry) -> messages.Calculators:
    """Return names and summaries of everything that a node may name."""
    return messages.Calculators(
        [
            messages.CalculatorEntry(name, summary_of(cls))
            for name, cls in registry.calculators().items()
        ],
        list(registry.subgraphs()),
    )


def view_calculator(name: str, registry: Registry) -> messages.CalculatorView:
    """Return the description of a calculator or subgraph.

    Raises:
        NotFoundError: there is none of this name.
    """
    page = find_page(name, registry)
    if page is None:
        known = [*registry.calculators(), *registry.subgraphs()]
        raise NotFoundError(
            f'No calculator "{name[:100]}" is registered.{did_you_mean(name, known)}'
        )
    return page


def find_page(name: str, registry: Registry) -> messages.CalculatorView | None:
    """Return the page of a calculator or subgraph; None if there is none of this name."""
    calculator = registry.find_calculator(name)
    if calculator is not None:
        return make_page(name, calculator)
    subgraph = registry.find_subgraph(name)
    return None if subgraph is None else make_subgraph_page(subgraph)
