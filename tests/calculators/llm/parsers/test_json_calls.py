"""Calls that are JSON objects: hermes3, llama3, phi4, mistral."""

from __future__ import annotations

import json

import pytest

from calculators.language.events import Arguments, Content, ToolCall
from tests.calculators.llm.parsers.said import Said, events_of, parse, parsers

CALL = '{"name": "f", "arguments": {"a": [1, 2], "b": "x y"}}'
COMPACT = '{"a":[1,2],"b":"x y"}'
F = ("f", COMPACT)
#: A text with the one call %s.
FORMS = {
    "hermes3": "<tool_call>%s</tool_call>",
    "llama3": "<|python_tag|>%s",
    "phi4": "functools[%s]",
    "mistral": "[TOOL_CALLS][%s]",
}

every_form = pytest.mark.parametrize(("parser", "form"), FORMS.items())


@every_form
def test_one_call_is_found(parser: str, form: str) -> None:
    assert parse(form % CALL, parser) == ("", "", [F])
    assert parse(form % f"\n{CALL}\n", parser) == ("", "", [F])


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("hermes3", f"<tool_call>{CALL}</tool_call><tool_call>{CALL}</tool_call>"),
        ("hermes3", f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>\n"),
        ("hermes3", f"<tool_call>{CALL}<tool_call>{CALL}"),
        ("llama3", f"<|python_tag|>{CALL}; {CALL}"),
        ("llama3", f"<|python_tag|>{CALL}\n<|python_tag|>{CALL}"),
        ("llama3", f"{CALL} ; {CALL}\n"),
        ("phi4", f"functools[{CALL}, {CALL}]"),
        ("phi4", f"functools [ {CALL} , {CALL}"),
        ("phi4", f"functools[{CALL}]\nfunctools[{CALL}]"),
        ("mistral", f"[TOOL_CALLS] [{CALL}, {CALL}]</s>"),
        ("mistral", f"\n[{CALL},{CALL}]"),
    ],
)
def test_several_calls_are_found(parser: str, text: str) -> None:
    assert parse(text, parser) == ("", "", [F, F])


@pytest.mark.parametrize(
    ("parser", "text", "content"),
    [
        ("hermes3", f"Well.\n\n<tool_call>{CALL}</tool_call>\n", "Well."),
        ("hermes3", f"<tool_call>{CALL}</tool_call>\n Done. ", "\n Done. "),
        ("hermes3", f"a<tool_call>{CALL}</tool_call>b\n</tool_call>", "ab\n</tool_call>"),
        ("hermes3", f"<tool_call>{CALL} and</tool_call> more", " and more"),
        ("llama3", f"Well. <|python_tag|>{CALL} Done.", "Well.  Done."),
        ("phi4", f"Well. functools[{CALL}] Done.", "Well.  Done."),
        ("mistral", f"[TOOL_CALLS][{CALL}]</s> Done.", " Done."),
    ],
)
def test_text_around_calls_is_content(parser: str, text: str, content: str) -> None:
    assert parse(text, parser) == (content, "", [F])


@every_form
@pytest.mark.parametrize(
    "call",
    [
        '{"arguments": {"a": [1, 2], "b": "x y"}, "name": "f"}',
        '{"type": "function", "name": "f", "arguments": {"a": [1, 2], "b": "x y"}, "id": [{}, 1]}',
        '{"name": "f", "name": "g", "arguments": {"a": [1, 2], "b": "x y"}, "arguments": 1}',
        '{"name": "\\u0066", "arguments": "{\\"a\\": [1, 2], \\"b\\": \\"x y\\"}"}',
        '{"arguments": "{\\"a\\": [1, 2], \\"b\\": \\"x y\\"} ", "name": "f"}',
    ],
)
def test_members_may_have_any_order(parser: str, form: str, call: str) -> None:
    assert parse(form % call, parser) == ("", "", [F])


