"""What every client asks, so that their answers can be compared."""

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

#: What the model needs a tool for, the tool, what the tool says, and what the model says then.
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
#: Needs the tool twice, for Paris and for London.
NEEDS_TWO: Final = "What is the weather in Paris and London?"
#: Has the city, and the model does not see what the tool would be for.
NEEDS_NO_TOOL: Final = "I live in Paris."
#: Enough for a call, a thought, a person.
MORE_TOKENS: Final = 160
#: Has the model think before it answers.
THINKING: Final = {"chat_template_kwargs": {"enable_thinking": True}}
CHAT_TOOLS: Final[list[Any]] = [
    {
        "type": "function",
        "function": {"name": TOOL, "description": TOOL_ABOUT, "parameters": TOOL_SCHEMA},
    }
]
