"""Calls as Gemma 4 writes them."""

from __future__ import annotations

import json

import pytest

from calculators.language.events import Arguments, ToolCall
from tests.calculators.llm.parsers.said import Said, parse, parsers


def block(calls: str) -> str:
    return f"<|tool_call>{calls}<tool_call|>"


def test_calls_are_found_among_text() -> None:
    text = (
        "One. "
        + block('call:f{a:<|"|>x<|"|>,b:1}call:g{}')
        + " Two."
        + block("call:h{c:[ 1, 2 ]}")
        + "<|tool_response><turn|>"
    )
    assert parse(text, "gemma4") == Said(
        "One.  Two.", "", [("f", '{"a":"x","b":1}'), ("g", "{}"), ("h", '{"c":[1,2]}')]
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('<|"|>x<|"|>', "x"),
        ('<|"|><|"|>', ""),
        ('<|"|>{a:[b],"c"} zażółć\n<|"|>', '{a:[b],"c"} zażółć\n'),
        ('"a, b"', "a, b"),
        (r'"a \"b\" \n"', 'a "b" \n'),
        ('5" wide', '5" wide'),
        ("word", "word"),
        ("http://a.b/c", "http://a.b/c"),
        ("-1.5", -1.5),
        ("True", True),
        ("NULL", None),
        ("", ""),
        ("{}", {}),
        ("[]", []),
        (
            '{b:{c:[<|"|>x<|"|>,{d:1}],e:null},<|"|>f g<|"|>:2}',
            {"b": {"c": ["x", {"d": 1}], "e": None}, "f g": 2},
        ),
        ("[1,,2,]", [1, "", 2]),
        ("{b,c:}", {"b": "", "c": ""}),
    ],
)
def test_values_become_json(text: str, value: object) -> None:
    for others in ("", ",z:1"):
        result = parse(block(f"call:f{{a:{text}{others}}}"), "gemma4")
        assert result.content == ""
        assert json.loads(result.calls[0][1])["a"] == value


def test_values_may_have_any_depth() -> None:
    deep = "[" * 5000 + "]" * 5000
    result = parse(block(f"call:f{{a:{deep}}}"), "gemma4")
    assert result.calls == [("f", f'{{"a":{deep}}}')]


def test_an_argument_may_lack_a_value_or_be_repeated() -> None:
    assert parse(block("call:f{a,b:,a:1}"), "gemma4").calls == [("f", '{"a":"","b":""}')]


def test_an_argument_is_sent_when_it_is_complete() -> None:
    parser = parsers("gemma4").start(tools={})
    assert parser.feed('<|tool_call>call:f{a:<|"|>x<|"|>') == []
    assert parser.feed(",b:") == [ToolCall("f"), Arguments('{"a":"x"')]
    assert parser.feed("[1,") == []
    assert parser.feed("2]}") == [Arguments(',"b":[1,2]'), Arguments("}")]
    assert parser.feed("<tool_call|>") == []
    assert parser.finish() == []


@pytest.mark.parametrize(
    "text",
    [
        "<|tool_call>",
        block(""),
        block("call:f"),
        block("f{a:1}"),
        block('call:f{a:<|"|>x<|"|>'),
        block('call:f{a:<|"|>x}'),
        block("call:f{a:[1}}"),
        block("call:f{a:b{c}}"),
        block('call:f{a:b<|"|>c<|"|>}'),
        block('call:f{a:<|"|>b<|"|>c}'),
        block("call:f{{}}"),
        block("call:f{,}"),
        "<|tool_call>call:f{a:1",
        "<|tool_call>" + "no call " * 100,
        "call:f{a:1}",
    ],
)
def test_text_that_is_not_a_call_is_content(text: str) -> None:
    assert parse(text, "gemma4") == Said(text, "", [])


def test_a_call_that_breaks_off_is_not_closed() -> None:
    text = '<|tool_call>call:f{a:1,b:<|"|>cut'
    assert parse(text, "gemma4") == Said('b:<|"|>cut', "", [("f", '{"a":1')])
    text = "<|tool_call>call:f{a:1,b:<|tool_call>call:g{}<tool_call|>"
    assert parse(text, "gemma4") == Said("b:", "", [("f", '{"a":1'), ("g", "{}")])


def test_calls_are_found_after_reasoning_and_not_in_it() -> None:
    text = "<|channel>thought\n" + block("call:f{}") + "<channel|>" + block("call:g{}")
    assert parse(text, "gemma4", "gemma4") == Said("", block("call:f{}"), [("g", "{}")])
