"""Replicas of a server behind a balancer, and a model of their cost checked against them.

    python -m bench.replicas [--rounds N] [--requests N] [--write FILE]

One server of the example model gives the model's constants: processor time of the engine per token,
by the number of requests that it generates at a time, and of the fronts per request and per token.
From these the model says what 1, 2 and 4 servers cost behind one address, and the same is
measured. Servers, balancer and clients share this machine, so more replicas do not make more tokens
here: that takes more cores. Processor time is what the model is about, and rates follow from it.

Replicas that share cores cost more than replicas with cores of their own. The threads of an engine
wait for each other some hundred times in each step, by yielding: with another engine's thread on
the core each wait is a switch, and caches to fill again. So a step costs more by a constant, and a
token by that constant over the requests at a time. The model takes it from the run with two
replicas, and says from it what four cost.

The balancer passes bytes on, each connection to the next replica in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from statistics import median
from typing import Final, NamedTuple, Self, cast

from bench.load_generator import run_loop
from bench.machine import (
    DEMO,
    ServerProcess,
    cpu_seconds,
    describe_machine,
    head,
    involuntary_switches,
    own_server,
    publish,
    report_parser,
    row,
)
from bench.serve_vs_engine import run_part
from calculators.kit.memory import resident_bytes

REPLICAS: Final = (1, 2, 4)
#: Requests at a time of the runs that give the engine's curve.
AT_ONCE: Final = (1, 4, 8, 16, 32, 64)
#: Clients of all replicas together.
CLIENTS: Final = 64
#: No two runs have the same prompts, which a server would have in its cache.
_SEEDS: Final = count(1)
#: Mean tokens of an answer, of a short one, and of a prompt.
LONG, SHORT, PROMPT = 200, 8, 215
_SHORT_AT_ONCE: Final = 16


# The balancer -------------------------------------------------------------------------------------


class _Side(asyncio.Protocol):
    """One side of a connection through the balancer; it writes what the other side receives."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.writelines(self._early)

    def send(self, data: bytes) -> None:
        if self.transport is None:
            self._early.append(data)
        else:
            self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        self.other.send(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def balance(ports: Sequence[int], announce: Callable[[int], None]) -> None:
    """Accept connections, pass each on to the next port, and announce the port to connect to."""
    loop = asyncio.get_running_loop()
    turn = 0
    opening = set()

    def accept() -> _Side:
        nonlocal turn
        near, far = _Side(), _Side()
        near.other, far.other = far, near
        port = ports[turn % len(ports)]
        turn += 1
        task = loop.create_task(loop.create_connection(lambda: far, "127.0.0.1", port))
        opening.add(task)
        task.add_done_callback(opening.discard)
        return near

    server = await loop.create_server(accept, "127.0.0.1", 0)
    announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


class Balancer(NamedTuple):
    """A running balancer."""

    url: str
    pid: int


@contextmanager
def balancer_of(servers: Sequence[ServerProcess]) -> Iterator[Balancer]:
    """Run a balancer in a process of its own."""
    ports = [server.address.rpartition(":")[2] for server in servers]
    with own_server("bench.replicas", "--balance", *ports) as (port, pid):
        yield Balancer(f"http://127.0.0.1:{port}", pid)


# Measuring ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Run:
    """Cost of one load.

    Attributes:
        rate: output tokens per second.
        first: median milliseconds to the first token.
        cpu: microseconds of processor time per output token, by part.
        cores: processors that all parts had together.
        tokens: mean output tokens of a request.
        at_once: mean number of requests that a replica had at a time.
        switches: involuntary switches of the engines' threads per output token.
    """

    rate: float
    first: float
    cpu: Mapping[str, float]
    cores: float
    tokens: float
    at_once: float
    switches: float


def load(url: str, model: str, at_once: int, requests: int, output: float) -> Mapping[str, float]:
    """Send requests to a URL; return throughput, tokens and times of the clients."""
    words = {
        "url": url,
        "model": model,
        "concurrency": at_once,
        "requests": requests,
        "output_tokens": output,
        "seed": next(_SEEDS),
    }
    options = (f"--{name}={value}" for name, value in words.items())
    found = run_part("bench.load_generator", *options)
    return {
        "throughput": found["throughput"],
        "tokens": found["output_tokens"],
        "first": found["ttft"]["median"],
        "clients": found["cpu_seconds"],
        "at_once": found["at_once"],
    }


def run(
    servers: Sequence[ServerProcess],
    balancer: Balancer | None,
    at_once: int,
    requests: int,
    output: float = LONG,
) -> Run:
    """Measure one load on servers, behind a balancer if there is one."""

    def spent() -> dict[str, float]:
        parts = [server.cpu() for server in servers]
        found = {name: sum(part[name] for part in parts) for name in parts[0]}
        return found if balancer is None else {**found, "balancer": cpu_seconds(balancer.pid)}

    def switches() -> int:
        return sum(involuntary_switches(server.pids["engine"]) for server in servers)

    url = servers[0].url if balancer is None else balancer.url
    before, switched = spent(), switches()
    found = load(url, servers[0].model, at_once, requests, output)
    seconds = {name: after - before[name] for name, after in spent().items()}
    seconds["clients"] = found["clients"]
    tokens = found["tokens"]
    return Run(
        found["throughput"],
        found["first"],
        {name: each / tokens * 1e6 for name, each in seconds.items()},
        sum(seconds.values()) / tokens * found["throughput"],
        tokens / requests,
        found["at_once"] / len(servers),
        (switches() - switched) / tokens,
    )


def middle(runs: Sequence[Run]) -> Run:
    """Return the medians of runs of one kind."""
    return Run(
        median(each.rate for each in runs),
        median(each.first for each in runs),
        {name: median(each.cpu[name] for each in runs) for name in runs[0].cpu},
        median(each.cores for each in runs),
        median(each.tokens for each in runs),
        median(each.at_once for each in runs),
        median(each.switches for each in runs),
    )


# The model ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Costs:
    """A model of what requests cost, from runs on one replica.

    Attributes:
        engine: microseconds of the engine per output token, by requests at a time; prompts of 215
            tokens are part of it.
        fronts: microseconds of the server and of its prompt process per output token, likewise:
            what arrives together is sent together.
        per_request, per_token: the parts of ``fronts`` with 16 requests at a time.
        engine_shared, fronts_shared: microseconds that a step, a token of each request, costs more
            where replicas share cores.
    """

    engine: Mapping[float, float]
    fronts: Mapping[float, float]
    per_request: float
    per_token: float
    engine_shared: float
    fronts_shared: float

    @classmethod
    def of(cls, curve: Mapping[int, Run], short: Run, two: Run) -> Self:
        """Fit the model to runs on one replica, and one on two replicas.

        Two lengths of answers give the two costs of the fronts.
        """
        fronts = {each.at_once: _fronts(each) for each in curve.values()}
        tokens = curve[_SHORT_AT_ONCE].tokens
        long = _fronts(curve[_SHORT_AT_ONCE])
        per_request = (_fronts(short) - long) / (1 / short.tokens - 1 / tokens)
        engine = {each.at_once: each.cpu["engine"] for each in curve.values()}
        return cls(
            engine,
            fronts,
            per_request,
            long - per_request / tokens,
            (two.cpu["engine"] - between(engine, two.at_once)) * two.at_once,
            (_fronts(two) - between(fronts, two.at_once)) * two.at_once,
        )

    def said(self, replicas: int, at_once: float) -> tuple[float, float]:
        """Return what engines and fronts cost per output token.

        ``replicas`` share the cores, and each has ``at_once`` requests at a time.
        """
        engine, fronts = between(self.engine, at_once), between(self.fronts, at_once)
        if replicas == 1:
            return engine, fronts
        return engine + self.engine_shared / at_once, fronts + self.fronts_shared / at_once


def between(points: Mapping[float, float], at_once: float) -> float:
    """Return a cost between the measured numbers of requests, by their ratios."""
    known = sorted(points.items())
    at_once = min(max(at_once, known[0][0]), known[-1][0])
    for (low, cost), (high, next_cost) in pairwise(known):
        if at_once <= high:
            part = math.log(at_once / low) / math.log(high / low)
            return cost + (next_cost - cost) * part
    return known[-1][1]


def _fronts(each: Run) -> float:
    return each.cpu["server"] + each.cpu["prompts"]


def report(
    curve: Mapping[int, Run], short: Run, replicas: Mapping[int, Run], memory: Mapping[str, int]
) -> str:
    """Return the tables in Markdown."""
    costs = Costs.of(curve, short, replicas[2])
    parts = ("engine", "server", "prompts")
    columns = ["replicas", "at a time", "engine, us: alone", "said", "measured", "fronts: said"]
    columns += ["measured", "tokens/s: said", "measured"]

    def run_row(name: object, each: Run) -> str:
        cpu = [f"{each.cpu[part]:.{digit}f}" for part, digit in zip(parts, (0, 1, 1), strict=True)]
        return row(name, f"{each.at_once:.0f}", f"{each.rate:,.0f}", f"{each.first:.0f}", *cpu)

    lines = [
        "# Replicas behind a balancer, and what a model of the cost says of them",
        "",
        f"`python -m bench.replicas` on {describe_machine()}; load average "
        f"{os.getloadavg()[0]:.1f}. The example model; prompts of about {PROMPT} tokens, answers "
        f"of about {LONG} (log-normal), all different. Servers, balancer and clients share the two "
        "cores with other work, so tokens per second say little; microseconds of processor time "
        "per output token are what the model is about.",
        "",
        "## One replica",
        "",
        *head("clients", "at a time", "tokens/s", "TTFT, ms", *(f"{part}, us" for part in parts)),
    ]
    lines += [run_row(at_once, each) for at_once, each in curve.items()]
    lines += [
        run_row(f"{_SHORT_AT_ONCE}, answers of {short.tokens:.0f}", short),
        "",
        f"So the fronts, server and prompts, cost {costs.per_request:,.0f} us per request and "
        f"{costs.per_token:.1f} us per token with {_SHORT_AT_ONCE} at a time. Memory in MB: "
        + ", ".join(f"{name} {each / 1e6:.0f}" for name, each in memory.items())
        + ".",
        "",
        f"## Replicas, {CLIENTS} clients in all",
        "",
        "Said: engine and fronts with as many requests as each replica has at a time (its mean), "
        f"and {costs.engine_shared:,.0f} and {costs.fronts_shared:,.0f} us more per step of a "
        "replica (a token of each of its requests), as they share the cores: what two cost more "
        "than one with as many requests. So two is met by its making, and four is what the model "
        "is tried on. Alone: without that. Balancer and clients are as measured with one replica; "
        "tokens/s, if all had as many cores as with one. Switches: times per step that a thread of "
        "an engine lost its processor.",
        "",
        *head(*columns, "switches", "cores", "TTFT, ms"),
    ]
    one = replicas[1]
    around = one.cpu["balancer"] + one.cpu["clients"]
    for number, each in replicas.items():
        engine, fronts = costs.said(number, each.at_once)
        rate = one.cores * 1e6 / (engine + fronts + around)
        lines.append(
            row(
                number,
                f"{each.at_once:.0f}",
                f"{between(costs.engine, each.at_once):.0f}",
                *(f"{engine:.0f}", f"{each.cpu['engine']:.0f}"),
                *(f"{fronts:.1f}", f"{_fronts(each):.1f}", f"{rate:,.0f}", f"{each.rate:,.0f}"),
                f"{each.switches * each.at_once:,.0f}",
                *(f"{each.cores:.2f}", f"{each.first:.0f}"),
            )
        )
    return "\n".join(lines) + "\n"


def measure(rounds: int, requests: int) -> str:
    """Measure everything, the kinds of runs in turns, and return the report."""
    curves: dict[int, list[Run]] = {each: [] for each in AT_ONCE}
    shorts: list[Run] = []
    several: dict[int, list[Run]] = {each: [] for each in REPLICAS}
    with ExitStack() as stack:
        servers = [stack.enter_context(ServerProcess(DEMO)) for _ in range(max(REPLICAS))]
        for server in servers:
            load(server.url, server.model, 8, 16, LONG)
        balancers = {each: stack.enter_context(balancer_of(servers[:each])) for each in several}
        for _ in range(rounds):
            for at_once, runs in curves.items():
                number = max(8, requests * min(at_once, 16) // 16)
                runs.append(run(servers[:1], None, at_once, number))
            shorts.append(run(servers[:1], None, _SHORT_AT_ONCE, requests * 8, SHORT))
            for each, runs in several.items():
                runs.append(run(servers[:each], balancers[each], CLIENTS, requests))
            print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
        memory = {name: resident_bytes(pid) or 0 for name, pid in servers[0].pids.items()}
    return report(
        {each: middle(runs) for each, runs in curves.items()},
        middle(shorts),
        {each: middle(runs) for each, runs in several.items()},
        memory,
    )


def main() -> None:
    """Measure, and print or write the tables."""
    parser = report_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=128, help="of a run with 64 clients")
    parser.add_argument("--balance", type=int, nargs="+", metavar="PORT", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.balance:
        run_loop(balance(words.balance, partial(print, flush=True)))
        return
    publish(measure(words.rounds, words.requests), words.write)


if __name__ == "__main__":
    main()
