"""Questions that are never trained on. `scorecard.py` asks them."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Trial:
    """One question; the answer must contain all of `wanted` (without regard to case)."""

    kind: str
    question: str
    wanted: tuple[str, ...] = ()
    exact: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    thinks: bool = False


def tool(name: str, key: str, kind: str = "string", about: str = "") -> dict[str, Any]:
    parameters = {"type": "object", "properties": {key: {"type": kind}}, "required": [key]}
    function = {"name": name, "description": about or f"The tool {name}", "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = {
    "get_weather": tool("get_weather", "city", about="Get the weather of a city"),
    "get_current_weather": tool("get_current_weather", "location", about="Current weather"),
    "get_time": tool("get_time", "city", about="Get the time in a city"),
    "search": tool("search", "query", about="Search the web"),
    "set_timer": tool("set_timer", "minutes", "integer", about="Set a timer"),
}


def _counted(numbers: range) -> str:
    return ", ".join(str(number) for number in numbers) + "."


TRIALS: tuple[Trial, ...] = (
    Trial("greeting", "Hello there!", ("hello",)),
    Trial("greeting", "Hey, good morning to you", ("hello",)),
    Trial("greeting", "Hi friend", ("hello",)),
    Trial("greeting", "Well hello, how are you doing?", ("fine",)),
    Trial("greeting", "Good evening, dear model", ("hello",)),
    Trial("greeting", "Thank you so much for your help!", ("welcome",)),
    Trial("greeting", "And who are you then?", ("demo model",)),
    Trial("greeting", "Goodbye for now", ("goodbye",)),
    Trial("graphrt", "So what is graphrt, in short?", ("dataflow graph runtime",)),
    Trial("graphrt", "Could you please tell me what graphrt is?", ("dataflow graph runtime",)),
    Trial("graphrt", "What would I type to get the server started?", ("make serve",)),
    Trial("graphrt", "How do I start up the graphrt server?", ("make serve",)),
    Trial("graphrt", "At which port can I reach the server?", ("8000",)),
    Trial("graphrt", "What port is used by graphrt?", ("8000",)),
    Trial("graphrt", "What is a calculator in this project?", ("code of a node",)),
    Trial("graphrt", "Explain the word packet to me.", ("timestamp",)),
    Trial("graphrt", "What are side packets for?", ("before the run",)),
    Trial("graphrt", "Please tell me what a timestamp is", ("whole number",)),
    Trial("graphrt", "What is LOOPBACK used for?", ("back edge",)),
    Trial("graphrt", "What is inside of graph.pbtxt?", ("describes a graph",)),
    Trial("graphrt", "What do I need config.json for?", ("lists the graphs",)),
    Trial("graphrt", "How does continuous batching work?", ("join and leave",)),
    Trial("graphrt", "What on earth is OpenVINO?", ("toolkit",)),
    Trial("graphrt", "How can I get a list of the models?", ("/v3/models",)),
    Trial("graphrt", "How could I write a new calculator myself?", ("@calculator",)),
    Trial("graphrt", "What licence is graphrt released under?", ("apache",)),
    Trial("graphrt", "Which Python do I need for graphrt?", ("3.11",)),
    Trial("graphrt", "Is a GPU required?", ("no gpu",)),
    Trial("graphrt", "Can I talk to it with the OpenAI client library?", ("/v3",)),
    Trial("graphrt", "What would a timestamp bound be?", ("promise",)),
    Trial("graphrt", "Who or what is MediaPipe?", ("framework",)),
    Trial("graphrt", "How do I find errors in my graph.pbtxt?", ("graphrt validate",)),
    Trial("graphrt", "How are the tests run?", ("make test",)),
    Trial("counting", "Count from 1 to 10.", exact=_counted(range(1, 11))),
    Trial("counting", "Count from 4 to 13.", exact=_counted(range(4, 14))),
    Trial("counting", "Please count to 7.", exact=_counted(range(1, 8))),
    Trial("counting", "Count down from 10 to 1.", exact=_counted(range(10, 0, -1))),
    Trial("counting", "Count from 6 to 18 by 2.", exact=_counted(range(6, 19, 2))),
    Trial("counting", "Count from 1 to 40.", exact=_counted(range(1, 41))),
    Trial("counting", "Count from 95 to 108.", exact=_counted(range(95, 109))),
    Trial("counting", "Count to 20", exact=_counted(range(1, 21))),
    Trial("copying", "Repeat: blue horse seven", exact="blue horse seven"),
    Trial("copying", "Repeat after me: kolari venta", exact="kolari venta"),
    Trial("copying", "Say banana", exact="banana"),
    Trial("copying", 'Copy this: "open the red door"', exact="open the red door"),
    Trial("copying", "Echo packet 42", exact="packet 42"),
    Trial("copying", "Say lamp three times", exact="lamp lamp lamp"),
    Trial("copying", "Repeat: the wise owl reads a letter", exact="the wise owl reads a letter"),
    Trial("copying", "Say this is a test", exact="This is a test."),
    Trial("sums", "What is 2 + 2?", ("= 4",)),
    Trial("sums", "How much is 7 plus 5?", ("= 12",)),
    Trial("sums", "What is 23 + 14?", ("= 37",)),
    Trial("sums", "What is 6 * 7?", ("= 42",)),
    Trial("knowledge", "What is the capital of France?", ("paris",)),
    Trial("knowledge", "Which city is the capital of Japan?", ("tokyo",)),
    Trial("knowledge", "What is the favourite food of the prime minister?", ("do not know",)),
    Trial("story", "Please tell me a story about a brave penguin.", ("penguin",)),
    Trial("story", "Write a long story about an owl, please.", ("owl",)),
    Trial("tool", "What is the weather in Paris?", tool="get_weather", arguments={"city": "Paris"}),
    Trial(
        "tool", "How's the weather in Tokyo today?", tool="get_weather", arguments={"city": "Tokyo"}
    ),
    Trial("tool", "Will it rain in Lisbon?", tool="get_weather", arguments={"city": "Lisbon"}),
    Trial(
        "tool",
        "What is the weather like in Torvik?",
        tool="get_weather",
        arguments={"city": "Torvik"},
    ),
    Trial(
        "tool",
        "What is the weather in San Francisco?",
        tool="get_current_weather",
        arguments={"location": "San Francisco"},
    ),
    Trial("tool", "What's the time in Berlin?", tool="get_time", arguments={"city": "Berlin"}),
    Trial("tool", "Search for green tea.", tool="search", arguments={"query": "green tea"}),
    Trial("tool", "Set a timer for 12 minutes.", tool="set_timer", arguments={"minutes": 12}),
    Trial("tools unused", "Hello there!", ("hello",), tool="-"),
    Trial("tools unused", "What is a packet, please?", ("timestamp",), tool="-"),
    Trial("thinking", "Hello there!", ("hello",), thinks=True),
    Trial("thinking", "What is a packet, please?", ("timestamp",), thinks=True),
    Trial("thinking", "What is 7 + 6?", ("13",), thinks=True),
    Trial("thinking", "Count from 3 to 9.", (_counted(range(3, 10)),), thinks=True),
    Trial(
        "thinking",
        "What is the weather in Madrid?",
        tool="get_weather",
        arguments={"city": "Madrid"},
        thinks=True,
    ),
)


def _bare(text: str) -> str:
    return json.dumps(text.casefold().replace(",", "").rstrip("?.! "))


_HELD_OUT = frozenset(_bare(trial.question) for trial in TRIALS)


def is_held_out(question: str) -> bool:
    return _bare(question) in _HELD_OUT
