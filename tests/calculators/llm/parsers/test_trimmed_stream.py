"""Leading white space of answers that follow a form."""

from __future__ import annotations

import pytest

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.parsers.output_parsers import OutputParsers, TrimmedAnswer, merged
from calculators.llm.parsers.registry import reasoning_parser, tool_parser

PARSERS = OutputParsers(tool_parser("hermes3"), reasoning_parser("qwen3"))


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think> hm </think>\n\n no \n", [Reasoning(" hm "), Content("no \n")]),
        ("\n\n  ", []),
        ("yes", [Content("yes")]),
        (
            '<think>a</think>\n<tool_call>{"name": "f", "arguments": {}}</tool_call>',
            [Reasoning("a"), ToolCall("f"), Arguments("{}")],
        ),
    ],
)
def test_white_space_before_the_answer_is_left_out(
    text: str, expected: list[OutputEvent], size: int
) -> None:
    stream = TrimmedAnswer(PARSERS.start(tools={}))
    events: list[OutputEvent] = []
    for start in range(0, len(text), size):
        events += stream.feed(text[start : start + size])
    assert merged(events + stream.finish()) == expected
