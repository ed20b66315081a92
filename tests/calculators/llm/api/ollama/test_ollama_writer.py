"""Answers of Ollama's API, whole and in lines."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord
from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage, Verbose
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
from calculators.llm.api.ollama import loaded_answer, ollama_writer
from calculators.llm.api.whole_answer import events_of_answer

USAGE = Usage(5, 4)
ALL: list[OutputEvent] = [
    Reasoning("hm"),
    Content("Hello \u2028"),
    Content("you\n"),
    ToolCall("f", "call00001"),
    Arguments('{"a":\n'),
    Arguments('"x\u2028"}'),
    ToolCall("g", "call00002"),
]
DURATIONS = {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}


def begun(api: Api = Api.OLLAMA_CHAT, **fields: Any) -> Begun:
    record = RequestRecord("mine")
    generation = record.begin_generation("n", "api/chat")
    generation.first_token = perf_counter_ns()
    request = GenerationRequest(api=api, model="m:latest", record=record, **fields)
    return Begun(1, USAGE, request, prompt_ids=[array("q", [7, 8]).tobytes()])


def streamed(
    events: Sequence[OutputEvent], reason: FinishReason = FinishReason.STOP, **fields: Any
) -> list[dict[str, Any]]:
    made = ollama_writer(begun(**fields))
    text = made.start(USAGE) + made.begin(0)
    text += "".join(made.more(0, [event], None) for event in events)
    if made.details is not None:
        made.details.add(0, [9])
    text += made.finish(0, reason) + made.end(USAGE)
    assert len(text.splitlines()) == text.count("\n"), "clients know more line ends"
    return [json.loads(line) for line in text.splitlines()]


def whole(choice: AnswerChoice, **fields: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(ollama_writer(begun(**fields)).whole([choice], USAGE))
    return value


def test_the_lines_of_an_answer_with_everything() -> None:
    lines = streamed(ALL, FinishReason.TOOL_CALLS)
    assert all(line["model"] == "m:latest" for line in lines)
    assert [line["done"] for line in lines] == [*[False] * 5, True]
    assert [line["message"] for line in lines] == [
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "assistant", "content": "Hello \u2028"},
        {"role": "assistant", "content": "you\n"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [call("call00001", 0, "f", a="x\u2028")],
        },
        {"role": "assistant", "content": "", "tool_calls": [call("call00002", 1, "g")]},
        {"role": "assistant", "content": ""},
    ]
    last = lines[-1]
    assert last["done_reason"] == "stop"
    assert (last["prompt_eval_count"], last["eval_count"]) == (5, 4)
    assert all(last[name] >= 0 for name in DURATIONS)


def call(call_id: str, index: int, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "function": {"index": index, "name": name, "arguments": arguments}}


def test_a_whole_answer_says_the_same() -> None:
    answer = whole(AnswerChoice(ALL, FinishReason.LENGTH))  # type: ignore[arg-type]
    assert answer["message"] == {
        "role": "assistant",
        "content": "Hello \u2028you\n",
        "thinking": "hm",
        "tool_calls": [call("call00001", 0, "f", a="x\u2028"), call("call00002", 1, "g")],
    }
    assert (answer["done"], answer["done_reason"]) == (True, "length")
    assert answer.keys() >= DURATIONS


def test_a_prompt_has_its_texts_at_the_top_and_a_context() -> None:
    fields: dict[str, Any] = {"api": Api.OLLAMA_GENERATE, "returns_token_ids": True}
    lines = streamed(ALL[:2], **fields)
    assert [line.get("response") for line in lines] == ["", "Hello \u2028", ""]
    assert [line.get("thinking") for line in lines] == ["hm", None, None]
    assert [line.get("context") for line in lines] == [None, None, [7, 8, 9]]
    answer = whole(AnswerChoice(ALL[:2], token_ids=[3]), **fields)  # type: ignore[arg-type]
    assert (answer["response"], answer["context"]) == ("Hello \u2028", [7, 8, 3])


def test_thoughts_are_not_shown_to_those_who_want_none() -> None:
    assert not any("thinking" in line["message"] for line in streamed(ALL, shows_thinking=False))
    answer = whole(AnswerChoice(ALL), shows_thinking=False)  # type: ignore[arg-type]
    assert "thinking" not in answer["message"]


@pytest.mark.parametrize("text", ['{"a": ', "[1]", "x", '{"a": NaN}'])
def test_arguments_that_are_no_object_are_one_all_the_same(text: str) -> None:
    line = streamed([ToolCall("f", "call00001"), Arguments(text)])[0]
    arguments = line["message"]["tool_calls"][0]["function"]["arguments"]
    assert arguments == {"INVALID_JSON": text}


def test_log_probabilities_come_with_the_tokens() -> None:
    tokens = [TokenLogprob("a", b"a", -0.5), TokenLogprob("b", b"b", -1.0)]
    made = ollama_writer(begun(wants_logprobs=True))
    lines = [
        json.loads(line)
        for line in made.more(0, [Content("ab"), Content("c")], tokens).splitlines()
    ]
    shown = [[each["token"] for each in line.get("logprobs", ())] for line in lines]
    assert shown == [["a", "b"], []]
    alone = json.loads(made.more(0, [], tokens[:1]))
    assert (alone["message"]["content"], len(alone["logprobs"])) == ("", 1)


def test_a_refusal_is_the_text_of_an_answer_that_has_none() -> None:
    made = ollama_writer(begun())
    assert json.loads(made.refuse(0, Refused("no")))["message"]["content"] == "no"
    made.more(0, [Content("x")], None)
    assert made.refuse(0, Refused("no")) == ""
    choice = AnswerChoice([], FinishReason.CONTENT_FILTER, refusal=Refused("no"))
    assert whole(choice)["message"]["content"] == "no"


def test_the_prompt_and_the_raw_text_are_shown_where_the_operator_shows_them() -> None:
    made = ollama_writer(begun())
    made.verbose = Verbose("p", "c")
    assert json.loads(made.end(USAGE))["__verbose"] == {"prompt": "p", "content": "c"}


def test_nothing_but_loading() -> None:
    chat = json.loads(loaded_answer(Api.OLLAMA_CHAT, {"model": "m"}))
    assert (chat["message"]["content"], chat["done"], chat["done_reason"]) == ("", True, "load")
    gone = json.loads(loaded_answer(Api.OLLAMA_GENERATE, {"model": "m", "keep_alive": 0}))
    assert (gone["response"], gone["done_reason"]) == ("", "unload")
    with pytest.raises(RequestError):
        loaded_answer(Api.OLLAMA_CHAT, {"model": "m", "keep_alive": "soon"})


def test_a_graph_that_answers_whole_is_sent_in_lines() -> None:
    chat = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    lines = events_of_answer(Api.OLLAMA_CHAT, {"model": "m"}, json.dumps(chat)).splitlines()
    assert [json.loads(line)["message"]["content"] for line in lines] == ["Hi", ""]
    own = '{"mine": 1}'
    assert events_of_answer(Api.OLLAMA_CHAT, {"model": "m"}, own) == own + "\n"
    with pytest.raises(ValueError, match="lines"):
        events_of_answer(Api.OLLAMA_CHAT, {"model": "m"}, own + "\n")
