"""Rewriting of the config under load: no request may fail.

    python -m tests.reliability.rewriting [--times 100] [--clients 20]

Each time the config or a graph that it names is rewritten and a reload requested: graphs come
and go, a tensor graph changes every time, the language model's graph (and so its engine) every
tenth time, and every seventh config is broken, so that the one before goes on. Clients stream and
infer all the time from graphs that stay. The exit code is 1 if a request failed, a reload had the
wrong answer, or something leaked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.machine import describe_machine
from tests.process.server_process import DEMO, ServerProcess
from tests.reliability.asked import any_request
from tests.reliability.held import grown, growth, leaks, look_when_quiet, table
from tests.reliability.http_exchange import Broken, Leaving, exchange
from tests.support.checkout import ROOT

_EXAMPLES: Final = ROOT / "examples" / "graphs"
_SECONDS: Final = 60.0
#: MiB: several engines in a row, each with a cache of its own in the child's memory.
_MOST_GROWTH: Final = 64.0


class Site:
    """A config with its graphs, in a folder, that is rewritten."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config.json"
        self._folder = folder
        for name in ("flowers", "python_handler", "python_chat"):
            shutil.copytree(_EXAMPLES / name, folder / name)
        shutil.copytree(DEMO, folder / "demo")
        shutil.copytree(DEMO.parent / "shapes_vlm", folder / "shapes_vlm")
        self.write(0)

    def write(self, number: int) -> bool:
        """Write the state after ``number`` changes; return True if it is valid."""
        self._change("flowers", number)
        if number % 10 == 0:
            self._change("demo", number)
        names = ("demo", "shapes_vlm", "python_chat")
        graphs: list[dict[str, Any]] = [{"name": name} for name in names]
        graphs += [{"name": "flowers", "subconfig": "subconfig.json"}, {"name": "python_handler"}]
        if number % 2:
            graphs.append({"name": f"spare{number}", "base_path": "python_chat"})
        text = json.dumps({"mediapipe_config_list": graphs})
        is_broken = number % 7 == 6
        _replace(self.config, text[: len(text) // 2] if is_broken else text)
        return not is_broken

    def _change(self, name: str, number: int) -> None:
        path = self._folder / name / "graph.pbtxt"
        text = path.read_text("utf-8").partition("# change ")[0].rstrip("\n")
        _replace(path, f"{text}\n# change {number}\n")


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, "utf-8")
    os.replace(new, path)


class Clients:
    """Clients of graphs that stay; they read every answer to its end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ends: Counter[str] = Counter()
        self.problems: list[str] = []

    async def run(self, count: int, is_over: Callable[[], bool]) -> None:
        await asyncio.gather(*(self._client(Random(number), is_over) for number in range(count)))

    async def _client(self, random: Random, is_over: Callable[[], bool]) -> None:
        while not is_over():
            asked = any_request(random)
            try:
                status = await exchange(self._port, asked, Leaving.WHOLE, random)
                if status != "200":
                    self.problems.append(f"{asked.kind}: {status}")
            except (Broken, OSError) as error:
                status = "broken"
                self.problems.append(f"{asked.kind}: {error}")
            self.ends[f"{asked.kind}: {status}"] += 1
            await asyncio.sleep(random.expovariate(2.0))


async def _rewrite(server: ServerProcess, site: Site, times: int, clients: Clients) -> list[float]:
    """Rewrite and reload; return each reload's seconds, and add errors to ``clients``."""
    seconds: list[float] = []
    for number in range(1, times + 1):
        is_usable = site.write(number)
        begin = time.monotonic()
        reply = await asyncio.to_thread(server.client.ask, "POST", "/v1/config/reload", {})
        seconds.append(time.monotonic() - begin)
        if (reply.status < 300) != is_usable:
            clients.problems.append(f"change {number}: {reply.status} {reply.body[:300]!r}")
        await asyncio.sleep(0.1)
    return seconds


async def _run(
    server: ServerProcess, site: Site, times: int, count: int
) -> tuple[Clients, list[float]]:
    clients = Clients(server.port)
    rewriting = asyncio.ensure_future(_rewrite(server, site, times, clients))
    await clients.run(count, rewriting.done)
    return clients, await rewriting


def rewriting(times: int, count: int) -> bool:
    """Run; print the results and return True if all went well."""
    with tempfile.TemporaryDirectory() as place:
        site = Site(Path(place))
        with ServerProcess(site.config, "--file_system_poll_wait_seconds", "0") as server:
            asyncio.run(_run(server, site, 10, count))  # allocated once
            before = look_when_quiet(server, None, _SECONDS)
            clients, seconds = asyncio.run(_run(server, site, times, count))
            after = look_when_quiet(server, before, _SECONDS)
            log = list(server.log)
            server.send_signal()
            if server.wait() != 0:
                clients.problems.append("the exit code is not 0")
    if any("Traceback" in line for line in log):
        clients.problems.append("a traceback in the log")
    problems = clients.problems + leaks(before, after) + grown(before, after, _MOST_GROWTH)
    ordered = sorted(seconds)
    print(describe_machine())
    print(f"{times} changes, {count} clients")
    print(f"a reload: median {ordered[len(ordered) // 2]:.2f} s, longest {ordered[-1]:.2f} s")
    for end, number in sorted(clients.ends.items()):
        print(f"{number:8} {end}")
    print(table({"before": before, "after": after}))
    print("more objects:", growth(before, after) or "none")
    print(f"\n{len(problems)} problems", *problems[:20], sep="\n  ")
    return not problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--clients", type=int, default=20)
    given = parser.parse_args()
    return 0 if rewriting(given.times, given.clients) else 1


if __name__ == "__main__":
    sys.exit(main())
