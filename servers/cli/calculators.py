"""`graphrt calculators`: a list of the registered calculators, or the description of one."""

from __future__ import annotations

import argparse
import json

import msgspec

from graph_runtime import REGISTRY, Registry
from graph_runtime.errors import did_you_mean
from servers.cli.graph_registry import make_registry
from servers.cli.messages import CommandFailed, print_warning
from servers.page.calculator_page import make_page, make_subgraph_page, summary_of
from servers.page.scratch_messages import CalculatorView, OptionsOfCalculator, PortOfCalculator

_TITLES = {
    "input_stream": "Input streams",
    "output_stream": "Output streams",
    "input_side_packet": "Input side packets",
    "output_side_packet": "Output side packets",
}


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    registry = make_registry(args)
    if args.name is None:
        _list_all(registry, as_json=args.format == "json")
        return 0
    page = _find(args.name, registry)
    if args.format == "json":
        print(json.dumps(msgspec.to_builtins(page), indent=2, ensure_ascii=False))
    else:
        print(_page_text(page), end="")
    return 0


def _find(name: str, registry: Registry) -> CalculatorView:
    calculator = registry.find_calculator(name)
    if calculator is not None:
        return make_page(name, calculator)
    subgraph = registry.find_subgraph(name)
    if subgraph is not None:
        return make_subgraph_page(subgraph)
    known = [*registry.calculators(), *registry.subgraphs()]
    raise CommandFailed(
        f"no calculator `{name}` is registered.{did_you_mean(name, known)}",
        hint="`graphrt calculators` lists them; your own need `--calculators MODULE_OR_FILE`",
    )


def _list_all(registry: Registry, *, as_json: bool) -> None:
    rows = [(name, summary_of(cls)) for name, cls in registry.calculators().items()]
    subgraphs = list(registry.subgraphs())
    for point, reason in REGISTRY.failed_entry_points.items():
        print_warning(f'entry point "{point}" could not be loaded: {reason}')
    if as_json:
        calculators = [{"name": name, "summary": summary} for name, summary in rows]
        print(json.dumps({"calculators": calculators, "subgraphs": subgraphs}, indent=2))
        return
    rows += [(name, "(subgraph)") for name in subgraphs]
    width = max((len(name) for name, _ in rows), default=0)
    for name, summary in rows:
        print(f"{name:{width}}  {summary}".rstrip())


def _page_text(page: CalculatorView) -> str:
    parts = [f"{page.name}  ({page.place})\n"]
    if page.doc:
        parts.append(page.doc + "\n")
    if page.ports is None:
        parts.append("Its ports depend on the node: they are declared in code.\n")
    for field, title in _TITLES.items():
        rows = [row for row in page.ports or () if row.field == field]
        if rows:
            parts.append("\n".join([f"{title}:", *_port_lines(rows)]) + "\n")
    parts += [_options_text(table) for table in page.options]
    if page.ports is not None and page.place != "subgraph":
        parts.append(_timing(page))
    parts.append("A node to paste:\n\n" + page.snippet)
    return "\n".join(parts)


def _port_lines(rows: list[PortOfCalculator]) -> list[str]:
    cells = []
    for row in rows:
        label = row.tag or "(untagged)"
        if row.is_multiple:
            label += ":0..n" if row.tag else " 0..n"
        elif row.index or not row.tag:
            label += f":{row.index}" if row.tag else f" {row.index}"
        note = ", ".join(part for part in ("optional" if row.is_optional else "", row.doc) if part)
        cells.append((label, row.type, note))
    return _columns(cells)


def _options_text(table: OptionsOfCalculator) -> str:
    lines = [f"Options ({table.message_type}):"]
    if not table.fields:
        return lines[0] + " no fields\n"
    rows = []
    for field in table.fields:
        note = "required" if field.required else ""
        if field.default is not None:
            note = f"default {field.default}"
        doc = field.doc.replace("\n", " ")
        rows.append((field.name, field.type, "; ".join(part for part in (note, doc) if part)))
    return "\n".join(lines + _columns(rows)) + "\n"


def _columns(rows: list[tuple[str, str, str]]) -> list[str]:
    first = max(len(row[0]) for row in rows)
    second = max(len(row[1]) for row in rows)
    return [f"  {a:{first}}  {b:{second}}  {c}".rstrip() for a, b, c in rows]


def _timing(page: CalculatorView) -> str:
    offset = page.timestamp_offset
    shown = "none, bounds only by packets and explicit ones" if offset is None else str(offset)
    lines = [f"Timestamp offset: {shown}"]
    if page.process_timestamp_bounds:
        lines.append("Called for settled timestamps without packets too.")
    if page.input_stream_handler:
        lines.append(f"Input stream handler: {page.input_stream_handler}")
    return "\n".join(lines) + "\n"
