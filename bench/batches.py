"""Batches: their throughput beside the engine's own, and what other requests notice of them.

    python -m bench.batches [--write FILE] [--quick] [--priority PRIORITY] [--parts PART ...]

Throughput: the requests of `bench.load_generator` as a batch, worked off by the code of `graphrt
batch`, and the same prompts through openvino-genai's pipeline alone (`bench.engine`), in
turns, both 32 at a time. The time of a batch is from its making to its results; a small batch loads
the model before.

Beside a batch: streamed chats, one after the other with pauses, without a batch and with one, in
turns on one server; the time to the first token of each. With the demo, and with SmolLM2
(`bench.downloads`) if it has been downloaded. At last with programs that take a core each, in
sessions of their own, as on a machine that others use too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.downloads import smollm2_path
from bench.engine import model_options, tokens_per_word
from bench.load_generator import (
    Address,
    Lengths,
    Request,
    chat_body,
    connect,
    make_workload,
    read_answer,
    run_loop,
)
from bench.machine import (
    DEMO,
    JsonClient,
    ServerProcess,
    children,
    cpu_seconds,
    describe_machine,
    head,
    publish,
    report_parser,
    row,
    say,
    versions,
)
from bench.serve_vs_engine import Model, load_arguments, run_engine, run_part
from calculators.llm.prompt.builder import PromptBuilder
from servers.batch_work.inner_server import inner_client
from servers.batch_work.worker import BatchWorker
from servers.batches.objects import INPUT_PURPOSE, Batch, StoredFile, new_id
from servers.batches.store import BatchStore
from servers.cli.arguments import make_parser
from servers.cli.serve_options import serve_options
from servers.cli.server_settings import inner_server, settings_in
from servers.load.client import words as some_words
from servers.options.server_options import IDLE, NORMAL

WIDTH: Final = 32
REQUESTS: Final = 96
TURNS: Final = 3
#: Chats without a batch and with one, in each turn; every other turn begins with the batch.
CHATS: Final = 10
CHAT_TURNS: Final = 5
CHAT_WORDS: Final = 150
CHAT_TOKENS: Final = 20
BURNERS: Final = 4
PARTS: Final = ("throughput", "demo", "smollm2", "busy")
#: Ends with its parent, however that ends.
_BURNER: Final = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(1_000_000))
"""
_ENDPOINT: Final = "/v1/chat/completions"
_FINISHED: Final = ("completed", "failed", "cancelled", "expired")


class BatchClient:
    """Files and batches of a server with one model, over HTTP."""

    def __init__(self, server: ServerProcess) -> None:
        self._client = JsonClient(server.address)
        self._model = server.model

    def make(self, requests: Sequence[Request]) -> str:
        """Make a batch and return its id."""
        lines = "".join(_line(number, each, self._model) for number, each in enumerate(requests))
        boundary = "bench-of-batches"
        form = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"'
            f"\r\n\r\n{lines}\r\n--{boundary}--\r\n"
        )
        kind = f"multipart/form-data; boundary={boundary}"
        file = json.loads(self._client.send("/v1/files", form.encode(), kind))
        body = {
            "input_file_id": file["id"],
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
        }
        found: str = self._client.post("/v1/batches", body)["id"]
        return found

    def get(self, batch: str) -> Any:
        return self._client.get(f"/v1/batches/{batch}")

    def cancel(self, batch: str) -> None:
        """Cancel a batch and wait for its end."""
        self._client.post(f"/v1/batches/{batch}/cancel", {})
        while self.get(batch)["status"] not in _FINISHED:
            time.sleep(0.05)


def _line(number: int, request: Request, model: str = "demo") -> str:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": request.text}],
        "max_tokens": request.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    line = {"custom_id": f"r{number}", "method": "POST", "url": _ENDPOINT, "body": body}
    return json.dumps(line) + "\n"


class Rate(NamedTuple):
    """Tokens per second, and microseconds of processor time per token, of all processes."""

    throughput: float
    cpu: float


def measure_throughput(turns: int, count: int) -> list[tuple[Rate, Rate]]:
    """Return the rates of the engine alone and of a batch, for each turn."""
    options = model_options(DEMO / "graph.pbtxt")
    per_word = tokens_per_word(PromptBuilder(str(options.model_path)))
    model = Model("small", "the example model", DEMO, {})
    found: list[tuple[Rate, Rate]] = []
    for turn in range(turns):
        load = [*load_arguments(WIDTH, count, turn), "--tokens_per_word", str(per_word)]
        words = ("--part", str(count), str(turn), str(per_word))
        first = run_part("bench.batches", *words) if turn % 2 else None
        figures = run_engine(model, load)
        tokens = figures["output_tokens"]
        engine = Rate(figures["throughput"], figures["cpu_seconds"] / tokens * 1e6)
        batch = Rate(**(first or run_part("bench.batches", *words)))
        say(f"engine {engine}, batch {batch}")
        found.append((engine, batch))
    return found


