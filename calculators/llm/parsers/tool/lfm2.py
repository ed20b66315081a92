"""LFM2 and LFM2.5: ``<|tool_call_start|>[f(a='x', b=1), g()]<|tool_call_end|>``."""

from __future__ import annotations

import re

from calculators.llm.parsers.block_call import BLOCK_END, NAME, BlockCallParser, PythonArguments
from calculators.llm.parsers.parser import CallForm, ParameterForm


class Lfm2ToolParser(BlockCallParser):
    """Reads the calls that LFM2 and LFM2.5 write, lists of calls in Python."""

    begin = "<|tool_call_start|>"
    end = BLOCK_END
    special_tokens = frozenset((begin, end))
    heads = (begin,)
    bracket = "("
    first = re.compile(rf"\s*\[\s*({NAME})\s*")
    further = re.compile(rf"\s*,\s*({NAME})\s*")
    last = re.compile(r"\s*\]?\s*")
    none = re.compile(r"\s*\[\s*\]\s*")
    erased = ("<|im_end|>",)
    call_form = CallForm(
        trigger=begin,
        opening="<|tool_call_start|>[",
        begin="NAME(",
        end=")",
        separator=", ",
        closing="]<|tool_call_end|>",
        parameters=ParameterForm(begin="NAME=", end="", separator=", "),
    )

    def read_arguments(self) -> PythonArguments:
        return PythonArguments(self.tools.get(self._call.name))
