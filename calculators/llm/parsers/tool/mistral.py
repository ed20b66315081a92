"""Calls as Mistral models write them: ``[TOOL_CALLS][{"name", "arguments"}, ...]</s>``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.tool.json_calls import JsonToolParser


class MistralToolParser(JsonToolParser):
    """The output begins with calls, with or without the tag, or has none.

    Further calls may follow behind the tag, after text too. In an output that begins with other
    text the tag is no more than a token that is left out.
    Source: OpenVINO Model Server ``llm/io_processing/mistral``, for whole answers; there all
    calls are in one list.
    """

    start = "[TOOL_CALLS]"
    opening = "["
    separator = ","
    bare = "["
    begins_with_calls = True
    dropped = ("</s>",)
    special_tokens = frozenset((start,))
    call_form = CallForm(
        trigger=start,
        opening="[TOOL_CALLS][",
        begin='{"name": "NAME", "arguments": ',
        end="}",
        separator=", ",
        closing="]",
    )


PARSER = MistralToolParser
