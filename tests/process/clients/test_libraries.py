"""Answers of the server as the usual client libraries see them.

Text over both base URLs, and errors of the right class; a plain request gives the expected words,
which are the model's. Calls of tools, structured output and reasoning over chat completions, and
over the newer APIs where a library has them. A call for a question that needs the tool is the
model's own choice; a forced call is one that it would not choose.

One file, so one worker: each library is imported once for all tests.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest

from tests.process.clients.asked import (
    MODEL,
    MORE_TOKENS,
    NEEDS_TOOL,
    QUESTION,
    THINKING,
    TOOL,
    TOOL_ABOUT,
    TOOL_ANSWER,
    TOOL_SCHEMA,
)
from tests.process.clients.expected import CALL, PERSON
from tests.process.clients.libraries import PYTHON, Ask
from tests.process.http_client import CHAT
from tests.process.server_process import ServerProcess


class Thought(NamedTuple):
    """The model's reasoning, and its answer."""

    reasoning: str
    content: str


@pytest.fixture(scope="package")
def thought(demo: ServerProcess) -> Thought:
    """Return reasoning and answer of the question that all clients ask."""
    question = [{"role": "user", "content": QUESTION}]
    message = _message(demo, messages=question, **THINKING)
    return Thought(message["reasoning_content"], message["content"])


@pytest.fixture(scope="package")
def text(demo: ServerProcess) -> str:
    """Return the answer to a question without reasoning."""
    content: str = _message(demo, messages=[{"role": "user", "content": QUESTION}])["content"]
    return content


def _message(demo: ServerProcess, **members: Any) -> dict[str, Any]:
    reply = demo.client.post(CHAT, temperature=0, max_tokens=MORE_TOKENS, **members)
    message: dict[str, Any] = reply.json["choices"][0]["message"]
    return message


