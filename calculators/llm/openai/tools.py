"""The tools a chat request offers, and which of them the model may call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from calculators.llm.openai import fields
from calculators.llm.openai.request_limits import RequestLimits

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that are left after ``tool_choice``, as the client wrote them.

    Attributes:
        items: for the template; empty when there is nothing to call.
        choice: "none" always when there are no items; "named" when the client chose one tool,
            which then is all there is.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    choice: Literal["none", "auto", "required", "named"] = "none"


def read_tools(body: Mapping[str, Any], limits: RequestLimits) -> Tools:
    """Read ``tools`` and ``tool_choice``.

    A tool is ``{"type": "function", "function": {"name", ...}}``, or flat as in OpenAI's responses
    API. With the choice "none" the tools are not even looked at. Source: OpenVINO Model Server
    ``llm/apis/openai_api_handler.cpp``.
    """
    choice, chosen = _read_choice(body)
    if choice == "none":
        return Tools()
    items = fields.array(body, "tools") or []
    if len(items) > limits.max_tools:
        raise fields.invalid(
            "tools", f"{len(items)} tools are more than the maximum {limits.max_tools}"
        )
    names = [_check_tool(f"tools[{i}]", tool) for i, tool in enumerate(items)]
    if chosen is not None:
        items = [tool for tool, name in zip(items, names, strict=True) if name == chosen]
        if not items:
            raise fields.invalid(
                "tool_choice", f"{fields.describe(chosen)} names none of the tools"
            )
    if items:
        return Tools(items, choice)
    if choice == "required":
        raise fields.invalid("tool_choice", '"required" needs tools')
    return Tools()


_Choice = Literal["none", "auto", "required", "named"]


def _read_choice(body: Mapping[str, Any]) -> tuple[_Choice, str | None]:
    """The choice, and the name with "named"."""
    value = body.get("tool_choice")
    match value:
        case None:
            return "auto", None
        case "none" | "auto" | "required":
            return value, None
        case {"function": {"name": str(name)}}:
            return "named", name
        case {"function": {}}:
            raise fields.invalid("tool_choice.function.name", "expected the name of a tool")
        case {"type": "function", "name": str(name)}:
            return "named", name
        case {"type": "function"}:
            raise fields.invalid("tool_choice.name", "expected the name of a tool")
        case str():
            raise fields.invalid(
                "tool_choice", f'{fields.describe(value)} is none of "none", "auto", "required"'
            )
        case _:
            raise fields.wrong_type(
                "tool_choice", 'a string or {"type": "function", "function": {"name": ...}}', value
            )


def _check_tool(path: str, tool: object) -> str:
    """The name of a tool that is well formed."""
    if not isinstance(tool, dict):
        raise fields.wrong_type(path, "an object", tool)
    kind = fields.string(tool, "type", f"{path}.type")
    if kind not in (None, "function"):
        raise fields.invalid(f"{path}.type", f'{fields.describe(kind)} is not "function"')
    function = fields.json_object(tool, "function", f"{path}.function")
    if function is None:
        if kind is None:
            raise fields.missing(f"{path}.function")
        function = tool
    else:
        path = f"{path}.function"
    name = fields.string(function, "name", f"{path}.name")
    if name is None:
        raise fields.missing(f"{path}.name")
    if not _NAME.fullmatch(name):
        raise fields.invalid(
            f"{path}.name",
            f"{fields.describe(name)} is not 1 to 64 letters, digits, underscores, dots and dashes",
        )
    fields.string(function, "description", f"{path}.description")
    fields.json_object(function, "parameters", f"{path}.parameters")
    return name
