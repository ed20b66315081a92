"""Long answers that read as language: stories, poems and jokes assembled from parts."""

import random

from .conversation import Exchange
from .wording import varied
from .words import ADJECTIVES, ANIMALS, NAMES, NOUNS, one

PLACES = (
    "in a small village by the sea",
    "at the edge of a dark forest",
    "on a quiet island",
    "in an old house on a hill",
    "in a big city full of lights",
    "near a cold mountain lake",
    "in a warm valley",
    "under an old stone bridge",
)
WISHES = (
    ("to see the moon from close by", "the moon came down and sat beside {it} on the roof"),
    ("to find a friend", "a stranger smiled, and they were friends from that day on"),
    ("to learn to sing", "{it} opened {its} mouth and the whole valley listened"),
    ("to build a boat", "the little boat floated, and the water carried it far away"),
    ("to find a lost {thing}", "the {thing} was lying in the grass, where nobody had looked"),
    ("to bake the best bread in the land", "the bread was warm and sweet and everybody had some"),
    ("to know what is behind the hills", "behind the hills there was a garden full of light"),
    ("to write a letter to the sea", "the sea answered with a long soft wave"),
)
STARTS = (
    "Once upon a time there was {a} {adj} {hero} named {name} who lived {place}.",
    "A long time ago, {a} {adj} {hero} called {name} lived {place}.",
    "There once was {a} {adj} {hero}. Its name was {name}, and it lived {place}.",
)
DAYS = (
    "Every morning {name} looked out of the window and wished {wish}.",
    "More than anything else, {name} wanted {wish}.",
    "All day long {name} dreamed of one thing: {wish}.",
)
TRIES = (
    "One day {name} packed {a2} {adj2} bag and went out into the world.",
    "On a {adj2} morning {name} took a deep breath and began.",
    "So one evening {name} put on a {adj2} coat and set out.",
)
MEETINGS = (
    'On the way {name} met {a3} {adj3} {friend}. "Where are you going?" asked the {friend}. '
    '"I want {wish}," said {name}. "Then I will come with you," said the {friend}.',
    'Soon {name} saw {a3} {adj3} {friend} sitting on a stone. "Can you help me?" asked {name}. '
    '"Of course," said the {friend}, "I know the way."',
    'A {adj3} {friend} was standing at the side of the road. "It is a long way," said the '
    '{friend}. "Two can walk it better than one," said {name}.',
)
TROUBLES = (
    "They walked for three days and three nights. It rained, and the wind was cold, but they did "
    "not give up.",
    "The road was long and the night was dark. They shared their last piece of bread and told "
    "each other stories.",
    "They came to a river without a bridge. They thought for a while, then they built one from "
    "wood and rope.",
    "At the end of the road stood a tall gate. It was closed, but the {friend} knew the word that "
    "opened it.",
)
ENDS = (
    "At last it happened: {end}. {name} was happy, and so was the {friend}.",
    "And then, when nobody expected it, {end}. They laughed until the sun came up.",
    "In the end it was simple: {end}. {name} never forgot that day.",
)
LAST = (
    "And if you go there today, you can still hear them laugh.",
    "They lived happily ever after.",
    "From then on they met every evening and told the story again.",
    "The end.",
)
JOKES = (
    "Why did the packet cross the graph? To get to the other node.",
    "Why was the stream so calm? All its timestamps were in order.",
    "What does a calculator say when it has no input? Nothing. It is not ready.",
    "Why did the token go back? Because of the loop.",
    "How many threads do you need to change a light bulb? One, but it must hold the lock.",
    "Why do programmers like the dark? Because light attracts bugs.",
)


def story(rng: random.Random) -> Exchange:
    hero = one(rng, ANIMALS)
    friend = one(rng, [animal for animal in ANIMALS if animal != hero])
    long = rng.random() < 0.35
    text = story_text(rng, hero, friend, long)
    article = _article(hero)
    forms = (
        "Tell me a {}story about {} {}.",
        "Tell me a {}story about {} {}.",
        "Write a {}story about {} {}.",
        "I would like to hear a {}story about {} {}.",
        "Can you tell me a {}story about {} {}?",
        "Make up a {}story about {} {}.",
    )
    length = "long " if long else one(rng, ("", "short "))
    ask = one(rng, forms).format(length, article, hero)
    if rng.random() < 0.3:
        ask = one(rng, ("Tell me a {}story.", "Tell a {}story", "Write a {}story, please."))
        ask = ask.format(length)
    heroes = f"{article} {hero} and {_article(friend)} {friend}"
    thought = f"The user wants a {length}story. I tell one about {heroes}."
    return Exchange(varied(rng, ask), text, thought)


def story_text(rng: random.Random, hero: str, friend: str, long: bool) -> str:
    adj, adj2, adj3 = rng.sample(ADJECTIVES, 3)
    wish, end = rng.choice(WISHES)
    parts = {
        "hero": hero,
        "friend": friend,
        "name": one(rng, NAMES),
        "adj": adj,
        "adj2": adj2,
        "adj3": adj3,
        "a": _article(adj),
        "a2": _article(adj2),
        "a3": _article(adj3),
        "place": one(rng, PLACES),
        "it": "it",
        "its": "its",
        "thing": one(rng, NOUNS),
    }
    parts["wish"] = wish.format(**parts)
    parts["end"] = end.format(**parts)
    kinds: list[tuple[str, ...]] = [STARTS, DAYS, TRIES, MEETINGS]
    if long:
        kinds.append(TROUBLES)
    kinds += [ENDS, LAST] if long or rng.random() < 0.6 else [ENDS]
    sentences = [one(rng, kind).format(**parts) for kind in kinds]
    if not long:
        return " ".join(sentences)
    return (
        " ".join(sentences[:3])
        + "\n\n"
        + " ".join(sentences[3:5])
        + "\n\n"
        + " ".join(sentences[5:])
    )


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def joke(rng: random.Random) -> Exchange:
    forms: tuple[str, ...] = (
        "Tell me a joke.",
        "Do you know a joke?",
        "Make me laugh.",
        "Say something funny.",
    )
    forms += ("Tell a joke about graphs.", "A joke, please.", "Can you tell me a joke?")
    return Exchange(
        varied(rng, one(rng, forms)), one(rng, JOKES), "The user wants a joke. I know a few."
    )


POEM = (
    ("The {n} is {a}, the {n2} is bright,", "a {b} {m} walks through the night."),
    ("A {a} {n} beside the sea,", "a {b} {m} looks up at me."),
    ("The {m} has found a {a} {n},", "it is too big, it is too small, it is its own."),
    ("O {a} {n}, o {b} day,", "the {m} has come, the {m} will stay."),
)


def poem(rng: random.Random) -> Exchange:
    topic = one(rng, NOUNS + ANIMALS)
    lines: list[str] = []
    for first, second in rng.sample(POEM, 2):
        parts = {
            "n": topic if topic in NOUNS else one(rng, NOUNS),
            "n2": one(rng, NOUNS),
            "m": topic if topic in ANIMALS else one(rng, ANIMALS),
            "a": one(rng, ADJECTIVES),
            "b": one(rng, ADJECTIVES),
        }
        lines += [first.format(**parts), second.format(**parts)]
    forms = ("Write a poem about the {}.", "Write a short poem about {}.", "A poem about a {}.")
    thought = f"The user wants a poem about {topic}. Four lines are enough."
    return Exchange(varied(rng, one(rng, forms).format(topic)), "\n".join(lines), thought)
