"""OpenAI's blocking client: tools, structured output, reasoning."""

from __future__ import annotations

import json
from typing import Any

import openai
from pydantic import create_model

from tests.process.clients.asked import (
    API_KEY,
    CHAT_TOOLS,
    MODEL,
    MORE_TOKENS,
    NEEDS_NO_TOOL,
    NEEDS_TOOL,
    NEEDS_TWO,
    QUESTION,
    THINKING,
    TOOL,
    TOOL_ABOUT,
    TOOL_RESULT,
)
from tests.process.clients.person import Person, told

_NAMED: Any = {"type": "function", "function": {"name": TOOL}}
_ASKED: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_tokens": MORE_TOKENS}
_NEEDS_TOOL: list[Any] = [{"role": "user", "content": NEEDS_TOOL}]
_NEEDS_NO_TOOL: list[Any] = [{"role": "user", "content": NEEDS_NO_TOOL}]
_HELLO: list[Any] = [{"role": "user", "content": QUESTION}]


def facts(base_url: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=API_KEY, max_retries=0)
    return {
        **_tools(client),
        **_several(client),
        **_forced(client),
        **_structured(client),
        **_reasoning(client),
    }


def _tools(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {**_ASKED, "messages": _NEEDS_TOOL, "tools": CHAT_TOOLS}
    whole = client.chat.completions.create(**asked).choices[0]
    with client.chat.completions.stream(**asked) as events:
        done = [
            (event.name, event.arguments)
            for event in events
            if event.type == "tool_calls.function.arguments.done"
        ]
        streamed = events.get_final_completion().choices[0]
    (call,) = whole.message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": TOOL_RESULT}
    answered = client.chat.completions.create(
        **{**asked, "messages": [*_NEEDS_TOOL, whole.message, result]}
    )
    return {
        "call": _call(whole),
        "finish": whole.finish_reason,
        "streamed_call": _call(streamed),
        "streamed_finish": streamed.finish_reason,
        "streamed_pieces": _pieces(client, asked),
        "done_events": [(name, json.loads(arguments)) for name, arguments in done],
        "answer": answered.choices[0].message.content,
        "answer_finish": answered.choices[0].finish_reason,
    }


def _pieces(client: openai.OpenAI, asked: dict[str, Any]) -> dict[str, Any]:
    """Join the deltas of the chunks by hand."""
    names, arguments, ids, content = [], "", [], ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        delta = chunk.choices[0].delta
        content += delta.content or ""
        for call in delta.tool_calls or []:
            names += [call.function.name] if call.function.name else []
            ids += [call.id] if call.id else []
            arguments += call.function.arguments or ""
    return {
        "names": names,
        "ids": len(ids),
        "arguments": json.loads(arguments),
        "content": content,
    }


def _several(client: openai.OpenAI) -> dict[str, Any]:
    """Ask a question that needs two calls."""
    asked: dict[str, Any] = {
        **_ASKED,
        "messages": [{"role": "user", "content": NEEDS_TWO}],
        "tools": CHAT_TOOLS,
    }
    whole = client.chat.completions.create(**asked).choices[0].message
    with client.chat.completions.stream(**asked) as events:
        streamed = events.get_final_completion().choices[0].message
    one = client.chat.completions.create(**asked, parallel_tool_calls=False).choices[0].message
    return {
        "two_calls": _cities(whole),
        "two_calls_streamed": _cities(streamed),
        "no_parallel_calls": _cities(one),
    }


def _cities(message: Any) -> list[Any]:
    assert len({call.id for call in message.tool_calls}) == len(message.tool_calls)
    return [json.loads(call.function.arguments)["city"] for call in message.tool_calls]


def _forced(client: openai.OpenAI) -> dict[str, Any]:
    """Force calls that the model would not choose itself."""
    asked: dict[str, Any] = {**_ASKED, "messages": _NEEDS_NO_TOOL, "tools": CHAT_TOOLS}
    told_of = {}
    for name, choice in (("required", "required"), ("named", _NAMED)):
        whole = client.chat.completions.create(**asked, tool_choice=choice).choices[0]
        with client.chat.completions.stream(**asked, tool_choice=choice) as events:
            streamed = events.get_final_completion().choices[0]
        told_of[name] = _call(whole)
        told_of[f"{name}_streamed"] = _call(streamed)
    none = client.chat.completions.create(
        **{**asked, "messages": _NEEDS_TOOL}, tool_choice="none"
    ).choices[0]
    not_forced = client.chat.completions.create(**asked).choices[0]
    return {
        **told_of,
        "none": none.message.tool_calls or [],
        "not_forced": not_forced.message.tool_calls or [],
    }


def _structured(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {**_ASKED, "messages": _HELLO}
    parsed = client.chat.completions.parse(**asked, response_format=Person)
    with client.chat.completions.stream(**asked, response_format=Person) as events:
        streamed = events.get_final_completion()
    any_object = client.chat.completions.create(**asked, response_format={"type": "json_object"})
    weather = create_model(TOOL, __doc__=TOOL_ABOUT, city=(str, ...))
    tool = openai.pydantic_function_tool(weather, name=TOOL)
    called = client.chat.completions.parse(**{**asked, "messages": _NEEDS_TOOL}, tools=[tool])
    (call,) = called.choices[0].message.tool_calls
    try:
        client.chat.completions.create(
            **asked,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": 5}},
        )
        refused = None
    except openai.BadRequestError as error:
        refused = error.param
    return {
        "parsed": told(parsed.choices[0].message.parsed),
        "parsed_stream": told(streamed.choices[0].message.parsed),
        "json_object": type(json.loads(any_object.choices[0].message.content)).__name__,
        "parsed_arguments": call.function.parsed_arguments.model_dump(),
        "bad_schema": refused,
    }


def _reasoning(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {**_ASKED, "messages": _HELLO, "extra_body": THINKING}
    message = client.chat.completions.create(**asked).choices[0].message
    reasoning = content = ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        delta = chunk.choices[0].delta
        reasoning += getattr(delta, "reasoning_content", None) or ""
        content += delta.content or ""
    return {
        "reasoning": message.reasoning_content,
        "reasoned": message.content,
        "streamed_reasoning": reasoning,
        "streamed_reasoned": content,
    }


def _call(choice: Any) -> list[Any]:
    """Return the name and the arguments of the only call."""
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert call.id
    return [call.function.name, json.loads(call.function.arguments)]
