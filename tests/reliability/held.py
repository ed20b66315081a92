"""What a server holds, as it tells itself and as the system does."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.process.processes import cpu_seconds
from tests.process.server_process import ServerProcess

_SAID: Final = re.compile(r"state of the process: (\{.*\})")
#: What has gone on for so long without a change goes on.
_STEADY_SECONDS: Final = 40.0
#: Gauges of the server that should be back where they were.
_GAUGES: Final = re.compile(
    r"^(\w*(?:cache|running|waiting|in_flight|current_)\w*(?:\{.*\})?) (\S+)$"
)


@dataclass(frozen=True)
class Held:
    """At one moment. Memory in MiB; ``children``: of each child, by the module that it runs."""

    memory: float
    descriptors: int
    threads: int
    tasks: int
    children: dict[str, float]
    objects: dict[str, int]
    gauges: dict[str, float] = field(default_factory=dict)


def look(server: ServerProcess) -> Held:
    """Ask it by SIGUSR1, and read its metrics where it has them."""
    # First: series of what is served no more are dropped when somebody reads them.
    gauges = _gauges(server)
    since = len(server.log)
    server.send_signal(signal.SIGUSR1)
    state = json.loads(server.wait_for_log(_SAID.pattern, since=since)[1])
    return Held(
        memory=state["memory_mib"],
        descriptors=state["descriptors"],
        threads=sum(state["threads"].values()),
        tasks=sum(state["tasks"].values()),
        children=memory_of_children(server),
        objects=state["objects"],
        gauges=gauges,
    )


def look_when_quiet(server: ServerProcess, before: Held | None, seconds: float) -> Held:
    """As `look`, once nothing is left of the clients, or nothing has changed for some time, or
    after so many seconds anyway."""
    deadline = time.monotonic() + seconds
    changed_at, last = time.monotonic(), (0, 0)
    while True:
        held = look(server)
        is_quiet = before is None or (
            held.descriptors <= before.descriptors and held.tasks <= before.tasks
        )
        now, counts = time.monotonic(), (held.descriptors, held.tasks)
        if counts != last:
            changed_at, last = now, counts
        if is_quiet or now > min(deadline, changed_at + _STEADY_SECONDS):
            return held
        time.sleep(1.0)


def idle_cpu(server: ServerProcess, seconds: float) -> float:
    """What server and children use of a core when nobody asks anything, 0..."""
    pids = [server.pid, *server.children()]
    used = sum(map(cpu_seconds, pids))
    time.sleep(seconds)
    return (sum(map(cpu_seconds, pids)) - used) / seconds


def leaks(before: Held, after: Held) -> list[str]:
    """What there is more of than before, in words; but memory, see `tests.reliability.growth`."""
    found: list[str] = []

    def check(name: str, then: float, now: float, most: Callable[[float], float]) -> None:
        if now > most(then):
            found.append(f"{name}: {then:g} before, {now:g} after")

    check("descriptors", before.descriptors, after.descriptors, lambda count: count + 2)
    check("threads", before.threads, after.threads, lambda count: count + 2)
    check("tasks", before.tasks, after.tasks, lambda count: count)
    check("children", len(before.children), len(after.children), lambda count: count)
    for name, count in after.objects.items():
        check(name, before.objects.get(name, 0), count, lambda count: 1.1 * count + 50)
    for name, value in after.gauges.items():
        if "usage" in name or "running" in name or "waiting" in name or "in_flight" in name:
            check(name, before.gauges.get(name, 0.0), value, lambda size: size + 1e-6)
    return found


def grown(before: Held, after: Held, most: float) -> list[str]:
    """Which processes have grown by more than ``most`` MiB, in words."""
    pairs = {"the server": (before.memory, after.memory)}
    pairs |= {
        name: (before.children[name], size)
        for name, size in after.children.items()
        if name in before.children
    }
    return [
        f"memory of {name}: {then:g} MiB, then {now:g} MiB"
        for name, (then, now) in pairs.items()
        if now > then + most
    ]


def growth(before: Held, after: Held) -> str:
    """The classes with more objects than before, the largest first; "" when there are none."""
    more = {
        name: count - before.objects.get(name, 0)
        for name, count in after.objects.items()
        if count > before.objects.get(name, 0)
    }
    ordered = sorted(more.items(), key=lambda item: -item[1])[:10]
    return ", ".join(f"{name} +{count}" for name, count in ordered)


def table(moments: dict[str, Held]) -> str:
    """A column per moment."""
    rows: dict[str, list[str]] = {}
    for place, held in enumerate(moments.values()):
        facts: dict[str, Any] = {
            "memory of the server, MiB": held.memory,
            "descriptors": held.descriptors,
            "threads": held.threads,
            "tasks": held.tasks,
            "children": len(held.children),
            **{f"memory of {name}, MiB": size for name, size in held.children.items()},
            "graphs in flight": held.objects.get("graph_runtime.graph.CalculatorGraph", 0),
            "counted objects": sum(held.objects.values()),
            **held.gauges,
        }
        for name, fact in facts.items():
            rows.setdefault(name, [""] * len(moments))[place] = f"{fact:g}"
    lines = [("", list(moments)), *rows.items()]
    width = max(len(name) for name, _ in lines)
    return "\n".join(
        f"{name:{width}} {' '.join(f'{cell:>14}' for cell in row)}" for name, row in lines
    )


def memory_of_children(server: ServerProcess) -> dict[str, float]:
    """MiB by what each child is; where several are the same, by their number, too."""
    found: dict[str, float] = {}
    for pid, module in sorted(server.children().items()):
        part = module.removeprefix("calculators.").removesuffix(".process") or "other"
        same = sum(name.partition(" ")[0] == part for name in found)
        with contextlib.suppress(OSError):
            found[f"{part} {same + 1}" if same else part] = memory_of(pid)
    return found


def memory_of(pid: int) -> float:
    """MiB."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return round(int(file.read().split()[1]) * 4096 / 1024 / 1024, 1)


def _gauges(server: ServerProcess) -> dict[str, float]:
    reply = server.client.get("/metrics")
    if reply.status != 200:
        return {}
    matches = map(_GAUGES.match, reply.body.decode().splitlines())
    return {match[1]: float(match[2]) for match in matches if match and "_bucket" not in match[1]}