async def measure_batch(requests: Sequence[Request], directory: Path) -> Rate:
    """Return the rates of a batch, worked off as `graphrt batch` does."""
    words = ("batch", "none", str(DEMO), "--log_level", "ERROR")
    args = make_parser().parse_args(words)
    options = serve_options(args)
    settings = replace(settings_in(directory, options), width=WIDTH)
    store = BatchStore(directory)
    async with inner_client(inner_server(options, args), WIDTH, store) as client:
        worker = BatchWorker(store, settings, client.ask)
        _add_batch(store, requests[:4])
        await worker.run(0)  # loads the model
        batch = _add_batch(store, requests)
        cpu, began = _cpu(), time.perf_counter()
        await BatchWorker(store, settings, client.ask).run(0)
        seconds = time.perf_counter() - began
        cpu = _cpu() - cpu
    done = store.batch(batch.id, "")
    store.close()
    if done.completed != len(requests):
        raise RuntimeError(f"not all requests were answered: {done}")
    tokens = done.usage.output_tokens
    return Rate(tokens / seconds, cpu / tokens * 1e6)


def _cpu() -> float:
    """Return the processor time of this process and its children so far, in seconds."""
    return time.process_time() + sum(map(cpu_seconds, children(os.getpid())))


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


async def chats(url: str, model: str, count: int, seed: int) -> list[float]:
    """Return the seconds to the first token of chats, one after the other."""
    chance = random.Random(seed)
    found: list[float] = []
    connection = await connect(Address.parse(url))
    for _ in range(count):
        body = chat_body(model, some_words(chance, CHAT_WORDS), CHAT_TOKENS)
        outcome = read_answer(*await connection.ask(body))
        if outcome.error:
            raise RuntimeError(outcome.error)
        found.append(outcome.arrivals[0] - outcome.sent)
        await asyncio.sleep(chance.uniform(0.05, 0.3))
    connection.close()
    return found


class FirstTokens(NamedTuple):
    """Seconds to the first tokens without and with a batch, and the batch's tokens/s beside."""

    model: str
    alone: list[float]
    beside: list[float]
    rate: float

    @property
    def ratio(self) -> float:
        return statistics.median(self.beside) / statistics.median(self.alone)

    def bounds(self) -> tuple[float, float]:
        """Return a 95 % interval of the ratio, by resampling."""
        chance = random.Random(0)

        def again(values: list[float]) -> float:
            return statistics.median(chance.choices(values, k=len(values)))

        found = sorted(again(self.beside) / again(self.alone) for _ in range(2000))
        return found[50], found[-51]


def measure_chats(served: Path, model: str, turns: int, priority: str, burners: int) -> FirstTokens:
    """Measure the first tokens of chats without and with a batch, in turns."""
    alone: list[float] = []
    beside: list[float] = []
    tokens, seconds = 0, 0.0
    with (
        tempfile.TemporaryDirectory() as place,
        ServerProcess(
            served,
            *("--model_name", model, "--batch_dir", place, "--batch_priority", priority),
        ) as server,
        burning(burners),
    ):
        client = BatchClient(server)
        run_loop(chats(server.url, model, 5, 999))
        for turn in range(-1, turns):
            # The turn before the first one starts the worker, and is not counted.
            for is_beside in (turn % 2 == 1, turn % 2 == 0):
                if not is_beside:
                    alone += run_loop(chats(server.url, model, CHATS, turn)) if turn >= 0 else []
                    continue
                batch = client.make(make_workload(5_000, Lengths(output=50), turn))
                while not client.get(batch)["usage"]["output_tokens"]:
                    time.sleep(0.1)
                before, began = client.get(batch)["usage"]["output_tokens"], time.perf_counter()
                if turn >= 0:
                    beside += run_loop(chats(server.url, model, CHATS, turns + turn))
                    tokens += client.get(batch)["usage"]["output_tokens"] - before
                    seconds += time.perf_counter() - began
                client.cancel(batch)
        found = FirstTokens(model, alone, beside, tokens / seconds)
        say(f"{model}: {_ms(alone)} without, {_ms(beside)} with a batch: {found.ratio:.2f}")
    return found


