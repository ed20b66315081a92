"""Clusters of 10 to 1,000 replicas, simulated: queueing, routing, autoscaling, fronts.

    python -m bench.cluster_simulation [--short] [--processes N] [--write FILE]

What is simulated: `bench.cluster_model`. A replica is like the model of 98 M parameters in
bench/serve_vs_engine.md on two cores: 450 output tokens per second with many requests at a time,
63 % of it with 6.5, 32 at a time; a token of a prompt costs 0.24 of one of an answer. Conversations
have 5 turns in the mean, with 20 seconds between them; each turn adds 215 tokens to the prompt, and
its answer of 200. Requests that arrive in the first minute do not count.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import median
from typing import Final

import simpy

from bench.cluster_model import (
    BURSTS,
    ROUTES,
    Chosen,
    Cluster,
    Engine,
    Fleet,
    Front,
    Request,
    Scaling,
    Traffic,
    by_prefix,
    least_loaded,
    scale,
)
from bench.machine import head, publish, report_parser, row

SEED: Final = 7
ENGINE: Final = Engine(peak=450.0)
#: New conversations per second and replica: without caches the replicas are busy, and keep up.
RATE: Final = 0.11
#: New conversations in the autoscaler's table: three quarters of what replicas can with caches.
BUSY_RATE: Final = 0.25
STEADY: Final = ((math.inf, 1.0),)
#: Seconds at the begin that do not count.
WARM: Final = 60.0
#: Seconds to the first token after which a reader is unhappy.
LATE: Final = 2.0
#: Microseconds of the fronts per request and per token (bench/replicas.md).
PER_REQUEST, PER_TOKEN = 3445.0, 25.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Results as clients and operators see them.

    Attributes:
        requests: how many have ended.
        median, slowest: seconds to the first token, the 50th and the 99th percentile.
        late: share of requests whose first token took more than `LATE`.
        queued: share that waited for a place in a replica.
        cached: share of prompt tokens that a cache had.
        pace: median output tokens per second of one answer.
        tokens: output tokens per second.
        hours: replica-hours.
    """

    requests: int
    median: float
    slowest: float
    late: float
    queued: float
    cached: float
    pace: float
    tokens: float
    hours: float

    @classmethod
    def of(cls, cluster: Cluster, seconds: float) -> Figures:
        """Sum up a simulation that has run for ``seconds``; requests without an answer are late."""
        counted: list[Request] = [each for each in cluster.requests if each.arrived >= WARM]
        waits = sorted(each.first - each.arrived for each in counted)
        count = len(waits)
        return cls(
            count,
            waits[count // 2],
            waits[int(count * 0.99)],
            sum(wait > LATE for wait in waits) / count,
            sum(each.started > each.arrived for each in counted) / count,
            sum(each.cached for each in counted) / sum(each.prompt for each in counted),
            median(each.output / (each.ended - each.first) for each in counted),
            sum(each.output for each in counted) / (seconds - WARM),
            cluster.fleet.replica_seconds / 3600,
        )


def simulate(
    replicas: int,
    choose: Chosen,
    phases: Sequence[tuple[float, float]],
    seconds: float,
    *,
    rate: float = RATE,
    traffic_for: int | None = None,
    fronts: int = 1,
    look: float = 0.0,
    is_table_shared: bool = True,
    scaling: Scaling | None = None,
) -> Figures:
    """Simulate one cluster.

    Args:
        phases: of the traffic (`Traffic.phases`).
        rate: new conversations per second and replica, of ``traffic_for`` replicas (default: all).
        fronts: which share the requests at random.
        look: seconds between two looks of a front at the loads; 0: it always knows them.
        is_table_shared: fronts know the replicas that other fronts sent a conversation to.
    """
    env = simpy.Environment()
    fleet = Fleet(env, ENGINE, replicas)
    homes: dict[int, int] | None = {} if is_table_shared else None
    made = [Front(fleet, choose, SEED + number, homes) for number in range(fronts)]
    if look:
        for front in made:
            env.process(front.look_every(env, look))
    if scaling is not None:
        env.process(scale(env, fleet, scaling))
    traffic = Traffic(rate * (traffic_for or replicas), phases)
    cluster = Cluster(env, fleet, made, traffic, SEED)
    cluster.run(seconds)
    return Figures.of(cluster, seconds)


Call = Callable[[], Figures]
#: Runs simulations, and returns their figures in the same order.
RunAll = Callable[[Sequence[Call]], Iterator[Figures]]


def one_by_one(calls: Sequence[Call]) -> Iterator[Figures]:
    """Run simulations in this process."""
    return (call() for call in calls)


def _called(call: Call) -> Figures:
    return call()


# Tables -------------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, and an empty one."""
    yield from (*head(*columns), *(row(*cells) for cells in rows), "")


def _times(figures: Figures) -> list[str]:
    return [
        f"{figures.median * 1e3:,.0f}",
        f"{figures.slowest * 1e3:,.0f}",
        f"{figures.late:.1%}",
    ]


_TIMES: Final = ["TTFT p50, ms", "p99", f"over {LATE:.0f} s"]


def routing(sizes: Sequence[int], seconds: float, run_all: RunAll) -> Iterator[str]:
    """Yield the table of routing policies."""
    heads, calls = [], []
    for size in sizes:
        # Large clusters have as many requests in less time. Each of these ends with a burst.
        duration = seconds if size < 100 else max(300.0, seconds * 100 / size / 1.5)
        for traffic, phases in (("steady", STEADY), ("bursts", BURSTS)):
            for name, choose in ROUTES.items():
                heads.append([f"{size:,}", traffic, name])
                calls.append(partial(simulate, size, choose, phases, duration))
    rows = [
        [
            *(*shown, f"{each.requests:,}", *_times(each)),
            *(f"{each.queued:.1%}", f"{each.cached:.2f}", f"{each.tokens:,.0f}"),
        ]
        for shown, each in zip(heads, run_all(calls), strict=True)
    ]
    yield "## Routing"
    yield ""
    yield (
        "The same conversations in the rows of one size and traffic. Bursts: a minute of three "
        "times the mean load in every five, half of it in between."
    )
    yield ""
    columns = [
        "replicas",
        "traffic",
        "routing",
        "requests",
        *_TIMES,
        "queued",
        "cached",
        "tokens/s",
    ]
    yield from table(columns, rows)


def capacity(size: int, seconds: float, run_all: RunAll) -> Iterator[str]:
    """Yield the table of how much traffic replicas take, by routing."""
    rates = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
    names = ("random", "least loaded", "prefix")
    found = run_all(
        [
            partial(simulate, size, ROUTES[name], STEADY, seconds, rate=rate)
            for rate in rates
            for name in names
        ]
    )
    rows = []
    for rate in rates:
        cells = [f"{rate:.2f}"]
        for each in islice(found, len(names)):
            cells += [f"{each.median * 1e3:,.0f}, {each.slowest * 1e3:,.0f}", f"{each.pace:.0f}"]
        rows.append(cells)
    yield f"## How much a replica takes: {size} replicas, steady"
    yield ""
    yield (
        "TTFT in ms, p50 and p99, and the pace of answers: median tokens per second of one. Five "
        "requests in the mean make a conversation."
    )
    yield ""
    columns = ["new conversations/s and replica"]
    for name in names:
        columns += [f"{name}: TTFT", "pace"]
    yield from table(columns, rows)


def knowledge(size: int, seconds: float, run_all: RunAll) -> Iterator[str]:
    """Yield the table of what fronts know."""
    kinds = (
        (1, 0.0, True),
        (8, 1.0, True),
        (8, 5.0, True),
        (8, 15.0, True),
        (8, 1.0, False),
        (32, 1.0, False),
    )
    found = run_all(
        [
            partial(
                simulate,
                size,
                choose,
                STEADY,
                seconds,
                fronts=fronts,
                look=look,
                is_table_shared=is_shared,
            )
            for fronts, look, is_shared in kinds
            for choose in (least_loaded, by_prefix)
        ]
    )
    rows = []
    for fronts, look, is_shared in kinds:
        cells = [str(fronts), f"{look:.0f} s" if look else "always", "yes" if is_shared else "no"]
        pair = list(islice(found, 2))
        for each in pair:
            cells += [f"{each.median * 1e3:,.0f}", f"{each.slowest * 1e3:,.0f}"]
        rows.append([*cells, f"{pair[1].cached:.2f}"])
    yield f"## What fronts know: {size} replicas, steady"
    yield ""
    yield (
        "A front knows its own requests at once, those of the others when it looks. Without a "
        "shared table it knows only the conversations that it sent itself, and turns come to any "
        "front."
    )
    yield ""
    columns = ["fronts", "looks every", "shared table", "least loaded: TTFT p50, ms", "p99"]
    yield from table([*columns, "prefix: TTFT p50, ms", "p99", "cached"], rows)


def slack(size: int, seconds: float, run_all: RunAll) -> Iterator[str]:
    """Yield the table of how much busier a conversation's replica may be."""
    values = (0, 2, 4, 8, 16, 32)
    found = run_all(
        [
            partial(
                simulate,
                size,
                partial(by_prefix, slack=more),
                BURSTS,
                seconds,
                rate=BUSY_RATE,
            )
            for more in values
        ]
    )
    rows = [
        [str(more), *_times(each), f"{each.cached:.2f}"]
        for more, each in zip(values, found, strict=True)
    ]
    yield f"## How much busier the replica of a conversation may be: {size} replicas, bursts"
    yield ""
    yield from table(["more requests than the least loaded", *_TIMES, "cached"], rows)


def scaling(size: int, seconds: float, run_all: RunAll) -> Iterator[str]:
    """Yield the table of autoscaling."""
    rows: list[list[str]] = []
    kinds: list[tuple[str, Scaling | None, int]] = [
        ("fixed, for the mean", None, size),
        ("fixed, for the bursts", None, size * 3),
    ]
    for start in (8.0, 60.0, 180.0):
        for requests in (4.0, 8.0, 16.0):
            aim = Scaling(requests=requests, start=start, most=size * 6)
            kinds.append((f"{requests:.0f} requests", aim, size))
        kinds.append(("processor 70 %", Scaling(start=start, most=size * 6), size))
    found = run_all(
        [
            partial(
                simulate,
                count,
                by_prefix,
                BURSTS,
                seconds,
                rate=BUSY_RATE,
                traffic_for=size,
                scaling=rule,
            )
            for _, rule, count in kinds
        ]
    )
    for (name, rule, _), each in zip(kinds, found, strict=True):
        delay = "" if rule is None else f"{rule.start:.0f} s"
        mean = each.hours / (seconds / 3600)
        rows.append([name, delay, *_times(each), f"{each.cached:.2f}", f"{mean:.1f}"])
    yield f"## Autoscaling: bursts, from {size} replicas"
    yield ""
    yield (
        "The autoscaler of Kubernetes with the chart's behaviour: a look every 15 seconds at the "
        "load of the look before, at most twice as many at once, down one per minute after 5 calm "
        "minutes. Routing by prefix. A new replica needs the time of the second column to answer: "
        "a small model, one of some GB from a disk, and one that is downloaded. "
        f"{BUSY_RATE} new conversations per second and replica in the mean."
    )
    yield ""
    yield from table(["aims at", "start", *_TIMES, "cached", "replicas, mean"], rows)


def fronts_of(sizes: Sequence[int]) -> Iterator[str]:
    """Yield the table of the processors that fronts need: a product, not a simulation."""
    rows = []
    for size in sizes:
        for name, peak in (("450 tokens/s", 450.0), ("5,000 tokens/s", 5000.0)):
            # At two thirds of the peak.
            tokens = size * peak * 2 / 3
            requests = tokens / Traffic(1.0).output
            cores = (tokens * PER_TOKEN + requests * PER_REQUEST) / 1e6
            rows.append([f"{size:,}", name, f"{requests:,.0f}", f"{tokens:,.0f}", f"{cores:.1f}"])
    yield "## Processors of the fronts"
    yield ""
    yield (
        f"At two thirds of the peak, by {PER_REQUEST:,.0f} us per request and {PER_TOKEN:.1f} us "
        "per token (bench/replicas.md). A front is one process: more than one core in this table "
        "means several fronts."
    )
    yield ""
    columns = ["replicas", "each makes", "requests/s", "tokens/s", "cores of fronts"]
    yield from table(columns, rows)


def report(*, is_short: bool = False, run_all: RunAll = one_by_one) -> str:
    """Return all tables; short ones are smaller clusters for less time."""
    sizes = (10,) if is_short else (10, 100, 1000)
    seconds = 300.0 if is_short else 900.0
    size = 4 if is_short else 20
    began = time.perf_counter()
    lines = [
        "# Clusters, simulated",
        "",
        f"`python -m bench.cluster_simulation{' --short' if is_short else ''}`; simpy "
        f"{simpy.__version__}, seed {SEED}: the figures are the same on every machine.",
        "",
        *(__doc__ or "").split("\n\n", 2)[2].strip().splitlines(),
        "",
        *routing(sizes, seconds, run_all),
        *capacity(size, seconds / 1.5, run_all),
        *knowledge(size * 5, seconds / 3, run_all),
        *slack(size, seconds, run_all),
        *scaling(size, seconds, run_all),
        *fronts_of((10, 100, 1000)),
    ]
    print(f"{time.perf_counter() - began:.0f} s")
    return "\n".join(lines)


def main() -> None:
    """Simulate, and print or write the tables."""
    parser = report_parser(__doc__)
    parser.add_argument("--short", action="store_true", help="small clusters: for tests")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    words = parser.parse_args()
    with ProcessPoolExecutor(words.processes) as pool:
        text = report(is_short=words.short, run_all=partial(pool.map, _called))
    publish(text, words.write)


if __name__ == "__main__":
    main()
