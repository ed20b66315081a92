"""Conversations with tools: when to call, with which arguments, and what to do with a result."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from .conversation import Conversation, Exchange, Message, Tool, with_thought
from .wording import varied
from .words import ADJECTIVES, ANIMALS, NOUNS, invented, one, person, place

Schema = dict[str, object]


@dataclass(frozen=True)
class Wish:
    """A user's request that needs one kind of tool."""

    names: tuple[str, ...]
    about: tuple[str, ...]
    keys: tuple[str, ...]
    schema: Schema
    questions: tuple[str, ...]
    value: Callable[[random.Random], object]
    result: Callable[[random.Random, object], tuple[str, str]]


def _weather(rng: random.Random, city: object) -> tuple[str, str]:
    degrees = rng.randint(-10, 38)
    sky = one(rng, ("sunny", "cloudy", "rainy", "windy", "foggy", "clear", "snowy", "stormy"))
    forms: tuple[object, ...] = (
        {"temperature": degrees, "condition": sky},
        {"city": city, "temperature": degrees, "condition": sky},
        {"location": city, "temperature": degrees, "unit": "celsius", "condition": sky},
        {"temp": degrees, "weather": sky},
        {"temperature": f"{degrees}", "sky": sky},
        f"{degrees} degrees and {sky}",
        f"{sky}, {degrees} degrees",
        f"{sky}, {degrees} C",
        f"{degrees}°C, {sky}",
    )
    return _dumped(rng.choice(forms)), f"It is {degrees} degrees and {sky} in {city}."


def _time(rng: random.Random, city: object) -> tuple[str, str]:
    clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}"
    forms: tuple[object, ...] = ({"time": clock}, {"city": city, "time": clock}, clock)
    return _dumped(rng.choice(forms)), f"It is {clock} in {city}."


def _found(rng: random.Random, query: object) -> tuple[str, str]:
    found = f"The {one(rng, ADJECTIVES)} {one(rng, NOUNS)} of {person(rng)}"
    forms: tuple[object, ...] = ({"results": [found]}, {"result": found}, [found], found)
    return _dumped(rng.choice(forms)), f'I found this: "{found}".'


def _price(rng: random.Random, thing: object) -> tuple[str, str]:
    price = rng.randint(1, 900)
    forms: tuple[object, ...] = ({"price": price}, {"price": price, "item": thing}, str(price))
    return _dumped(rng.choice(forms)), f"The price of {thing} is {price}."


def _done(rng: random.Random, _: object) -> tuple[str, str]:
    forms: tuple[object, ...] = ({"status": "ok"}, {"ok": True}, "done", "ok", {"success": True})
    return _dumped(rng.choice(forms)), "Done."


