"""Hits in the prefix caches of four replicas on Ray, routed by load and prefix, and otherwise.

    python -m bench.prefix_routing [--write FILE]

Needs `pip install 'graphrt[ray]'`. Conversations of several turns with one system prompt go to one
front. Each replica answers as a model would whose cache holds so many blocks of 64 characters, the
ones used last: it waits for each block that it does not have, one request after the other, and then
for the tokens of the answer. It computes nothing, so that four of them fit on a small machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any, Final

from bench.machine import ServerProcess, WrittenReport, describe_machine

REPLICAS, CONVERSATIONS, TURNS, AT_ONCE = 4, 96, 6, 24
CACHED_BLOCKS: Final = 3000
SYSTEM_CHARS, TURN_CHARS, ANSWER_CHARS = 1500, (100, 700), (100, 500)

CALCULATORS: Final = f'''\
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
GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Cached"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
#: Python that replaces the table's cost of a replica, by the name in the report.
POLICIES: Final = {
    "load and prefix": "",
    "load alone": "RoutingTable._unseen = lambda self, replica, call: call.tokens",
    "random": "RoutingTable._cost = lambda self, replica, call: (random.random(), 0)",
}


@dataclass
class Figures:
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


def _write_site(folder: Path) -> Path:
    (folder / "calcs.py").write_text(CALCULATORS)
    (folder / "cached").mkdir()
    (folder / "cached/graph.pbtxt").write_text(GRAPH)
    scale = {"min_replicas": REPLICAS, "num_cpus": 0.1}
    graphs = [{"name": "cached", "python_path": "calcs.py", "scale": scale}]
    config = folder / "config.json"
    config.write_text(json.dumps({"model_config_list": [], "mediapipe_config_list": graphs}))
    return config


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


def measure(policy: str) -> Figures:
    """Serve four replicas with a policy, and let clients talk to them."""
    figures, talks, lock = Figures(), Talks(1), threading.Lock()
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(_write_site(Path(folder)), "--on", "ray", command=_command(policy)) as server,
    ):

        def talk() -> None:
            connection = http.client.HTTPConnection(server.address)
            while (messages := talks.take()) is not None:
                body = {"messages": messages, "model": "cached", "max_tokens": 100}
                began = perf_counter()
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/v3/chat/completions", json.dumps(body), headers)
                answer: dict[str, Any] = json.loads(connection.getresponse().read())
                with lock:
                    figures.blocks += answer["blocks"]
                    figures.seen += answer["seen"]
                    figures.by_replica[answer["pid"]] += 1
                    figures.seconds.append(perf_counter() - began)
                talks.answered(messages)
            connection.close()

        clients = [threading.Thread(target=talk) for _ in range(AT_ONCE)]
        for each in clients:
            each.start()
        for each in clients:
            each.join()
    return figures


def report(measured: dict[str, Figures]) -> list[str]:
    """Return the lines of the report."""
    lines = [
        "# Hits in the prefix caches of replicas, by routing",
        "",
        f"`python -m bench.prefix_routing` on {describe_machine()}.",
        f"{REPLICAS} replicas on Ray behind one front, each with a simulated cache of "
        f"{CACHED_BLOCKS:,} blocks of 64 characters; {CONVERSATIONS}",
        f"conversations of {TURNS} turns with one system prompt of {SYSTEM_CHARS:,} characters, "
        f"{AT_ONCE} requests at a time.",
        "",
        "| routed by | blocks found in the cache | requests per replica | seconds, median | p95 |",
        "|---|---|---|---|---|",
    ]
    for policy, each in measured.items():
        spread = "/".join(str(count) for count in sorted(each.by_replica.values()))
        p95 = quantiles(each.seconds, n=20)[-1]
        lines.append(
            f"| {policy} | {each.share:.2f} | {spread} | {median(each.seconds):.2f} | {p95:.2f} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Hits in prefix caches of replicas on Ray.")
    parser.add_argument("--write", metavar="FILE", type=Path)
    parsed = parser.parse_args(arguments)
    os.environ["RAY_ADDRESS"] = "local"  # a cluster of its own for each policy
    write = WrittenReport()
    for line in report({policy: measure(policy) for policy in POLICIES}):
        write(line)
    write.keep(parsed.write)


if __name__ == "__main__":
    main()
