"""Calls as Phi-4 models write them: ``functools[{"name", "arguments"}, ...]``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.tool.json_calls import JsonToolParser


class Phi4ToolParser(JsonToolParser):
    """Reads a list of calls. The bracket at its end may be missing."""

    start = "functools"
    opening = "["
    separator = ","
    call_form = CallForm(
        trigger=start,
        opening="functools[",
        begin='{"name": "NAME", "arguments": ',
        end="}",
        separator=", ",
        closing="]",
    )
