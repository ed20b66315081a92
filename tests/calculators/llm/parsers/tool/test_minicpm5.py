"""Calls as MiniCPM 5 writes them."""

from __future__ import annotations

import json

import pytest

from tests.calculators.llm.parsers.said import Said, parse

TOOLS = {"f": {"properties": {"a": {"type": "string"}, "b": {"type": "array"}}}}


def call(name: str, text: str) -> str:
    return f'<function name="f"><param name="{name}">{text}</param></function>'


def test_calls_are_found_among_text() -> None:
    text = "One. " + call("a", "x") + call("a", "\ny\n") + "Two."
    assert parse(text, "minicpm5", tools=TOOLS) == Said(
        "One. Two.", "", [("f", '{"a":"x"}'), ("f", '{"a":"y"}')]
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("['1', 'it's', 2, True, None]", '["1","it\'s",2,true,null]'),
        ("{'a': {'b': \"c\"}}", '{"a":{"b":"c"}}'),
        ('["a", 1]', '["a",1]'),
        ("[1, 'a", '"[1, \'a"'),
        ("[1] and more", '"[1] and more"'),
        ("['a', </s>", "\"['a', </s>\""),
    ],
)
def test_lists_and_objects_may_be_python_literals(text: str, value: str) -> None:
    result = parse(call("b", text), "minicpm5", tools=TOOLS)
    assert result == Said("", "", [("f", f'{{"b":{value}}}')])


def test_a_string_that_looks_like_a_list_is_kept() -> None:
    result = parse(call("a", "['x']"), "minicpm5", tools=TOOLS)
    assert result.calls == [("f", '{"a":"[\'x\']"}')]


def test_ends_of_turns_are_left_out() -> None:
    text = "<s>Hi<|im_end|>" + call("a", "x") + "<|im_end|>"
    assert parse(text, "minicpm5", tools=TOOLS) == Said("Hi", "", [("f", '{"a":"x"}')])
    broken = '<function name="f"><param name="a">x<|im_end|>'
    assert parse(broken, "minicpm5").calls == [("f", "")]


def test_calls_are_found_after_reasoning_and_not_in_it() -> None:
    text = "<think>" + call("a", "no") + "</think>" + call("a", "x")
    assert parse(text, "minicpm5", "minicpm5", tools=TOOLS) == Said(
        "", call("a", "no"), [("f", '{"a":"x"}')]
    )


@pytest.mark.parametrize(
    "text", ['<function name="f', '<function name="f"> and more', '<function name="f"</function>']
)
def test_text_that_is_not_a_call_is_content(text: str) -> None:
    assert parse(text, "minicpm5", tools=TOOLS) == Said(text, "", [])


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("<![CDATA[a < b </param> & c\nd]]>", "a < b </param> & c\nd"),
        ("\n<![CDATA[\nx\n]]>\n", "\nx\n"),
        ("<![CDATA[]]>", ""),
        ("  <![CDATA[x]]> ", "x"),
        ("\n    <![CDATA[ x ]]>\n  ", " x "),
        ("<![CDATA[a]]]]><![CDATA[>b]]>", "a]]>b"),
        ("<![CDATA[a]]>\n<![CDATA[b]]>", "ab"),
        ("<![CDATA[a]]b]]>", "a]]b"),
        ("a <![CDATA[b]]>", "a <![CDATA[b]]>"),
        ("<![CD", "<![CD"),
    ],
)
@pytest.mark.parametrize("first", ["", '<param name="n">1</param>'])
def test_text_in_cdata_is_taken_as_it_is(first: str, value: str, read: str) -> None:
    tools = {"f": {"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}}
    text = f'<function name="f">{first}<param name="a">{value}</param></function>'
    ((_, arguments),) = parse(text, "minicpm5", tools=tools).calls
    assert json.loads(arguments)["a"] == read


def test_an_object_may_be_in_cdata() -> None:
    text = '<function name="f"><param name="o"><![CDATA[{"k": "</param>"}]]></param></function>'
    ((_, arguments),) = parse(text, "minicpm5", tools={"f": {}}).calls
    assert json.loads(arguments) == {"o": {"k": "</param>"}}
