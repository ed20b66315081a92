"""Embeddings through HTTP, beside the same policy without HTTP, one by one, and other servers.

    python -m bench.embeddings_throughput [--seconds S] [--rounds N] [--write FILE]
        [--checkpoint DIR --sentence_transformers PYTHON --infinity PYTHON]

The model has the shape of all-MiniLM-L6-v2 and random weights, in 32 bits and with weights of 8
bits. Queries have 8 tokens, chunks of documents 147; 1, 8 and 64 clients each have one text in
flight. "One by one, one stream" is what graphs of OpenVINO Model Server's ``--pull`` do: one
stream, an inference for each request, here without HTTP. Systems take turns within a round; figures
are medians of the rounds. Processor time is that of a server and its children, and without HTTP
that of the coroutines too; unlike rates it has a meaning on a busy machine. The clients through
HTTP share the processors as well: theirs stands beside it. The peers need a
checkpoint of transformers and a Python that has them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Final

import numpy as np
import uvloop

from bench.embedding_clients import Peer, figures, start_infinity, start_sentence_transformers
from bench.machine import ServerProcess, children, cpu_seconds, describe_machine
from bench.random_model import make_encoder, text_of
from calculators.text.embeddings.encoding import Embed, encode
from calculators.text.text_models.batch_runner import CompiledForms
from calculators.text.text_models.messages import EncoderLoad
from calculators.text.text_models.model_options import read_text_model
from calculators.text.text_models.text_model import TextModel
from calculators.text.text_models.tokenizer_files import open_tokenizer

CLIENTS: Final = (1, 8, 64)
TOKENS: Final = {"query": 8, "chunk": 147}
_TEXTS: Final = 64
_PATH: Final = "/v3/embeddings"

#: Measures one load: clients, tokens of a text, seconds.
Measure = Callable[[int, int, float], dict[str, float]]


def through_http(address: str, path: str, model: str, pid: int) -> Measure:
    """Measure a server with clients in a process of their own; ``pid``: the server's."""

    def measured(clients: int, tokens: int, seconds: float) -> dict[str, float]:
        words = (address, path, model, clients, seconds, tokens)
        pids = (pid, *children(pid))
        before = sum(map(cpu_seconds, pids))
        done = subprocess.run(
            [sys.executable, "-m", "bench.embedding_clients", *map(str, words)],
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, float] = json.loads(done.stdout)
        return with_cpu(found, sum(map(cpu_seconds, pids)) - before)

    return measured


async def _closed_loop(
    ask: Callable[[str], Awaitable[object]], clients: int, tokens: int, seconds: float
) -> dict[str, float]:
    texts = [text_of(tokens, seed) for seed in range(_TEXTS)]
    times: list[float] = []

    async def client(number: int, until: float) -> None:
        while perf_counter() < until:
            begun = perf_counter()
            await ask(texts[number % _TEXTS])
            times.append(perf_counter() - begun)
            number += 1

    async def run(for_seconds: float) -> float:
        begun = perf_counter()
        await asyncio.gather(*(client(each, begun + for_seconds) for each in range(clients)))
        return perf_counter() - begun

    await run(min(1.0, seconds))
    earlier = len(times)
    times.clear()
    return figures(times, await run(seconds), earlier)


def without_http(directory: Path) -> Measure:
    """Measure coroutines that ask the model's process."""

    async def run(clients: int, tokens: int, seconds: float) -> dict[str, float]:
        options = read_text_model("./", "", "", directory)
        model = TextModel(
            "calculators.text.embeddings.process",
            options,
            head={"pooling": "MEAN"},
            name="model",
        )
        await model.start()
        try:

            async def ask(text: str) -> object:
                embed = Embed([text], [], "", "", None, "input", is_list=False)
                return await model.ask(embed, characters=len(text))

            pids = (os.getpid(), model.pid or 0)
            before = sum(map(cpu_seconds, pids))
            found = await _closed_loop(ask, clients, tokens, seconds)
            return with_cpu(found, sum(map(cpu_seconds, pids)) - before)
        finally:
            await model.close()

    return lambda clients, tokens, seconds: uvloop.run(run(clients, tokens, seconds))


