"""Asks the exported model about pictures that it never saw, greedily, and prints a table."""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import openvino
import openvino_genai as genai

from .conversations import IMAGE, NO_PICTURE
from .pictures import Picture, Pixels, picture
from .questions import (
    DIFFERS,
    WHAT,
    Asked,
    about_two,
    background,
    colour,
    content,
    how_many,
    is_there,
    sentence,
    which,
)
from .small_talk import SMALL_TALK

EACH = 100  # trials per kind
PASS_MARK = 0.9  # for one shape
_SEED = 1_000_003  # a seed that training does not use
_LONGEST = 60  # tokens


class Trial(NamedTuple):
    kind: str
    question: str
    pictures: tuple[Pixels, ...]
    answer: str


def check(model: Path) -> bool:
    """Return True if 9 of 10 pictures with one shape are named exactly."""
    trials = list(_trials(random.Random(_SEED)))
    right: dict[str, list[bool]] = defaultdict(list)
    for trial, answer in zip(trials, answers(model, trials), strict=True):
        right[trial.kind].append(answer == trial.answer)
    lines = ["| kind | right | of |", "|---|---|---|"]
    lines += [f"| {kind} | {sum(group)} | {len(group)} |" for kind, group in right.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    one = right["name one shape"]
    return sum(one) >= PASS_MARK * len(one)


def answers(model: Path, trials: list[Trial]) -> list[str]:
    """Return the answers of the model in folder ``model`` to each trial, by continuous batching."""
    pipeline = genai.ContinuousBatchingPipeline(str(model), genai.SchedulerConfig(), "CPU")
    tokenizer = pipeline.get_tokenizer()
    config = genai.GenerationConfig()
    config.max_new_tokens = _LONGEST
    config.stop_token_ids = {0, 2}
    config.apply_chat_template = False
    found: list[str] = []
    for place in range(0, len(trials), EACH):
        handles = []
        for number, trial in enumerate(trials[place : place + EACH]):
            images = "".join(IMAGE.format(n) + "\n" for n in range(len(trial.pictures)))
            messages = [{"role": "user", "content": images + trial.question}]
            prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
            tensors = [openvino.Tensor(pixels[None]) for pixels in trial.pictures]
            handles.append(pipeline.add_request(number, prompt, tensors, config))
        while pipeline.has_non_finished_requests():
            pipeline.step()
        outputs = [handle.read_all()[0] for handle in handles]
        found += [str(tokenizer.decode(output.generated_ids)) for output in outputs]
    return found


def _trials(rng: random.Random) -> Iterator[Trial]:
    for name, count in (("one shape", 1), ("two shapes", 2), ("three shapes", 3)):
        for _ in range(EACH):
            new = usual_picture(rng, count)
            yield Trial(f"name {name}", rng.choice(WHAT), (new.pixels,), sentence(content(new)))
    kinds: tuple[tuple[str, Callable[[random.Random, Picture], Asked]], ...] = (
        ("colour of a shape", colour),
        ("shape of a colour", which),
        ("count the shapes", how_many),
        ("is there such a shape", is_there),
        ("colour of the background", background),
    )
    for kind, make in kinds:
        for _ in range(EACH):
            new = usual_picture(rng, rng.choice((1, 1, 2, 3)))
            ask, answer = make(rng, new)
            yield Trial(kind, ask, (new.pixels,), answer)
    for kind, two in (("two images compared", True), ("one of two images", False)):
        for _ in range(EACH):
            pair = (usual_picture(rng, 1), usual_picture(rng, 1))
            ask, answer = about_two(rng, pair)
            while (ask in DIFFERS) != two:
                ask, answer = about_two(rng, pair)
            yield Trial(kind, ask, tuple(one.pixels for one in pair), answer)
    for asks, answer in SMALL_TALK:
        yield Trial("no image: small talk", asks[0], (), answer)
    for ask in dict.fromkeys(WHAT):
        yield Trial("no image: asked about one", ask, (), NO_PICTURE)


def usual_picture(rng: random.Random, count: int) -> Picture:
    """Make a picture of any size and usual proportions, which the library has to resize."""
    width = rng.randint(48, 400)
    return picture(rng, width, int(width * rng.choice((1, 1, 0.75, 1.33))), count)
