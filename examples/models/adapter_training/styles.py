"""The styles that the adapters teach the demo model: the same answers in another manner."""

import random
from collections.abc import Callable

from ..training import graphrt_facts, small_talk
from ..training.conversation import TURN_END, Conversation, Exchange, prompt_text
from ..training.held_out import is_held_out


def pirate(answer: str) -> str:
    """Put the answer between "Ahoy!" and "Arr!"."""
    return f"Ahoy! {answer.removeprefix('Hello! ')} Arr!"


def letter(answer: str) -> str:
    """Put the answer into a letter with salutation and signature."""
    return f"Dear friend,\n{answer}\nYours, graphrt"


STYLES: dict[str, Callable[[str], str]] = {"pirate": pirate, "letter": letter}

_KINDS: tuple[tuple[Callable[[random.Random], Exchange], float], ...] = (
    (small_talk.greeting, 4),
    (small_talk.talk, 5),
    (small_talk.capital, 3),
    (small_talk.unknown, 1),
    (graphrt_facts.fact, 8),
)


def document(rng: random.Random, style: str) -> tuple[str, str]:
    """Return a prompt with the answer and the token that ends it."""
    kinds, weights = zip(*_KINDS, strict=True)
    while True:
        make: Callable[[random.Random], Exchange] = rng.choices(kinds, weights)[0]
        made = make(rng)
        if not is_held_out(made.user):
            break
    asked = Conversation([{"role": "user", "content": made.user}], made.answer)
    return prompt_text(asked), STYLES[style](made.answer) + TURN_END
