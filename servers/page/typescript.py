"""The types of the page in TypeScript: of its events, and of drawings of graphs.

``python -m servers.page.typescript`` writes `page/src/live_types.ts` from `servers.page.events`
and `page/src/graph_types.ts` from `servers.drawing.drawing`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from calculators.kit.requests.schema import Schema
from servers.drawing.drawing import GraphDrawing
from servers.page.events import ANSWERS, EVENTS

LIVE_TYPES = Path(__file__).parents[2] / "page" / "src" / "live_types.ts"
GRAPH_TYPES = LIVE_TYPES.with_name("graph_types.ts")
_LIVE_HEAD = """\
// Made by `python -m servers.page.typescript` from servers/page/events.py. Do not edit.
import type { GraphDrawing } from "./graph_types"
"""
_GRAPH_HEAD = """\
// Made by `python -m servers.page.typescript` from servers/drawing/drawing.py. Do not edit.
"""
_WORDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
_REF = "#/components/schemas/"


def graph_types() -> str:
    """Return the text of `page/src/graph_types.ts`."""
    schemas = schemas_of([GraphDrawing])
    return "\n".join([_GRAPH_HEAD, *(_interface(name, each) for name, each in schemas.items())])


def live_types() -> str:
    """Return the text of `page/src/live_types.ts`."""
    drawing = schemas_of([GraphDrawing])
    schemas = schemas_of((*EVENTS.values(), *ANSWERS))
    parts = [_LIVE_HEAD]
    parts += [_interface(name, each) for name, each in schemas.items() if name not in drawing]
    lines = "".join(f"  {event}: {kind.__name__}\n" for event, kind in EVENTS.items())
    parts.append(f"/** The data of events by the name in their `event:` line. */\n"
                 f"export interface LiveEvents {{\n{lines}}}\n")  # fmt: skip
    return "\n".join(parts)


def schemas_of(roots: Iterable[type]) -> dict[str, Schema]:
    """Return the schemas of classes, and of all that they have in them, by name."""
    _, schemas = msgspec.json.schema_components(roots, ref_template=f"{_REF}{{name}}")
    return schemas


def _interface(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    lines = [
        f"  {member}{'' if member in required else '?'}: {_type(each)}\n"
        for member, each in schema["properties"].items()
    ]
    about = inspect.cleandoc(schema.get("description", "")).splitlines()
    comment = "".join(f" * {line}".rstrip() + "\n" for line in about)
    return f"/**\n{comment} */\nexport interface {name} {{\n{''.join(lines)}}}\n"


def _type(schema: dict[str, Any]) -> str:
    """Return the type of one schema, as msgspec writes them for the classes here."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f'"{each}"' for each in schema["enum"])
    kind = schema.get("type")
    if kind == "null":
        return "null"
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(_type(each) for each in schema['prefixItems'])}]"
        inner = _type(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    return _WORDS.get(str(kind), "unknown")


def main() -> None:
    """Write both files."""
    for file, text in ((LIVE_TYPES, live_types()), (GRAPH_TYPES, graph_types())):
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file.name} is written\n")


if __name__ == "__main__":
    main()
