"""Reader, model and writer as three nodes: the bytes of `HttpLLMCalculator`, for every API."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.answers import choice
from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from tests.calculators.llm.scripted_servable import SCRIPTS, engine_of, scripted_servable
from tests.calculators.llm.three_nodes import ONE_NODE, THREE_NODES, comparable, run_into

HELLO = [{"role": "user", "content": "Hello"}]
FUNCTION = {"name": "f", "parameters": {"type": "object"}}
TOOLS = [{"type": "function", "function": FUNCTION}]

#: Requests by name: path, and the body without model and stream.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": HELLO}),
    "chat of three": (CHAT, {"messages": HELLO, "n": 3, "temperature": 0.5, "seed": 1}),
    "chat of three equal ones": (CHAT, {"messages": HELLO, "n": 3, "temperature": 0}),
    "chat with logprobs": (CHAT, {"messages": HELLO, "logprobs": True, "n": 2}),
    "chat with tools": (CHAT, {"messages": HELLO, "tools": TOOLS, "stop": "STOP"}),
    "chat with one call": (
        CHAT,
        {"messages": HELLO, "tools": TOOLS, "parallel_tool_calls": False, "logprobs": True},
    ),
    "chat with ids": (CHAT, {"messages": HELLO, "return_token_ids": True, "tools": TOOLS, "n": 2}),
    "completion": (COMPLETIONS, {"prompt": "Hello", "stop": ["STOP"]}),
    "completions of two": (
        COMPLETIONS,
        {"prompt": [[5, 6], [5]], "n": 2, "logprobs": 1, "echo": True, "max_tokens": 40},
    ),
    "response": (RESPONSES, {"input": "Hello", "max_output_tokens": 50, "top_p": 0.5}),
    "response with tools": (
        RESPONSES,
        {
            "input": "Hello",
            "instructions": "be short",
            "tools": [{"type": "function", **FUNCTION, "strict": True}],
            "include": ["message.output_text.logprobs"],
        },
    ),
    "message": (MESSAGES, {"messages": HELLO, "max_tokens": 40, "stop_sequences": ["STOP"]}),
    "message with tools": (
        MESSAGES,
        {
            "messages": HELLO,
            "max_tokens": 40,
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
        },
    ),
}
USAGE = {"include_usage": True, "continuous_usage_stats": True}


def bodies(form: str) -> list[dict[str, Any]]:
    uri, body = FORMS[form]
    whole = {"model": "m", **body}
    streams = [{**whole, "stream": True}]
    if uri in (CHAT, COMPLETIONS):
        streams += [{**whole, "stream": True, "stream_options": USAGE}]
    return [whole, *streams]


@pytest.fixture(autouse=True)
def known_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ids of calls that are the same in every run."""
    monkeypatch.setattr(choice, "new_call_id", lambda: "call00001")


def outcome(graph: str, form: str, body: dict[str, Any], **engine: Any) -> tuple[list[str], Any]:
    """Return the packets of an answer, and the error that ended it."""
    servable = scripted_servable(verbose=engine.pop("verbose", False))
    for name, value in engine.items():
        setattr(engine_of(servable), name, value)
    packets: list[str] = []
    error = asyncio.run(run_into(packets, graph, servable, FORMS[form][0], body))
    told = None
    if error is not None:
        assert isinstance(error, RequestError)
        told = (error.message, error.code, error.param, error.retry_after)
    return [comparable(packet) for packet in packets], told


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_three_nodes_answer_with_the_bytes_of_one(form: str, script: str) -> None:
    for body, seed in itertools.product(bodies(form), range(3)):
        options = {"script": script, "seed": seed, "verbose": seed == 1}
        expected = outcome(ONE_NODE, form, body, **options)
        assert expected[0]
        assert expected[1] is None
        assert outcome(THREE_NODES, form, body, **options) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fails_at", range(3))
def test_an_engine_that_fails_ends_the_answer_as_with_one_node(form: str, fails_at: int) -> None:
    for body in bodies(form):
        options: dict[str, Any] = {"script": "call", "fails_at": fails_at}
        expected = outcome(ONE_NODE, form, body, **options)
        assert expected[1] is not None or "failed" in expected[0][-1]
        assert outcome(THREE_NODES, form, body, **options) == expected


@pytest.mark.parametrize("form", FORMS)
def test_a_limit_of_tokens_ends_the_answer_as_with_one_node(form: str) -> None:
    for body in bodies(form):
        options = {"script": "cut_call", "finish_reason": "length"}
        expected = outcome(ONE_NODE, form, body, **options)
        assert outcome(THREE_NODES, form, body, **options) == expected


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}])
def test_a_choice_of_tools_that_nobody_has_is_refused_as_with_one_node(choice: object) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tool_choice": choice}
    (packets, told) = outcome(ONE_NODE, "chat", body, script="text")
    assert packets == []
    assert told is not None
    assert told[2] == "tool_choice"
    assert outcome(THREE_NODES, "chat", body, script="text") == (packets, told)
