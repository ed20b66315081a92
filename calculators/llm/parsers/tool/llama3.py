"""Calls as Llama 3 models write them: ``<|python_tag|>{"name", "parameters"}; {...}``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.tool.json_calls import JsonToolParser


class Llama3ToolParser(JsonToolParser):
    """Reads calls after a tag, which may be missing before a call at the start of the output."""

    start = "<|python_tag|>"
    separator = ";"
    bare = "{"
    argument_keys = frozenset(("parameters", "arguments"))
    special_tokens = frozenset((start,))
    call_form = CallForm(
        trigger='{"name":', begin='{"name": "NAME", "parameters": ', end="}", separator="; "
    )
