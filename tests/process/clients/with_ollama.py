"""Ollama's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import ollama

from tests.process.clients.asked import (
    CHAT_TOOLS,
    MAX_TOKENS,
    MODEL,
    MORE_TOKENS,
    NEEDS_TOOL,
    NO_MODEL,
    PROMPT,
    QUESTION,
    TOO_HOT,
    TOOL,
    TOOL_RESULT,
)
from tests.process.clients.person import Person

USER = {"role": "user", "content": QUESTION}
OPTIONS = {"temperature": 0, "num_predict": MAX_TOKENS}
MORE = {"temperature": 0, "num_predict": MORE_TOKENS}


def facts(base_url: str) -> dict[str, Any]:
    # Its paths begin at the root.
    host = base_url.rpartition("/")[0]
    client = ollama.Client(host=host)
    whole = client.chat(MODEL, [USER], options=OPTIONS)
    parts = list(client.chat(f"{MODEL}:latest", [USER], options=OPTIONS, stream=True))
    prompt = client.generate(MODEL, QUESTION, options=OPTIONS)
    assert prompt.context is not None
    again = client.generate(MODEL, QUESTION, options=OPTIONS, context=prompt.context)
    assert again.context is not None
    raw = client.generate(MODEL, PROMPT, raw=True, options=OPTIONS)
    shown = client.show(MODEL)
    return {
        "chat": whole.message.content,
        "finish": whole.done_reason,
        "counts": [whole.prompt_eval_count, whole.eval_count],
        "durations": all(
            each is not None and each >= 0
            for each in (whole.total_duration, whole.load_duration, whole.eval_duration)
        ),
        "stream": "".join(part.message.content or "" for part in parts),
        "stream_ends": [part.done for part in parts][-2:],
        "stream_counts": [parts[-1].prompt_eval_count, parts[-1].eval_count],
        "generate": prompt.response,
        "generate_stream": "".join(
            part.response or ""
            for part in client.generate(MODEL, QUESTION, options=OPTIONS, stream=True)
        ),
        "continues": list(again.context[: len(prompt.context)]) == list(prompt.context),
        "raw": raw.response,
        "loaded": client.generate(MODEL, "").done_reason,
        "logprobs": len(client.chat(MODEL, [USER], options=OPTIONS, logprobs=True).logprobs or ()),
        "async": asyncio.run(_ask(host)),
        "models": [each.model for each in client.list().models],
        "running": [each.model for each in client.ps().models],
        "shown": [sorted(shown.capabilities or ()), bool(shown.template), bool(shown.modelinfo)],
        "bad_request": _error(client, options={"temperature": TOO_HOT}),
        "not_found": _error(client, model=NO_MODEL),
        "unsupported": _refused(client),
        **_tools(client),
        **_person(client),
        **_thinking(client),
    }


async def _ask(host: str) -> str:
    client = ollama.AsyncClient(host=host)
    parts = await client.chat(MODEL, [USER], options=OPTIONS, stream=True)
    return "".join([part.message.content or "" async for part in parts])


def _tools(client: ollama.Client) -> dict[str, Any]:
    asked: list[Any] = [{"role": "user", "content": NEEDS_TOOL}]
    called = client.chat(MODEL, asked, tools=CHAT_TOOLS, options=MORE).message
    parts = client.chat(MODEL, asked, tools=CHAT_TOOLS, options=MORE, stream=True)
    streamed = [call for part in parts for call in part.message.tool_calls or ()]
    result = {"role": "tool", "tool_name": TOOL, "content": TOOL_RESULT}
    said = client.chat(MODEL, [*asked, called, result], tools=CHAT_TOOLS, options=MORE)
    return {
        "calls": [_call(call) for call in called.tool_calls or ()],
        "stream_calls": [_call(call) for call in streamed],
        "tool_answer": said.message.content,
    }


def _call(call: Any) -> dict[str, Any]:
    return {"name": call.function.name, "arguments": dict(call.function.arguments)}


def _person(client: ollama.Client) -> dict[str, Any]:
    made = client.chat(MODEL, [USER], format=Person.model_json_schema(), options=MORE)
    found = Person.model_validate_json(made.message.content or "")
    whole = client.generate(MODEL, QUESTION, format="json", options=MORE)
    return {"person": type(found).__name__, "json": (whole.response or "")[:1]}


def _thinking(client: ollama.Client) -> dict[str, Any]:
    thought = client.chat(MODEL, [USER], think=True, options=MORE).message
    parts = list(client.chat(MODEL, [USER], think=True, options=MORE, stream=True))
    return {
        "thinking": [thought.thinking, thought.content],
        "stream_thinking": [
            "".join(part.message.thinking or "" for part in parts),
            "".join(part.message.content or "" for part in parts),
        ],
    }


def _error(client: ollama.Client, **members: Any) -> dict[str, Any]:
    try:
        client.chat(**{"model": MODEL, "messages": [USER], **members})
    except ollama.ResponseError as error:
        return {"status": error.status_code, "has_text": bool(error.error)}
    return {}


def _refused(client: ollama.Client) -> list[int]:
    refused = []
    acts: list[Callable[[], object]] = [
        lambda: client.copy(MODEL, "x"),
        lambda: client.create("x", from_=MODEL),
    ]
    for act in acts:
        try:
            act()
        except ollama.ResponseError as error:
            refused.append(error.status_code)
    return refused
