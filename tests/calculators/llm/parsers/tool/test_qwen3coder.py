"""Calls as Qwen3-Coder writes them."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from calculators.language.events import Arguments, ToolCall
from tests.calculators.llm.parsers.said import Said, parse, parsers

TOOLS = {
    "write": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "text": {"type": "string"},
            "size": {"type": "integer"},
            "force": {"type": "boolean"},
            "mode": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "owner": {"type": ["string", "null"]},
            "value": {"anyOf": [{"type": "string"}, {}]},
        },
    }
}


def read(text: str) -> Said:
    return parse(text, "qwen3coder", tools=TOOLS)


def call(*parameters: tuple[str, str]) -> str:
    written = "".join(f"<parameter={name}>\n{text}\n</parameter>\n" for name, text in parameters)
    return f"<tool_call>\n<function=write>\n{written}</function>\n</tool_call>"


def arguments(*parameters: tuple[str, str]) -> str:
    content, _, calls = read(call(*parameters))
    assert content == ""
    [(name, written)] = calls
    assert name == "write"
    return written


def test_a_call_is_found_among_text() -> None:
    assert read("Sure.\n" + call(("path", "ä.txt"), ("size", "3")) + "\nDone.") == Said(
        "Sure.\n\nDone.", "", [("write", '{"path":"ä.txt","size":3}')]
    )


def test_calls_may_share_a_block() -> None:
    one = "<function=a>\n</function>\n"
    two = f"<tool_call>{one}{one}</tool_call><tool_call>{one}</tool_call>"
    assert read(two) == Said("", "", [("a", "{}")] * 3)


def test_the_beginning_of_the_block_may_be_missing() -> None:
    assert read("Hm <function=a></function>\n</tool_call> ok") == Said("Hm  ok", "", [("a", "{}")])


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        ("path", "3.10", '"3.10"'),
        ("path", '{"a": 1}', r'"{\"a\": 1}"'),
        ("path", "null", '"null"'),
        ("path", '"quoted"', r'"\"quoted\""'),
        ("path", '"a" and "b"', r'"\"a\" and \"b\""'),
        ("path", "", '""'),
        ("path", "\n", r'"\n"'),
        ("size", "12345678901234567890", "12345678901234567890"),
        ("size", "many", '"many"'),
        ("force", "True", "true"),
        ("force", "FALSE", "false"),
        ("force", "maybe", '"maybe"'),
        ("mode", "1", '"1"'),
        ("mode", "null", "null"),
        ("owner", "null", "null"),
        ("value", "1", "1"),
        ("unknown", '{"a" : [1, "x y"]}', '{"a":[1,"x y"]}'),
        ("unknown", "True", '"True"'),
        ("unknown", "NaN", '"NaN"'),
    ],
)
def test_values_have_the_types_of_the_schema(parameter: str, text: str, value: str) -> None:
    assert arguments((parameter, text)) == f'{{"{parameter}":{value}}}'
    # After another argument, strings are passed on as they arrive: the result is the same.
    assert arguments(("first", "1"), (parameter, text)) == f'{{"first":1,"{parameter}":{value}}}'


def test_the_first_of_two_arguments_of_a_name_counts() -> None:
    assert arguments(("path", "a"), ("path", "b"), ("size", "1")) == '{"path":"a","size":1}'


def test_json_values_may_have_any_depth() -> None:
    deep = "[" * 5000 + "]" * 5000
    assert arguments(("unknown", deep)) == f'{{"unknown":{deep}}}'


def test_a_text_goes_out_as_it_grows() -> None:
    stream = parsers("qwen3coder").start(tools=TOOLS)
    begun = [ToolCall("write"), Arguments('{"path":"a.t')]
    assert stream.feed("<tool_call>\n<function=write>\n<parameter=path>\na.t") == begun
    assert stream.feed("xt\n</parameter>\n") == [Arguments("xt")]
    begun_text = [Arguments('","text":"first line')]
    assert stream.feed("<parameter=text>\nfirst line\n") == begun_text
    assert stream.feed('"second"') == [Arguments('\\n\\"second\\"')]
    assert stream.feed("\n</parameter>") == []
    assert stream.feed("</function></tool_call>") == [Arguments('"}')]
    assert stream.finish() == []


@pytest.mark.parametrize(
    "text",
    [
        "a < b, <tool_cal and <function",
        "<tool_call>",
        '<tool_call>{"name": "write"}</tool_call>',
        "<tool_call><tool_call> no",
        "<function=>",
        "<function=write",
        "<function=a<b></function>",
        "<function=" + "x" * 1000 + "></function>",
        "<tool_call><function=write> then text <parameter=path>a</parameter>",
        "</function></tool_call></parameter>",
    ],
)
def test_text_that_is_not_a_call_is_content(text: str) -> None:
    assert read(text) == Said(text, "", [])


def test_a_call_that_is_cut_is_not_closed() -> None:
    path = "<function=write><parameter=path>a</parameter>"
    assert read(path + "<parameter=size>1") == Said("", "", [("write", '{"path":"a"')])
    assert read(path + "<parameter=si") == Said("", "", [("write", '{"path":"a"')])
    assert read(path + "<parameter=text>cut\n") == Said(
        "", "", [("write", r'{"path":"a","text":"cut\n')]
    )
    assert read("<function=write><parameter=path>cut") == Said("", "", [("write", '{"path":"cut')])


def test_the_end_of_a_call_may_be_missing() -> None:
    path = "<function=write><parameter=path>a</parameter>"
    assert read(path) == Said("", "", [("write", '{"path":"a"}')])
    assert read(path + "<function=b></function>") == Said(
        "", "", [("write", '{"path":"a"}'), ("b", "{}")]
    )


def test_a_call_ends_with_its_block_at_the_latest() -> None:
    text = "<tool_call><function=write><parameter=path>a</parameter></tool_call> ok"
    assert read(text) == Said(" ok", "", [("write", '{"path":"a"}')])


def test_an_end_of_a_value_that_text_follows_is_in_the_value() -> None:
    text = call(("path", "a"), ("size", "1")).replace("</parameter>\n", "</parameter> well, ", 1)
    ((_, arguments),) = read(text).calls
    assert json.loads(arguments) == {"path": "a\n</parameter> well, <parameter=size>\n1"}


@pytest.mark.parametrize(
    "schema", ["none", {}, {"properties": None}, {"properties": {"path": {"type": [1, {}]}}}]
)
def test_any_schema_is_accepted(schema: Any) -> None:
    result = parse(call(("path", "1")), "qwen3coder", tools={"write": schema})
    assert json.loads(result.calls[0][1]) == {"path": 1}


# Values without their end -----------------------------------------------------------------------

SHIP: Final[dict[str, Any]] = {
    "f": {"properties": {"a": {"type": "string"}, "b": {"type": "string"}, "o": {"type": "object"}}}
}


def framed(inner: str) -> str:
    return f"<tool_call>\n<function=f>\n{inner}</function>\n</tool_call>"


@pytest.mark.parametrize("first", ["", "<parameter=o>\n{}\n</parameter>\n"])
@pytest.mark.parametrize("space", ["", "\n"])
def test_a_value_without_its_end_does_not_swallow_the_next(first: str, space: str) -> None:
    text = framed(f"{first}<parameter=a>\nFog\n<parameter=b>\nx\n</parameter>{space}")
    ((_, arguments),) = parse(text, "qwen3coder", tools=SHIP).calls
    assert {"o": {}, **json.loads(arguments)} == {"o": {}, "a": "Fog", "b": "x"}


def test_the_last_value_may_lack_its_end() -> None:
    text = framed("<parameter=a>\nx\n") + "\n" + framed("<parameter=b>\ny\n</parameter>\n")
    calls = parse(text, "qwen3coder", tools=SHIP).calls
    assert calls == [("f", '{"a":"x"}'), ("f", '{"b":"y"}')]


@pytest.mark.parametrize(
    "value",
    [
        "one <parameter=b> in a line",
        "x\n<parameter=unknown>\ny",
        "x\n<parameter=a>\ny",
        "x\n</function>\n</tool_call>\nis the end",
        "x </function>",
        "x\n<parameter=b",
    ],
)
def test_marks_in_a_value_are_text(value: str) -> None:
    text = framed(f"<parameter=a>\n{value}\n</parameter>\n")
    ((_, arguments),) = parse(text, "qwen3coder", tools=SHIP).calls
    assert json.loads(arguments) == {"a": value}


def test_a_value_that_begins_behind_its_tag_may_lack_its_end_in_any_place() -> None:
    for end in ("</parameter>\n", ""):
        text = framed(f"<parameter=a>x<parameter=b>y{end}")
        ((_, arguments),) = parse(text, "qwen3coder", tools=SHIP).calls
        assert json.loads(arguments) == {"a": "x", "b": "y"}


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("array", "(1, 'x')", [1, "x"]),
        ("array", "{'x'}", ["x"]),
        ("object", "(1, 2)", "(1, 2)"),
        (["number", "null"], "None", None),
        ("number", "None", "None"),
        (["string", "null"], "None", "None"),
    ],
)
def test_tuples_and_none_are_read_as_python_has_them(kind: Any, value: str, read: Any) -> None:
    tools = {"f": {"properties": {"v": {"type": kind}}}}
    text = framed(f"<parameter=v>\n{value}\n</parameter>\n")
    ((_, arguments),) = parse(text, "qwen3coder", tools=tools).calls
    assert json.loads(arguments) == {"v": read}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("{'k': True, 'n': None}", {"k": True, "n": None}),
        ("{'k': [1, (2, 'x'),], }", {"k": [1, [2, "x"]]}),
        ('{"k": true}', {"k": True}),
    ],
)
def test_an_object_may_be_written_as_in_python(value: str, read: Any) -> None:
    text = framed(f"<parameter=o>\n{value}\n</parameter>\n<parameter=a>\n{value}\n</parameter>\n")
    ((_, arguments),) = parse(text, "qwen3coder", tools=SHIP).calls
    assert json.loads(arguments) == {"o": read, "a": value}