def test_llama3_calls_its_arguments_parameters() -> None:
    text = '{"name": "f", "parameters": {"a": 1}}'
    assert parse(text, "llama3").calls == [("f", '{"a":1}')]
    assert parse(f"<tool_call>{text}</tool_call>", "hermes3").calls == [("f", '{"a":1}')]


@every_form
@pytest.mark.parametrize(
    "call",
    [
        "hello",
        '"f"',
        '{"name": "", "arguments": {}}',
        '{"name": 1, "arguments": {}}',
        '{"name": "f", "arguments": 1}',
        '{"name": "f", "arguments": "x"}',
        '{"name": "f", "arguments": "{} {}"}',
        '{"name": "\\ud800", "arguments": {}}',
        '{"name": "f" "arguments": {}}',
        '{"tool": "f", "arguments": {"a": [1, "}"]}}',
        '{"arguments": {"a": 1}}',
        "{}",
        "{'nam': 'f'}",
    ],
)
def test_text_that_is_not_a_call_is_content_with_its_tags(
    parser: str, form: str, call: str
) -> None:
    text = form % call
    assert parse(text, parser) == (text, "", [])
    assert parse(text[:-1], parser) == (text[:-1], "", [])


@every_form
def test_a_call_that_breaks_off_before_its_name_is_content(parser: str, form: str) -> None:
    text = (form % CALL).partition('"arguments": ')[0]
    assert parse(text, parser) == (text, "", [])


@every_form
def test_a_call_that_breaks_off_is_not_closed(parser: str, form: str) -> None:
    text = (form % CALL).partition('y"')[0]
    assert parse(text, parser) == ("", "", [("f", '{"a":[1,2],"b":"x ')])


def test_calls_are_found_after_an_invalid_one() -> None:
    broken = '<tool_call>{"name": "f", oops</tool_call>'
    text = f"{broken}<tool_call>{CALL}</tool_call>"
    assert parse(text, "hermes3") == (broken, "", [F])
    text = f'functools[{{"name": "g"}}, {CALL}, {{"name": 1}}]'
    assert parse(text, "phi4") == (', {"name": 1}]', "", [("g", "{}"), F])


@pytest.mark.parametrize(
    ("parser", "text", "calls", "content"),
    [
        (
            "hermes3",
            '<tool_call>{"name": "f", "arguments": {"a": 1, b: 2}}</tool_call> x',
            [("f", '{"a":1,b: 2}')],
            " x",
        ),
        (
            "hermes3",
            f'<tool_call>{{"name": "f", "arguments": {{"a": "b"c"}} }}\n<tool_call>{CALL}',
            [("f", '{"a":"b"c"}'), F],
            "",
        ),
        ("llama3", '{"name": "f", "arguments": {"a": 1, b]', [("f", '{"a":1,b]')], ""),
        (
            "phi4",
            f'functools[{{"name": "f", "arguments": {{"a": \'b\'}}}}] functools[{CALL}]',
            [("f", '{"a":"b"}'), F],
            "",
        ),
        (
            "mistral",
            '[{"name": "f", "arguments": {"a": [1}}}]</s> x',
            [("f", '{"a":[1}}')],
            " x",
        ),
    ],
)
def test_broken_arguments_are_passed_on_as_they_are(
    parser: str, text: str, calls: list[tuple[str, str]], content: str
) -> None:
    assert parse(text, parser) == Said(content, "", calls)


@pytest.mark.parametrize(
    ("parser", "text", "content"),
    [
        # With a bracket too few or too many, the arguments are complete all the same.
        ("hermes3", f"<tool_call>{CALL[:-1]}</tool_call>", ""),
        ("hermes3", f"<tool_call>{CALL}}}</tool_call>", ""),
        ("llama3", CALL[:-1] + ";", ""),
        ("phi4", f"functools[{CALL[:-1]}]", ""),
        ("mistral", f"[{CALL[:-1]}, 'x'", ""),
    ],
)
def test_a_call_is_final_once_its_arguments_are_complete(
    parser: str, text: str, content: str
) -> None:
    assert parse(text, parser) == (content, "", [F])


