"""Calls after text after calls, as every parser reads them."""

from __future__ import annotations

from typing import Final

import pytest

from calculators.llm.parsers.registry import tool_parser_names
from tests.calculators.llm.parsers.said import parse

_JSON: Final = '{"name": "f", "arguments": {"a": "x"}}'
_XML: Final = "<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"
_ATEM: Final = '<atem:parameter name="a">x</atem:parameter>\n</atem:invoke>\n'
#: A call of each parser's model, with the tags around it.
_CALLS: Final = {
    "devstral": '[TOOL_CALLS]f[ARGS]{"a": "x"}</s>',
    "gemma4": '<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>',
    "gptoss": '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "x"}<|call|>',
    "hermes3": f"<tool_call>\n{_JSON}\n</tool_call>",
    "lfm2": "<|tool_call_start|>[f(a='x')]<|tool_call_end|>",
    "llama3": f"<|python_tag|>{_JSON}",
    "minicpm5": '<function name="f"><param name="a">x</param></function>',
    "mistral": f"[TOOL_CALLS][{_JSON}]</s>",
    "onyx": f'<atem:function_calls>\n<atem:invoke name="f">\n{_ATEM}</atem:function_calls>',
    "phi4": f"functools[{_JSON}]",
    "qwen3coder": f"<tool_call>\n<function=f>\n{_XML}",
}
#: How a model writes text, where that is more than the text itself.
_SPEECH: Final = {"gptoss": "<|start|>assistant<|channel|>final<|message|>%s<|end|>"}


def test_every_example_is_of_a_parser() -> None:
    assert set(_CALLS) <= set(tool_parser_names())


@pytest.mark.parametrize("parser", _CALLS)
def test_calls_after_text_after_a_call_are_calls(parser: str) -> None:
    call = _CALLS[parser]
    speech = _SPEECH.get(parser, "%s") % "Well."
    then = "<|start|>assistant" if parser == "gptoss" else ""
    content, reasoning, calls = parse(f"{call}{speech}{then}{call}", parser)
    assert content.strip() == "Well."
    assert reasoning == ""
    assert [(name, arguments.replace(" ", "")) for name, arguments in calls] == [
        ("f", '{"a":"x"}'),
        ("f", '{"a":"x"}'),
    ]


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (f"[{_JSON}] Well. [TOOL_CALLS][{_JSON}]", " Well."),
        (f"[TOOL_CALLS][{_JSON}]\n\n[TOOL_CALLS] [{_JSON}]", ""),
        (f"[TOOL_CALLS][{_JSON}] [TOOL_CALLS]x[TOOL_CALLS][{_JSON}]", " [TOOL_CALLS]x"),
    ],
)
def test_mistral_reads_every_list_of_an_output_that_begins_with_calls(
    text: str, content: str
) -> None:
    assert parse(text, "mistral") == (content, "", [("f", '{"a":"x"}')] * 2)


@pytest.mark.parametrize("parser", ["mistral", "devstral"])
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_mistral_leaves_out_an_empty_list_of_calls(parser: str, blank: str) -> None:
    assert parse(f"No.[TOOL_CALLS]{blank}[{blank}] Bye.", parser) == ("No. Bye.", "", [])


@pytest.mark.parametrize(
    ("parser", "begin"),
    [
        ("mistral", "[TOOL_CALLS]"),
        ("devstral", "[TOOL_CALLS]["),
        ("llama3", ""),
        ("phi4", "functools["),
    ],
)
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_objects_may_follow_each_other_without_a_separator(
    parser: str, begin: str, blank: str
) -> None:
    calls = [("f", '{"a":"x"}')] * 2
    assert parse(f"{begin}{_JSON}{blank}{_JSON}", parser) == ("", "", calls)
    other = '{"no": "call"}'
    assert parse(f"{begin}{_JSON}{blank}{other}", parser) == (blank + other, "", calls[:1])


def test_mistral_reads_calls_after_a_tag_in_an_output_that_begins_with_text() -> None:
    text = f"[TOOL_CALLS]Well. [TOOL_CALLS][{_JSON}]"
    assert parse(text, "mistral") == ("[TOOL_CALLS]Well.", "", [("f", '{"a":"x"}')])