def test_openai_gets_text(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    choice, usage = answer["choices"][0], answer["usage"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    for facts in ask("with_openai"):
        assert facts.pop("raw_request_id")
        assert facts == {
            "chat": text,
            "chat_finish": reason,
            "chat_usage": usage,
            "raw_status": 200,
            "raw_chat": text,
            "stream": text,
            "stream_finish": [reason],
            "stream_usage": usage,
            "stream_helper": text,
            "stream_helper_finish": reason,
            "indices": [0, 1],
            "completion": completion,
            "completion_stream": completion,
            "models": [MODEL],
            "model": MODEL,
            "missing_model": "model_not_found",
            "bad_request": {
                "status": 400,
                "code": None,
                "param": "temperature",
                "type": "invalid_request_error",
                "request_id": True,
            },
            "not_found": {
                "status": 404,
                "code": "model_not_found",
                "param": "model",
                "type": "invalid_request_error",
                "request_id": True,
            },
        }


def test_openai_async_gets_text(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    text = answer["choices"][0]["message"]["content"]
    for facts in ask("with_openai_async"):
        assert facts == {
            "chat": text,
            "streams": [text] * 4,
            "completion": completion,
            "models": [MODEL],
            "missing_model": "model_not_found",
        }


def test_langchain_gets_text(ask: Ask, answer: dict[str, Any]) -> None:
    choice, total = answer["choices"][0], answer["usage"]["total_tokens"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    for facts in ask("with_langchain"):
        assert facts == {
            "chat": text,
            "finish": reason,
            "usage": total,
            "stream": text,
            "stream_finish": reason,
            "stream_usage": total,
            "async": text,
            "batch": [text, text],
            "bad_request": "BadRequestError",
            "not_found": "model_not_found",
        }


def test_pydantic_ai_gets_text(ask: Ask, answer: dict[str, Any]) -> None:
    text, total = answer["choices"][0]["message"]["content"], answer["usage"]["total_tokens"]
    for facts in ask("with_pydantic_ai"):
        assert facts == {
            "chat": text,
            "usage": total,
            "stream": text,
            "stream_usage": total,
            "bad_request": 400,
            "not_found": 404,
        }


def test_litellm_gets_text(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    choice, total = answer["choices"][0], answer["usage"]["total_tokens"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    for facts in ask("with_litellm"):
        assert facts == {
            "chat": text,
            "finish": reason,
            "usage": total,
            "stream": text,
            "stream_usage": [total],
            "async": text,
            "completion": completion,
            "bad_request": "BadRequestError",
            "not_found": "NotFoundError",
        }


def test_llama_index_gets_text(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    text = answer["choices"][0]["message"]["content"]
    for facts in ask("with_llama_index"):
        assert facts == {
            "chat": text,
            "stream": text,
            "async": text,
            "completion": completion,
            "completion_stream": completion,
            "bad_request": "BadRequestError",
            "not_found": "NotFoundError",
        }


def test_openai_agents_gets_text(ask: Ask, answer: dict[str, Any]) -> None:
    text, total = answer["choices"][0]["message"]["content"], answer["usage"]["total_tokens"]
    for facts in ask("with_openai_agents"):
        assert facts == {
            "chat": text,
            "usage": total,
            "stream": text,
            "stream_final": text,
            "bad_request": "BadRequestError",
            "not_found": "NotFoundError",
        }


def test_anthropic_gets_text(ask: Ask, answer: dict[str, Any]) -> None:
    text = answer["choices"][0]["message"]["content"]
    usage = [answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]]
    for facts in ask("with_anthropic"):
        assert facts.pop("raw_request_id")
        assert facts == {
            "text": text,
            "stop": "end_turn",
            "usage": usage,
            "first_event": "message_start",
            "last_event": "message_stop",
            "stream": text,
            "stream_final": text,
            "stream_stop": "end_turn",
            "stream_usage": usage,
            "cut": "max_tokens",
            "stopped": ["stop_sequence", "!"],
            "has_system": True,
            "count": usage[0],
            "async": [text, text],
            "bad_request": {
                "status": 400,
                "type": "invalid_request_error",
                "request_id": True,
            },
            "not_found": {"status": 404, "type": "not_found_error", "request_id": True},
        }


def test_openai_calls_tools(ask: Ask, thought: Thought) -> None:
    for facts in ask("tools_with_openai"):
        assert facts == {
            "call": CALL,
            "finish": "tool_calls",
            "streamed_call": CALL,
            "streamed_finish": "tool_calls",
            "streamed_pieces": {
                "names": [TOOL],
                "ids": 1,
                "arguments": CALL[1],
                "content": "",
            },
            "done_events": [CALL],
            "answer": TOOL_ANSWER,
            "answer_finish": "stop",
            "two_calls": ["Paris", "London"],
            "two_calls_streamed": ["Paris", "London"],
            "no_parallel_calls": ["Paris"],
            "required": CALL,
            "required_streamed": CALL,
            "named": CALL,
            "named_streamed": CALL,
            "none": [],
            "not_forced": [],
            "parsed": PERSON,
            "parsed_stream": PERSON,
            "json_object": "dict",
            "parsed_arguments": CALL[1],
            "bad_schema": "response_format.json_schema.schema",
            "reasoning": thought.reasoning,
            "reasoned": thought.content,
            "streamed_reasoning": thought.reasoning,
            "streamed_reasoned": thought.content,
        }


def test_openai_gets_responses(
    ask: Ask, text: str, thought: Thought, answer: dict[str, Any]
) -> None:
    for facts in ask("responses_with_openai"):
        assert facts == {
            "text": text,
            "status": "completed",
            "usage": answer["usage"]["total_tokens"],
            "first_event": "response.created",
            "last_event": "response.completed",
            "numbers_in_order": True,
            "stream": text,
            "stream_helper": text,
            "stream_helper_usage": answer["usage"]["total_tokens"],
            "cut": ["incomplete", "max_output_tokens"],
            "cut_last_event": "response.incomplete",
            "has_turns": True,
            "call": CALL,
            "streamed_call": CALL,
            "answer": TOOL_ANSWER,
            "required": CALL,
            "named": CALL,
            "parsed": PERSON,
            "parsed_stream": PERSON,
            "reasoning": thought.reasoning,
            "reasoned": thought.content,
            "streamed_reasoning": thought.reasoning,
            "streamed_reasoning_final": thought.reasoning,
            "streamed_reasoned": thought.content,
            "bad_request": [400, None, "temperature", "invalid_request_error"],
            "not_found": [404, "model_not_found", "model", "invalid_request_error"],
            "not_stored": [
                *(400, "previous_response_not_found", "previous_response_id"),
                "invalid_request_error",
            ],
        }


def test_openai_async_calls_tools(ask: Ask, text: str) -> None:
    for facts in ask("tools_with_openai_async"):
        assert facts == {
            "streamed_calls": [CALL] * 3,
            "parsed_streams": [PERSON] * 3,
            "response_stream": text,
        }


def test_langchain_calls_tools(ask: Ask, text: str, thought: Thought) -> None:
    understood = {
        "call": CALL,
        "streamed_call": CALL,
        "answer": TOOL_ANSWER,
        "required": CALL,
        "named": CALL,
        "json_schema": PERSON,
        "json_schema_stream": PERSON,
        "function_calling": PERSON,
        "strict": PERSON,
    }
    for facts in ask("tools_with_langchain"):
        assert facts.pop("responses") == {
            **understood,
            "text": text,
            "stream": text,
            "reasoning": thought.reasoning,
            "bad_request": "temperature",
        }
        assert facts == {**understood, "reasoned": thought.content}


def test_pydantic_ai_calls_tools(ask: Ask, text: str, thought: Thought) -> None:
    understood = {
        "calls": [CALL],
        "asked": ["Paris", "Paris"],
        "answer": TOOL_ANSWER,
        "answer_stream": TOOL_ANSWER,
        "tool_output": PERSON,
        "native_output": PERSON,
        "native_output_stream": PERSON,
        "reasoning": thought.reasoning,
        "reasoned": thought.content,
        "after_a_thought": True,
    }
    for facts in ask("tools_with_pydantic_ai"):
        assert facts.pop("responses") == {**understood, "text": text, "bad_request": 400}
        assert facts == understood


def test_litellm_calls_tools(ask: Ask, text: str, thought: Thought) -> None:
    for facts in ask("tools_with_litellm"):
        assert facts == {
            "call": CALL,
            "finish": "tool_calls",
            "streamed_call": CALL,
            "streamed_finish": "tool_calls",
            "answer": TOOL_ANSWER,
            "required": CALL,
            "named": CALL,
            "parsed": PERSON,
            "parsed_stream": PERSON,
            "parsed_async": PERSON,
            "reasoning": thought.reasoning,
            "reasoned": thought.content,
            "streamed_reasoning": thought.reasoning,
            "streamed_reasoned": thought.content,
            "response": {"text": text, "stream": text, "last_event": "response.completed"},
            "response_error": "BadRequestError",
        }


def test_llama_index_calls_tools(ask: Ask, text: str) -> None:
    understood = {
        "call": CALL,
        "streamed_call": CALL,
        "answer": TOOL_ANSWER,
        "required": CALL,
    }
    for facts in ask("tools_with_llama_index"):
        assert facts.pop("responses") == {
            **understood,
            "text": text,
            "stream": text,
            "bad_request": "temperature",
        }
        assert facts == {
            **understood,
            "predicted": PERSON,
            "predicted_async": PERSON,
            "as_structured": PERSON,
        }


def test_openai_agents_calls_tools(ask: Ask, text: str, thought: Thought) -> None:
    understood = {
        "asked": ["Paris", "Paris"],
        "answer": TOOL_ANSWER,
        "answer_stream": TOOL_ANSWER,
        "required": [TOOL],
        "named": [TOOL],
        "parsed": PERSON,
        "parsed_stream": PERSON,
        "reasoning": thought.reasoning,
        "reasoned": thought.content,
    }
    for facts in ask("tools_with_openai_agents"):
        assert facts.pop("responses") == {**understood, "text": text, "bad_request": "temperature"}
        assert facts == understood


def test_instructor_gets_persons(ask: Ask, text: str) -> None:
    for facts in ask("with_instructor"):
        assert facts == {
            "chat": text,
            "TOOLS": PERSON,
            "TOOLS_STRICT": PERSON,
            "JSON_SCHEMA": PERSON,
            "RESPONSES_TOOLS": PERSON,
            "partial": PERSON,
        }


def test_anthropic_calls_tools(ask: Ask, demo: ServerProcess, thought: Thought) -> None:
    weather = {"name": TOOL, "description": TOOL_ABOUT, "parameters": TOOL_SCHEMA}
    asked = demo.client.post(
        CHAT,
        messages=[{"role": "user", "content": NEEDS_TOOL}],
        tools=[{"type": "function", "function": weather}],
        max_tokens=1,
    ).json
    for facts in ask("tools_with_anthropic"):
        assert facts == {
            "call": CALL,
            "call_stop": "tool_use",
            "streamed_call": CALL,
            "streamed_stop": "tool_use",
            "answer": TOOL_ANSWER,
            "answer_stop": "end_turn",
            "any": CALL,
            "named": CALL,
            "loop": TOOL_ANSWER,
            "parsed": PERSON,
            "parsed_stream": PERSON,
            "blocks": ["thinking", "text"],
            "thinking": thought.reasoning,
            "thought": thought.content,
            "streamed_thinking": thought.reasoning,
            "streamed_blocks": ["thinking", "text"],
            "streamed_thought": thought.content,
            "count": asked["usage"]["prompt_tokens"],
        }


def test_google_gets_text_and_calls_functions(
    ask: Ask, answer: dict[str, Any], thought: Thought
) -> None:
    if sys.executable == PYTHON and find_spec("google.genai") is None:
        pytest.skip("google-genai is not installed (the extra clients)")
    text, usage = answer["choices"][0]["message"]["content"], answer["usage"]
    for facts in ask("with_google"):
        assert facts == {
            "text": text,
            "finish": "STOP",
            "usage": [usage["prompt_tokens"], usage["completion_tokens"]],
            "stream": text,
            "stream_finish": "STOP",
            "stream_usage": usage["total_tokens"],
            "chat": True,
            "turns": 4,
            "cut": "MAX_TOKENS",
            "candidates": 2,
            "async": [text, text],
            "call": CALL,
            "has_id": True,
            "forced": TOOL,
            "stream_call": [CALL],
            "loop": TOOL_ANSWER,
            "person": PERSON,
            "other": PERSON,
            "thoughts": [thought.reasoning],
            "after": [thought.content],
            "signed": [True],
            "count": usage["prompt_tokens"],
            "models": [f"models/{MODEL}"],
            "model": f"models/{MODEL}",
            "bad_request": [400, "INVALID_ARGUMENT"],
            "not_found": [404, "NOT_FOUND"],
        }


def test_cohere_gets_text_and_calls_tools(ask: Ask, answer: dict[str, Any]) -> None:
    text, usage = answer["choices"][0]["message"]["content"], answer["usage"]
    for facts in ask("with_cohere"):
        assert facts == {
            "text": text,
            "finish": "COMPLETE",
            "usage": [usage["prompt_tokens"], usage["completion_tokens"]],
            "stream": text,
            "first_and_last": ["message-start", "message-end"],
            "stream_finish": "COMPLETE",
            "call": CALL,
            "call_finish": "TOOL_CALL",
            "forced": [TOOL, {"city": "Paris"}],
            "person": PERSON,
            "with_documents": True,
            "errors": [[400, ["id", "message"]], [404, ["id", "message"]]],
        }


def test_outlines_gives_forms_by_the_members_of_sglang(ask: Ask) -> None:
    _skip_without("outlines")
    for facts in ask("with_outlines"):
        assert facts == {"word": True, "number": True, "person": PERSON, "stream": True}


def _skip_without(library: str) -> None:
    try:
        is_there = sys.executable != PYTHON or find_spec(library) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        pytest.skip(f"{library} is not installed (the extra clients)")


def test_ollamas_client_works(
    ask: Ask, answer: dict[str, Any], completion: str, thought: Thought
) -> None:
    choice, usage = answer["choices"][0], answer["usage"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    counts = [usage["prompt_tokens"], usage["completion_tokens"]]
    called = [{"name": TOOL, "arguments": CALL[1]}]
    _skip_without("ollama")
    for facts in ask("with_ollama"):
        assert facts == {
            "chat": text,
            "finish": reason,
            "counts": counts,
            "durations": True,
            "stream": text,
            "stream_ends": [False, True],
            "stream_counts": counts,
            "generate": text,
            "generate_stream": text,
            "continues": True,
            "raw": completion,
            "loaded": "load",
            "logprobs": usage["completion_tokens"],
            "async": text,
            "models": [MODEL],
            "running": [MODEL],
            # The template is the operator's secret, without --show_tokenizer.
            "shown": [["completion", "thinking", "tools"], False, True],
            "bad_request": {"status": 400, "has_text": True},
            "not_found": {"status": 404, "has_text": True},
            "unsupported": [403, 403],
            "calls": called,
            "stream_calls": called,
            "tool_answer": TOOL_ANSWER,
            "person": "Person",
            "json": "{",
            "thinking": [thought.reasoning, thought.content],
            "stream_thinking": [thought.reasoning, thought.content],
        }


def test_langchain_works_with_ollamas_api(
    ask: Ask, answer: dict[str, Any], thought: Thought
) -> None:
    choice, total = answer["choices"][0], answer["usage"]["total_tokens"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    _skip_without("langchain_ollama")
    for facts in ask("with_langchain_ollama"):
        assert facts == {
            "chat": text,
            "finish": reason,
            "usage": total,
            "stream": text,
            "stream_usage": total,
            "async": text,
            "text": text,
            "calls": [{"name": TOOL, "arguments": CALL[1]}],
            "tool_answer": TOOL_ANSWER,
            "person": "Person",
            "thinking": [thought.reasoning, thought.content],
            "bad_request": 400,
            "not_found": 404,
        }
