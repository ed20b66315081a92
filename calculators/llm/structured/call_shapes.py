"""How the models of each tool parser write calls, as formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from calculators.llm.output.parser import ToolParser
from calculators.llm.output.tool.devstral import DevstralToolParser
from calculators.llm.output.tool.gemma4 import Gemma4ToolParser
from calculators.llm.output.tool.gptoss import GptOssToolParser
from calculators.llm.output.tool.hermes3 import Hermes3ToolParser
from calculators.llm.output.tool.lfm2 import Lfm2ToolParser
from calculators.llm.output.tool.llama3 import Llama3ToolParser
from calculators.llm.output.tool.minicpm5 import MiniCpm5ToolParser
from calculators.llm.output.tool.mistral import MistralToolParser
from calculators.llm.output.tool.onyx import OnyxToolParser
from calculators.llm.output.tool.phi4 import Phi4ToolParser
from calculators.llm.output.tool.qwen3coder import Qwen3CoderToolParser
from calculators.llm.structured import formats
from calculators.llm.structured.formats import Format
from calculators.llm.structured.parameter_style import ParameterStyle, parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """Calls are ``opening``, calls with ``separator`` between them, ``closing``.

    A call is ``begin``, with the tool's name for ``NAME``, the arguments, ``end``.

    Attributes:
        trigger: what a model writes only when it has begun to call.
        style: of the arguments; None is a JSON object.
        only_one: there can be no second call.
    """

    trigger: str
    begin: str
    end: str
    separator: str = ""
    opening: str = ""
    closing: str = ""
    style: ParameterStyle | None = None
    only_one: bool = False

    def calls(self, tools: Sequence[Tool], *, only_one: bool) -> Format:
        """One call of one of the tools; then more, if not ``only_one``."""
        every = self._tags(tools)
        calls = formats.tags(every, self.separator, only_one=only_one or self.only_one)
        return formats.tag(self.opening, calls, self.closing) if self.closing else calls

    def text_with_calls(self, tools: Sequence[Tool], *, only_one: bool) -> Format:
        """Any text, with calls in it where the model begins one."""
        if self.closing:
            inner = formats.tags(self._tags(tools), self.separator, only_one=only_one)
            every = [formats.tag(self.opening, inner, self.closing)]
        else:
            every = self._tags(tools)
        only_one = only_one or self.only_one or bool(self.closing)
        return formats.triggered(every, self.trigger, only_one=only_one)

    def _tags(self, tools: Sequence[Tool]) -> list[Format]:
        return [
            formats.tag(self.begin.replace("NAME", tool.name), self._arguments(tool), self.end)
            for tool in tools
        ]

    def _arguments(self, tool: Tool) -> Format:
        if self.style is not None:
            return parameters(self.style, tool.schema, tool.path)
        return formats.json_schema(tool.schema, tool.path)


@dataclass(frozen=True, slots=True)
class Tool:
    """``path``: where the client wrote the schema of the parameters."""

    name: str
    schema: dict[str, Any]
    path: str


def shape_of(parser: type[ToolParser]) -> CallShape | None:
    """The shape of the calls that a parser reads; None where it tells of none."""
    for known, shape in _SHAPES.items():
        if issubclass(parser, known):
            return shape
    form = parser.call_form
    if form is None:
        return None
    return CallShape(trigger=form.trigger, begin=form.begin, end=form.end, separator="\n")


_JSON_CALL: Final = '{"name": "NAME", "arguments": '
_SHAPES: Final[dict[type[ToolParser], CallShape]] = {
    Hermes3ToolParser: CallShape(
        trigger="<tool_call>",
        begin=f"<tool_call>\n{_JSON_CALL}",
        end="}\n</tool_call>",
        separator="\n",
    ),
    Llama3ToolParser: CallShape(
        trigger='{"name":', begin='{"name": "NAME", "parameters": ', end="}", separator="; "
    ),
    Phi4ToolParser: CallShape(
        trigger="functools",
        begin=_JSON_CALL,
        end="}",
        separator=", ",
        opening="functools[",
        closing="]",
    ),
    MistralToolParser: CallShape(
        trigger="[TOOL_CALLS]",
        begin=_JSON_CALL,
        end="}",
        separator=", ",
        opening="[TOOL_CALLS][",
        closing="]",
    ),
    DevstralToolParser: CallShape(
        trigger="[TOOL_CALLS]", begin="[TOOL_CALLS]NAME[ARGS]", end="", separator=""
    ),
    Qwen3CoderToolParser: CallShape(
        trigger="<tool_call>",
        begin="<tool_call>\n<function=NAME>\n",
        end="</function>\n</tool_call>",
        separator="\n",
        style=ParameterStyle(
            begin="<parameter=NAME>\n", end="\n</parameter>\n", text_end="\n</parameter>\n"
        ),
    ),
    MiniCpm5ToolParser: CallShape(
        trigger="<function",
        begin='<function name="NAME">',
        end="</function>",
        separator="\n",
        style=ParameterStyle(begin='<param name="NAME">', end="</param>", text_end="</param>"),
    ),
    OnyxToolParser: CallShape(
        trigger="<atem:function_calls>",
        begin='<atem:invoke name="NAME">\n',
        end="</atem:invoke>\n",
        opening="<atem:function_calls>\n",
        closing="</atem:function_calls>",
        style=ParameterStyle(
            begin='<atem:parameter name="NAME">',
            end="</atem:parameter>\n",
            text_end="</atem:parameter>\n",
        ),
    ),
    # A call ends with <|call|>, which ends the answer as well.
    GptOssToolParser: CallShape(
        trigger="<|channel|>commentary to=",
        begin="<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>",
        end="",
        only_one=True,
    ),
    Lfm2ToolParser: CallShape(
        trigger="<|tool_call_start|>",
        begin="NAME(",
        end=")",
        separator=", ",
        opening="<|tool_call_start|>[",
        closing="]<|tool_call_end|>",
        style=ParameterStyle(begin="NAME=", end="", separator=", "),
    ),
    Gemma4ToolParser: CallShape(
        trigger="<|tool_call>",
        begin="<|tool_call>call:NAME{",
        end="}<tool_call|>",
        style=ParameterStyle(
            begin="NAME:", end="", separator=",", text_begin='<|"|>', text_end='<|"|>'
        ),
    ),
}