def one_by_one(directory: Path) -> Measure:
    """Measure one stream of all processors, and an inference for each text."""
    options = read_text_model("./", "", '{"NUM_STREAMS": "1"}', directory)
    load = EncoderLoad(
        str(directory), 0, "CPU", dict(options.properties), options.max_tokens, {"pooling": "MEAN"}
    )
    from calculators.text.text_models.heads import add_pooling

    tokenizer = open_tokenizer(load)
    runner = CompiledForms(load, add_pooling, lambda phase: None).runner()
    waiting: queue.SimpleQueue[tuple[Any, asyncio.Future[Any]]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            tokens, future = waiting.get()
            row = runner.compute([tokens], 0, is_lone=False)
            future.get_loop().call_soon_threadsafe(future.set_result, row)

    threading.Thread(target=work, daemon=True).start()

    async def ask(text: str) -> object:
        embed = Embed([text], [], "", "", None, "input", is_list=False)
        (tokens,) = encode(tokenizer, embed).sequences
        future = asyncio.get_running_loop().create_future()
        waiting.put((tokens, future))
        return await future

    def measured(clients: int, tokens: int, seconds: float) -> dict[str, float]:
        before = process_time()
        found = uvloop.run(_closed_loop(ask, clients, tokens, seconds))
        return with_cpu(found, process_time() - before)

    return measured


def with_cpu(found: dict[str, float], seconds: float) -> dict[str, float]:
    """Add the microseconds of processor time for each text."""
    return {**found, "cpu": seconds / found["all"] * 1e6}


def table(found: dict[tuple[str, int], dict[str, list[dict[str, float]]]]) -> list[str]:
    """Return the lines of a Markdown table with the medians of the rounds."""
    lines = [
        "| texts, clients | system | texts/s | p50 ms | p99 ms | CPU us/text | of the clients |",
        "|---|---|---|---|---|---|---|",
    ]
    for (kind, clients), systems in found.items():
        for name, rounds in systems.items():
            rate, p50, p99, cpu = (
                median(each[figure] for each in rounds) for figure in ("rate", "p50", "p99", "cpu")
            )
            asking = [each["clients"] for each in rounds if "clients" in each]
            lines.append(
                f"| {kind}, {clients} | {name} | {rate:,.0f} | {p50:.1f} | {p99:.1f} | {cpu:,.0f} "
                f"| {f'{median(asking):,.0f}' if asking else ''} |"
            )
    return lines


def ratios(found: dict[tuple[str, int], dict[str, list[dict[str, float]]]]) -> list[str]:
    """Return a table of the server's rates by those without HTTP: medians of the rounds' ratios."""
    lines = [
        "| texts, clients | weights | through HTTP, by without | by one by one, one stream |",
        "|---|---|---|---|",
    ]
    for (kind, clients), systems in found.items():
        for weights in ("f32", "int8"):
            served = systems[f"graphrt, {weights}"]
            cells = []
            for other in ("without HTTP", "one by one, one stream, without HTTP"):
                pairs = zip(served, systems[f"{other}, {weights}"], strict=True)
                cells.append(f"{median(one['rate'] / two['rate'] for one, two in pairs):.2f}")
            lines.append(f"| {kind}, {clients} | {weights} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--texts", choices=TOKENS, nargs="+", default=tuple(TOKENS))
    parser.add_argument("--checkpoint", type=Path, help="a model in transformers' form")
    parser.add_argument("--sentence_transformers", metavar="PYTHON")
    parser.add_argument("--infinity", metavar="PYTHON")
    parser.add_argument("--write", type=Path)
    words = parser.parse_args()
    found: dict[tuple[str, int], dict[str, list[dict[str, float]]]] = {}
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        systems: dict[str, Measure] = {}
        servers: list[ServerProcess | Peer] = []
        try:
            for name in ("f32", "int8"):
                directory = make_encoder(Path(folder, name), int8=name == "int8")
                server = ServerProcess(directory)
                servers.append(server)
                systems[f"graphrt, {name}"] = through_http(
                    server.address, _PATH, name, server.pids["server"]
                )
                systems[f"without HTTP, {name}"] = without_http(directory)
                systems[f"one by one, one stream, without HTTP, {name}"] = one_by_one(directory)
            for python, start, name in (
                (words.sentence_transformers, start_sentence_transformers, "sentence-transformers"),
                (words.infinity, start_infinity, "infinity-emb"),
            ):
                if python:
                    peer = start(python, words.checkpoint)
                    servers.append(peer)
                    systems[name] = through_http(
                        peer.address, peer.path, peer.model, peer.process.pid
                    )
            for _ in range(words.rounds):
                for kind in words.texts:
                    for clients in words.clients:
                        by_system = found.setdefault((kind, clients), {})
                        for system, measure in systems.items():
                            measured = measure(clients, TOKENS[kind], words.seconds)
                            by_system.setdefault(system, []).append(measured)
                            print(f"{kind} {clients} {system}: {measured}", file=sys.stderr)
        finally:
            for each in servers:
                each.close()
    lines = [*ratios(found), "", *table(found)]
    heading = [
        f"{describe_machine()}; load average before {load_before:.1f}, after "
        f"{os.getloadavg()[0]:.1f}; numpy {np.__version__}; medians of {words.rounds} rounds of "
        f"{words.seconds:g} s.",
        "",
    ]
    print("\n".join([*heading, *lines]))
    if words.write is not None:
        title = ["# Embeddings through HTTP", "", "`python -m bench.embeddings_throughput`", ""]
        words.write.write_text("\n".join([*title, *heading, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
