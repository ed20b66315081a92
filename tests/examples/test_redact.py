"""`examples/graphs/redact`, served: no client gets what the graph masks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.examples.text_clients import ask_with_clients
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

FOLDER = "examples/graphs/redact"
QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is ***."
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def chat(server: Serving, **more: Any) -> str:
    body = {"model": "redact", "temperature": 0, "max_tokens": 60, **more}
    with server.request("POST", "/v3/chat/completions", body) as response:
        assert response.status == 200
        return response.read().decode()


def test_the_command_of_the_comment_works() -> None:
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER}\n" in text


def test_all_clients_get_the_masked_answer_whole_and_streamed(server: Serving) -> None:
    facts = ask_with_clients(f"http://127.0.0.1:{server.port}", "redact", QUESTION)
    assert facts["chat"] == facts["chat stream"] == [ANSWER, None, "stop"]
    assert facts["responses"] == facts["responses stream"] == [ANSWER, [], "completed", None]
    assert facts["messages"] == facts["messages stream"] == [ANSWER, "end_turn", None]
    assert facts["responses pieces"] == facts["messages pieces"] == ANSWER
    assert facts["completions"] == facts["completions stream"]
    assert facts["kserve"] == facts["kserve stream"]
    assert "Paris" not in json.dumps(facts)


@pytest.mark.parametrize("stream", [False, True])
def test_arguments_of_a_call_are_masked(server: Serving, stream: bool) -> None:
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    answer = chat(server, messages=messages, tools=[WEATHER], stream=stream)
    assert "get_weather" in answer
    assert "***" in answer
    assert "Paris" not in answer


@pytest.mark.parametrize("stream", [False, True])
def test_no_token_of_a_masked_word_is_in_the_logprobs(server: Serving, stream: bool) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    answer = chat(server, messages=messages, logprobs=True, stream=stream)
    assert "***" in answer
    assert "Par" not in answer
