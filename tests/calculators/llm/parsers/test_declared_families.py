"""Answers of every declared family: what comes out of them, and when, however they are cut."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import pytest
from tokenizers import Tokenizer

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall, merged
from calculators.llm.grammars.notation import written_calls
from calculators.llm.parsers.answer_reader import read_answer
from calculators.llm.parsers.families import FAMILIES, AnswerFamily, CallSyntax, with_suffix
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.pattern import marks
from calculators.llm.parsers.registry import reasoning_parser, tool_parser
from tests.calculators.llm.parsers.said import events_of, said
from tests.corpora import corpora
from tests.example_counts import examples
from tests.support.checkout import ROOT

CASES: Final = [
    json.loads(line)
    for line in (corpora() / "parser_families.jsonl").read_text(encoding="utf-8").splitlines()
]
STREAMS: Final = [
    json.loads(line)
    for line in (corpora() / "parser_families_stream.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def parsers_of(family: str) -> OutputParsers:
    declared = FAMILIES.get(family)
    if declared is not None and declared.reasoning is None:
        return OutputParsers(tool_parser(family))
    return OutputParsers(tool_parser(family), reasoning_parser(family))


def events(case: dict[str, Any], chunks: Iterable[str]) -> list[OutputEvent]:
    stream = parsers_of(case["family"]).start(
        tools=case["tools_schemas"] if case["tools_available"] else None,
        prompt=case["rendered_prompt"] or "",
    )
    return merged(events_of(stream, chunks))


def pieces(text: str, size: int) -> list[str]:
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def random_pieces(text: str, seed: int) -> list[str]:
    chance = random.Random(seed)
    places = {0, len(text), *(chance.randrange(len(text)) for _ in range(len(text) // 6))}
    return [text[begin:end] for begin, end in pairwise(sorted(places))]


def token_pieces(text: str, marks_as_tokens: Iterable[str]) -> list[str]:
    """Return a text as the tokens of the demo's vocabulary, to which marks are added."""
    tokenizer = Tokenizer.from_file(str(ROOT / "examples/models/demo/tokenizer.json"))
    tokenizer.add_special_tokens(sorted(marks_as_tokens))
    ends = (end for _, end in tokenizer.encode(text).offsets)
    return [text[begin:end] for begin, end in pairwise(sorted({0, len(text), *ends}))]


def blanks(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def begins_with(arguments: str, members: dict[str, Any]) -> bool:
    """True if the text, which may be cut, begins with an object that has these members."""
    for end in range(len(arguments), 0, -1):
        for tail in ("", "}", '"}', "null}", ": null}", '": null}'):
            try:
                found = json.loads(arguments[:end].rstrip(", \n") + tail)
            except ValueError:
                continue
            if isinstance(found, dict) and members.items() <= found.items():
                return True
    return not members


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_an_answer_comes_out_as_expected(case: dict[str, Any]) -> None:
    text, expected = case["model_output"], case["expected"]
    whole = events(case, [text])
    for size in (1, 2, 3, 5, 7, 13):
        assert events(case, pieces(text, size)) == whole
    for seed in range(3):
        assert events(case, random_pieces(text, seed)) == whole
    got = said(whole)
    same = blanks if case["compare"] == "blanks" else str
    if "or" in case and len(got.calls) == 1:
        # Arguments that are no JSON may also go out as they are.
        name, arguments = got.calls[0]
        assert all(part in name + arguments for part in expected.get("content_contains", ()))
        return
    if "content" in expected:
        assert same(got.content) == same(expected["content"])
    if "reasoning_content" in expected:
        assert same(got.reasoning) == same(expected["reasoning_content"])
    assert all(part in got.content for part in expected.get("content_contains", ()))
    assert [name for name, _ in got.calls] == [call["name"] for call in expected["tool_calls"]]
    ids = [event.call_id for event in whole if isinstance(event, ToolCall)]
    for (_, arguments), call_id, call in zip(got.calls, ids, expected["tool_calls"], strict=True):
        if "id" in call:
            assert call_id == call["id"]
        if "members" in call:
            assert begins_with(arguments, call["members"])
        else:
            assert json.loads(arguments) == json.loads(call["arguments"])


@pytest.mark.parametrize("family", sorted({case["family"] for case in CASES}))
def test_tokens_of_a_vocabulary_are_pieces_as_any(family: str) -> None:
    declared = FAMILIES.get(family)
    syntax = None if declared is None else declared.calls
    of_family = frozenset[str]() if syntax is None else marks(syntax)
    if declared is not None and declared.reasoning is not None:
        of_family |= {*declared.reasoning.begin, *declared.reasoning.end}
    for case in (each for each in CASES if each["family"] == family):
        text = case["model_output"]
        whole = events(case, [text])
        for as_tokens in (frozenset[str](), of_family):
            tokens = token_pieces(text, as_tokens)
            assert events(case, tokens) == whole, case["id"]
            # Drafts deliver several at a time.
            several = ["".join(tokens[begin : begin + 3]) for begin in range(0, len(tokens), 3)]
            assert events(case, several) == whole, case["id"]


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: str(case["id"]))
def test_an_answer_goes_out_as_it_grows(case: dict[str, Any]) -> None:
    stream = parsers_of(case["family"]).start(
        tools=case["tools_schemas"], prompt=case["rendered_prompt"] or ""
    )
    sent: list[OutputEvent] = []
    read = 0
    for point in case["checkpoints"]:
        for letter in case["model_output"][read : point["after"]]:
            sent += stream.feed(letter)
        read = point["after"]
        names = [event.name for event in sent if isinstance(event, ToolCall)]
        assert names == point.get("calls", names)
        thoughts = sum(len(event.text) for event in sent if isinstance(event, Reasoning))
        assert thoughts >= point.get("reasoning_chars_at_least", 0)
        content = sum(len(event.text) for event in sent if isinstance(event, Content))
        assert content >= point.get("content_chars_at_least", 0)
        arguments = sum(len(event.text) for event in sent if isinstance(event, Arguments))
        assert arguments >= point.get("argument_chars_at_least", 0)