def test_tags_and_brackets_in_strings_end_nothing() -> None:
    arguments = json.dumps({"a": '</tool_call> }]} ; <|python_tag|> "quoted" \\'})
    call = f'{{"name": "f", "arguments": {arguments}}}'
    for parser, form in FORMS.items():
        ((_, got),) = parse(form % call, parser).calls
        assert json.loads(got) == json.loads(arguments)


def test_a_bare_object_or_array_is_a_call_only_at_the_beginning() -> None:
    assert parse(f"Well: {CALL}", "llama3").calls == []
    assert parse(f"Well: [{CALL}]", "mistral").calls == []
    assert parse(f" \n{CALL}", "llama3").calls == [F]


def test_after_a_first_bare_call_the_others_may_begin_with_any_member() -> None:
    other = CALL.replace("{", '{"thought": "x", ', 1)
    assert parse(f"{CALL}; {other}", "llama3") == ("", "", [F, F])
    assert parse(other, "llama3") == (other, "", [])


@pytest.mark.parametrize(
    "calls",
    [
        "[%s]", " [%s]", "%s", "\n%s</s>", 'f{"a": [1, 2], "b": "x y"}',
        'f[ARGS]{"a": [1, 2], "b": "x y"}', ' f [CALL_ID] aB3 [ARGS] {"a": [1, 2], "b": "x y"}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("parser", ["mistral", "devstral"])
def test_mistral_models_write_calls_in_several_forms(parser: str, calls: str) -> None:
    text = f"[TOOL_CALLS]{calls.replace('%s', CALL)}"
    for before, behind in (("", ""), ("Well: ", ""), ("", " Done."), ("Well: ", "</s> Done.")):
        content, _, ((name, arguments),) = parse(before + text + behind, parser)
        assert (name, json.loads(arguments)) == ("f", {"a": [1, 2], "b": "x y"})
        assert content == (
            before + behind.replace("</s>", "") if behind.strip("</s>") else before.strip()
        )
    assert len(parse(text + text, parser).calls) == 2


def test_a_mistral_call_may_give_its_own_id() -> None:
    (event, *_) = events_of(
        parsers("devstral").start(tools={}), ["[TOOL_CALLS]f[CALL_ID]aB3[ARGS]{}"]
    )
    assert event == ToolCall("f", "aB3")


def test_marks_in_the_strings_of_mistral_arguments_are_text() -> None:
    arguments = '{"a": "[TOOL_CALLS]g[ARGS]{}</s>"}'
    assert parse(f"[TOOL_CALLS]f[ARGS]{arguments}", "devstral").calls == [
        ("f", arguments.replace(": ", ":"))
    ]


@pytest.mark.parametrize("parser", ["llama3", "mistral"])
def test_a_json_answer_is_streamed_once_it_cannot_be_a_call(parser: str) -> None:
    stream = parsers(parser).start(tools={})
    begin = "{" if parser == "llama3" else "[{"
    assert stream.feed(begin + '"city"') == [Content(begin + '"city"')]
    assert stream.feed(': "Paris"}') == [Content(': "Paris"}')]


def test_events_come_as_soon_as_they_are_certain() -> None:
    stream = parsers("hermes3").start(tools={})
    assert stream.feed("Hello <to") == [Content("Hello")]
    assert stream.feed('ol_call>\n{"name": "f", ') == []
    assert stream.feed('"arguments":') == []
    assert stream.feed(" {") == [ToolCall("f"), Arguments("{")]
    assert stream.feed('"a": "b') == [Arguments('"a":"b')]
    assert stream.feed("c ") == [Arguments("c ")]
    assert stream.feed('d", ') == [Arguments('d",')]
    assert stream.feed('"n": 12') == [Arguments('"n":12')]
    assert stream.feed("3}") == [Arguments("3}")]
    assert stream.feed("}\n</tool_call>\n") == []
    assert stream.finish() == []
