"""Conversations about pictures, as text with placeholders for the pictures."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..training.conversation import TURN_END, Conversation, Message, prompt_text
from ..training.wording import varied
from .patches import SIZES
from .pictures import Picture, picture
from .questions import ABOUT_ONE, DIFFERS, WHAT, WHAT_OF_ONE, about_two, content, sentence
from .small_talk import SMALL_TALK, SYSTEM

IMAGE = "<ov_genai_image_{}>"  # as a server writes it
NO_PICTURE = "I see no picture. Please send me one."


@dataclass(frozen=True)
class Seen:
    """A conversation's text, answers included, and the pictures of its placeholders."""

    text: str
    pictures: tuple[Picture, ...]


def conversation(rng: random.Random, width: int = 64, height: int = 64) -> Seen:
    draw = rng.random()
    if draw < 0.08:
        return _without_picture(rng)
    if draw < 0.35:
        return _two_at_once(rng, width, height)
    return _one_by_one(rng, width, height)


def random_size(rng: random.Random) -> tuple[int, int]:
    return rng.choices(SIZES, (8, 3, 3, 1, 1))[0]


def _one_by_one(rng: random.Random, width: int, height: int) -> Seen:
    """Some questions about a picture, and sometimes about a second one."""
    messages = _beginning(rng)
    pictures: list[Picture] = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        new = picture(rng, width, height)
        for turn in range(rng.randint(2, 4)):
            ask, answer = rng.choice(ABOUT_ONE)(rng, new)
            ask = varied(rng, ask)
            if turn == 0:
                if rng.random() < 0.05:
                    ask, answer = "", sentence(content(new))
                elif pictures and rng.random() < 0.3:
                    ask, answer = rng.choice(("And this one?", "And now?")), sentence(content(new))
                ask = _beside(rng, ask, [len(pictures)])
            messages += _turn(ask, answer)
        pictures.append(new)
    return Seen(_text(messages), tuple(pictures))


def _two_at_once(rng: random.Random, width: int, height: int) -> Seen:
    messages = _beginning(rng)
    counts = rng.choices((None, 1), (1, 2), k=2)
    pictures = tuple(picture(rng, width, height, count) for count in counts)
    if rng.random() < 0.06:
        pictures = (pictures[0], pictures[0])
    for turn in range(rng.randint(2, 4)):
        ask, answer = about_two(rng, pictures)
        ask = varied(rng, ask)
        messages += _turn(ask if turn else _beside(rng, ask, [0, 1]), answer)
    return Seen(_text(messages), pictures)


def _without_picture(rng: random.Random) -> Seen:
    messages = _beginning(rng)
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.75:
            asks, answers = rng.choice(SMALL_TALK)
            messages += _turn(varied(rng, rng.choice(asks)), answers)
        else:
            ask = rng.choice(rng.choice((WHAT, DIFFERS, WHAT_OF_ONE))).format("first")
            messages += _turn(varied(rng, ask), NO_PICTURE)
    return Seen(_text(messages), ())


def _beside(rng: random.Random, ask: str, numbers: list[int]) -> str:
    """Return the question with its images before or after it."""
    gap = rng.choice(("", "\n", "\n"))
    images = [IMAGE.format(number) for number in numbers]
    parts = [*images, ask] if rng.random() < 0.5 else [ask, *images]
    return gap.join(part for part in parts if part)


def _beginning(rng: random.Random) -> list[Message]:
    if rng.random() < 0.75:
        return []
    return [{"role": "system", "content": rng.choice(SYSTEM)}]


def _turn(ask: str, answer: str) -> list[Message]:
    return [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]


def _text(messages: list[Message]) -> str:
    answer = str(messages[-1]["content"])
    return prompt_text(Conversation(messages[:-1], answer)) + answer + TURN_END
