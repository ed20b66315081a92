"""Requests of every client, so that their answers can be compared."""

from __future__ import annotations

from typing import Any, Final

MODEL: Final = "demo"
API_KEY: Final = "unused"
QUESTION: Final = "Hello"
PROMPT: Final = "Once upon a time"
MAX_TOKENS: Final = 12
#: A temperature out of range, and a name that is not served.
TOO_HOT: Final = 99.0
NO_MODEL: Final = "no-such-model"

#: A question that needs a tool, the tool, its result, and the model's answer to it.
NEEDS_TOOL: Final = "What is the weather in Paris?"
TOOL: Final = "get_weather"
TOOL_ABOUT: Final = "Get the weather of a city"
TOOL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
TOOL_ARGUMENTS: Final = {"city": "Paris"}
TOOL_RESULT: Final = "12 degrees and rainy"
TOOL_ANSWER: Final = "It is 12 degrees and rainy in Paris."
#: A question that needs the tool twice, for Paris and for London.
NEEDS_TWO: Final = "What is the weather in Paris and London?"
#: A question with the city, from which the model does not see that the tool is needed.
NEEDS_NO_TOOL: Final = "I live in Paris."
#: Tokens enough for a call, for reasoning, for a person.
MORE_TOKENS: Final = 160
#: A question about which the model reasons before it answers.
THINKING: Final = {"chat_template_kwargs": {"enable_thinking": True}}
CHAT_TOOLS: Final[list[Any]] = [
    {
        "type": "function",
        "function": {"name": TOOL, "description": TOOL_ABOUT, "parameters": TOOL_SCHEMA},
    }
]