@pytest.mark.parametrize(
    ("family", "prompt", "answer", "content", "calls"),
    [
        ("functionary32", "\n\n>>>", "all\nHi", "Hi", 0),
        ("functionary32", "\n\n>>>", 'f\n{"a": "x"}', "", 1),
        ("functionary32", "\n\n>>>", 'all\nLook>>>f\n{"a": "x"}>>>f\n{"a": "x"}', "Look", 2),
        ("functionary32", "\n\n>>>", "all\n>>> 1 + 1", ">>> 1 + 1", 0),
        ("hermes", "assistant\n<tool_call>\n", '{"name": "f", "arguments": {"a": "x"}}', "", 1),
        ("hermes", "assistant\n<tool_call>\n", "No, thanks", "No, thanks", 0),
    ],
)
def test_the_prompt_may_end_in_the_mark_of_a_call(
    family: str, prompt: str, answer: str, content: str, calls: int
) -> None:
    for chunks in ([answer], list(answer)):
        stream = parsers_of(family).start(tools=TOOLS, prompt=prompt)
        got = said(events_of(stream, chunks))
        assert (got.content, got.calls) == (content, [("f", '{"a":"x"}')] * calls)


#: What models write between the marks of their family, whole and broken.
PIECES: Final = (
    *("{", "}", '"', "\\", ":", "\n", " ", "é", "[", "]", ",", "(", ")", "=", "'", "f", "a", "1"),
    *("True", '{"name": "f", "arguments": {', '"a": "x"}}', '{"name": "f", "arguments": {"a": 1}}'),
    *("f(a=", "f(a='x')", "a:1", '"name"', "</s>", "<", "|", "x y", "\n\n", "call:f{", "```"),
    *("functions.f:0", '{"a": 1}', "json", ";", "null", "<think>", "</think>"),
)
TOOLS: Final = {
    "f": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
    "ord": {},
}


def texts(family: AnswerFamily, chance: random.Random) -> str:
    own = sorted(marks(family.calls)) if family.calls is not None else []
    if family.reasoning is not None:
        own += [*family.reasoning.begin, *family.reasoning.end]
    own += [*filter(None, (each for pair in family.answer for each in pair)), *family.stops]
    own += [each[: len(each) // 2] for each in own]
    chosen = (chance.choice(own if chance.random() < 0.55 else PIECES) for _ in range(14))
    return "".join(list(chosen)[: chance.randint(1, 14)])


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_read_does_not_depend_on_the_pieces(name: str) -> None:
    family, chance = FAMILIES[name], random.Random(name)
    for _ in range(examples(150)):
        text = texts(family, chance)
        prompt = chance.choice(("", family.reasoning.begin[0] if family.reasoning else ""))
        whole = read_answer(family, text, TOOLS, prompt)
        cut = chance.randint(1, 9)
        for chunks in (list(text), pieces(text, cut)):
            stream = OutputParsers(family, family if family.reasoning else None).start(
                tools=TOOLS, prompt=prompt
            )
            assert merged(events_of(stream, chunks)) == whole, text


def test_every_family_is_among_the_cases() -> None:
    tried = {case["family"] for case in CASES}
    # Declared after the cases were written.
    later = {"inkling", "command_r", "plamo3", "k2_horizon", "gigachat35", "functionary32"}
    assert FAMILIES.keys() - later <= tried


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (
            "inkling",
            "<|content_thinking|>Hm.<|end_message|><|message_model|><|content_text|>Look:"
            '<|end_message|><|message_model|>f<|content_invoke_tool_json|>{"name": "f", "args": '
            '{"a": "x"}}<|end_message|><|content_model_end_sampling|>',
        ),
        (
            "command_r",
            'Look:\nAction:\n```json\n[{"tool_name": "f", "parameters": {"a": "x"}}]\n```',
        ),
        (
            "plamo3",
            "Look:<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
            "<|plamo:begin_tool_name:plamo|>f<|plamo:end_tool_name:plamo|>"
            "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"
            '{"a": "x"}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>'
            "<|plamo:end_tool_requests:plamo|><|plamo:tag|>",
        ),
        (
            "k2_horizon",
            "Look:<ifm|tool_calls>\n<ifm|tool_call>f\n<ifm|arg_key>a</ifm|arg_key>\n"
            "<ifm|arg_type>string</ifm|arg_type>\n<ifm|arg_value>x</ifm|arg_value>\n"
            "</ifm|tool_call>\n</ifm|tool_calls>",
        ),
        (
            "k2_horizon",
            'Look:<ifm|tool_calls><ifm|tool_call>{"name": "f", "arguments": {"a": "x"}}'
            "</ifm|tool_call></ifm|tool_calls>",
        ),
        (
            "gigachat35",
            'Look:<｜GCML｜tool_calls>\n<｜GCML｜invoke name="f">\n'
            '<｜GCML｜parameter name="a" string="true">x</｜GCML｜parameter>\n'
            "</｜GCML｜invoke>\n</｜GCML｜tool_calls>",
        ),
    ],
)
def test_further_families_are_read(family: str, text: str) -> None:
    got = said(read_answer(FAMILIES[family], text, TOOLS))
    assert (got.content, got.calls) == ("Look:", [("f", '{"a":"x"}')])


