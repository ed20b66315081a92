"""Answers of Google's ``:generateContent``, whole, as events and as an array."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from calculators.kit.requests.server_secret import signature
from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.generation_request import Api, GenerationRequest
from calculators.llm.answers.response import AnswerChoice
from calculators.llm.api.google.generate_content_writer import GenerateContentWriter
from calculators.llm.api.whole_answer import events_of_answer

USAGE = Usage(5, 9, 2, 4)
SIGNED = base64.b64encode(signature(b"hm...")).decode()
ALL: list[OutputEvent] = [
    Reasoning("hm"),
    Reasoning("..."),
    Content("Hello "),
    Content("you \u2028😀"),
    ToolCall("f", "call_1"),
    Arguments('{"a":'),
    Arguments("1}"),
    ToolCall("g", "call_2"),
]


def writer(choices: int = 1, *, shows: bool = True, array: bool = False) -> GenerateContentWriter:
    request = GenerationRequest(
        api=Api.GENERATE_CONTENT,
        model="m",
        id="one",
        shows_thinking=shows,
        echo={"array": array},
    )
    return GenerateContentWriter(Begun(choices, Usage(5, 0), request))


def streamed(made: GenerateContentWriter, reason: FinishReason, *events: OutputEvent) -> str:
    text = made.start(Usage(5, 0)) + made.begin(0)
    text += "".join(made.more(0, [event], None) for event in events)
    return text + made.finish(0, reason) + made.end(USAGE)


def items(text: str) -> list[dict[str, Any]]:
    if text.startswith("["):
        array: list[dict[str, Any]] = json.loads(text)
        return array
    assert text.endswith("\n\n")
    lines = text.split("\n\n")[:-1]
    assert all(len(line.splitlines()) == 1 for line in lines), "some clients know more line ends"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def parts_of(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        part for each in answers for one in each["candidates"] for part in one["content"]["parts"]
    ]


@pytest.mark.parametrize("array", [False, True])
def test_a_stream_with_everything(array: bool) -> None:
    answers = items(streamed(writer(array=array), FinishReason.TOOL_CALLS, *ALL))
    assert parts_of(answers) == [
        {"text": "hm", "thought": True},
        {"text": "...", "thought": True},
        {"text": "Hello ", "thoughtSignature": SIGNED},
        {"text": "you \u2028😀"},
        {"functionCall": {"name": "f", "args": {"a": 1}, "id": "call_1"}},
        {"functionCall": {"name": "g", "args": {}, "id": "call_2"}},
    ]
    last = answers[-1]
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["usageMetadata"] == {
        "promptTokenCount": 5,
        "candidatesTokenCount": 5,
        "cachedContentTokenCount": 2,
        "thoughtsTokenCount": 4,
        "totalTokenCount": 14,
    }
    assert {each["modelVersion"] for each in answers} == {"m"}
    assert {each["responseId"] for each in answers} == {"one"}
    assert not any("usageMetadata" in each for each in answers[:-1])


def test_a_whole_answer_joins_the_pieces() -> None:
    choice = AnswerChoice(events=list(ALL), finish_reason=FinishReason.TOOL_CALLS)
    answer = json.loads(writer().whole([choice], USAGE))
    (candidate,) = answer["candidates"]
    assert candidate["content"]["role"] == "model"
    assert candidate["content"]["parts"] == [
        {"text": "hm...", "thought": True},
        {"text": "Hello you \u2028😀", "thoughtSignature": SIGNED},
        {"functionCall": {"name": "f", "args": {"a": 1}, "id": "call_1"}},
        {"functionCall": {"name": "g", "args": {}, "id": "call_2"}},
    ]
    assert (candidate["finishReason"], candidate["index"]) == ("STOP", 0)


def test_thoughts_are_hidden_unless_asked_for() -> None:
    answers = items(streamed(writer(shows=False), FinishReason.STOP, *ALL[:3]))
    assert parts_of(answers) == [{"text": "Hello ", "thoughtSignature": SIGNED}]


@pytest.mark.parametrize(
    ("reason", "events", "ending"),
    [
        (FinishReason.LENGTH, [Content("x")], "MAX_TOKENS"),
        (FinishReason.CONTENT_FILTER, [], "SAFETY"),
        (FinishReason.STOP, [ToolCall("f", "c"), Arguments('{"a"')], "MALFORMED_FUNCTION_CALL"),
        (FinishReason.LENGTH, [ToolCall("f", "c"), Arguments('{"a"')], "MAX_TOKENS"),
    ],
)
def test_ends(reason: FinishReason, events: list[OutputEvent], ending: str) -> None:
    choice = AnswerChoice(events=list(events), finish_reason=reason)
    whole = json.loads(writer().whole([choice], USAGE))["candidates"][0]
    last = items(streamed(writer(), reason, *events))[-1]["candidates"][0]
    assert whole["finishReason"] == last["finishReason"] == ending
    assert not any("functionCall" in part for part in whole["content"]["parts"])


def test_a_refusal_has_its_text() -> None:
    made = writer()
    made.refuse(0, Refused("not this"))
    (only,) = items(made.finish(0, FinishReason.CONTENT_FILTER) + made.end(USAGE))
    candidate = only["candidates"][0]
    assert (candidate["finishReason"], candidate["finishMessage"]) == ("SAFETY", "not this")


def test_candidates_end_apart() -> None:
    made = writer(2)
    text = made.more(1, [Content("b")], None) + made.finish(1, FinishReason.LENGTH)
    text += made.more(0, [Content("a")], None) + made.finish(0, FinishReason.STOP)
    answers = items(text + made.end(USAGE))
    ends = [
        (one["index"], one.get("finishReason")) for each in answers for one in each["candidates"]
    ]
    assert ends == [(1, None), (1, "MAX_TOKENS"), (0, None), (0, "STOP")]
    assert "usageMetadata" in answers[-1]


def test_log_probabilities() -> None:
    tokens = [TokenLogprob("a", b"a", -0.5), TokenLogprob("b", b"b", None)]
    choice = AnswerChoice(events=[Content("ab")], logprobs=tokens)
    candidate = json.loads(writer().whole([choice], USAGE))["candidates"][0]
    assert candidate["logprobsResult"]["chosenCandidates"] == [
        {"token": "a", "logProbability": -0.5},
        {"token": "b", "logProbability": -9999.0},
    ]


@pytest.mark.parametrize("alt", ["sse", None])
def test_the_whole_answer_of_a_graph_becomes_a_stream(alt: str | None) -> None:
    answer = {"model": "m", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    asked = {"model": "m", "alt": alt}
    answers = items(events_of_answer(Api.GENERATE_CONTENT, asked, json.dumps(answer)))
    assert parts_of(answers) == [{"text": "hi"}]
    assert items(events_of_answer(Api.GENERATE_CONTENT, asked, '{"mine": 1}')) == [{"mine": 1}]
