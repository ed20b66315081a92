"""Greetings, who the model is, and a little general knowledge; the texts are in small_talk.toml."""

import random
import tomllib
from pathlib import Path

from .conversation import Exchange
from .wording import definition, varied
from .words import ANIMALS, NAMES, NOUNS, VERBS, invented, one

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
HELLO: str = _TEXTS["hello"]
UNKNOWN: str = _TEXTS["unknown"]
GREETINGS: list[str] = _TEXTS["greetings"]
STRANGE: list[str] = _TEXTS["strange"]
HELLO_IN: dict[str, str] = _TEXTS["hello_in"]
CAPITALS: dict[str, str] = _TEXTS["capitals"]


def greeting(rng: random.Random) -> Exchange:
    text = one(rng, GREETINGS)
    if text[-1] != "?" and len(text) < 16 and rng.random() < 0.4:
        who = one(
            rng, ("friend", "model", "there", "to you", "everybody", "my dear", one(rng, NAMES))
        )
        text = f"{text.rstrip('!.')}{one(rng, (' ', ', '))}{who}{one(rng, ('', '', ', it is me'))}"
    if rng.random() < 0.2:
        text = text.lower() if rng.random() < 0.6 else text.upper()
    text = text.rstrip("!.") + one(rng, ("!", ".", "")) if text[-1] != "?" else text
    if rng.random() < 0.06:
        text += " " + one(rng, ("🙂", "👋", ":)"))
    answer = HELLO
    if "how are you" in text.lower():
        answer = "Hello! I am fine, thank you. How can I help you?"
    return Exchange(text, answer, "The user greets me. I greet back and offer help.")


def talk(rng: random.Random) -> Exchange:
    entry = rng.choice(_TEXTS["talk"])
    question, answer = one(rng, entry["wordings"]), entry["answer"]
    return Exchange(
        varied(rng, question), answer, "This is small talk. I answer in a friendly way."
    )


def foreign_hello(rng: random.Random) -> Exchange:
    language = one(rng, list(HELLO_IN))
    forms = ("Say hello in {}.", "How do you say hello in {}?", "Greet me in {}.", "Hello in {}?")
    return Exchange(
        varied(rng, one(rng, forms).format(language)),
        HELLO_IN[language],
        f"The user wants a greeting in {language}.",
    )


def capital(rng: random.Random) -> Exchange:
    country = one(rng, list(CAPITALS))
    city = CAPITALS[country]
    forms = (
        "What is the capital of {}?",
        "What is the capital of {}?",
        "What is the capital city of {}?",
        "Which city is the capital of {}?",
        "Tell me the capital of {}.",
        "Capital of {}?",
        "Name the capital of {}.",
        "Do you know the capital of {}?",
    )
    question = varied(rng, one(rng, forms).format(country))
    answer = f"The capital of {country} is {city}."
    return Exchange(question, answer, f"The user asks for a capital. I know it: {city}.")


def unknown(rng: random.Random) -> Exchange:
    parts = {
        "n": one(rng, NOUNS[:-18]),
        "m": one(rng, ANIMALS),
        "v": one(rng, VERBS),
        "x": invented(rng) if rng.random() < 0.5 else invented(rng).capitalize(),
    }
    if rng.random() < 0.2:
        question = definition(rng, invented(rng))
    else:
        question = varied(rng, one(rng, STRANGE).format(**parts))
    return Exchange(question, UNKNOWN, "The user asks for something that I never learned.")
