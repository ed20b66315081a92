"""Clients of a server of the OpenAI API, in a process of their own.

    python -m bench.load_generator --url http://localhost:8000 --model demo --concurrency 8

Each of ``--concurrency`` clients keeps a connection and sends one streamed, greedy chat
completion after the other until all requests are answered. Prompts of about 215 tokens and outputs
of about 200 (log-normal, seeded), no common prefixes, ``ignore_eos``. For servers without
``ignore_eos`` the outputs are shorter. A ``--url`` with a path is used as it is; else
``/v3/chat/completions`` is added.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import random
import sys
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final, TypeVar

from bench.event_stream_client import Address, Connection, chat_body, connect, read_answer
from servers.load.client import SHORTEST, words
from servers.load.figures import Figures, figures_of, table

#: Width of the log-normal distributions of lengths, as in chat logs: many short, a long tail.
SPREAD: Final = 0.6
PROMPT_TOKENS: Final = 215.0
OUTPUT_TOKENS: Final = 200.0
LONGEST_PROMPT: Final = 1000
LONGEST_OUTPUT: Final = 800


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request; exactly ``output_tokens`` are generated, whatever they are."""

    text: str
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean lengths in tokens.

    Attributes:
        tokens_per_word: tokens per word of `servers.load.client.WORDS` with the model's tokenizer.
        overhead: tokens that the chat template adds.
    """

    prompt: float = PROMPT_TOKENS
    output: float = OUTPUT_TOKENS
    tokens_per_word: float = 1.3
    overhead: int = 10


def make_workload(count: int, lengths: Lengths, seed: int = 0) -> list[Request]:
    """Make distinct prompts, so that no prefix cache serves two of them."""
    chance = random.Random(seed)
    requests: list[Request] = []
    for _ in range(count):
        prompt = min(LONGEST_PROMPT, _length(chance, lengths.prompt)) - lengths.overhead
        output = max(SHORTEST, min(LONGEST_OUTPUT, round(_length(chance, lengths.output))))
        requests.append(Request(words(chance, round(prompt / lengths.tokens_per_word)), output))
    return requests


def _length(chance: random.Random, mean: float) -> float:
    return chance.lognormvariate(math.log(mean) - SPREAD**2 / 2, SPREAD)


_T = TypeVar("_T")


async def run_load(
    address: Address,
    model: str,
    requests: list[Request],
    *,
    concurrency: int,
    warm_up: int,
    reconnect: bool = False,
) -> Figures:
    """Send all requests, at most ``concurrency`` at once.

    With ``reconnect`` each request has its own connection, opened before its time counts.
    """
    bodies = [chat_body(model, each.text, each.output_tokens) for each in requests]
    connections = [await connect(address) for _ in range(min(concurrency, len(bodies)))]
    try:
        for number in range(warm_up):
            await connections[0].ask(chat_body(model, f"warm up {number}", 8))
            if reconnect:
                connections[0].close()
                connections[0] = await connect(address)
        return await _measure(address, connections, bodies, concurrency, reconnect)
    finally:
        for connection in connections:
            connection.close()


async def _measure(
    address: Address,
    connections: list[Connection],
    bodies: list[bytes],
    concurrency: int,
    reconnect: bool,
) -> Figures:
    waiting = iter(bodies)
    answers: list[tuple[float, list[tuple[float, bytes]]]] = []

    async def client(number: int) -> None:
        for body in waiting:
            if reconnect or not connections[number].is_open:
                connections[number].close()
                connections[number] = await connect(address)
            answers.append(await connections[number].ask(body))

    gc.disable()
    started = perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(len(connections)):
            group.create_task(client(number))
    duration = perf_counter() - started
    gc.enable()
    return figures_of([read_answer(sent, pieces) for sent, pieces in answers], duration)


def run_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine as `asyncio.run` does, on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def add_load_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose the requests; the engine's own benchmark has the same ones."""
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompt_tokens", type=float, default=PROMPT_TOKENS)
    parser.add_argument("--output_tokens", type=float, default=OUTPUT_TOKENS)
    parser.add_argument(
        "--tokens_per_word", type=float, default=1.3, help="of the model's tokenizer"
    )
    parser.add_argument("--warm_up", type=int, default=2, help="requests before the measurement")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to a file")


def workload_of(arguments: argparse.Namespace) -> list[Request]:
    lengths = Lengths(
        prompt=arguments.prompt_tokens,
        output=arguments.output_tokens,
        tokens_per_word=arguments.tokens_per_word,
    )
    return make_workload(arguments.requests, lengths, arguments.seed)


def publish(figures: Figures, cpu_seconds: float, json_path: Path | None) -> None:
    """Print the figures, and write those that benchmarks compare to a file if requested."""
    print(table(figures))
    if json_path is not None:
        compared = {
            "throughput": figures.per_second(figures.output_tokens),
            "input_tokens": figures.input_tokens,
            "output_tokens": figures.output_tokens,
            "failed": figures.failed,
            # Little's law: the mean number of requests in progress.
            "at_once": figures.per_second(sum(each.e2el for each in figures.good)),
            **{name: asdict(spread) for name, spread in figures.spreads.items()},
            "cpu_seconds": cpu_seconds,
        }
        json_path.write_text(json.dumps(compared), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--reconnect",
        action="store_true",
        help="for every request: some servers close connections and do not say so",
    )
    add_load_arguments(parser)
    arguments = parser.parse_args()
    before = process_time()
    figures = run_loop(
        run_load(
            Address.parse(arguments.url),
            arguments.model,
            workload_of(arguments),
            concurrency=arguments.concurrency,
            warm_up=arguments.warm_up,
            reconnect=arguments.reconnect,
        )
    )
    cpu_seconds = process_time() - before
    publish(figures, cpu_seconds, arguments.json)
    return 1 if figures.failed else 0


if __name__ == "__main__":
    sys.exit(main())
