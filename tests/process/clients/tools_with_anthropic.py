"""Anthropic's own client: tools, structured output, thinking."""

from __future__ import annotations

from typing import Any

import anthropic

from tests.process.clients.asked import (
    API_KEY,
    MODEL,
    MORE_TOKENS,
    NEEDS_NO_TOOL,
    NEEDS_TOOL,
    QUESTION,
    TOOL,
    TOOL_ABOUT,
    TOOL_RESULT,
    TOOL_SCHEMA,
)
from tests.process.clients.person import Person, told

_TOOLS: list[Any] = [{"name": TOOL, "description": TOOL_ABOUT, "input_schema": TOOL_SCHEMA}]
_ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": MORE_TOKENS,
    # The client no longer has a parameter for it.
    "extra_body": {"temperature": 0},
}


@anthropic.beta_tool(  # type: ignore[untyped-decorator]
    name=TOOL, description=TOOL_ABOUT
)
def get_weather(city: str) -> str:
    return TOOL_RESULT


def facts(base_url: str) -> dict[str, Any]:
    client = anthropic.Anthropic(
        base_url=base_url.removesuffix("/v1"), api_key=API_KEY, max_retries=0
    )
    return {
        **_tools(client),
        "loop": _loop(client),
        **_structured(client),
        **_thinking(client),
        "count": client.messages.count_tokens(
            model=MODEL, messages=_user(NEEDS_TOOL), tools=_TOOLS
        ).input_tokens,
    }


def _user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def _loop(client: anthropic.Anthropic) -> str:
    """Run the client's own loop of questions, calls and results."""
    runner = client.beta.messages.tool_runner(
        **_ASKED, messages=_user(NEEDS_TOOL), tools=[get_weather]
    )
    (block,) = runner.until_done().content
    return str(block.text)


def _tools(client: anthropic.Anthropic) -> dict[str, Any]:
    question = _user(NEEDS_TOOL)
    asked: dict[str, Any] = {**_ASKED, "messages": question, "tools": _TOOLS}
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    (use,) = whole.content
    result = {"type": "tool_result", "tool_use_id": use.id, "content": TOOL_RESULT}
    turns = [
        *question,
        {"role": "assistant", "content": whole.content},
        {"role": "user", "content": [result]},
    ]
    answered = client.messages.create(**{**asked, "messages": turns})
    hello = {**asked, "messages": _user(NEEDS_NO_TOOL)}
    return {
        "call": _call(whole),
        "call_stop": whole.stop_reason,
        "streamed_call": _call(streamed),
        "streamed_stop": streamed.stop_reason,
        "answer": answered.content[0].text,
        "answer_stop": answered.stop_reason,
        "any": _call(client.messages.create(**hello, tool_choice={"type": "any"})),
        "named": _call(client.messages.create(**hello, tool_choice={"type": "tool", "name": TOOL})),
    }


def _structured(client: anthropic.Anthropic) -> dict[str, Any]:
    asked: dict[str, Any] = {**_ASKED, "messages": _user(QUESTION), "output_format": Person}
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    return {
        "parsed": told(client.messages.parse(**asked).parsed_output),
        "parsed_stream": told(streamed.parsed_output),
    }


def _thinking(client: anthropic.Anthropic) -> dict[str, Any]:
    asked: dict[str, Any] = {
        **_ASKED,
        "messages": _user(QUESTION),
        "thinking": {"type": "adaptive"},
    }
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        thought = "".join(event.thinking for event in stream if event.type == "thinking")
        final = stream.get_final_message()
    return {
        "blocks": [block.type for block in whole.content],
        "thinking": whole.content[0].thinking,
        "thought": whole.content[1].text,
        "streamed_thinking": thought,
        "streamed_blocks": [block.type for block in final.content],
        "streamed_thought": final.content[1].text,
    }


def _call(message: Any) -> list[Any]:
    """Return the name and the input of the only call."""
    (use,) = message.content
    assert use.type == "tool_use"
    assert use.id
    return [use.name, use.input]