def _dumped(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(about: str) -> Schema:
    return {"type": "string", "description": about}


def _phrase(rng: random.Random) -> str:
    parts = [one(rng, ADJECTIVES), one(rng, NOUNS + ANIMALS), invented(rng)]
    return " ".join(parts[: rng.randint(1, 3)]) if rng.random() < 0.7 else invented(rng)


def _number(low: int, high: int) -> Callable[[random.Random], object]:
    return lambda rng: rng.randint(low, high)


WEATHER = Wish(
    ("get_weather", "get_weather", "get_weather", "get_current_weather", "weather", "getWeather"),
    ("Get the weather of a city", "Current weather", "Get current weather for a location"),
    ("city", "city", "location", "place"),
    _text("City name"),
    (
        "What is the weather in {}?",
        "What is the weather in {}?",
        "What's the weather like in {}?",
        "How is the weather in {}?",
        "How is the weather in {} today?",
        "Is it raining in {}?",
        "Weather in {}?",
        "Tell me the weather in {}.",
        "Do I need an umbrella in {}?",
        "What is the temperature in {}?",
        "Is it cold in {} now?",
        "I am travelling to {}. What is the weather there?",
        "What is the weather in {} right now?",
        "Check the weather in {}.",
        "Give me the weather forecast for {}.",
    ),
    place,
    _weather,
)
WISHES = (
    Wish(
        ("get_time", "get_current_time", "clock", "current_time"),
        ("Get the time in a city", "Current time in a place"),
        ("city", "location", "timezone", "place"),
        _text("City name"),
        (
            "What time is it in {}?",
            "What is the time in {}?",
            "Tell me the time in {}.",
            "How late is it in {}?",
            "Current time in {}?",
        ),
        place,
        _time,
    ),
    Wish(
        ("search", "web_search", "search_web", "find", "lookup", "search_documents"),
        ("Search the web", "Find documents", "Look something up"),
        ("query", "q", "text", "term"),
        _text("What to look for"),
        (
            "Search for {}.",
            "Search the web for {}.",
            "Find {} on the web.",
            "Look up {}.",
            "Can you search for {}?",
            "Find something about {}.",
        ),
        _phrase,
        _found,
    ),
    Wish(
        ("get_price", "price", "get_stock_price", "lookup_price"),
        ("Get the price of a thing", "Price lookup"),
        ("item", "name", "symbol", "product"),
        _text("Name of the thing"),
        (
            "What is the price of {}?",
            "How much does {} cost?",
            "Price of {}?",
            "Tell me the price of {}.",
        ),
        _phrase,
        _price,
    ),
    Wish(
        ("send_message", "notify", "send_email", "call_person"),
        ("Send a message to a person", "Write to somebody"),
        ("to", "recipient", "name", "person"),
        _text("Who gets it"),
        ("Send a message to {}.", "Write to {}.", "Notify {}.", "Please send {} a message."),
        person,
        _done,
    ),
    Wish(
        ("set_timer", "start_timer", "timer", "remind"),
        ("Set a timer", "Start a timer in minutes"),
        ("minutes", "duration"),
        {"type": "integer", "description": "Minutes"},
        ("Set a timer for {} minutes.", "Timer {} minutes.", "Remind me in {} minutes."),
        _number(1, 90),
        _done,
    ),
    Wish(
        ("play_music", "play", "play_song"),
        ("Play a song", "Play music"),
        ("title", "song", "name"),
        _text("Title of the song"),
        ("Play {}.", "Play the song {}.", "I want to hear {}.", "Put on {}."),
        _phrase,
        _done,
    ),
    Wish(
        ("translate", "translate_text"),
        ("Translate a text", "Translate words"),
        ("text", "sentence"),
        _text("Text to translate"),
        ("Translate {}.", "Please translate {}.", "What is {} in French?"),
        _phrase,
        _found,
    ),
)
UNITS = ("celsius", "fahrenheit")


@dataclass
class Offer:
    """A tool as offered in one conversation."""

    wish: Wish
    name: str
    key: str
    with_unit: bool
    tool: Tool


def _offer(rng: random.Random, wish: Wish) -> Offer:
    name, key = one(rng, wish.names), one(rng, wish.keys)
    if rng.random() < 0.3:
        name = one(rng, (f"{invented(rng)}_{invented(rng)}", invented(rng), f"get_{invented(rng)}"))
    if rng.random() < 0.12:
        key = invented(rng)
    schema = dict(wish.schema)
    if rng.random() < 0.5:
        del schema["description"]
    properties: dict[str, object] = {key: schema}
    with_unit = wish is WEATHER and rng.random() < 0.25
    if with_unit:
        properties["unit"] = {"type": "string", "enum": list(UNITS)}
    parameters: dict[str, object] = {"type": "object", "properties": properties}
    if rng.random() < 0.7:
        parameters["required"] = [key]
    if rng.random() < 0.15:
        parameters["additionalProperties"] = False
    function: dict[str, object] = {"name": name}
    if rng.random() < 0.75:
        function["description"] = one(rng, wish.about) + one(rng, ("", "", "."))
    function["parameters"] = parameters
    if rng.random() < 0.08:
        function["strict"] = True
    return Offer(wish, name, key, with_unit, {"type": "function", "function": function})


def _offers(rng: random.Random) -> list[Offer]:
    others = rng.sample(WISHES, rng.choice((0, 0, 0, 1, 1, 1, 2)))
    wishes = [WEATHER, *others] if rng.random() < 0.65 or not others else others
    rng.shuffle(wishes)
    return [_offer(rng, wish) for wish in wishes]


@dataclass
class Call:
    name: str
    arguments: dict[str, object]

    def text(self) -> str:
        arguments = json.dumps(self.arguments, ensure_ascii=False)
        return f'<tool_call>\n{{"name": "{self.name}", "arguments": {arguments}}}\n</tool_call>'

    def message(self, number: int) -> Message:
        function = {"name": self.name, "arguments": json.dumps(self.arguments, ensure_ascii=False)}
        return {"id": f"call_{number}", "type": "function", "function": function}


def _asked(rng: random.Random, offer: Offer) -> tuple[Exchange, list[Call], list[object]]:
    """Return a question that needs the tool, and the calls that answer it."""
    value = offer.wish.value(rng)
    values = [value]
    question = one(rng, offer.wish.questions).format(value)
    if rng.random() < 0.12 and "{}" not in question and isinstance(value, str):
        second = str(offer.wish.value(rng))
        if second != value:
            values.append(second)
            question = question.replace(value, f"{value} and {second}")
    unit = one(rng, UNITS)
    name_unit = offer.with_unit and rng.random() < 0.6
    if name_unit:
        question = question.rstrip("?.") + f" in {unit}" + question[len(question.rstrip("?.")) :]
    calls = []
    for item in values:
        arguments: dict[str, object] = {offer.key: item}
        if name_unit:
            arguments["unit"] = unit
        calls.append(Call(offer.name, arguments))
    if rng.random() < 0.06:
        question = f"Use {offer.name}: {question}"
    listed = " and ".join(str(item) for item in values)
    thought = f"The user asks about {listed}. I call {offer.name} with {offer.key} {listed}."
    answer = "\n".join(call.text() for call in calls)
    return Exchange(varied(rng, question), answer, thought), calls, list(values)


def conversation(
    rng: random.Random, exchange: Callable[[random.Random], Exchange], system: str
) -> Conversation:
    """A conversation with tools on offer; `exchange` makes questions that need none of them."""
    offers = _offers(rng)
    tools = [offer.tool for offer in offers]
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    if rng.random() < 0.08:
        small = exchange(rng)
        messages.append({"role": "user", "content": small.user})
        messages.append({"role": "assistant", "content": small.answer})
    draw = rng.random()
    thinks = rng.random() < 0.12
    if draw < 0.22:
        plain = exchange(rng)
        messages.append({"role": "user", "content": plain.user})
        answer = with_thought(plain) if thinks else plain.answer
        return Conversation(messages, answer, tools, thinks)
    asked, calls, values = _asked(rng, rng.choice(offers))
    offer = next(offer for offer in offers if offer.name == calls[0].name)
    messages.append({"role": "user", "content": asked.user})
    if draw < 0.72:
        return Conversation(
            messages, with_thought(asked) if thinks else asked.answer, tools, thinks
        )
    entries = [call.message(number) for number, call in enumerate(calls)]
    content = one(rng, ("", "")) or None
    messages.append({"role": "assistant", "content": content, "tool_calls": entries})
    said = []
    for number, value in enumerate(values):
        result, answer = offer.wish.result(rng, value)
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
        said.append(answer)
    if said[0] == "Done.":
        said = ["Done."]
    answered = Exchange("", " ".join(said), "The tool has answered. I tell the user the result.")
    answer = with_thought(answered) if thinks else answered.answer
    return Conversation(messages, answer, tools if rng.random() < 0.9 else [], thinks)
