"""The page of the HTTP API, made from the OpenAPI document that a server publishes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from servers.fronts.http.settings import HttpSettings
from servers.fronts.openapi.document import describe

_HEAD: Final = """\
# HTTP API

Made from the OpenAPI document. A running server has the same at `/docs`, where requests can be
tried, and at `/openapi.json`, for generators of clients.
"""
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def http_api_page() -> str:
    """Return the page in Markdown."""
    document = describe(HttpSettings(), "demo", has_batches=True)
    #: The paths of each operation: most are below `/v3` and `/v1`.
    paths: dict[str, list[str]] = {}
    operations: dict[str, tuple[str, Any]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                shown = {key: each for key, each in item[method].items() if key != "operationId"}
                key = json.dumps([method, shown], sort_keys=True)
                operations[key] = method, item[method]
                paths.setdefault(key, []).append(path)
    by_tag: dict[str, list[str]] = {}
    for key, (method, operation) in operations.items():
        tag = next(iter(operation.get("tags", ())), "server")
        text = _operation(document, paths[key], method, operation)
        by_tag.setdefault(tag, []).append(text)
    about = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    parts = [_HEAD]
    for tag, sections in by_tag.items():
        parts += [f"## {tag[0].upper()}{tag[1:]}\n", _text(about.get(tag, "")), *sections]
    return "\n".join(parts)


def _operation(document: Any, paths: list[str], method: str, operation: Any) -> str:
    parts = [f"### `{method.upper()} {paths[0]}`\n", _text(operation.get("summary", ""))]
    if paths[1:]:
        parts.append(f"Also {', '.join(f'`{path}`' for path in paths[1:])}.\n")
    if operation.get("description") != operation.get("summary"):
        parts.append(_text(operation.get("description", "")))
    parameters = [_resolved(document, each) for each in operation.get("parameters", ())]
    # Headers that all operations take are in the document.
    rows = [
        f"| `{each['name']}` | {each['in']} | {_cell(each.get('description', ''))} |"
        for each in parameters
        if each["in"] != "header"
    ]
    parts += _table("| parameter | in | |", rows)
    for content, media in operation.get("requestBody", {}).get("content", {}).items():
        members = list(_members(document, media.get("schema", {})))
        parts += [f"Body, `{content}`:\n"] if members else []
        parts += _table("| member | type | |", members)
    answers = [
        f"| {status} | {_cell(_resolved(document, answer).get('description', ''))} |"
        for status, answer in operation.get("responses", {}).items()
        if status.startswith("2") or status == "101"
    ]
    parts += _table("| answer | |", answers)
    return "\n".join(part for part in parts if part)


def _table(head: str, rows: list[str]) -> list[str]:
    rule = "|---" * (head.count("|") - 1) + "|"
    return ["\n".join([head, rule, *rows, ""])] if rows else []


def _members(document: Any, schema: Any) -> Iterable[str]:
    schema = _resolved(document, schema)
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        resolved = _resolved(document, member)
        text = member.get("description") or resolved.get("description", "")
        kind = _kind(document, member)
        note = "required; " if name in required and text else "required" * (name in required)
        yield f"| `{name}` | {kind} | {note}{_cell(text)} |"


def _kind(document: Any, schema: Any) -> str:
    schema = _resolved(document, schema)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            kinds = dict.fromkeys(_kind(document, each) for each in schema[word])
            return " or ".join(kinds)
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"][:8])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and "items" in schema:
        return f"array of {_kind(document, schema['items'])}"
    return str(kind)


def _resolved(document: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        target: Any = document
        for word in schema["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        schema = target
    return schema


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _text(text: str) -> str:
    return text.replace("<", "&lt;") + "\n" if text else ""
