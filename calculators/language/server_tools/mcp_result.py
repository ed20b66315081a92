"""The text of a tool's result, from the parts that MCP has for it."""

from __future__ import annotations

import json

import mcp_types as types


def text_of_result(result: types.CallToolResult) -> tuple[str, bool]:
    """Return the text for the model, and True if it is an error.

    Images, sounds and other bytes are named, not shown: models get a tool's result as text.
    """
    parts = [_text(part) for part in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(parts), result.is_error


def _text(
    part: types.TextContent
    | types.ImageContent
    | types.AudioContent
    | types.ResourceLink
    | types.EmbeddedResource,
) -> str:
    match part:
        case types.TextContent():
            return part.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text
        case types.EmbeddedResource(resource=resource):
            return f"[{resource.uri}: {resource.mime_type or 'bytes'}, not shown]"
        case types.ResourceLink():
            return f"[{part.name}]({part.uri})"
        case _:
            return f"[{part.type}: {part.mime_type}, not shown]"
