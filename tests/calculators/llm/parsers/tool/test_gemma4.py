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


def test_a_text_goes_out_as_it_grows_and_other_values_when_they_are_complete() -> None:
    stream = parsers("gemma4").start(tools={})
    begun = [ToolCall("f"), Arguments('{"a":"x')]
    assert stream.feed('<|tool_call>call:f{a:<|"|>x') == begun
    assert stream.feed('y<|"|>,b:') == [Arguments('y"')]
    assert stream.feed("[1,") == []
    assert stream.feed("2]}") == [Arguments(',"b":[1,2]}')]
    assert stream.feed("<tool_call|>") == []
    assert stream.finish() == []


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<|tool_call>", "<|tool_call>"),
        (block("call:f"), "<|tool_call>call:f"),
        (block("f{a:1}"), "<|tool_call>f{a:1}"),
        (block("call:f{{}}"), "<|tool_call>call:f{{}}"),
        ("<|tool_call>" + "no call " * 100, "<|tool_call>" + "no call " * 100),
        ("call:f{a:1}", "call:f{a:1}"),
        # Without calls a block is nothing.
        (block(""), ""),
    ],
)
def test_text_that_is_not_a_call_is_content(text: str, content: str) -> None:
    assert parse(text, "gemma4") == Said(content, "", [])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('a:<|"|>x<|"|>', '{"a":"x"'),
        ('a:<|"|>x}', '{"a":"x}'),
        ("a:[1}}", '{"a":[1}}'),
        ("a:b{c}}", '{"a":b{c}}'),
        ('a:b<|"|>c<|"|>}', '{"a":b<|"|>c<|"|>}'),
        ('a:<|"|>b<|"|>c}', '{"a":"b"c}'),
    ],
)
def test_broken_arguments_are_passed_on_as_they_are(text: str, arguments: str) -> None:
    whole = block(f"call:f{{{text}") + block("call:g{}")
    assert parse(whole, "gemma4") == Said("", "", [("f", arguments), ("g", "{}")])


def test_a_call_that_breaks_off_is_not_closed() -> None:
    text = '<|tool_call>call:f{a:1,b:<|"|>cut'
    assert parse(text, "gemma4") == Said("", "", [("f", '{"a":1,"b":"cut')])
    assert parse("<|tool_call>call:f{a:1", "gemma4") == Said("", "", [("f", "")])


def test_calls_are_found_after_reasoning_and_not_in_it() -> None:
    text = "<|channel>thought\n" + block("call:f{}") + "<channel|>" + block("call:g{}")
    assert parse(text, "gemma4", "gemma4") == Said("", block("call:f{}"), [("g", "{}")])
