"""Answers of an API: the writer for deltas, and events for an answer that a graph gave whole.

A calculator of an author's own may answer with the JSON of a chat, a completion, a response or a
message whatever the client asked for. A stream of that text would be empty to every client, so the
answer becomes events.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from calculators.language.delta import Begun, Delta, Ended, Finished, FinishReason, Gained, Usage
from calculators.language.events import Arguments, Content, Event, Reasoning, Refused, ToolCall
from calculators.language.generation_request import TEXT_APIS, Api, GenerationRequest
from calculators.llm.answers.answer_writer import AnswerWriter, DeltaWriter
from calculators.llm.answers.response import DONE
from calculators.llm.api.anthropic.messages_writer import messages_writer
from calculators.llm.api.cohere import CohereChatWriter
from calculators.llm.api.google.generate_content_writer import GenerateContentWriter
from calculators.llm.api.llama_cpp import LlamaCppWriter
from calculators.llm.api.neutral_request import new_answer_id
from calculators.llm.api.ollama import ollama_writer
from calculators.llm.api.openai.completions_writer import chat_writer, completion_writer
from calculators.llm.api.openai.responses_writer import responses_writer
from calculators.llm.api.sglang import SglangWriter
from calculators.llm.api.tgi import GenerateWriter


def answer_writer(begun: Begun) -> AnswerWriter:
    """Return the writer of an answer that begins."""
    match begun.request.api:
        case Api.CHAT:
            return chat_writer(begun)
        case Api.COMPLETIONS:
            return completion_writer(begun)
        case Api.RESPONSES:
            return responses_writer(begun)
        case Api.MESSAGES:
            return messages_writer(begun)
        case Api.GENERATE_CONTENT:
            return GenerateContentWriter(begun)
        case Api.COHERE_CHAT:
            return CohereChatWriter(begun)
        case Api.LLAMA_CPP_COMPLETION | Api.INFILL:
            return LlamaCppWriter(begun)
        case Api.OLLAMA_CHAT | Api.OLLAMA_GENERATE:
            return ollama_writer(begun)
        case Api.TGI:
            return GenerateWriter(begun)
        case Api.SGLANG:
            return SglangWriter(begun)


_STOP_REASONS: Final = {
    "max_tokens": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
    "max_output_tokens": FinishReason.LENGTH,
}


#: The APIs whose streams just end.
_WITHOUT_DONE: Final = (Api.COHERE_CHAT, Api.LLAMA_CPP_COMPLETION, Api.INFILL, Api.TGI)


def events_of_answer(api: Api, asked: Mapping[str, Any], answer: str) -> str:
    """Return the events of the asked API for an answer that a graph gave whole.

    JSON that is not an answer of a language model becomes the data of one event, or one line.

    Args:
        asked: the members ``model``, ``stream_options`` and ``alt`` of the request.

    Raises:
        ValueError: the text is not a JSON object, or is a line of them.
    """
    if answer.endswith("\n"):
        raise ValueError("the answer is in lines")
    body = json.loads(answer)
    if not isinstance(body, dict):
        raise ValueError("the answer is not a JSON object")
    is_array = api is Api.GENERATE_CONTENT and asked.get("alt") != "sse"
    choices: list[tuple[list[Event], FinishReason]] = []
    usage = Usage(0, 0)
    try:
        usage = _usage(body.get("usage"))
        choices = list(_choices(body))
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    if not choices and api is Api.GENERATE_CONTENT:
        return f"[{json.dumps(body)}]" if is_array else f"data: {json.dumps(body)}\n\n"
    if not choices and api in (Api.OLLAMA_CHAT, Api.OLLAMA_GENERATE):
        return f"{json.dumps(body)}\n"
    if not choices:
        return f"data: {json.dumps(body)}\n\n{'' if api in _WITHOUT_DONE else DONE}"
    options = asked.get("stream_options")
    request = GenerationRequest(
        api=api,
        model=str(body.get("model") or asked.get("model") or ""),
        id=str(body.get("id") or new_answer_id(api)),
        created=int(body.get("created") or body.get("created_at") or time.time()),
        n=len(choices),
        # A completion has a prompt. The graph has read it, and no event repeats it.
        prompts=("",) if api in TEXT_APIS else (),
        stream=True,
        echo={"array": True} if is_array else {},
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )
    items: list[Delta] = [Begun(len(choices), Usage(usage.prompt_tokens, 0), request)]
    for number, (events, reason) in enumerate(choices):
        items.append(Gained(number, events))
        items.append(Finished(number, reason))
    items.append(Ended(usage))
    return DeltaWriter(answer_writer).write(items)


def _choices(body: Mapping[str, Any]) -> Iterator[tuple[list[Event], FinishReason]]:
    """Yield the events and the finish reason of each choice of an answer of any API."""
    if "choices" in body:
        for choice in body["choices"]:
            message = choice.get("message") or {"content": choice.get("text")}
            reason = choice.get("finish_reason") or "stop"
            yield list(_chat_events(message)), FinishReason(reason)
    elif "output" in body:
        why = (body.get("incomplete_details") or {}).get("reason")
        events = [event for item in body["output"] for event in _item_events(item)]
        has_calls = any(isinstance(event, ToolCall) for event in events)
        otherwise = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
        yield events, _reason(why, otherwise)
    elif body.get("type") == "message":
        events = [event for block in body["content"] for event in _block_events(block)]
        yield events, _reason(body.get("stop_reason"), FinishReason.STOP)


def _reason(word: str | None, otherwise: FinishReason) -> FinishReason:
    if word in tuple(FinishReason):
        return FinishReason(word)
    return otherwise if word is None else _STOP_REASONS.get(word, otherwise)


def _chat_events(message: Mapping[str, Any]) -> Iterator[Event]:
    if reasoning := message.get("reasoning_content"):
        yield Reasoning(reasoning)
    if content := message.get("content"):
        yield Content(content)
    for call in message.get("tool_calls") or ():
        yield ToolCall(call["function"]["name"], call.get("id") or "call")
        yield Arguments(call["function"]["arguments"])
    if refusal := message.get("refusal"):
        yield Refused(refusal)


def _item_events(item: Mapping[str, Any]) -> Iterator[Event]:
    match item["type"]:
        case "reasoning":
            for part in item.get("summary") or ():
                yield Reasoning(part["text"])
        case "message":
            for part in item["content"]:
                if part["type"] == "refusal":
                    yield Refused(part["refusal"])
                else:
                    yield Content(part["text"])
        case "function_call":
            yield ToolCall(item["name"], item["call_id"])
            yield Arguments(item["arguments"])
        case _:
            pass


def _block_events(block: Mapping[str, Any]) -> Iterator[Event]:
    match block["type"]:
        case "thinking":
            yield Reasoning(block["thinking"])
        case "text":
            yield Content(block["text"])
        case "tool_use":
            yield ToolCall(block["name"], block["id"])
            yield Arguments(json.dumps(block["input"]))
        case _:
            pass


def _usage(usage: Mapping[str, Any] | None) -> Usage:
    given = usage or {}
    prompt = given.get("prompt_tokens") or given.get("input_tokens") or 0
    completion = given.get("completion_tokens") or given.get("output_tokens") or 0
    return Usage(int(prompt), int(completion))