def test_the_marks_of_a_tokenizer_may_carry_a_suffix() -> None:
    family = with_suffix(FAMILIES["hy3"], ":6124c78e")
    mark = ":6124c78e>"
    text = (
        f"<think{mark}Hm.</think{mark}<tool_calls{mark}\n<tool_call{mark}f<tool_sep{mark}\n"
        f"<arg_key{mark}a</arg_key{mark}\n<arg_value{mark}x</arg_value{mark}\n</tool_call{mark}\n"
        f"</tool_calls{mark}"
    )
    assert said(read_answer(family, text, TOOLS)) == ("", "Hm.", [("f", '{"a":"x"}')])


#: Calls of tools of every kind of argument, which `written_calls` writes in each form.
WRITTEN: Final[dict[str, list[tuple[str, dict[str, Any]]]]] = {
    "single": [("list", {"port": "Bergen", "limit": 3, "open": True})],
    "parallel": [("list", {"port": "Oban"}), ("save", {"tags": ["a", "b"]}), ("list", {})],
    "nested": [("save", {"at": {"x": [1, {"y": 'a "b"'}], "z": 2.5}, "title": "t"})],
    "text": [("save", {"title": 'He said "go", it\'s 5 < 6\n\tC:\\temp — 漢字', "body": ""})],
    "null": [("list", {"port": "true", "until": None})],
}
WRITTEN_TOOLS: Final[dict[str, Any]] = {
    "list": {
        "properties": {
            "port": {"type": "string"},
            "limit": {"type": "integer"},
            "open": {"type": "boolean"},
            "until": {"type": ["string", "null"]},
        }
    },
    "save": {
        "properties": {
            "title": {"type": "string"},
            "body": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "object"},
        }
    },
}


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("name", FAMILIES)
def test_calls_are_read_as_they_are_written_and_wherever_they_are_cut(name: str, kind: str) -> None:
    family, calls = FAMILIES[name], WRITTEN[kind]
    assert family.calls is not None
    calls = calls[:1] if family.calls.only_one else calls
    text = written_calls(family.calls, calls)
    got = said(read_answer(family, text, WRITTEN_TOOLS))
    read = [(called, json.loads(arguments)) for called, arguments in got.calls]
    assert (got.content, read) == ("", calls)
    for end in range(len(text)):
        cut = said(read_answer(family, text[:end], WRITTEN_TOOLS))
        assert [called for called, _ in cut.calls] == [called for called, _ in calls][
            : len(cut.calls)
        ]
        for (_, arguments), (_, whole) in zip(cut.calls, calls, strict=False):
            # What went out is how the whole arguments begin.
            compact = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
            assert arguments == "" or begins_with(arguments, {}) or compact.startswith(arguments)
        # The rest of a call that was cut is no text.
        assert not cut.calls or cut.content.strip() == ""


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        ({"call": "<t>{args}</t>", "argument": "{key}={value};"}, "no name of a tool"),
        ({"call": ""}, "no name of a tool"),
        ({"call": "<t>{name} {tree}"}, "has no end: put a text after {tree}"),
        ({"call": "<t>{name}{args}", "argument": "{key}={value};"}, "a text after {args}"),
        ({"call": "<t>{name}{args}</t>"}, "lacks a field: put {key} and {value}"),
        ({"call": "<t>{name}{args}</t>", "argument": "{key}={value}"}, "a text after {value}"),
        ({"call": "<t>{name}{args}</t>", "argument": "{key}{value};"}, "nothing between"),
        ({"call": "<t>{name}{{gemma}}</t>"}, "set quote"),
        ({"call": "{object}", "accepts": ("{name}\n{args}",)}, "has no end"),
    ],
)
def test_a_declaration_says_what_its_patterns_lack(members: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        CallSyntax(**members).check()


def test_graphrts_own_declarations_lack_nothing() -> None:
    for family in FAMILIES.values():
        if family.calls is not None:
            family.calls.check()
