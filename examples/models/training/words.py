"""Words that the data is made of; the lists are in words.toml."""

import random
import tomllib
from collections.abc import Sequence
from pathlib import Path

_LISTS = {
    name: text.split()
    for name, text in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
CITIES = _LISTS["cities"]
NAMES = _LISTS["names"]
NOUNS = _LISTS["nouns"]
ADJECTIVES = _LISTS["adjectives"]
VERBS = _LISTS["verbs"]
ANIMALS = _LISTS["animals"]
FOREIGN = _LISTS["foreign"]
SYLLABLES = _LISTS["syllables"]
LONG_CITIES = (
    "New York",
    "San Francisco",
    "Los Angeles",
    "Buenos Aires",
    "Rio de Janeiro",
    "Cape Town",
    "Hong Kong",
    "Tel Aviv",
    "Mexico City",
    "New Delhi",
    "Kuala Lumpur",
    "São Paulo",
    "Zürich",
    "Gdańsk",
    "San Diego",
    "Las Vegas",
    "Saint Petersburg",
    "Abu Dhabi",
)
ENDINGS = ("", "", "", "n", "r", "s", "l", "t", "k", "m", "x", "ton", "ville", "berg")


def one(rng: random.Random, options: Sequence[str]) -> str:
    return options[int(rng.random() * len(options))]


def invented(rng: random.Random) -> str:
    """Return a word that does not exist, in lower case: to copy it, the model has to look at it."""
    return "".join(one(rng, SYLLABLES) for _ in range(rng.choice((1, 2, 2, 3)))) + one(rng, ENDINGS)


def place(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.5:
        return one(rng, CITIES)
    if draw < 0.62:
        return one(rng, LONG_CITIES)
    return invented(rng).capitalize()


def person(rng: random.Random) -> str:
    return one(rng, NAMES) if rng.random() < 0.6 else invented(rng).capitalize()


def anything(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.3:
        return one(rng, NOUNS)
    if draw < 0.42:
        return one(rng, ADJECTIVES)
    if draw < 0.5:
        return one(rng, ANIMALS)
    if draw < 0.57:
        return one(rng, VERBS)
    if draw < 0.64:
        return one(rng, CITIES)
    if draw < 0.7:
        return one(rng, NAMES)
    if draw < 0.75:
        return str(rng.randrange(1000))
    if draw < 0.78:
        return one(rng, FOREIGN)
    return invented(rng)
