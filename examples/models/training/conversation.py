"""A training conversation and the text that it becomes."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = dict[str, Any]
Tool = dict[str, Any]

TEMPLATE = Path(__file__).parent / "chat_template.jinja"
END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"


@dataclass(frozen=True)
class Exchange:
    """A question, its answer, and possible reasoning in between."""

    user: str
    answer: str
    thought: str


@dataclass
class Conversation:
    """The template's input, and the assistant's last turn as the model should write it."""

    messages: list[Message]
    answer: str
    tools: list[Tool] = field(default_factory=list)
    enable_thinking: bool = False


def tojson(value: object, **_: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@cache
def chat_template() -> Any:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = tojson
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def prompt_text(conversation: Conversation) -> str:
    return str(
        chat_template().render(
            messages=conversation.messages,
            tools=conversation.tools,
            enable_thinking=conversation.enable_thinking,
            add_generation_prompt=True,
        )
    )


def with_thought(exchange: Exchange) -> str:
    return f"<think>\n{exchange.thought}\n</think>\n\n{exchange.answer}"
