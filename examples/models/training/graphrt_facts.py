"""Questions about graphrt; the facts are in graphrt_facts.toml."""

import random
import tomllib
from pathlib import Path

from .conversation import Exchange
from .wording import definition, varied
from .words import one

_FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def fact(rng: random.Random) -> Exchange:
    if rng.random() < 0.5:
        topic = rng.choice(_FACTS["topic"])
        name, answer = one(rng, topic["names"]), topic["answer"]
        question = definition(rng, name)
        thought = f"The user asks about {name}. I know this from the documentation."
    else:
        entry = rng.choice(_FACTS["question"])
        question, answer = varied(rng, one(rng, entry["wordings"])), entry["answer"]
        thought = "The user has a question about graphrt. I know the answer from the documentation."
    return Exchange(question, answer, thought)
