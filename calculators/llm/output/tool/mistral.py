"""Calls as Mistral models write them: ``[TOOL_CALLS][{"name", "arguments"}, ...]</s>``."""

from __future__ import annotations

from calculators.llm.output.parser import CallForm
from calculators.llm.output.tool.json_calls import JsonToolParser


class MistralToolParser(JsonToolParser):
    """The output begins with calls, with or without the tag, or has none.

    Source: OpenVINO Model Server ``llm/io_processing/mistral``, for whole answers. Behind other
    text the tag is no more than a token that is left out.
    """

    start = "[TOOL_CALLS]"
    opening = "["
    separator = ","
    bare = "["
    only_first = True
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
