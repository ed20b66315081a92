"""Batches: their throughput beside the engine's own, and what other requests notice of them.

    python -m bench.batches [--write FILE] [--quick]

Throughput: the requests of `bench.load_generator` as a batch, worked off by the code of `graphrt
batch`, and the same prompts through openvino-genai's pipeline alone (`bench.engine_throughput`), in
turns, both 32 at a time. The time of a batch is from its making to its results; a small batch loads
the model before.

Beside a batch: streamed chats, one after the other with pauses, without a batch and with one, in
turns on one server; the time to the first token of each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.engine_throughput import model_options, tokens_per_word
from bench.event_stream_client import Address, chat_body, connect, read_answer
from bench.load_generator import run_loop
from bench.machine import describe_machine
from bench.serve_vs_engine import (
    DEMO,
    Model,
    load_arguments,
    run_engine,
    run_part,
    say,
    versions,
)
from bench.server_process import ServerProcess
from bench.workload import Lengths, Request, make_workload
from calculators.llm.prompt.builder import PromptBuilder
from servers.batch_work.inner_server import inner_client
from servers.batch_work.worker import BatchWorker
from servers.batches.objects import INPUT_PURPOSE, Batch, StoredFile, new_id
from servers.batches.store import BatchStore
from servers.cli.arguments import make_parser
from servers.cli.batch_settings import inner_server, settings_in
from servers.cli.serve_options import serve_options
from servers.load.prompts import words as some_words

WIDTH: Final = 32
REQUESTS: Final = 192
TURNS: Final = 5
#: Chats without a batch and with one, in each turn.
CHATS: Final = 14
CHAT_TURNS: Final = 3
CHAT_WORDS: Final = 150
CHAT_TOKENS: Final = 20
_ENDPOINT: Final = "/v1/chat/completions"
_FINISHED: Final = ("completed", "failed", "cancelled", "expired")


class BatchClient:
    """Files and batches of a server, over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url

    def make(self, requests: Sequence[Request]) -> str:
        """Make a batch and return its id."""
        lines = "".join(_line(number, each) for number, each in enumerate(requests))
        boundary = "bench-of-batches"
        form = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"'
            f"\r\n\r\n{lines}\r\n--{boundary}--\r\n"
        )
        kind = f"multipart/form-data; boundary={boundary}"
        file = self._send("/v1/files", form.encode(), kind)
        body = {
            "input_file_id": file["id"],
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
        }
        found: str = self._send("/v1/batches", json.dumps(body).encode())["id"]
        return found

    def get(self, batch: str) -> Any:
        return self._send(f"/v1/batches/{batch}")

    def cancel(self, batch: str) -> None:
        """Cancel a batch and wait for its end."""
        self._send(f"/v1/batches/{batch}/cancel", b"{}")
        while self.get(batch)["status"] not in _FINISHED:
            time.sleep(0.05)

    def _send(self, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        asked = urllib.request.Request(self._url + path, body, {"Content-Type": kind})
        with urllib.request.urlopen(asked) as answered:
            return json.load(answered)


def _line(number: int, request: Request) -> str:
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": request.text}],
        "max_tokens": request.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    line = {"custom_id": f"r{number}", "method": "POST", "url": _ENDPOINT, "body": body}
    return json.dumps(line) + "\n"


def measure_throughput(turns: int, count: int) -> list[tuple[float, float]]:
    """Return tokens per second of the engine alone and of a batch, for each turn."""
    options = model_options(DEMO / "graph.pbtxt")
    per_word = tokens_per_word(PromptBuilder(str(options.model_path)))
    model = Model("small", "the example model", DEMO, {})
    found: list[tuple[float, float]] = []
    for turn in range(turns):
        load = [*load_arguments(WIDTH, count, turn), "--tokens_per_word", str(per_word)]
        words = ("--part", str(count), str(turn), str(per_word))
        batch = run_part("bench.batches", *words)["throughput"] if turn % 2 else 0.0
        engine: float = run_engine(model, load)["throughput"]
        batch = batch or run_part("bench.batches", *words)["throughput"]
        say(f"engine {engine:.0f}, batch {batch:.0f} tokens/s")
        found.append((engine, batch))
    return found


async def measure_batch(requests: Sequence[Request], directory: Path) -> float:
    """Return the tokens per second of a batch, worked off as `graphrt batch` does."""
    words = ("batch", "none", str(DEMO), "--log_level", "ERROR")
    args = make_parser().parse_args(words)
    options = serve_options(args)
    settings = replace(settings_in(directory, options), width=WIDTH)
    store = BatchStore(directory)
    async with inner_client(inner_server(options, args), WIDTH) as client:
        worker = BatchWorker(store, settings, client.ask)
        _add_batch(store, requests[:4])
        await worker.run(0)  # loads the model
        batch = _add_batch(store, requests)
        began = time.perf_counter()
        await BatchWorker(store, settings, client.ask).run(0)
        seconds = time.perf_counter() - began
    done = store.batch(batch.id, "")
    store.close()
    if done.completed != len(requests):
        raise RuntimeError(f"not all requests were answered: {done}")
    return done.usage.output_tokens / seconds


def _add_batch(store: BatchStore, requests: Sequence[Request]) -> Batch:
    content = "".join(_line(number, each) for number, each in enumerate(requests))
    file = StoredFile(
        id=new_id("file-"),
        owner="",
        filename="in.jsonl",
        purpose=INPUT_PURPOSE,
        size=len(content),
        created_at=0,
    )
    store.path_of(file.id).write_text(content)
    store.add_file(file)
    return store.add_batch(
        Batch(
            id=new_id("batch_"), owner="", endpoint=_ENDPOINT, input_file_id=file.id, created_at=0
        )
    )


async def chats(url: str, count: int, seed: int) -> list[float]:
    """Return the seconds to the first token of chats, one after the other."""
    chance = random.Random(seed)
    found: list[float] = []
    connection = await connect(Address.parse(url))
    for _ in range(count):
        body = chat_body("demo", some_words(chance, CHAT_WORDS), CHAT_TOKENS)
        outcome = read_answer(*await connection.ask(body))
        if outcome.error:
            raise RuntimeError(outcome.error)
        found.append(outcome.arrivals[0] - outcome.sent)
        await asyncio.sleep(chance.uniform(0.05, 0.3))
    connection.close()
    return found


def measure_chats(turns: int, count: int) -> tuple[list[float], list[float], float]:
    """Return times to the first token without and with a batch, and the batch's tokens/s."""
    quiet: list[float] = []
    beside: list[float] = []
    tokens, seconds = 0, 0.0
    with (
        tempfile.TemporaryDirectory() as place,
        ServerProcess(DEMO, "--batch_dir", place) as server,
    ):
        client = BatchClient(server.url)
        run_loop(chats(server.url, 5, 999))
        for turn in range(turns):
            quiet += run_loop(chats(server.url, count, turn))
            batch = client.make(make_workload(20_000, Lengths(output=50), turn))
            while not client.get(batch)["usage"]["output_tokens"]:
                time.sleep(0.1)
            before, began = client.get(batch)["usage"]["output_tokens"], time.perf_counter()
            beside += run_loop(chats(server.url, count, turn + turns))
            tokens += client.get(batch)["usage"]["output_tokens"] - before
            seconds += time.perf_counter() - began
            client.cancel(batch)
            say(f"first tokens: {_ms(quiet)} without, {_ms(beside)} with a batch")
    return quiet, beside, tokens / seconds


def _ms(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f} ms"


def report(
    pairs: Sequence[tuple[float, float]],
    first_tokens: tuple[list[float], list[float], float],
    load: float,
) -> str:
    """Return all tables as Markdown."""
    quiet, beside, rate = first_tokens
    ratio = statistics.median(batch / engine for engine, batch in pairs)
    more = statistics.median(beside) / statistics.median(quiet) - 1
    lines = [
        "# Batches beside the engine, and beside other requests",
        "",
        f"`python -m bench.batches` on {describe_machine(with_day=False)}; {versions()}. The "
        f"machine was shared with other work: its load average was {load:.0f} at the beginning. "
        "Turns alternate, so ratios say more than rates.",
        "",
        "## Throughput",
        "",
        f"Prompts of about 215 tokens, outputs of about 200, greedy, {WIDTH} at a time; a batch "
        "from its making to its results, with the model loaded, as `graphrt batch` works it off: "
        "at the usual priority, so that other work of the machine disturbs both alike.",
        "",
        "| turn | engine alone, tokens/s | batch, tokens/s | ratio |",
        "|---|---|---|---|",
        *(
            f"| {turn} | {engine:,.0f} | {batch:,.0f} | {batch / engine:.3f} |"
            for turn, (engine, batch) in enumerate(pairs, 1)
        ),
        f"| median | | | {ratio:.3f} |",
        "",
        "## First tokens of other requests",
        "",
        f"Chats of about {CHAT_WORDS} words, one after the other, without a batch and with one.",
        "",
        "| | chats | median | p95 | tokens/s of the batch |",
        "|---|---|---|---|---|",
        f"| without | {len(quiet)} | {_ms(quiet)} | {_ms([_p95(quiet)])} | |",
        f"| with | {len(beside)} | {_ms(beside)} | {_ms([_p95(beside)])} | {rate:,.0f} |",
        "",
        "| aim | measured | reached |",
        "|---|---|---|",
        f"| a batch has at least 0.95 of the engine's throughput | {ratio:.3f} | "
        f"{'yes' if ratio >= 0.95 else 'no'} |",
        f"| first tokens come at most 10 % later beside a batch (medians) | {more:+.0%} | "
        f"{'yes' if more <= 0.1 else 'no'} |",
    ]
    return "\n".join(lines) + "\n"


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to a file")
    parser.add_argument("--quick", action="store_true", help="fewer requests, one turn")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part is not None:
        count, seed, per_word = arguments.part
        requests = make_workload(int(count), Lengths(tokens_per_word=float(per_word)), int(seed))
        with tempfile.TemporaryDirectory() as place:
            throughput = run_loop(measure_batch(requests, Path(place)))
        arguments.json.write_text(json.dumps({"throughput": throughput}), encoding="utf-8")
        return
    load = os.getloadavg()[0]
    quick = arguments.quick
    pairs = measure_throughput(1 if quick else TURNS, 64 if quick else REQUESTS)
    first_tokens = measure_chats(1 if quick else CHAT_TURNS, CHATS)
    text = report(pairs, first_tokens, load)
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
