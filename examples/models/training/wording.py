"""Variations in how people phrase the same request."""

import random

from .words import one

OPENERS: tuple[str, ...] = (
    "Hi, ",
    "Hello, ",
    "Hey, ",
    "Hello! ",
    "Hi! ",
    "Please tell me: ",
    "Quick question: ",
)
OPENERS += ("One question: ", "Sorry, ", "I have a question. ", "Good morning! ", "Ok, ", "So, ")
OPENERS += ("Now ", "And ", "Well, ", "Tell me, ", "Great. ", "Thanks! ")
CLOSERS: tuple[str, ...] = (
    " Thanks.",
    " Thank you!",
    " please",
    ", please",
    " Please.",
    " I am new here.",
    " :)",
)
DEFINITIONS = (
    "What is {}?",
    "What is {}?",
    "What is {}?",
    "What's {}?",
    "Explain {}.",
    "Can you explain {}?",
    "Tell me about {}.",
    "Can you tell me what {} is?",
    "What does {} mean?",
    "Define {}.",
    "{}?",
    "Describe {} briefly.",
    "I want to know what {} is.",
    "Do you know what {} is?",
    "In one sentence, what is {}?",
    "How would you explain {} to a beginner?",
    "What do you know about {}?",
    "What exactly is {}?",
    "What is {} good for?",
    "I do not understand {}.",
    "Explain to me what {} is.",
    "What is the meaning of {}?",
    "What is meant by {}?",
    "Could you describe {}?",
    "Please explain {} in simple words.",
    "Give me a short explanation of {}.",
    "What is {} used for?",
    "What is {} in this project?",
    "What do I need {} for?",
    "How does {} work?",
    "What is {} about?",
    "What kind of thing is {}?",
    "Explain the term {}.",
    "What would you say {} is?",
    "What, please, is {}?",
    "Who or what is {}?",
    "In short: what is {}?",
)


def definition(rng: random.Random, topic: str) -> str:
    return varied(rng, one(rng, DEFINITIONS).format(topic))


def varied(rng: random.Random, text: str) -> str:
    """Return the same question as another person would type it."""
    if not text:
        return text
    draw = rng.random()
    if draw < 0.16:
        text = one(rng, OPENERS) + _lower_first(text)
    elif draw < 0.26:
        closer = one(rng, CLOSERS)
        text = (text.rstrip("?.!") if closer.lstrip(" ,")[0].islower() else text) + closer
    draw = rng.random()
    if draw < 0.14:
        text = text[:1].lower() + text[1:]
    elif draw < 0.2:
        text = text[:1].upper() + text[1:]
    draw = rng.random()
    if draw < 0.16:
        text = text.rstrip("?.!")
    elif draw < 0.2:
        text = text.rstrip("?.!") + "!"
    elif draw < 0.22:
        text += "?"
    return text


def _lower_first(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
