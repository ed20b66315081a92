"""Calls as Mistral models write them: ``[TOOL_CALLS][{"name", "arguments"}, ...]</s>``."""

from __future__ import annotations

from calculators.llm.parsers.parser import CallForm
from calculators.llm.parsers.tool.json_calls import JsonToolParser


class MistralToolParser(JsonToolParser):
    """Reads lists of calls in an output that begins with one, with or without the tag.

    Further lists may follow after the tag, also after text. In an output that begins with other
    text, the tag is only left out. Source: OpenVINO Model Server ``llm/io_processing/mistral``, for
    whole answers; there all calls are in one list.
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
