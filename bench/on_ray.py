"""What `--on ray` costs and brings: batches, cancellation, and routing by prefix.

    python -m bench.on_ray batch [--write FILE]
    python -m bench.on_ray cancel [--streams N] [--write FILE]
    python -m bench.on_ray routing [--write FILE]

All need `pip install 'graphrt[ray]'`.

``batch``: `graphrt batch` with and without ``--on ray``. The command answers a short and a long
file. The rate is that of the long one between a quarter of its answers and all of them, as the
command's store has them, so that the start of processes and clusters does not count. The memory is
the most that the command's own process had. Lines for the example model generate; lines for a graph
that answers at once show the cost of the way.

``cancel``: the time from a client's leaving to the end of its node's call, with and without ``--on
ray``. A node sends an event and waits. The client reads it and closes its connection; the node
notes when its call is cancelled. In that moment a node with a language model cancels at its engine.

``routing``: hits in the prefix caches of four replicas, routed by load and prefix, and otherwise.
Conversations of several turns with one system prompt go to one front. Each replica answers as a
model would whose cache holds so many blocks of 64 characters, the ones used last: it waits for each
block that it does not have, one request after the other, and then for the tokens of the answer. It
computes nothing, so that four of them fit on a small machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any, Final, NamedTuple, Self

from bench.machine import (
    DEMO,
    ROOT,
    JsonClient,
    ServerProcess,
    add_write,
    describe_machine,
    head,
    publish,
    row,
    run_command,
    say,
)

#: A cluster of its own for each run.
_LOCAL: Final = {"RAY_ADDRESS": "local"}
#: A graph of one node that answers HTTP requests.
GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "CALCULATOR"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def write_site(folder: Path, calculators: str, *more: dict[str, Any], **replicas: int) -> Path:
    """Write a graph of one node for each calculator, and the config.json; return its path.

    Args:
        calculators: their code, for ``calcs.py``.
        more: entries of further graphs.
        replicas: by the name of the calculator, which the graph has too.
    """
    (folder / "calcs.py").write_text(calculators)
    graphs = list(more)
    for name, count in replicas.items():
        (folder / name).mkdir()
        (folder / name / "graph.pbtxt").write_text(GRAPH.replace("CALCULATOR", name))
        graphs.append({"name": name, "scale": {"min_replicas": count, "num_cpus": 0.1}})
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
    return config


# Batches ------------------------------------------------------------------------------------------

TOKENS: Final = 60
WIDTH: Final = 32
_REPLICAS: Final = 2
#: Lines of the short file and of the long one.
CHATS: Final = (64, 640)
ECHOES: Final = (1_000, 7_000)
_LOOK_SECONDS: Final = 0.05

_ECHO: Final = """\
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class EchoBody(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.request).body)
"""


class BatchRun(NamedTuple):
    """One run of the command: its time and memory, and the lines per second in the middle."""

    seconds: float
    mebibytes: float
    rate: float


class BatchFigures(NamedTuple):
    """The runs with the short and the long file."""

    short: BatchRun
    long: BatchRun


class Watch:
    """The answers in the store of a running command. Use it as a context manager."""

    def __init__(self, store: Path) -> None:
        self._store = store
        # One connection for the whole time: each new one would make files in a directory that the
        # command removes.
        self._connection: sqlite3.Connection | None = None
        self._seen: list[tuple[float, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def look(self) -> None:
        """Count the answers."""
        if self._connection is None:
            if not self._store.exists():
                return
            self._connection = sqlite3.connect(f"file:{self._store}?mode=ro", uri=True)
        try:
            ((count,),) = self._connection.execute("select count(*) from answers").fetchall()
        except sqlite3.OperationalError:
            return  # it is being made, or is gone
        if not self._seen or count > self._seen[-1][1]:
            self._seen.append((time.perf_counter(), count))

    def rate(self, least: int) -> float:
        """Return the answers per second from the first look at ``least`` answers on.

        Raises:
            RuntimeError: fewer than two looks found so many.
        """
        found = [each for each in self._seen if each[1] >= least]
        if len(found) < 2:
            raise RuntimeError("the file is too short for a rate")
        (began, first), (ended, last) = found[0], found[-1]
        return (last - first) / (ended - began)


def line(model: str, number: int) -> str:
    """Return a line for a model; no two have the same beginning."""
    messages = [{"role": "user", "content": f"Number {number}: tell me about graphs."}]
    body = {"model": model, "messages": messages, "max_tokens": TOKENS, "ignore_eos": True}
    if model == "EchoBody":
        body = {"model": model, "text": f"{number} " * 40}
    asked = {"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions"}
    return json.dumps({**asked, "body": body}) + "\n"


def run_batch(folder: Path, model: str, count: int, where: Sequence[str]) -> BatchRun:
    """Answer a file of so many lines.

    Raises:
        RuntimeError: a line has no answer, or the file is too short for a rate.
    """
    name = f"{model}-{count}-{len(where)}"
    file = folder / f"{name}.jsonl"
    with file.open("w") as lines:
        lines.writelines(line(model, number) for number in range(count))
    words = ["batch", file.name, "config.json", "--calculators", "calcs.py", *where]
    command = [sys.executable, "-m", "servers.cli", *words, "--batch_width", str(WIDTH)]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    environment = {**os.environ, "PYTHONPATH": path, **_LOCAL}
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    with Watch(folder / f"{name}.output.jsonl.state" / "store.sqlite") as seen:
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            seen.look()
            time.sleep(_LOOK_SECONDS)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    with (folder / f"{name}.output.jsonl").open() as output:
        answers = sum(1 for _ in output)
    if process.returncode or answers != count:
        raise RuntimeError(f"{answers} of {count} lines were answered")
    return BatchRun(seconds, used.ru_maxrss / 1024, seen.rate(count // 4))


def measure_batches(
    folder: Path, model: str, counts: tuple[int, int], where: Sequence[str]
) -> BatchFigures:
    """Answer a short and a long file."""
    short, long = (run_batch(folder, model, count, where) for count in counts)
    say(f"{model} {where}: {short}, {long}")
    return BatchFigures(short, long)


def batch_report() -> Iterator[str]:
    """Measure, and yield the report."""
    places = {"this process": (), "`--on ray`": ("--on", "ray")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scale = {"min_replicas": _REPLICAS, "num_cpus": 0.1}
        demo = {"name": "demo", "base_path": str(DEMO), "scale": scale}
        write_site(folder, _ECHO, demo, EchoBody=_REPLICAS)
        found = {
            (model, where): measure_batches(folder, model, counts, words)
            for model, counts in (("demo", CHATS), ("EchoBody", ECHOES))
            for where, words in places.items()
        }
    yield "# Batches on Ray"
    yield ""
    yield f"`python -m bench.on_ray batch` on {describe_machine()}."
    yield (
        f"`graphrt batch` with {WIDTH} requests at a time; on Ray {_REPLICAS} replicas of each "
        "graph, on the same two cores, and a"
    )
    yield (
        f"cluster of its own. Files of {CHATS[0]} and {CHATS[1]:,} chats of {TOKENS} tokens with "
        f"the example model, and of {ECHOES[0]:,} and {ECHOES[1]:,}"
    )
    yield (
        "lines that a graph gives back. Rates are of the last three quarters of the long file; "
        "seconds are of the whole command, start and"
    )
    yield "end included. The memory is that of the command's own process. One run each."
    yield ""
    columns = ("lines", "where", "lines/s", "tokens/s")
    yield from head(*columns, "seconds, short and long", "MB, short and long")
    for (model, where), (short, long) in found.items():
        tokens = f"{long.rate * TOKENS:,.0f}" if model == "demo" else ""
        yield row(
            model if model == "demo" else "echo",
            where,
            f"{long.rate:,.1f}",
            tokens,
            f"{short.seconds:.0f}, {long.seconds:.0f}",
            f"{short.mebibytes:.0f}, {long.mebibytes:.0f}",
        )


def batch(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Batches with and without ``--on ray``: tokens and lines per second, and memory."""
    add_write(parser)
    publish(batch_report(), parser.parse_args(words).write)


