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

import asyncio
import os
import queue
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

from bench.clients import figures
from bench.machine import (
    OtherServer,
    ServerProcess,
    cpu_seconds,
    describe_machine,
    family_seconds,
    head,
    publish,
    report_parser,
    row,
    run_json,
)
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
#: sentence-transformers behind FastAPI, as its users write it: a thread for each request.
_FASTAPI: Final = """
import base64, sys
import uvicorn
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(sys.argv[1], device="cpu")
app = FastAPI()

@app.get("/health")
def health():
    return {}

@app.post("/v1/embeddings")
def embeddings(body: dict):
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    rows = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    return {"object": "list", "data": data, "model": "m", "usage": {}}

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[-1]), log_level="error")
"""

#: Measures one load: clients, tokens of a text, seconds.
Measure = Callable[[int, int, float], dict[str, float]]


def sentence_transformers(python: str, checkpoint: Path) -> OtherServer:
    """Start sentence-transformers behind FastAPI."""
    command = [python, "-c", _FASTAPI, str(checkpoint)]
    return OtherServer(command, path="/v1/embeddings", model="m")


def infinity(python: str, checkpoint: Path) -> OtherServer:
    """Start infinity-emb with its torch engine."""
    command = [
        *(python, "-m", "infinity_emb.cli", "v2", "--model-id", str(checkpoint)),
        *("--served-model-name", "m", "--engine", "torch", "--device", "cpu"),
        *("--log-level", "error"),
    ]
    return OtherServer(command, path="/embeddings", model="m")


def through_http(server: ServerProcess | OtherServer, path: str) -> Measure:
    """Measure a server with clients in a process of their own."""
    pid = server.pids["server"]

    def measured(clients: int, tokens: int, seconds: float) -> dict[str, float]:
        words = (server.address, path, server.model, clients, seconds, tokens)
        before = family_seconds(pid)
        found: dict[str, float] = run_json("bench.clients", "embeddings", *words)
        return with_cpu(found, family_seconds(pid) - before)

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
    columns = ("texts, clients", "system", "texts/s", "p50 ms", "p99 ms", "CPU us/text")
    lines = head(*columns, "of the clients")
    for (kind, clients), systems in found.items():
        for name, rounds in systems.items():
            rate, p50, p99, cpu = (
                median(each[figure] for each in rounds) for figure in ("rate", "p50", "p99", "cpu")
            )
            asking = [each["clients"] for each in rounds if "clients" in each]
            lines.append(
                row(
                    f"{kind}, {clients}",
                    name,
                    *(f"{rate:,.0f}", f"{p50:.1f}", f"{p99:.1f}", f"{cpu:,.0f}"),
                    f"{median(asking):,.0f}" if asking else "",
                )
            )
    return lines


def ratios(found: dict[tuple[str, int], dict[str, list[dict[str, float]]]]) -> list[str]:
    """Return a table of the server's rates by those without HTTP: medians of the rounds' ratios."""
    columns = ("texts, clients", "weights", "through HTTP, by without")
    lines = head(*columns, "by one by one, one stream")
    for (kind, clients), systems in found.items():
        for weights in ("f32", "int8"):
            served = systems[f"graphrt, {weights}"]
            cells = []
            for other in ("without HTTP", "one by one, one stream, without HTTP"):
                pairs = zip(served, systems[f"{other}, {weights}"], strict=True)
                cells.append(f"{median(one['rate'] / two['rate'] for one, two in pairs):.2f}")
            lines.append(row(f"{kind}, {clients}", weights, *cells))
    return lines


def main() -> None:
    """Measure, print, and write the table."""
    parser = report_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--texts", choices=TOKENS, nargs="+", default=tuple(TOKENS))
    parser.add_argument("--checkpoint", type=Path, help="a model in transformers' form")
    parser.add_argument("--sentence_transformers", metavar="PYTHON")
    parser.add_argument("--infinity", metavar="PYTHON")
    words = parser.parse_args()
    found: dict[tuple[str, int], dict[str, list[dict[str, float]]]] = {}
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        systems: dict[str, Measure] = {}
        servers: list[ServerProcess | OtherServer] = []
        try:
            for name in ("f32", "int8"):
                directory = make_encoder(Path(folder, name), int8=name == "int8")
                server = ServerProcess(directory)
                servers.append(server)
                systems[f"graphrt, {name}"] = through_http(server, _PATH)
                systems[f"without HTTP, {name}"] = without_http(directory)
                systems[f"one by one, one stream, without HTTP, {name}"] = one_by_one(directory)
            for python, start, name in (
                (words.sentence_transformers, sentence_transformers, "sentence-transformers"),
                (words.infinity, infinity, "infinity-emb"),
            ):
                if python:
                    peer = start(python, words.checkpoint)
                    servers.append(peer)
                    systems[name] = through_http(peer, peer.path)
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
    lines = [
        *("# Embeddings through HTTP", "", "`python -m bench.embeddings_throughput`", ""),
        f"{describe_machine()}; load average before {load_before:.1f}, after "
        f"{os.getloadavg()[0]:.1f}; numpy {np.__version__}; medians of {words.rounds} rounds of "
        f"{words.seconds:g} s.",
        "",
        *ratios(found),
        "",
        *table(found),
    ]
    publish(lines, words.write)


if __name__ == "__main__":
    main()
