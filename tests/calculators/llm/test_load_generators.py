"""Requests of load generators and evaluations, with the members that each of them sends.

Sources: vLLM 0.32 ``benchmarks/lib/endpoint_request_func.py``, genai-perf
``inputs/converters``, guidellm 0.8.1 ``backends/openai``, aiperf 0.13 ``endpoints``, lm-eval 0.4.13
``models/openai_completions.py``. The last three have been run unmodified against a server.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Asking

TEXT = "What is the capital of France?"
USER = [{"role": "user", "content": TEXT}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": TEXT}]}]
USAGE = {"include_usage": True}
RUNNING = {**USAGE, "continuous_usage_stats": True}

STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm bench serve, completions": (
        COMPLETIONS,
        {
            "prompt": TEXT,
            "repetition_penalty": 1.0,
            "max_tokens": 16,
            "logprobs": None,
            "stream_options": USAGE,
            "ignore_eos": True,
            "temperature": 0.0,
        },
    ),
    "vllm bench serve, chat": (
        CHAT,
        {
            "messages": PARTS,
            "max_completion_tokens": 16,
            "stream_options": USAGE,
            "ignore_eos": True,
            "top_p": 1.0,
            "top_k": -1,
        },
    ),
    "guidellm, completions": (
        COMPLETIONS,
        {"prompt": TEXT, "stream_options": RUNNING, "max_tokens": 16, "ignore_eos": True},
    ),
    "guidellm, chat": (
        CHAT,
        {
            "messages": PARTS,
            "stream_options": RUNNING,
            "max_completion_tokens": 16,
            "ignore_eos": True,
        },
    ),
    "aiperf, chat": (
        CHAT,
        {"messages": USER, "stream_options": RUNNING, "max_completion_tokens": 16},
    ),
    "genai-perf, chat": (CHAT, {"messages": USER, "max_tokens": 16, "min_tokens": 16}),
    "genai-perf, completions": (COMPLETIONS, {"prompt": [TEXT], "max_tokens": 16}),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_answered_and_counted(ask: Asking, name: str) -> None:
    uri, members = STREAMS[name]
    plain = {"max_tokens": None, "temperature": None}  # `ask` has defaults for both
    *events, last = ask(uri, **{**plain, **members}, stream=True).events
    # What they take for the first token is an event with a choice.
    assert all(event["choices"] for event in events)
    if "stream_options" in members:
        assert last["usage"]["completion_tokens"] == 16 or not members.get("ignore_eos")
        assert last["usage"]["prompt_tokens"] > 0
        assert last["choices"] == []


def test_the_last_event_of_a_response_has_the_usage_that_aiperf_asks_for(ask: Asking) -> None:
    streamed = ask(RESPONSES, input=TEXT, stream=True, stream_options=USAGE)
    assert '"type":"response.completed"' in "".join(streamed.values) or (
        '"type":"response.incomplete"' in "".join(streamed.values)
    )
    assert '"output_tokens":' in "".join(streamed.values)


def test_aiperfs_request_for_messages_is_answered(ask: Asking) -> None:
    streamed = ask(MESSAGES, messages=USER, max_tokens=16, stream=True)
    assert "event: message_stop" in "".join(streamed.values)


def test_lm_eval_gets_the_scores_of_its_choices(ask: Asking) -> None:
    """A choice is the end of the prompt: one new token is made, and dropped."""
    context, choice = [5, 6, 7, 8], [9, 10]
    asked = {"prompt": [[*context, *choice]], "max_tokens": 1, "logprobs": 1, "seed": 1234}
    (answered,) = ask(COMPLETIONS, **asked, echo=True).body["choices"]
    scores = answered["logprobs"]["token_logprobs"][len(context) : -1]
    best = answered["logprobs"]["top_logprobs"][len(context) : -1]
    assert len(scores) == len(best) == len(choice)
    assert all(score <= 0 for score in scores)
    assert all(max(each.values()) >= score for each, score in zip(best, scores, strict=True))
