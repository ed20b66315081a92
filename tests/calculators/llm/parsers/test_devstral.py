"""Calls of devstral: a name and arguments between tags."""

from __future__ import annotations

import pytest

from calculators.language.events import Arguments, Content, ToolCall
from tests.calculators.llm.parsers.said import Said, parse, parsers


@pytest.mark.parametrize(
    ("text", "calls", "content"),
    [
        ("[TOOL_CALLS]f[ARGS]{}", [("f", "{}")], ""),
        ('[TOOL_CALLS] f [ARGS] {"a": 1} </s>', [("f", '{"a":1}')], ""),
        ("Well. [TOOL_CALLS]f[ARGS]{}</s>\n", [("f", "{}")], "Well."),
        ("[TOOL_CALLS]f[ARGS]{}</s> Done.", [("f", "{}")], " Done."),
        ("[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]x", [("f", "{}"), ("g", "x")], ""),
        ("[TOOL_CALLS]f[ARGS]</s>", [("f", "{}")], ""),
        ("[TOOL_CALLS]f[ARGS]\n[TOOL_CALLS]g[ARGS]", [("f", "{}"), ("g", "{}")], ""),
        ("[TOOL_CALLS]f[ARGS]a[ARGS]b", [("f", "a[ARGS]b")], ""),
        # These are not calls: a mark that begins nothing is text.
        ("[TOOL_CALLS]f", [], "[TOOL_CALLS]f"),
        ("[TOOL_CALLS] and then {x}</s>", [], "[TOOL_CALLS] and then {x}"),
        ("[TOOL_CALLS] [ARGS]{}", [], "[TOOL_CALLS] [ARGS]{}"),
        ("[TOOL_CALLS]f[TOOL_CALLS]g[ARGS]{}", [("g", "{}")], "[TOOL_CALLS]f"),
        ("[ARGS]f[TOOL_CALLS]{}</s>", [], "[ARGS]f[TOOL_CALLS]{}"),
        (
            f"[TOOL_CALLS]{'f' * 257}[ARGS]{{}}",
            [],
            f"[TOOL_CALLS]{'f' * 257}[ARGS]{{}}",
        ),
        ("[TOOL_CALLS", [], "[TOOL_CALLS"),
    ],
)
def test_calls_are_separated_from_text(
    text: str, calls: list[tuple[str, str]], content: str
) -> None:
    assert parse(text, "devstral") == Said(content, "", calls)


def test_events_come_as_soon_as_they_are_certain() -> None:
    stream = parsers("devstral").start(tools={})
    assert stream.feed("Hi [TOOL_CALLS]f") == [Content("Hi")]
    assert stream.feed("[ARGS]") == []
    assert stream.feed('{"a": ') == [ToolCall("f"), Arguments('{"a":')]
    assert stream.feed("1}</") == [Arguments("1}")]
    assert stream.feed("s>") == []
    assert stream.finish() == []
