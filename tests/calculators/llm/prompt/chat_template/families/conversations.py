"""Chats and tools with which every family's template is rendered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The variables of a template; ``variables`` are ``chat_template_kwargs``."""

    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(content: Any, **members: Any) -> Message:
    return {"role": "assistant", "content": content, **members}


def system(content: Any) -> Message:
    return {"role": "system", "content": content}


def tool(content: Any, call_id: str = "call00001", name: str = "weather") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": content}


def call(arguments: Any, call_id: str = "call00001", name: str = "weather") -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def function(name: str, description: str, properties: dict[str, Any], *required: str) -> Any:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


PLACE = {"place": "Zürich", "days": 3}
TOOLS = [
    function(
        "weather",
        "The weather of a place",
        {
            "place": {"type": "string", "description": 'Where <it> is & "how" it\'s called'},
            "days": {"type": "integer", "default": 1},
        },
        "place",
    ),
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}},
]
RICH_TOOL = function(
    "search",
    "Größe 🔎\nin two lines",
    {
        "mode": {"type": "string", "enum": ["fast", "good"], "default": "fast"},
        "tags": {"type": "array", "items": {"type": "string"}, "nullable": True},
        "sizes": {"type": "array", "items": {"type": "number"}},
        "filter": {
            "type": "object",
            "properties": {
                "Before": {"type": ["string", "null"], "description": "a date"},
                "after": {"type": "boolean"},
            },
            "required": ["after"],
            "additionalProperties": False,
        },
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}},
        "any": {"oneOf": [{"type": "string", "default": "ä"}, {"type": "integer"}]},
        "limit": {"type": "number", "minimum": 1e-07, "maximum": 1e100, "default": 1.0},
    },
    "mode",
)
VALUES = {
    "big": 2**80,
    "float": 1.0,
    "tiny": 1e-07,
    "huge": 1e100,
    "yes": True,
    "nothing": None,
    "list": [1, "two", [3.5, {"b": False, "a": "ü"}]],
    "Object": {"z": 1, "a": {"deep": []}},
    "text": "a \"b\" 'c' <d> & \\ \n",
}
DOCUMENTS = [
    {"doc_id": 7, "title": "One", "text": "The <first> one."},
    {"doc_id": 8, "title": "Two", "text": "Das zweite: ü."},
]
REASONED = "Let me see.\nIt is 4."
ODD_TEXT = "Grüße, 你好 👩‍👩‍👧 e\u0301 \u200f\u2028 \ufeff \x00 end"
MARKUP = "<b>\"a\" & 'b'</b> &amp; </script> {{ 7*7 }} {% raise %} {# x #} <|im_end|>"


def _long_history() -> list[Message]:
    messages = [system("Be brief.")]
    for turn in range(60):
        messages += [user(f"Question {turn}? " + "word " * 20), assistant(f"Answer {turn}.")]
        if turn % 10 == 5:
            messages += [
                user("And there?"),
                assistant("", tool_calls=[call({"place": f"P{turn}"}, f"call0{turn:04}")]),
                tool("sunny", f"call0{turn:04}"),
                assistant("Sunny."),
            ]
    return [*messages, user("The last one.")]


ASK = user("Weather in Zürich?")
CALLED = assistant("", tool_calls=[call(PLACE)])
CALLED_WITH_TEXT = assistant("", tool_calls=[call('{"place": "Zürich", "days": 3}')])
CALLED_TWICE = assistant(
    "Both.", tool_calls=[call(PLACE), call({"place": "Bern"}, "call00002"), call({}, "call00003")]
)

