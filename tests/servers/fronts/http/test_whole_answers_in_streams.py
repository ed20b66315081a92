"""Graphs that answer with a whole JSON object although the client asked for a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, serving

pytestmark = pytest.mark.both_loops

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 5,
    "model": "mine",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
PATHS = ("/v3/chat/completions", "/v3/completions", "/v1/responses", "/v1/messages")


def streamed(run: Run, answer: object, path: str, **members: Any) -> str:
    """Return the text of a stream from a graph that gives one packet."""
    texts: list[str] = []

    async def whole(payload: HttpPayload, emit: Emit) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        emit(text.encode() if path == PATHS[0] else text)

    async def scenario() -> None:
        async with serving(FakeDataPlane(whole=whole)) as front:
            reply = await ask(front, chat_bytes("whole", path=path, stream=True, **members))
            assert reply.status == 200
            assert reply.headers["content-type"].startswith("text/event-stream")
            texts.append(reply.body.decode())

    run(scenario())
    return texts[0]


def data_of(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_a_chat_becomes_chunks_with_its_calls_and_usage(run: Run) -> None:
    text = streamed(run, CHAT, PATHS[0], stream_options={"include_usage": True})
    events = data_of(text)
    assert text.endswith("data: [DONE]\n\n")
    assert {(each["id"], each["model"], each["created"]) for each in events} == {
        ("chatcmpl-1", "mine", 5)
    }
    deltas = [each["choices"][0]["delta"] for each in events if each["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Hello"
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert calls[0]["function"]["name"] == "f"
    assert calls[1]["function"]["arguments"] == '{"a": 1}'
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert events[-1]["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        (PATHS[2], {"response.created", "response.output_text.delta", "response.completed"}),
        (PATHS[3], {"message_start", "content_block_delta", "message_delta", "message_stop"}),
    ],
)
def test_a_chat_becomes_the_events_of_the_api_that_was_asked(
    run: Run, path: str, kinds: set[str]
) -> None:
    events = data_of(streamed(run, CHAT, path))
    assert kinds <= {event["type"] for event in events}


def test_answers_of_each_api_become_events(run: Run) -> None:
    response = {
        "object": "response",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]},
        ],
    }
    message = {
        "type": "message",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "max_tokens",
    }
    completion = {"choices": [{"text": "Hello", "finish_reason": "length"}]}
    for answer in (response, message, completion):
        events = data_of(streamed(run, answer, PATHS[0]))
        pieces = [event["choices"][0]["delta"].get("content") or "" for event in events]
        assert "".join(pieces) == "Hello"
        assert events[-1]["choices"][0]["finish_reason"] == "length"
        [*_, last] = data_of(streamed(run, answer, PATHS[1]))
        assert last["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("answer", [{"error": {"message": "no"}}, {"spam": 1}, {"choices": [7]}])
def test_other_json_becomes_one_event(run: Run, answer: dict[str, Any]) -> None:
    for path in PATHS:
        assert data_of(streamed(run, answer, path)) == [answer]


def test_events_and_other_texts_stay_as_they_are(run: Run) -> None:
    for text in ("data: {}\n\n", '{"half": '):
        assert streamed(run, text, PATHS[0]).startswith(text)
