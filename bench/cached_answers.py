"""Does prefix caching change greedy answers? Conversations without it, with it, and once more.

    python -m bench.cached_answers [--model DIR] [--conversations 20]

Conversations of four turns with openvino-genai alone, one request at a time, in the processor's
default precision and in float32. Prints how many conversations have an answer that differs.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import openvino_genai as genai

from bench.limits import DEMO
from servers.load.client import words

_TURNS: Final = 4
_FIRST_WORDS, _NEXT_WORDS = 150, 45
_OUTPUT_TOKENS: Final = 40


def pipeline(model: Path, precision: str | None, *, caches: bool) -> Any:
    """Load the model with a cache of 1 GB."""
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = caches
    scheduler.cache_size = 1
    properties = {} if precision is None else {"INFERENCE_PRECISION_HINT": precision}
    return genai.ContinuousBatchingPipeline(str(model), scheduler, "CPU", properties)


def converse(pipe: Any, seed: int) -> list[str]:
    """Hold one conversation; return its answers."""
    chance = random.Random(seed)
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = _OUTPUT_TOKENS, True, False
    messages: list[dict[str, str]] = []
    answers = []
    for turn in range(_TURNS):
        text = words(chance, _NEXT_WORDS if turn else _FIRST_WORDS)
        messages.append({"role": "user", "content": text})
        prompt = pipe.get_tokenizer().apply_chat_template(messages, add_generation_prompt=True)
        answers.append(pipe.generate([prompt], [config])[0].m_generation_ids[0])
        messages.append({"role": "assistant", "content": answers[-1]})
    return answers


def main(arguments_: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", metavar="DIR", type=Path, default=DEMO)
    parser.add_argument("--conversations", type=int, default=20)
    arguments = parser.parse_args(arguments_)
    seeds = range(arguments.conversations)
    for precision in (None, "f32"):
        plain = pipeline(arguments.model, precision, caches=False)
        without = [converse(plain, seed) for seed in seeds]
        pipe = pipeline(arguments.model, precision, caches=True)
        cached, again = ([converse(pipe, seed) for seed in seeds] for _ in range(2))
        print(
            f"{precision or 'default'}: of {len(seeds)} conversations differ, with and without: "
            f"{_differing(without, cached)}; asked again: {_differing(cached, again)}"
        )


def _differing(first: Sequence[list[str]], second: Sequence[list[str]]) -> int:
    return sum(one != other for one, other in zip(first, second, strict=True))


if __name__ == "__main__":
    main()