# Cancellation -------------------------------------------------------------------------------------

#: Milliseconds that a cancellation may take.
AIM: Final = 200
#: Seconds after which a cancellation is lost.
_LOST: Final = 30.0

_CALCULATOR: Final = '''\
import asyncio
import time
from pathlib import Path

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class WaitForCancel(Calculator):
    """Sends an event, waits, and writes the time when it is cancelled."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    async def process(self, cc: CalculatorContext) -> None:
        file = Path(cc.get(self.request).parsed_json["file"])
        cc.emit(self.response, "data: first\\n\\n", at=0)
        cc.flush()
        try:
            await asyncio.Event().wait()
        finally:
            part = file.with_suffix(".part")
            part.write_text(str(time.monotonic()))
            part.rename(file)
'''


def cancelled_after(address: str, file: Path) -> float:
    """Return the milliseconds from the close of a stream's connection to the node's end.

    Raises:
        TimeoutError: the node was not cancelled.
    """
    body = json.dumps({"model": "WaitForCancel", "stream": True, "file": str(file)})
    connection = http.client.HTTPConnection(address, timeout=_LOST)
    connection.request("POST", "/v3/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if not response.readline().startswith(b"data: first"):
        raise RuntimeError(f"no stream, but a status of {response.status}")
    left = time.monotonic()
    response.close()
    connection.close()
    while not file.exists():
        if time.monotonic() - left > _LOST:
            raise TimeoutError(f"the node was not cancelled within {_LOST:g} s")
        time.sleep(0.002)
    return 1000 * (float(file.read_text()) - left)


def measure_cancels(folder: Path, streams: int, *more: str) -> list[float]:
    """Return the milliseconds of each stream, on a server with these further arguments."""
    arguments = ("--calculators", str(folder / "calcs.py"), *more)
    with ServerProcess(folder / "config.json", *arguments) as server:
        return [
            cancelled_after(server.address, folder / f"{'-'.join(more)}{number}")
            for number in range(streams)
        ]


def cancel_report(streams: int) -> Iterator[str]:
    """Measure, and yield the report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_site(folder, _CALCULATOR, WaitForCancel=2)
        found = {
            "this process": measure_cancels(folder, streams),
            "`--on ray`": measure_cancels(folder, streams, "--on", "ray"),
        }
    yield "# Cancellation on Ray"
    yield ""
    yield f"`python -m bench.on_ray cancel` on {describe_machine()}."
    yield (
        f"Milliseconds from the close of a client's connection to the end of the node's call, "
        f"{streams} streams one after the other; on Ray 2 replicas. The aim is {AIM} ms."
    )
    yield ""
    yield from head("where", "median", "95 %", "longest")
    for where, times in found.items():
        shown = (median(times), quantiles(times, n=20)[-1], max(times))
        yield row(where, *(f"{each:.1f}" for each in shown))


def cancel(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """The time from a client's leaving to the end of its node's call."""
    add_write(parser)
    parser.add_argument("--streams", type=int, default=100, help="streams that are left (100)")
    given = parser.parse_args(words)
    publish(cancel_report(given.streams), given.write)


# Routing ------------------------------------------------------------------------------------------

REPLICAS, CONVERSATIONS, TURNS, AT_ONCE = 4, 96, 6, 24
CACHED_BLOCKS: Final = 3000
SYSTEM_CHARS, TURN_CHARS, ANSWER_CHARS = 1500, (100, 700), (100, 500)

_CACHED: Final = f'''\
import asyncio
import json
import os
from collections import OrderedDict

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator

CACHE: OrderedDict[int, None] = OrderedDict()
PROMPTS = asyncio.Lock()


@calculator
class Cached(Calculator):
    """Waits as a language model with a prefix cache computes."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    async def process(self, cc: CalculatorContext) -> None:
        asked = cc.get(self.request).parsed_json
        text = "".join(each["content"] for each in asked["messages"])
        blocks, before = [], 0
        for start in range(0, len(text) - 63, 64):
            before = hash((before, text[start : start + 64]))
            blocks.append(before)
        async with PROMPTS:
            seen = 0
            while seen < len(blocks) and blocks[seen] in CACHE:
                seen += 1
            for block in reversed(blocks):
                CACHE[block] = None
                CACHE.move_to_end(block)
            while len(CACHE) > {CACHED_BLOCKS}:
                CACHE.popitem(last=False)
            await asyncio.sleep(0.01 * (len(blocks) - seen))
        waited = {{"pid": os.getpid(), "blocks": len(blocks), "seen": seen}}
        await asyncio.sleep(0.005 * asked["max_tokens"])
        cc.emit(self.response, json.dumps(waited))
'''
#: Python that replaces the table's cost of a replica, by the name in the report.
POLICIES: Final = {
    "load and prefix": "",
    "load alone": "RoutingTable._unseen = lambda self, replica, call: call.tokens",
    "random": "RoutingTable._cost = lambda self, replica, call: (random.random(), 0)",
}


@dataclass
class RoutingFigures:
    """Counts of all requests of one run."""

    blocks: int = 0
    seen: int = 0
    by_replica: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.seen / self.blocks


def _command(policy: str) -> tuple[str, ...]:
    text = (
        "import random, sys; from servers.replicas.routing_table import RoutingTable; "
        f"{POLICIES[policy] or 'pass'}; from servers.cli import main; sys.exit(main())"
    )
    return (sys.executable, "-c", text)


class Talks:
    """Conversations that clients take one turn at a time, in the order of their last turns."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        system = {"role": "system", "content": self._text(SYSTEM_CHARS, SYSTEM_CHARS)}
        self._waiting = [[system] for _ in range(CONVERSATIONS)]
        self._lock = threading.Lock()

    def _text(self, least: int, most: int) -> str:
        count = self._random.randint(least, most)
        return "".join(self._random.choices("abcdefghijklmnop ", k=count))

    def take(self) -> list[dict[str, str]] | None:
        """Return the messages of the next request; None if there is none."""
        with self._lock:
            if not self._waiting:
                return None
            messages = self._waiting.pop(0)
            messages.append({"role": "user", "content": self._text(*TURN_CHARS)})
            return messages

    def answered(self, messages: list[dict[str, str]]) -> None:
        """Add an answer to a conversation, which goes on if it has turns left."""
        with self._lock:
            messages.append({"role": "assistant", "content": self._text(*ANSWER_CHARS)})
            if len(messages) <= 2 * TURNS:
                self._waiting.append(messages)


def measure_policy(policy: str) -> RoutingFigures:
    """Serve four replicas with a policy, and let clients talk to them."""
    figures, talks, lock = RoutingFigures(), Talks(1), threading.Lock()
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(
            write_site(Path(folder), _CACHED, Cached=REPLICAS),
            *("--calculators", str(Path(folder, "calcs.py")), "--on", "ray"),
            command=_command(policy),
            environment=_LOCAL,
        ) as server,
    ):

        def talk() -> None:
            client = JsonClient(server.address)
            while (messages := talks.take()) is not None:
                body = {"messages": messages, "model": "Cached", "max_tokens": 100}
                began = perf_counter()
                answer = client.post("/v3/chat/completions", body)
                with lock:
                    figures.blocks += answer["blocks"]
                    figures.seen += answer["seen"]
                    figures.by_replica[answer["pid"]] += 1
                    figures.seconds.append(perf_counter() - began)
                talks.answered(messages)
            client.close()

        clients = [threading.Thread(target=talk) for _ in range(AT_ONCE)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
    return figures


def routing_report() -> Iterator[str]:
    """Measure, and yield the report."""
    yield "# Hits in the prefix caches of replicas, by routing"
    yield ""
    yield f"`python -m bench.on_ray routing` on {describe_machine()}."
    yield (
        f"{REPLICAS} replicas on Ray behind one front, each with a simulated cache of "
        f"{CACHED_BLOCKS:,} blocks of 64 characters; {CONVERSATIONS}"
    )
    yield (
        f"conversations of {TURNS} turns with one system prompt of {SYSTEM_CHARS:,} characters, "
        f"{AT_ONCE} requests at a time."
    )
    yield ""
    columns = ("routed by", "blocks found in the cache", "requests per replica")
    yield from head(*columns, "seconds, median", "p95")
    for policy in POLICIES:
        each = measure_policy(policy)
        spread = "/".join(str(count) for count in sorted(each.by_replica.values()))
        seconds = (median(each.seconds), quantiles(each.seconds, n=20)[-1])
        yield row(policy, f"{each.share:.2f}", spread, *(f"{some:.2f}" for some in seconds))


def routing(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Hits in the prefix caches of four replicas, routed by load and prefix, and otherwise."""
    add_write(parser)
    publish(routing_report(), parser.parse_args(words).write)


if __name__ == "__main__":
    run_command("bench.on_ray", __doc__, {"batch": batch, "cancel": cancel, "routing": routing})
