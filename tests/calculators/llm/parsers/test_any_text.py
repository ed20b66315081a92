"""Laws that hold for every parser, whatever a model writes."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall, merged
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import reasoning_parser
from tests.calculators.llm.parsers.said import events_of, parsers, said
from tests.example_counts import examples

# Thousands of runs of code that other tests cover: measuring coverage takes three times as long.
pytestmark = pytest.mark.unmeasured

#: Texts that models write around calls and reasoning, whole and broken, and between them.
PIECES = (
    *("<tool_call>", "</tool_call>", "<|python_tag|>", ";", "functools", "[", "]", ",", "</s>"),
    *("[TOOL_CALLS]", "[ARGS]", "<think>", "</think>", "{", "}", '"', "\\", ":", "\n", " ", "é"),
    *('{"name": "f", "arguments": {', '"a": "x"}}', '"name"', '"arguments"', '{"a": [1, true]}'),
    *("<function=f>", "</function>", "<parameter=a>", "</parameter>", '<function name="f">'),
    *('<param name="a">', "</param>", "<atem:function_calls>", "</atem:function_calls>"),
    *('<atem:invoke name="f">', "</atem:invoke>", '<atem:parameter name="a">', "</atem:parameter>"),
    *("to=f", "to=self", " to=self", "<|message|>", "<|eom|>", "<|eot|>"),
    *("<|start|>assistant", "<|channel|>"),
    *("analysis", "final", "commentary", " to=functions.f ", "<|constrain|>json", "<|end|>"),
    *("<|call|>", "<|return|>", "<|tool_call>", "<tool_call|>", "call:f{", 'a:<|"|>', '<|"|>'),
    *("<|channel>thought\n", "<channel|>", "<turn|>", "<|tool_response>", "<|im_end|>", "<s>"),
    *("<|tool_call_start|>[", "]<|tool_call_end|>", "f(a=", "'", "=", "(", ")", "1", "True", "ord"),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)

TOOLS = {"f": {"type": "object", "properties": {"a": {"type": "string"}}}, "ord": {}}
#: Forms of every kind; `test_declared_families` tries all of them.
REASONING = ("qwen3", "gptoss", "gemma4", "onyx", "devstral", "kimi_k3")
TOOL = (
    *("hermes3", "llama3", "phi4", "mistral", "devstral", "qwen3coder", "gptoss", "lfm2", "gemma4"),
    *("onyx", "minicpm5", "kimi_k2", "kimi_k3", "apertus", "glm45", "deepseek_v4", "pythonic"),
)
NAMES: list[tuple[str | None, str | None]] = [(name, None) for name in TOOL]
NAMES += [(None, name) for name in REASONING]
NAMES += [(name, name) for name in REASONING if name in TOOL]
NAMES += [("hermes3", "qwen3")]

every_parser = pytest.mark.parametrize(("tool", "reasoning"), NAMES)


def events(tool: str | None, reasoning: str | None, chunks: Iterator[str]) -> list[OutputEvent]:
    return merged(events_of(parsers(tool, reasoning).start(tools=TOOLS), chunks))


def cut(text: str, cuts: list[int]) -> Iterator[str]:
    places = sorted({min(each, len(text)) for each in cuts} | {0, len(text)})
    return (text[begin:end] for begin, end in pairwise(places))


@every_parser
@given(text=TEXTS, cuts=st.lists(st.integers(0, 150), max_size=8))
@example(text='<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', cuts=[])
@example(text='functools[{"name": "f", "arguments": {"a": b}}]', cuts=[40, 46, 47])
@example(text=f"a to=self<|message|>b to={'n' * 128}{' ' * 20}<|message|>c", cuts=[1, 2, 5])
@example(text=f"a to={'n' * 129}<|message|>b to=f{' ' * 21}<|message|>c", cuts=[3, 100])
def test_the_result_does_not_depend_on_where_the_text_is_cut(
    tool: str | None, reasoning: str | None, text: str, cuts: list[int]
) -> None:
    whole = events(tool, reasoning, iter([text]))
    assert events(tool, reasoning, iter(text)) == whole
    assert events(tool, reasoning, cut(text, cuts)) == whole


@every_parser
@given(text=TEXTS)
def test_events_are_well_formed(tool: str | None, reasoning: str | None, text: str) -> None:
    has_call = False
    for event in events(tool, reasoning, iter(text)):
        match event:
            case ToolCall(name, call_id):
                assert name
                assert call_id == "" or tool in ("mistral", "devstral", "kimi_k2", "solar")
                has_call = True
            case Arguments(part):
                assert part
                assert has_call
            case Content(part) | Reasoning(part):
                assert part
        assert tool is not None or not isinstance(event, ToolCall | Arguments)
        assert reasoning is not None or not isinstance(event, Reasoning)


@every_parser
@given(text=st.text(st.characters(exclude_characters="<>[]{}|=:;,()'\"\\")))
def test_text_without_any_tag_is_content(
    tool: str | None, reasoning: str | None, text: str
) -> None:
    text = text.replace("functools", "").replace("to", "")
    # White space at the end may be before a call, or behind the end of the text.
    assert "".join(said(events(tool, reasoning, iter([text])))[:1]).strip() == text.strip()


#: Parsers that drop nothing but their tags and the punctuation of calls.
KEEP_ALL: list[tuple[str | None, str | None]] = [
    ("hermes3", None),
    ("llama3", None),
    ("phi4", None),
    ("mistral", None),
]
KEEP_ALL += [("devstral", None), (None, "qwen3"), ("hermes3", "qwen3")]

#: Without lone quotation marks: a word in a skipped member is not lost, but not visible.
UNQUOTED = tuple(piece for piece in PIECES if piece not in ('"', '"name"', '"arguments"', "\\"))


@pytest.mark.parametrize(("tool", "reasoning"), KEEP_ALL)
@given(pieces=st.lists(st.sampled_from(UNQUOTED), max_size=25))
@example(pieces=["<tool_call>", "{", "}", "</tool_call>"])
@example(pieces=['{"name": "f", "arguments": {', "[TOOL_CALLS]"])
@example(pieces=["[TOOL_CALLS]", "[ARGS]", "[TOOL_CALLS]"])
def test_no_word_is_lost_or_moved(
    tool: str | None, reasoning: str | None, pieces: list[str]
) -> None:
    words = [f" w{number}w " for number in range(len(pieces))]
    # A name behind a mark that nothing follows would be a call that was cut, which is no content.
    text = "".join(piece + word for piece, word in zip(pieces, words, strict=True)) + "! Done."
    seen = "".join(
        event.name if isinstance(event, ToolCall) else event.text
        for event in events(tool, reasoning, iter([text]))
    )
    places = [seen.find(word.strip()) for word in words]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("name", TOOL)
def test_a_tool_parser_needs_no_tools(name: str) -> None:
    stream = parsers(name).start(tools=None)
    assert [*stream.feed("Hello"), *stream.finish()] == [Content("Hello")]


@pytest.mark.parametrize("name", REASONING)
def test_reasoning_may_be_begun_by_the_prompt(name: str) -> None:
    chosen = OutputParsers(None, reasoning_parser(name))
    (begin, *_), (end, *_) = chosen.reasoning_marks
    result = said(events_of(chosen.start(tools=None, prompt=begin), ["Hm.", end, "Hello"]))
    assert result.reasoning == "Hm."
    # The end of the reasoning may belong to the header of what follows.
    assert result.content in ("Hello", "")


@pytest.mark.parametrize("name", TOOL)
def test_a_call_may_have_the_longest_name_of_a_tool(name: str) -> None:
    tool = ("mcp__server__" + "a_long-name.1" * 12)[:128]
    text = (OPENINGS[name] + ENDINGS[name]).replace('name": "f', f'name": "{tool}')
    for place in ("]f[", "=f>", ".f ", "[f(", ":f{", '"f">', ".f:", ">f\n", '"f" i', '{"f"'):
        text = text.replace(place, place.replace("f", tool, 1))
    result = said(events_of(parsers(name).start(tools={tool: {}}), text))
    assert [called for called, _ in result.calls] == [tool]


OPENINGS = {
    "hermes3": '<tool_call>{"name": "f", "arguments": ',
    "llama3": '<|python_tag|>{"name": "f", "parameters": ',
    "phi4": 'functools[{"name": "f", "arguments": ',
    "mistral": '[TOOL_CALLS][{"name": "f", "arguments": ',
    "devstral": "[TOOL_CALLS]f[ARGS]",
    "qwen3coder": "<tool_call><function=f><parameter=b>",
    "gptoss": "<|channel|>commentary to=functions.f <|message|>",
    "lfm2": "<|tool_call_start|>[f(b=",
    "gemma4": "<|tool_call>call:f{b:",
    "onyx": '<atem:function_calls><atem:invoke name="f"><atem:parameter name="b">',
    "minicpm5": '<function name="f"><param name="b">',
    "kimi_k2": "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>",
    "kimi_k3": '<|open|>call tool="f" index="1"<|sep|>'
    '<|open|>argument key="b" type="number"<|sep|>',
    "apertus": '<|tools_prefix|>[{"f": ',
    "glm45": "<tool_call>f\n<arg_key>b</arg_key>\n<arg_value>",
    "deepseek_v4": '<｜DSML｜invoke name="f"><｜DSML｜parameter name="b" string="false">',
    "pythonic": "[f(b=",
}
ENDINGS = {
    "hermes3": "{}}</tool_call>",
    "llama3": "{}}",
    "phi4": "{}}]",
    "mistral": "{}}]",
    "devstral": "{}</s>",
    "qwen3coder": "1</parameter></function></tool_call>",
    "gptoss": "{}<|call|>",
    "lfm2": "1)]<|tool_call_end|>",
    "gemma4": "1}<tool_call|>",
    "onyx": "1</atem:parameter></atem:invoke></atem:function_calls>",
    "minicpm5": "1</param></function>",
    "kimi_k2": "{}<|tool_call_end|>",
    "kimi_k3": "1<|close|>argument<|sep|><|close|>call<|sep|>",
    "apertus": "{}}]<|tools_suffix|>",
    "glm45": "1</arg_value></tool_call>",
    "deepseek_v4": "1</｜DSML｜parameter></｜DSML｜invoke>",
    "pythonic": "1)]",
}
REPEATED = {
    "plain text": "a word or two ",
    "the tag again": "",
    "deep JSON": '{"a":[',
    "white space": "   \n",
    "brackets": "}]",
    "an open string": '"x ',
    "backslashes": "\\",
    "quotes": "'",
    "half tags": "</tool_",
    "half headers": " to=",
}


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("name", TOOL)
def test_time_is_linear_in_the_text(name: str, repeated: str) -> None:
    piece = REPEATED[repeated] or OPENINGS[name]
    if repeated == "an open string":
        begin = OPENINGS[name] + '{"a": "'
        piece = "some text "
    else:
        begin = OPENINGS[name]

    def seconds(length: int) -> float:
        text = begin + piece * (length // len(piece))
        stream = parsers(name).start(tools=TOOLS)
        started = time.process_time()
        for place in range(0, len(text), 24):
            stream.feed(text[place : place + 24])
        stream.finish()
        return time.process_time() - started

    def is_linear(length: int) -> bool:
        short = min(seconds(length) for _ in range(3))
        return seconds(16 * length) < 3 * 16 * short

    # A processor that other tests share is faster and slower by turns, so one time of several
    # decides: a parser that takes the square of the length is sixteen times too slow in all.
    with collector_at_rest():
        assert any(is_linear(examples(5_000)) for _ in range(5))


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep the garbage collector, which walks the objects of all tests, out of a measurement."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("name", TOOL)
def test_a_large_answer_may_arrive_in_one_piece(name: str) -> None:
    text = OPENINGS[name] + '{"a": "' + "some text " * 100_000 + '"}'
    started = time.process_time()
    events_of(parsers(name).start(tools=TOOLS), [text])
    events_of(parsers(name).start(tools=TOOLS), [OPENINGS[name] * 10_000])
    events_of(parsers(name).start(tools=TOOLS), [OPENINGS[name] + "[" * 100_000])
    assert time.process_time() - started < 60
