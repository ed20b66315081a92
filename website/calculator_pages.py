"""Reference pages of the calculators: ports, options, a node to paste, and its drawing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from graph_runtime import Registry
from servers.page.calculator_page import make_page, make_subgraph_page
from servers.page.scratch_messages import CalculatorView, OptionsOfCalculator
from website.drawings import draw_node

_PLACE: Final = "reference/calculators"
_TITLES: Final = {
    "input_stream": "input",
    "output_stream": "output",
    "input_side_packet": "side input",
    "output_side_packet": "side output",
}
_INDEX_HEAD: Final = """\
# Calculators

All calculators that come with graphrt, made from the code. `graphrt calculators` lists them at the
command line, with your own ones, and `graphrt calculators NAME` describes one.
"""
#: Sections of docstrings whose lines are "NAME: text".
_SECTION: Final = re.compile(r"^([A-Z][\w ]*):$")
_ENTRY: Final = re.compile(r"^(\S.*?): (.*)$")


def calculator_pages(registry: Registry) -> dict[str, str]:
    """Return a page for each family, their index, and the drawings, by paths in the site."""
    pages = [make_page(name, cls) for name, cls in registry.calculators().items()]
    pages += [make_subgraph_page(subgraph) for subgraph in registry.subgraphs().values()]
    files: dict[str, str] = {}
    index = [_INDEX_HEAD]
    for family, members in groupby(sorted(pages, key=_key), key=_family):
        rows = []
        sections = [f"# Calculators: {family.replace('_', ' ')}\n"]
        for page in members:
            files[f"{_PLACE}/{page.name}.svg"] = draw_node(page.snippet, page.name, registry)
            sections.append(_section(page))
            rows.append(
                f"| [{page.name}]({family}.md#{page.name.lower()}) | {_cell(page.summary)} |"
            )
        files[f"{_PLACE}/{family}.md"] = "\n".join(sections)
        heading = f"## [{family.replace('_', ' ')}]({family}.md)\n"
        index.append("\n".join([heading, "| calculator | |", "|---|---|", *rows, ""]))
    files[f"{_PLACE}/index.md"] = "\n".join(index)
    return files


def _key(page: CalculatorView) -> tuple[str, str]:
    return _family(page), page.name


def _family(page: CalculatorView) -> str:
    """Return the folder of a calculator below ``calculators/``; "subgraphs" for a graph's."""
    package, _, rest = page.place.partition(".")
    return rest.partition(".")[0] if package == "calculators" else "subgraphs"


def _section(page: CalculatorView) -> str:
    parts = [f"## {page.name}\n", f"![A node {page.name}]({page.name}.svg)\n", _prose(page.doc)]
    if page.ports is None:
        parts.append("The ports depend on the node.\n")
    elif page.ports:
        rows = [
            f"| {_TITLES[row.field]} | {_code(_label(row.tag, row.index, row.is_multiple))} "
            f"| {_code(row.type)} | {_cell(_note(row.is_optional, row.doc))} |"
            for row in page.ports
        ]
        parts.append("\n".join(["| port | tag | packets | |", "|---|---|---|---|", *rows, ""]))
    parts += map(_options, page.options)
    parts.append(f"A node to paste:\n\n```pbtxt\n{page.snippet.rstrip()}\n```\n")
    return "\n".join(parts)


def _label(tag: str, index: int, is_multiple: bool) -> str:
    if is_multiple:
        return f"{tag}:0..n" if tag else "0..n"
    return f"{tag}:{index}" if tag and index else tag or str(index)


def _note(is_optional: bool, doc: str) -> str:
    return "; ".join(part for part in ("optional" if is_optional else "", doc) if part)


def _options(table: OptionsOfCalculator) -> str:
    head = f"Options: `{table.message_type}`"
    if not table.fields:
        return f"{head}, without fields.\n"
    rows = []
    for field in table.fields:
        default = f"`{field.default}`" if field.default not in (None, "") else ""
        rows.append(
            f"| `{field.name}` | {_code(field.type)} | {'required' if field.required else default} "
            f"| {_cell(field.doc)} |"
        )
    return "\n".join([f"{head}\n", "| option | type | default | |", "|---|---|---|---|", *rows, ""])


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`" if text else ""


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _prose(doc: str) -> str:
    """Return a docstring as Markdown: sections as lists, indented examples as blocks."""
    return "\n".join(_lines(doc.splitlines())) + "\n"


def _lines(lines: list[str]) -> Iterable[str]:
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        section = _SECTION.match(line)
        if not section and not line.startswith(" ") and "{" not in line:
            yield _escaped(re.sub(r"::$", ":", line)) if line != "::" else ""
            continue
        begin = place if section else place - 1
        end = begin
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith((" ", "}"))):
            end += 1
        end = max(end, begin + 1)
        place = end
        block = lines[begin:end]
        while block and not block[-1].strip():
            block.pop()
        if section and not any("{" in each for each in block):
            yield f"**{section[1]}**\n"
            yield from _items(block)
            yield ""
        else:
            if section:
                yield f"{section[0]}"
            yield "\n```pbtxt\n" + "\n".join(_dedented(block)) + "\n```\n"


def _items(block: list[str]) -> Iterable[str]:
    for line in _dedented(block):
        entry = _ENTRY.match(line)
        if entry is not None and not line.startswith(" "):
            yield f"- `{entry[1].strip('`')}`: {_escaped(entry[2])}"
        else:
            yield f"  {_escaped(line.strip())}" if line.strip() else ""


def _dedented(block: list[str]) -> list[str]:
    indent = min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0)
    return [line[indent:] for line in block]


def _escaped(text: str) -> str:
    """Escape what HTML would be, outside of code."""
    parts = re.split(r"(``.+?``|`[^`]+`)", text)
    return "".join(
        part if place % 2 else part.replace("&", "&amp;").replace("<", "&lt;")
        for place, part in enumerate(parts)
    )