CONVERSATIONS: dict[str, Conversation] = {
    "one question": Conversation([user("Hello!")]),
    "system": Conversation([system("Be brief."), user("Hello!")]),
    "developer": Conversation([{"role": "developer", "content": "Be brief."}, user("Hello!")]),
    "second system": Conversation(
        [system("One."), user("a"), assistant("b"), system("Two."), user("c")]
    ),
    "turns": Conversation([system("Be brief."), user("2+2?"), assistant("4"), user("3+3?")]),
    "no generation prompt": Conversation(
        [user("2+2?"), assistant("4")], add_generation_prompt=False
    ),
    "answer last": Conversation([user("2+2?"), assistant("4")]),
    "tools": Conversation([ASK], TOOLS),
    "tools and system": Conversation([system("Be brief."), ASK], TOOLS),
    "rich tools": Conversation([ASK], [RICH_TOOL]),
    "tools in the system turn": Conversation(
        [system("S"), ASK], TOOLS, {"tools_in_user_message": False}
    ),
    "call": Conversation([ASK, CALLED], TOOLS),
    "call with text arguments": Conversation([ASK, CALLED_WITH_TEXT], TOOLS),
    "call with all kinds of values": Conversation([ASK, assistant("", tool_calls=[call(VALUES)])]),
    "calls": Conversation([ASK, CALLED_TWICE], TOOLS),
    "tool turn": Conversation([ASK, CALLED, tool('{"t": 21}')], TOOLS),
    "tool turn with text arguments": Conversation([ASK, CALLED_WITH_TEXT, tool("21")], TOOLS),
    "tool turn, answered": Conversation(
        [ASK, CALLED, tool("21"), assistant("21 degrees."), user("Thanks!")], TOOLS
    ),
    "tool turn with text arguments, answered": Conversation(
        [ASK, CALLED_WITH_TEXT, tool("21"), assistant("21 degrees."), user("Thanks!")], TOOLS
    ),
    "two tool turns": Conversation(
        [ASK, CALLED_TWICE, tool("21"), tool("19", "call00002"), assistant("21 and 19."), ASK]
    ),
    "tool turn without a call": Conversation([ASK, tool("21")]),
    "tool turn of a list": Conversation([ASK, CALLED, tool([{"type": "text", "text": "21"}])]),
    "null content": Conversation([ASK, assistant(None, tool_calls=[call(PLACE)]), tool("21")]),
    "no content": Conversation(
        [ASK, {"role": "assistant", "tool_calls": [call(PLACE)]}, tool("21")], TOOLS
    ),
    "null answer": Conversation([ASK, assistant(None), ASK]),
    "no tool_calls": Conversation([ASK, assistant("No.", tool_calls=None), ASK]),
    "short id": Conversation([ASK, assistant("", tool_calls=[call(PLACE, "c1")]), tool("1", "c1")]),
    "parts": Conversation([user([{"type": "text", "text": "One"}, {"type": "text", "text": "2"}])]),
    "image": Conversation(
        [user([{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "?"}])]
    ),
    "unknown part": Conversation([user([{"type": "video", "video": "x"}])]),
    "system of parts": Conversation([system([{"type": "text", "text": "S"}]), user("Hello!")]),
    "reasoning": Conversation(
        [user("2+2?"), assistant("4", reasoning_content=REASONED), user("3+3?")]
    ),
    "reasoning last": Conversation([user("2+2?"), assistant("4", reasoning_content=REASONED)]),
    "thinking": Conversation(
        [user("2+2?"), assistant("4", thinking=REASONED)], add_generation_prompt=False
    ),
    "reasoning in the content": Conversation(
        [user("2+2?"), assistant(f"<think>\n{REASONED}\n</think>\n\n4"), user("3+3?")]
    ),
    "reasoning and call": Conversation(
        [ASK, assistant("", reasoning_content=REASONED, tool_calls=[call(PLACE)]), tool("21")],
        TOOLS,
    ),
    "thinking and call": Conversation(
        [ASK, assistant("", thinking=REASONED, tool_calls=[call(PLACE)]), tool("21")], TOOLS
    ),
    "thinking, content and call": Conversation(
        [ASK, assistant("So", thinking=REASONED, tool_calls=[call(PLACE)]), tool("21")]
    ),
    "odd text": Conversation([system(ODD_TEXT), user(ODD_TEXT), assistant(ODD_TEXT), user("?")]),
    "markup": Conversation(
        [user(MARKUP), assistant("", tool_calls=[call({"q": MARKUP})]), tool(MARKUP)],
        [function("q", MARKUP, {"q": {"type": "string", "description": MARKUP}}, "q")],
    ),
    "whitespace": Conversation(
        [system("\n S \n"), user("\n\n  a \t\r\n"), assistant("\n\nb\n "), user(" ")]
    ),
    "empty texts": Conversation([system(""), user(""), assistant(""), user("")]),
    "thinking on": Conversation([user("2+2?")], None, {"enable_thinking": True, "thinking": True}),
    "thinking off": Conversation([user("2+2?")], None, {"enable_thinking": False}),
    "reasoning effort": Conversation([user("2+2?")], None, {"reasoning_effort": "high"}),
    "past thinking kept": Conversation(
        [user("a"), assistant("b", thinking=REASONED), user("c"), assistant("d"), user("e")],
        None,
        {"keep_past_thinking": True},
    ),
    "documents": Conversation([user("Which?")], None, {"documents": DOCUMENTS}),
    "documents and tools": Conversation(
        [user("Which?")], TOOLS, {"documents": DOCUMENTS, "controls": {"citations": True}}
    ),
    "date": Conversation([user("When?")], None, {"date_string": "1 Jan 2030"}),
    "built-in tools": Conversation(
        [ASK, assistant("", tool_calls=[call({"q": "x"}, name="search")]), tool("y")],
        None,
        {"builtin_tools": ["search", "browser", "python", "code_interpreter"]},
    ),
    "python tools": Conversation([ASK], None, {"python_tools": ["def f(): ..."]}),
    "mode in the system text": Conversation([system("Brief. /no_think"), user("Hello!")]),
    "two questions": Conversation([user("a"), user("b")]),
    "answer first": Conversation([assistant("a"), user("b")]),
    "unknown role": Conversation([user("a"), {"role": "critic", "content": "b"}]),
    "system only": Conversation([system("S")], TOOLS),
    "long": Conversation(_long_history(), TOOLS),
}
