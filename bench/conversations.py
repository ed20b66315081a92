"""Conversations of six turns: the wait for the first token of each turn, beside other servers.

    python -m bench.conversations [--model PATH] [--url NAME=URL,MODEL ...] [--write FILE]

Serves a model without a graph twice: as graphrt writes its graph, with prefix caching and a cache
of fixed size, and with ``--enable_prefix_caching false``; ``--url`` adds servers of the OpenAI API
that run already, such as llama.cpp's. Servers take turns with 1, 6 and 32 conversations at once,
each of six turns: a prompt of 150 words, then of 45 each, answers of 40 tokens. Each request has a
connection of its own, as llama.cpp closes those of streams.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from bench.machine import ServerProcess, add_write, describe_machine, publish
from bench.serve_vs_engine import say, versions
from bench.smollm2 import get_smollm2
from calculators.llm.tuning.arena import median_interval
from servers.load.client import CHAT, BenchmarkClient, BenchmarkPrompt, words

_CONVERSATIONS: Final = (1, 6, 32)
_TURNS: Final = 6
_FIRST_WORDS, _NEXT_WORDS = 150, 45
_OUTPUT_TOKENS: Final = 40
#: Threads of some servers keep a core busy for a while after the last answer.
_PAUSE_SECONDS: Final = 5.0
_NAME: Final = "measured"


class Target(NamedTuple):
    """A running server: the base of its OpenAI API, and the model's name there."""

    name: str
    url: str
    model: str


#: Seconds to the first token, by turn.
Waits = list[list[float]]


async def converse(client: BenchmarkClient, seed: int) -> list[float]:
    """Hold one conversation; return the wait of each turn.

    Raises:
        RuntimeError: a request failed.
    """
    chance = random.Random(seed)
    messages: list[Mapping[str, Any]] = []
    waits = []
    for turn in range(_TURNS):
        text = words(chance, _NEXT_WORDS if turn else _FIRST_WORDS)
        messages.append({"role": "user", "content": f"{seed} {text}"})
        outcome = await client.ask(client.body(BenchmarkPrompt(tuple(messages), _OUTPUT_TOKENS)))
        if not outcome.is_good:
            raise RuntimeError(f"turn {turn + 1}: {outcome.error or 'no token came'}")
        waits.append(outcome.ttft)
        messages.append({"role": "assistant", "content": outcome.text})
    return waits


async def measure(target: Target, conversations: int, seed: int) -> Waits:
    """Hold so many conversations at once; return the waits of all by turn."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        extra = {"temperature": 0, "ignore_eos": True}
        client = BenchmarkClient(session, f"{target.url}{CHAT}", target.model, extra)
        each = await asyncio.gather(
            *(converse(client, 1000 * seed + number) for number in range(conversations))
        )
    return [list(turn) for turn in zip(*each, strict=True)]


def rows(target: Target, conversations: int, waits: Waits) -> str:
    """Return the row of one server: medians with their limits, in milliseconds."""
    cells = [
        "{1:.0f} ({0:.0f} to {2:.0f})".format(*(1000 * value for value in median_interval(turn)))
        for turn in (waits[0], waits[1], waits[-1])
    ]
    part = median_interval([last / first for first, last in zip(waits[0], waits[-1], strict=True)])
    shown = f"{part.median:.2f} ({part.low:.2f} to {part.high:.2f})"
    return f"| {conversations} | {target.name} | {' | '.join(cells)} | {shown} |"


def main(arguments_: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", metavar="PATH", type=Path, help="default SmolLM2, a GGUF file")
    parser.add_argument("--url", metavar="NAME=URL,MODEL", action="append", default=[])
    parser.add_argument("--conversations", metavar="N", type=int, nargs="+", default=_CONVERSATIONS)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--shared", action="store_true", help="say that the machine was busy")
    add_write(parser)
    arguments = parser.parse_args(arguments_)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    path = (arguments.model or get_smollm2()).absolute()
    # A server that runs already may have the prompts of an earlier run in its cache.
    first_seed = time.time_ns() % 1_000_000
    found: dict[tuple[int, Target], Waits] = {}
    with ExitStack() as stack:
        targets = []
        for name, flags in (
            ("graphrt", ()),
            ("graphrt, no prefix caching", ("--enable_prefix_caching", "false")),
        ):
            server = stack.enter_context(ServerProcess(path, "--model_name", _NAME, *flags))
            targets.append(Target(name, f"{server.url}/v1", _NAME))
        for each in arguments.url:
            name, _, rest = each.partition("=")
            url, _, model = rest.partition(",")
            targets.append(Target(name, url, model))
        for repetition in range(arguments.repetitions):
            for conversations in arguments.conversations:
                first = repetition % len(targets)
                for target in [*targets[first:], *targets[:first]]:
                    time.sleep(_PAUSE_SECONDS)
                    waits = asyncio.run(measure(target, conversations, first_seed + repetition))
                    say(f"{conversations}: {target.name}: {1000 * waits[-1][0]:.0f} ms")
                    before = found.setdefault((conversations, target), [[] for _ in waits])
                    for turn, values in zip(before, waits, strict=True):
                        turn += values
    busy = " The machine was shared with other work: compare rows with each other only."
    text = "\n".join(
        [
            "# Conversations of six turns",
            "",
            f"`python -m bench.conversations` on {describe_machine()}; {versions()}; "
            f"{path.name}. Milliseconds to the first token, medians with their limits (95 %) over "
            f"all conversations of {arguments.repetitions} repetitions, servers in turns."
            f"{busy if arguments.shared else ''}",
            "",
            "| conversations | server | turn 1 | turn 2 | turn 6 | turn 6 / turn 1 |",
            "|---|---|---|---|---|---|",
            *(rows(target, number, waits) for (number, target), waits in found.items()),
        ]
    )
    publish(text, arguments.write)


if __name__ == "__main__":
    main()
