"""Calls as LFM2 and LFM2.5 write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.language.events import Arguments, ToolCall
from tests.calculators.llm.parsers.said import Said, events_of, parse, parsers, said


def block(calls: str) -> str:
    return f"<|tool_call_start|>[{calls}]<|tool_call_end|>"


def test_calls_are_found_among_text() -> None:
    text = "One. " + block("f(a='x', b=1), g( )") + " Two. " + block(" h(c = [1] )") + "<|im_end|>"
    assert parse(text, "lfm2") == Said(
        "One.  Two.", "", [("f", '{"a":"x","b":1}'), ("g", "{}"), ("h", '{"c":[1]}')]
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'x'", "x"),
        ('"x"', "x"),
        ("''", ""),
        ("'zażółć'", "zażółć"),
        ("'a, b) and (c'", "a, b) and (c"),
        ("'it\\'s \"so\"'", 'it\'s "so"'),
        ("'it's so'", "it's so"),
        ('"say "hi", or not"', 'say "hi", or not'),
        (r'"a\nb\\ \"c\""', 'a\nb\\ "c"'),
        (r'"C:\Users\x"', r"C:\Users\x"),
        (r'"it\'s \x41"', "it's A"),
        (r"'\x41\\x41'", r"A\x41"),
        ('"two\nlines \\n"', "two\nlines \\n"),
        ("'ends with backslash \\\\'", "ends with backslash \\"),
        ("-1.5e3", -1500.0),
        ("TRUE", True),
        ("False", False),
        ("None", None),
        ("null", None),
        ("word", "word"),
        ("f(1, 2)", "f(1, 2)"),
        ("", ""),
        ("[]", []),
        ("['a', \"b\", {'c': None, 'd': [True, -1]}]", ["a", "b", {"c": None, "d": [True, -1]}]),
        ("['it's', 'Johns' car']", ["it's", "Johns' car"]),
        ("{'a': 'b}', 'c': ']'}", {"a": "b}", "c": "]"}),
        ("[1, (2, 3)]", [1, [2, 3]]),
        ("[1 2]", ["1 2"]),
        ('"""x"""', "x"),
        ('""""""', ""),
        ("'''it's\n\"so\", or not'''", 'it\'s\n"so", or not'),
        ('"""say "hi""""', 'say "hi"'),
        ('"""a\n\\tb \\"""c"""', 'a\n\tb """c'),
        ('"""one \\\nline"""', "one line"),
        ('["""a, "b"\n""", {"k": """c"""}]', ['a, "b"\n', {"k": "c"}]),
    ],
)
def test_values_become_json(text: str, value: object) -> None:
    for others in ("", ", z=1", "), g("):
        result = parse(block(f"f(a={text}{others})"), "lfm2")
        assert result.content == ""
        assert json.loads(result.calls[0][1])["a"] == value
        assert len(result.calls) == (2 if "g" in others else 1)


@pytest.mark.parametrize(
    "text", ['"""say "hi",\nor """ not"""', "'''a'''", '[""" "" """]', '""', "\"\", b='''c'''"]
)
@pytest.mark.parametrize("schema", [{"type": "string"}, {}])
def test_three_quotes_are_read_wherever_the_text_is_cut(text: str, schema: dict[str, Any]) -> None:
    tools = {"f": {"type": "object", "properties": {"a": schema, "b": schema}}}
    written = block(f"f(a={text})")
    whole = said(events_of(parsers("lfm2").start(tools=tools), [written]))
    assert whole.content == ""
    assert len(whole.calls) == 1
    for at in range(len(written) + 1):
        pieces = [written[:at], written[at:]]
        assert said(events_of(parsers("lfm2").start(tools=tools), pieces)) == whole
    assert said(events_of(parsers("lfm2").start(tools=tools), written)) == whole


def test_an_argument_may_lack_a_value_or_be_repeated() -> None:
    assert parse(block("f(a, b=, a=1)"), "lfm2").calls == [("f", '{"a":"","b":""}')]


def test_a_text_goes_out_as_it_grows_and_other_values_when_they_are_complete() -> None:
    stream = parsers("lfm2").start(tools={})
    begun = [ToolCall("f"), Arguments('{"a":"x')]
    assert stream.feed("<|tool_call_start|>[f(a='x") == begun
    assert stream.feed("y', ") == [Arguments("y")]
    assert stream.feed("b=") == [Arguments('"')]
    assert stream.feed("[1,") == []
    assert stream.feed("2])") == [Arguments(',"b":[1,2]}')]
    assert stream.feed("]<|tool_call_end|>") == []
    assert stream.finish() == []


@pytest.mark.parametrize("end", ["", "]", " ] ", "]<|tool_call_end|>"])
def test_the_end_of_the_block_may_be_missing(end: str) -> None:
    result = parse(f"<|tool_call_start|>[f(a='x'){end}", "lfm2")
    assert result.calls == [("f", '{"a":"x"}')]


@pytest.mark.parametrize(
    "text",
    ["f", "f('x')", "f(1)", "no call " * 100],
)
def test_text_that_is_not_a_call_is_content(text: str) -> None:
    mark, end = "<|tool_call_start|>", "<|tool_call_end|>"
    assert parse(f"{mark}[{text}]{end}", "lfm2") == Said(f"{mark}[{text}]", "", [])
    assert parse(f"{mark}[{text}", "lfm2") == Said(f"{mark}[{text}", "", [])
    assert parse("[f(a=1)]", "lfm2") == Said("[f(a=1)]", "", [])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("f(a='x'", '{"a":"x"}'),
        ("f(a=1, b=[2, 'x'", '{"a":1,"b":[2, \'x\']'),
        ("f(a='x", '{"a":"x]'),
    ],
)
def test_what_a_call_lacks_at_its_end_does_not_hide_it(text: str, arguments: str) -> None:
    assert parse(block(text), "lfm2") == Said("", "", [("f", arguments)])


@pytest.mark.parametrize("text", ["f(a=1)", '{"name": "f", "arguments": {"a": 1}}'])
def test_calls_may_be_without_brackets_and_json(text: str) -> None:
    for written in (block(text), f"<|tool_call_start|>{text}<|tool_call_end|>"):
        assert parse(written, "lfm2") == Said("", "", [("f", '{"a":1}')])


def test_text_after_a_call_that_is_not_a_call_is_content() -> None:
    assert parse(block("f(a=1)(2)"), "lfm2") == Said("(2)]", "", [("f", '{"a":1}')])
    text = block("f(a=1), broken") + " and more"
    assert parse(text, "lfm2") == Said(", broken] and more", "", [("f", '{"a":1}')])


def test_a_call_that_breaks_off_is_not_closed() -> None:
    text = "<|tool_call_start|>[f(a=1, b='cut"
    assert parse(text, "lfm2") == Said("", "", [("f", '{"a":1,"b":"cut')])


def test_calls_are_found_after_reasoning_and_not_in_it() -> None:
    text = "<think>" + block("f(a=1)") + "</think>" + block("g()")
    assert parse(text, "lfm2", "lfm2") == Said("", block("f(a=1)"), [("g", "{}")])


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("[]", []), ("{}", {}), ("()", []), ("set()", []), ("frozenset()", []),
        ("set([1, 'x'])", [1, "x"]), ("tuple([1])", [1]), ("list((1, 2))", [1, 2]),
        ("set(x)", "set(x)"), ("'x',", "x"), ("7, ", 7), ("[1], ", [1]),
        ("{1, 2}", [1, 2]), ("{'x', 'y'}", ["x", "y"]), ("(1, 'b')", [1, "b"]), ("(1,)", [1]),
        ("[1, 2,]", [1, 2]), ("{'k': (1,), 'm': {'x'}, 3: 0}", {"k": [1], "m": ["x"], "3": 0}),
        ("007", "007"), ("[007, -7]", ["007", -7]), ("{'k': 007}", {"k": "007"}),
        ("+7", 7), ("1_000", 1000), ("0x1F", 31), ("1.", 1.0), (".5", 0.5), ("1e5", 1e5),
        ("1.2.3", "1.2.3"), ("1e999.", "1e999."), ("nan", "nan"), ("12-13", "12-13"),
        ("[a b, True]", ["a b", True]), ("{'a': 1, 2}", "{'a': 1, 2}"),
    ],
)  # fmt: skip
def test_values_of_python_become_json(value: str, read: Any) -> None:
    ((_, arguments),) = parse(f"<|tool_call_start|>[f(a={value})]<|tool_call_end|>", "lfm2").calls
    assert json.loads(arguments) == {"a": read}


def test_the_schema_decides_about_zeros_in_front() -> None:
    types = {"n": {"type": "integer"}, "s": {"type": "string"}}
    text = "<|tool_call_start|>[f(n=007, s=007)]<|tool_call_end|>"
    ((_, arguments),) = parse(text, "lfm2", tools={"f": {"properties": types}}).calls
    assert json.loads(arguments) == {"n": 7, "s": "007"}


@pytest.mark.parametrize("nothing", ["[]", "[ ]", "[\n]", "", " \n"])
def test_an_empty_list_of_calls_is_left_out(nothing: str) -> None:
    text = f"Nothing to do.<|tool_call_start|>{nothing}<|tool_call_end|> Bye."
    assert parse(text, "lfm2") == Said("Nothing to do. Bye.", "", [])