@contextmanager
def burning(count: int) -> Iterator[None]:
    """Run programs that take a core each, in sessions of their own."""
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", _BURNER], start_new_session=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def _ms(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.1f} ms"


def report(
    pairs: Sequence[tuple[Rate, Rate]],
    first_tokens: Sequence[FirstTokens],
    busy: Sequence[FirstTokens],
    load: float,
) -> str:
    """Return the tables of what was measured as Markdown."""
    lines = [
        "# Batches beside the engine, and beside other requests",
        "",
        f"`python -m bench.batches` on {describe_machine(with_day=False)}; {versions()}. Load "
        f"average at the beginning: {load:.1f}. Turns alternate.",
    ]
    if pairs:
        lines += _throughput(pairs)
    if first_tokens or busy:
        lines += [
            "",
            "## First tokens of other requests",
            "",
            f"Chats of about {CHAT_WORDS} words, one after the other, without a batch and with "
            "one, in turns of which every other begins with the batch. In brackets: 95 % of "
            "resamplings. The aim is 1.10 at most.",
        ]
    if first_tokens:
        lines += ["", *_table(first_tokens)]
    if busy:
        text = f"The same while {BURNERS} programs in sessions of their own compute all the time:"
        lines += ["", text, "", *_table(busy)]
    return "\n".join(lines) + "\n"


def _throughput(pairs: Sequence[tuple[Rate, Rate]]) -> list[str]:
    ratio = statistics.median(batch.throughput / engine.throughput for engine, batch in pairs)
    columns = (f"{side}: tokens/s, CPU per token" for side in ("engine alone", "batch"))
    by_cpu = statistics.median(engine.cpu / batch.cpu for engine, batch in pairs)
    return [
        "",
        "## Throughput",
        "",
        f"Prompts of about 215 tokens, outputs of about 200, greedy, {WIDTH} at a time; a batch "
        "from its making to its results, with the model loaded, as `graphrt batch` works it off. "
        "The aim is a ratio of 0.95 at least.",
        "",
        *head("turn", *columns, "ratio", "ratio of CPU"),
        *(
            row(
                turn,
                *(f"{each.throughput:,.0f}, {each.cpu:,.0f} µs" for each in (engine, batch)),
                f"{batch.throughput / engine.throughput:.3f}",
                f"{engine.cpu / batch.cpu:.3f}",
            )
            for turn, (engine, batch) in enumerate(pairs, 1)
        ),
        row("median", "", "", f"{ratio:.3f}", f"{by_cpu:.3f}"),
        "",
        "CPU is of all processes: with HTTP, templates, text and the store. Its ratio is the share "
        "of the engine in the work.",
    ]


def _table(found: Sequence[FirstTokens]) -> list[str]:
    columns = ("model", "chats", "median, p95 without", "median, p95 with", "ratio of medians")
    lines = head(*columns, "tokens/s of the batch")
    for each in found:
        times = [f"{_ms(some)}, {_ms([_p95(some)])}" for some in (each.alone, each.beside)]
        low, high = each.bounds()
        lines.append(
            row(
                each.model,
                f"2 x {len(each.alone)}",
                *times,
                f"{each.ratio:.2f} [{low:.2f}, {high:.2f}]",
                f"{each.rate:,.0f}",
            )
        )
    return lines


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def main() -> None:
    """Measure, print, and write to a file if requested."""
    parser = report_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests, one turn")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    parser.add_argument("--priority", choices=(IDLE, NORMAL), default=IDLE, help="of the batch")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part is not None:
        count, seed, per_word = arguments.part
        requests = make_workload(int(count), Lengths(tokens_per_word=float(per_word)), int(seed))
        with tempfile.TemporaryDirectory() as place:
            rate = run_loop(measure_batch(requests, Path(place)))
        arguments.json.write_text(json.dumps(rate._asdict()), encoding="utf-8")
        return
    load = os.getloadavg()[0]
    quick = arguments.quick
    turns, parts, priority = 1 if quick else CHAT_TURNS, arguments.parts, arguments.priority
    pairs, found, busy = [], [], []
    if "throughput" in parts:
        pairs = measure_throughput(1 if quick else TURNS, 64 if quick else REQUESTS)
    if "demo" in parts:
        found.append(measure_chats(DEMO, "demo", turns, priority, 0))
    if "smollm2" in parts and smollm2_path().is_file():
        found.append(measure_chats(smollm2_path(), "smollm2", turns, priority, 0))
    if "busy" in parts:
        busy.append(measure_chats(DEMO, "demo", turns, priority, BURNERS))
    publish(report(pairs, found, busy, load), arguments.write)


if __name__ == "__main__":
    main()
