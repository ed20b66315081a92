"""Batches: their throughput beside the engine's own, and what other requests notice of them.

    python -m bench.batches [--write FILE] [--quick]

Throughput: the requests of `bench.load_generator` as a batch of a server that has no other
requests, and the same prompts through openvino-genai's pipeline alone (`bench.engine_throughput`),
in turns, both 32 at a time and at the worker's priority. The time of a batch is from its making to
its results; the worker and its model are loaded before, by a small batch.

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
from pathlib import Path
from typing import Any, Final

from bench.engine_throughput import model_options, tokens_per_word
from bench.event_stream_client import Address, chat_body, connect, read_answer
from bench.load_generator import run_loop
from bench.machine import describe_machine
from bench.serve_vs_engine import DEMO, Model, load_arguments, run_engine, say, versions
from bench.server_process import ServerProcess
from bench.workload import Lengths, Request, make_workload
from calculators.llm.prompt.builder import PromptBuilder
from servers.load.prompts import words

WIDTH: Final = 32
REQUESTS: Final = 256
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

    def wait(self, batch: str) -> Any:
        """Wait for the end of a batch; return the batch."""
        while (found := self.get(batch))["status"] not in _FINISHED:
            time.sleep(0.05)
        return found

    def cancel(self, batch: str) -> None:
        self._send(f"/v1/batches/{batch}/cancel", b"{}")
        self.wait(batch)

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


def measure_batch(client: BatchClient, requests: Sequence[Request]) -> float:
    """Return the tokens per second of a batch."""
    client.wait(client.make(requests[:4]))  # loads the model, if the worker has ended
    began = time.perf_counter()
    done = client.wait(client.make(requests))
    seconds = time.perf_counter() - began
    if done["request_counts"]["completed"] != len(requests):
        raise RuntimeError(f"not all requests were answered: {done}")
    tokens: int = done["usage"]["output_tokens"]
    return tokens / seconds


def measure_throughput(turns: int, count: int) -> list[tuple[float, float]]:
    """Return tokens per second of the engine alone and of a batch, for each turn."""
    options = model_options(DEMO / "graph.pbtxt")
    per_word = tokens_per_word(PromptBuilder(str(options.model_path)))
    model = Model("small", "the example model", DEMO, {})
    found: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as place:
        words = ("--batch_dir", place, "--batch_width", str(WIDTH))
        with ServerProcess(DEMO, *words) as server:
            client = BatchClient(server.url)
            for turn in range(turns):
                load = [*load_arguments(WIDTH, count, turn), "--tokens_per_word", str(per_word)]
                requests = make_workload(count, Lengths(tokens_per_word=per_word), turn)
                batch = measure_batch(client, requests) if turn % 2 else 0.0
                engine: float = run_engine(model, load)["throughput"]
                batch = batch or measure_batch(client, requests)
                say(f"engine {engine:.0f}, batch {batch:.0f} tokens/s")
                found.append((engine, batch))
    return found


async def chats(url: str, count: int, seed: int) -> list[float]:
    """Return the seconds to the first token of chats, one after the other."""
    chance = random.Random(seed)
    found: list[float] = []
    connection = await connect(Address.parse(url))
    for _ in range(count):
        body = chat_body("demo", words(chance, CHAT_WORDS), CHAT_TOKENS)
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
            batch = client.make(make_workload(20_000, Lengths(), turn))
            while not client.get(batch)["request_counts"]["completed"]:
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
        "from its making to its results. All processes have the worker's priority, nice 19, so "
        "that other work disturbs both alike.",
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
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    quick = arguments.quick
    first_tokens = measure_chats(1 if quick else CHAT_TURNS, CHATS)
    os.nice(19)  # processes that start from now on inherit it, the engine's own too
    pairs = measure_throughput(1 if quick else TURNS, 64 if quick else REQUESTS)
    text = report(pairs, first_tokens, load)
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
