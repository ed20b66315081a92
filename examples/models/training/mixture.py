"""Mixes all kinds of conversations: endless, and the same for the same seed."""

import random
from collections.abc import Callable

from . import exercises, graphrt_facts, small_talk, stories, tool_use
from .conversation import (
    END_OF_TEXT,
    TURN_END,
    Conversation,
    Exchange,
    Message,
    prompt_text,
    with_thought,
)
from .held_out import is_held_out
from .words import ANIMALS, NAMES, NOUNS, anything, one, person, place

KINDS: tuple[tuple[Callable[[random.Random], Exchange], float], ...] = (
    (graphrt_facts.fact, 26),
    (small_talk.greeting, 5),
    (small_talk.talk, 9),
    (small_talk.foreign_hello, 1),
    (small_talk.capital, 3),
    (small_talk.unknown, 5),
    (exercises.counting, 18),
    (exercises.copying, 14),
    (exercises.this_is, 1),
    (exercises.drill, 3),
    (exercises.spelling, 3),
    (exercises.first_or_last, 1),
    (exercises.sums, 12),
    (exercises.as_json, 4),
    (stories.story, 5),
    (stories.joke, 1),
    (stories.poem, 2),
)
SYSTEM = (
    "You are a helpful assistant.",
    "You are a helpful assistant.",
    "You are an assistant. Be brief.",
    "You are a friendly assistant.",
    "Answer the user's questions.",
    "You are the assistant of graphrt.",
    "You are a helpful AI assistant. Answer shortly and clearly.",
    "Be polite.",
    "You help people with graphrt.",
)
THINK: tuple[str, ...] = ("Think before you answer.", "Think step by step.", "Always think first.")
THINK += ("You are a helpful assistant. Think before you answer.", "/think")


def exchange(rng: random.Random) -> Exchange:
    kinds, weights = zip(*KINDS, strict=True)
    while True:
        make: Callable[[random.Random], Exchange] = rng.choices(kinds, weights)[0]
        made = make(rng)
        if not is_held_out(made.user):
            return made


def conversation(rng: random.Random) -> Conversation:
    draw = rng.random()
    system = one(rng, SYSTEM) if rng.random() < 0.25 else ""
    if draw < 0.26:
        while True:
            made = tool_use.conversation(rng, exchange, system)
            asked = [message for message in made.messages if message["role"] == "user"]
            if not is_held_out(str(asked[-1]["content"])):
                return made
    if draw < 0.29:
        return _remembering(rng, system)
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    while rng.random() < 0.22 and len(messages) < 6:
        earlier = exchange(rng)
        messages.append({"role": "user", "content": earlier.user})
        messages.append({"role": "assistant", "content": earlier.answer})
    last = exchange(rng)
    way = rng.random()
    messages.append({"role": "user", "content": last.user})
    if way < 0.14:
        return Conversation(messages, with_thought(last), enable_thinking=True)
    if way < 0.17:
        messages[-1] = {
            "role": "user",
            "content": last.user + one(rng, (" /think", " Think first.")),
        }
        return Conversation(messages, with_thought(last))
    if way < 0.2:
        first = {"role": "system", "content": one(rng, THINK)}
        messages = [first, *(message for message in messages if message["role"] != "system")]
        return Conversation(messages, with_thought(last))
    if way < 0.21:
        messages[-1] = {"role": "user", "content": last.user + " /no_think"}
    return Conversation(messages, last.answer)


def _remembering(rng: random.Random, system: str) -> Conversation:
    """A later question about something that the user or the system turn said before."""
    name, thing, city = person(rng), one(rng, NOUNS + ANIMALS), place(rng)
    told = (
        (
            f"My name is {name}.",
            "What is my name?",
            f"Nice to meet you, {name}!",
            f"Your name is {name}.",
        ),
        (f"I am {name}.", "Who am I?", f"Nice to meet you, {name}!", f"You are {name}."),
        (
            f"I live in {city}.",
            "Where do I live?",
            f"{city} is a nice place.",
            f"You live in {city}.",
        ),
        (
            f"My favourite word is {thing}.",
            "What is my favourite word?",
            f"{thing} is a good word.",
            f"Your favourite word is {thing}.",
        ),
        (
            f"Remember the word {thing}.",
            "Which word should you remember?",
            f"I will remember the word {thing}.",
            f"The word is {thing}.",
        ),
    )
    said, ask, reply, answer = rng.choice(told)
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    if rng.random() < 0.15:
        other = one(rng, NAMES)
        messages = [{"role": "system", "content": f"You are {other}. Your name is {other}."}]
        ask, answer = rng.choice(
            (("Who are you?", f"I am {other}."), ("What is your name?", f"My name is {other}."))
        )
        messages.append({"role": "user", "content": ask})
        return Conversation(messages, answer)
    messages.append({"role": "user", "content": said})
    if rng.random() < 0.25:
        return Conversation(messages, reply)
    messages.append({"role": "assistant", "content": reply})
    if rng.random() < 0.4:
        between = exchange(rng)
        messages.append({"role": "user", "content": between.user})
        messages.append({"role": "assistant", "content": between.answer})
    messages.append({"role": "user", "content": ask})
    return Conversation(messages, answer)


def plain_text(rng: random.Random) -> str:
    """Text without any chat, for the completions endpoint."""
    if rng.random() < 0.6:
        hero, friend = rng.sample(ANIMALS, 2)
        return stories.story_text(rng, hero, friend, rng.random() < 0.4)
    if rng.random() < 0.5:
        return exercises.counting(rng).answer
    return graphrt_facts.fact(rng).answer


def twice(rng: random.Random) -> str:
    """Words, and the same words again, which teaches the model to look back."""
    text = one(rng, (" ", " ", ", ")).join(anything(rng) for _ in range(rng.randint(10, 22)))
    return f"{text}\n {text}{END_OF_TEXT}"


def document(rng: random.Random, drills: float = 0.0) -> str:
    """One whole training text with its last token; `drills` is the share of long copies."""
    if rng.random() < drills:
        drill = exercises.drill(rng)
        ask: list[Message] = [{"role": "user", "content": drill.user}]
        return prompt_text(Conversation(ask, drill.answer)) + drill.answer + TURN_END
    if rng.random() < 0.03:
        return plain_text(rng) + END_OF_TEXT
    made = conversation(rng)
    return prompt_text(made) + made.answer + TURN_END
