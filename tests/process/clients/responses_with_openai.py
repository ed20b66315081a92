"""OpenAI's blocking client: the responses API."""

from __future__ import annotations

import json
from typing import Any

import openai

from tests.process.clients.asked import (
    API_KEY,
    MODEL,
    MORE_TOKENS,
    NEEDS_NO_TOOL,
    NEEDS_TOOL,
    NO_MODEL,
    QUESTION,
    THINKING,
    TOO_HOT,
    TOOL,
    TOOL_ABOUT,
    TOOL_RESULT,
    TOOL_SCHEMA,
)
from tests.process.clients.person import Person, told

_TOOLS: list[Any] = [
    {
        "type": "function",
        "name": TOOL,
        "description": TOOL_ABOUT,
        "parameters": TOOL_SCHEMA,
        "strict": False,
    }
]
_ASKED: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_output_tokens": MORE_TOKENS}


def facts(base_url: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=API_KEY, max_retries=0)
    return {
        **_text(client),
        **_tools(client),
        **_structured(client),
        **_reasoning(client),
        "bad_request": _error(client, openai.BadRequestError, MODEL, temperature=TOO_HOT),
        "not_found": _error(client, openai.NotFoundError, NO_MODEL),
        "not_stored": _error(client, openai.BadRequestError, MODEL, previous_response_id="resp_1"),
    }


def _text(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {**_ASKED, "input": QUESTION}
    whole = client.responses.create(**asked)
    kinds, deltas, numbers = [], "", []
    for event in client.responses.create(**asked, stream=True):
        kinds.append(event.type)
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            deltas += event.delta
    with client.responses.stream(**asked) as events:
        final = events.get_final_response()
    cut = client.responses.create(**{**asked, "max_output_tokens": 2})
    with client.responses.stream(**{**asked, "max_output_tokens": 2}) as events:
        last = [event.type for event in events][-1]
    turns = client.responses.create(
        **{**asked, "input": [{"role": "user", "content": QUESTION}], "instructions": "Be brief."}
    )
    return {
        "text": whole.output_text,
        "status": whole.status,
        "usage": whole.usage.total_tokens,
        "first_event": kinds[0],
        "last_event": kinds[-1],
        "numbers_in_order": numbers == list(range(len(numbers))),
        "stream": deltas,
        "stream_helper": final.output_text,
        "stream_helper_usage": final.usage.total_tokens,
        "cut": [cut.status, cut.incomplete_details.reason],
        "cut_last_event": last,
        "has_turns": bool(turns.output_text),
    }


def _tools(client: openai.OpenAI) -> dict[str, Any]:
    question: Any = {"role": "user", "content": NEEDS_TOOL}
    asked: dict[str, Any] = {**_ASKED, "input": [question], "tools": _TOOLS}
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as events:
        streamed = events.get_final_response()
    (call,) = whole.output
    result = {"type": "function_call_output", "call_id": call.call_id, "output": TOOL_RESULT}
    answered = client.responses.create(**{**asked, "input": [question, call, result]})
    hello = {**asked, "input": NEEDS_NO_TOOL}
    required = client.responses.create(**hello, tool_choice="required")
    named = client.responses.create(**hello, tool_choice={"type": "function", "name": TOOL})
    return {
        "call": _call(whole),
        "streamed_call": _call(streamed),
        "answer": answered.output_text,
        "required": _call(required),
        "named": _call(named),
    }


def _structured(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {**_ASKED, "input": QUESTION, "text_format": Person}
    parsed = client.responses.parse(**asked)
    with client.responses.stream(**asked) as events:
        streamed = events.get_final_response()
    return {"parsed": told(parsed.output_parsed), "parsed_stream": told(streamed.output_parsed)}


def _reasoning(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {**_ASKED, "input": QUESTION, "extra_body": THINKING}
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as events:
        deltas = "".join(
            event.delta for event in events if event.type == "response.reasoning_summary_text.delta"
        )
        final = events.get_final_response()
    return {
        "reasoning": _summary(whole),
        "reasoned": whole.output_text,
        "streamed_reasoning": deltas,
        "streamed_reasoning_final": _summary(final),
        "streamed_reasoned": final.output_text,
    }


def _summary(response: Any) -> str:
    return "".join(
        part.text for item in response.output if item.type == "reasoning" for part in item.summary
    )


def _call(response: Any) -> list[Any]:
    """Return the name and the arguments of the only call."""
    (call,) = response.output
    assert call.type == "function_call"
    return [call.name, json.loads(call.arguments)]


def _error(
    client: openai.OpenAI, kind: type[openai.APIStatusError], model: str, **members: Any
) -> list[Any]:
    """Return the error, the same for unary requests and streams: nothing was sent before."""
    told_of = []
    for stream in (False, True):
        try:
            client.responses.create(model=model, input=QUESTION, stream=stream, **members)
        except kind as error:
            told_of.append([error.status_code, error.code, error.param, error.type])
    first, second = told_of
    assert first == second
    return first
