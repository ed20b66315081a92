"""Gemma 4: ``<|tool_call>call:NAME{key:value,...}<tool_call|>``, several calls in one block."""

from __future__ import annotations

import re
from typing import Final

from calculators.llm.parsers.block_call import BlockCallParser
from calculators.llm.parsers.gemma_arguments import (
    BLOCK_BEGIN,
    BLOCK_END,
    MARK,
    GemmaArguments,
)
from calculators.llm.parsers.parser import CallForm, ParameterForm

_CALL: Final = re.compile(r"\s*call:\s*([^\s{}]+)\s*")


class Gemma4ToolParser(BlockCallParser):
    """Reads the calls that Gemma 4 writes."""

    special_tokens = frozenset((BLOCK_BEGIN, BLOCK_END, MARK))
    begin = BLOCK_BEGIN
    end = BLOCK_END
    bracket = "{"
    first = _CALL
    further = _CALL
    last = re.compile(r"\s*")
    erased = ("<turn|>", "<|tool_response>")
    call_form = CallForm(
        trigger=BLOCK_BEGIN,
        begin="<|tool_call>call:NAME{",
        end="}<tool_call|>",
        separator="",
        parameters=ParameterForm(
            begin="NAME:", end="", separator=",", text_begin=MARK, text_end=MARK
        ),
    )

    def read_arguments(self) -> GemmaArguments:
        return GemmaArguments()
