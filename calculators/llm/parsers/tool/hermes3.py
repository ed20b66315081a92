"""Calls as Hermes and Qwen3 models write them: ``<tool_call>{"name", "arguments"}</tool_call>``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.tool.json_calls import JsonToolParser


class Hermes3ToolParser(JsonToolParser):
    """Reads calls between tags. The end tag may be missing."""

    start = "<tool_call>"
    end = "</tool_call>"
    heads = ("<tool_call>",)
    special_tokens = frozenset((start, end))
    call_form = CallForm(
        trigger=start,
        begin='<tool_call>\n{"name": "NAME", "arguments": ',
        end="}\n</tool_call>",
    )
