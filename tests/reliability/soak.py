"""Soak: clients that come, stream, cancel and vanish at random must leave nothing behind.

    python -m tests.reliability.soak [--clients 200] [--seconds 300] [--seed 0]

Serves a language model, one that sees, a tensor graph, Python handlers and a stream, and asks them
over HTTP and gRPC: chats, streams, answers of a form, tools, pictures, tensors; every twenty
seconds the config is changed and loaded again. The state of the server is printed before, every
minute, and after. The exit code is 1 if an answer was wrong, something is left, or a process grows
from the third minute on: by more than 1 MiB a minute (the median of the slopes between all pairs of
samples, one every two seconds) and by more than 2 MiB in all. A run of less than five minutes is
judged from three fifths on.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from bench.machine import describe_machine
from tests.process.http_client import HttpClient
from tests.process.server_process import ServerProcess
from tests.reliability import growth as growing_memory
from tests.reliability import grpc_exchange, http_exchange
from tests.reliability.asked import any_request
from tests.reliability.held import (
    Held,
    growth,
    idle_cpu,
    leaks,
    look,
    look_when_quiet,
    table,
)
from tests.reliability.http_exchange import Broken, Leaving
from tests.reliability.site import LANGUAGE_MODELS, make_site, with_one_more

_LEAVINGS: Final = {
    Leaving.WHOLE: 50,
    Leaving.CLOSES: 20,
    Leaving.VANISHES: 15,
    Leaving.HALF: 10,
    Leaving.SILENT: 5,
}
_GRPC_SHARE: Final = 0.3
#: Seconds within which requests in flight end after their clients have gone.
_QUIET_SECONDS: Final = 100.0
_MOST_PROBLEMS: Final = 20
_RELOAD_PERIOD: Final = 20.0
#: By then allocators and caches are filled; a leak continues to grow.
_GROWN_SECONDS: Final = 180.0


class Soak:
    """Clients of one server, and the outcome of their requests."""

    def __init__(
        self, server: ServerProcess, config: Path, grpc: str, seed: int, pause: float
    ) -> None:
        self._server = server
        self._config = config
        self._grpc = grpc
        self._seed = seed
        self._pause = pause
        self.ends: Counter[str] = Counter()
        self.problems: list[str] = []

    async def run(self, clients: int, seconds: float, name: str) -> dict[str, Held]:
        """Run the clients; return the server's state by minute."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(end))
            group.create_task(self._reload(end))
            for number in range(clients):
                group.create_task(self._client(Random(f"{self._seed} {name} {number}"), end))
        return watching.result()

    async def _client(self, random: Random, end: float) -> None:
        await asyncio.sleep(random.uniform(0.0, self._pause))
        while time.monotonic() < end:
            leaving = random.choices(list(_LEAVINGS), list(_LEAVINGS.values()))[0]
            try:
                self.ends[await self._ask(leaving, random)] += 1
            except (Broken, OSError) as error:
                self.ends["wrong"] += 1
                self.problems.append(str(error))
            await asyncio.sleep(random.expovariate(1.0 / self._pause))

    async def _ask(self, leaving: Leaving, random: Random) -> str:
        if random.random() < _GRPC_SHARE:
            return f"gRPC: {await grpc_exchange.exchange(self._grpc, leaving, random)}"
        asked = any_request(random)
        port = self._server.port
        return f"HTTP: {await http_exchange.exchange(port, asked, leaving, random)}"

    async def _reload(self, end: float) -> None:
        """Add and remove one graph again and again; at the end it is removed."""
        own = self._config.read_text("utf-8")
        more = with_one_more(self._config)
        is_own = True
        while time.monotonic() < end or not is_own:
            await asyncio.sleep(min(_RELOAD_PERIOD, max(0.0, end - time.monotonic())))
            self._config.write_text(more if is_own else own, "utf-8")
            is_own = not is_own
            client = HttpClient(self._server.port)
            reply = await asyncio.to_thread(client.ask, "POST", "/v1/config/reload")
            self.ends[f"reload: {reply.status}"] += 1
            if reply.status not in (200, 201):
                self.problems.append(f"reload: {reply.status} {reply.body[:300]!r}")

    async def _watch(self, end: float) -> dict[str, Held]:
        moments: dict[str, Held] = {}
        minute = 0
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(60.0, left))
            minute += 1
            if time.monotonic() < end:
                held = await asyncio.to_thread(look, self._server)
                moments[f"{minute} min"] = held
                children = ", ".join(f"{size:g}" for size in held.children.values())
                print(f"{minute} min: {held.memory:g} MiB (children {children}), "
                      f"{held.descriptors} descriptors, {sum(self.ends.values())} requests",
                      flush=True)  # fmt: skip
        return moments


def soak(clients: int, seconds: float, seed: int, pause: float, most_slope: float) -> bool:
    """Run; print the results and return True if all went well."""
    with tempfile.TemporaryDirectory() as place:
        config = make_site(Path(place))
        with ServerProcess(config, "--port", "auto") as server:
            grpc = server.wait_for_log(r"serves grpc://(\S+)")[1]
            clientele = Soak(server, config, grpc, seed, pause)
            moments = {"loaded": look(server)}
            # One-time costs of requests: tables, threads, the allocator's pools.
            asyncio.run(clientele.run(clients, max(10.0, seconds / 10), "warm-up"))
            moments["warm"] = before = look_when_quiet(server, moments["loaded"], _QUIET_SECONDS)
            clientele.ends.clear()
            with growing_memory.MemoryLines(server) as memory:
                minutes = asyncio.run(clientele.run(clients, seconds, "soak"))
            moments |= {name: minutes[name] for name in list(minutes)[:: max(1, len(minutes) // 3)]}
            moments["after"] = after = look_when_quiet(server, before, _QUIET_SECONDS)
            cpu = idle_cpu(server, 3.0)
            is_ready = server.is_ready()
            server.send_signal()
            code = server.wait()
            log = "".join(server.log)
    print(f"\n{describe_machine()}")
    print(f"{clients} clients for {seconds:g} s, seed {seed}")
    print(table(moments))
    print("more objects:", growth(before, after) or "none")
    print(f"of a core when idle afterwards: {cpu:.3f}")
    for end, count in sorted(clientele.ends.items()):
        print(f"{count:8} {end}")
    since = min(_GROWN_SECONDS, 0.6 * seconds)
    print(growing_memory.table(memory.lines, since))
    problems = clientele.problems + leaks(before, after, models=LANGUAGE_MODELS)
    problems += growing_memory.growing(memory.lines, since, most_slope)
    if not is_ready or code != 0 or "Traceback" in log:
        problems.append(f"ready: {is_ready}, exit code {code}, or a traceback in its log")
        problems.append(
            "\n".join(line for line in server.log if "state of the" not in line)[-3000:]
        )
    if cpu > 0.2:
        problems.append(f"something still runs: {cpu:.2f} of a core")
    print(f"\n{len(problems)} problems", *problems[:_MOST_PROBLEMS], sep="\n  ")
    return not problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between requests, mean")
    parser.add_argument(
        "--most_slope",
        type=float,
        default=growing_memory.MOST_SLOPE,
        help="of a process, in MiB a minute",
    )
    given = parser.parse_args()
    well = soak(given.clients, given.seconds, given.seed, given.pause, given.most_slope)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
