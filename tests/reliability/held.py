"""Objects, tasks and memory that a server holds, from its own report and from the system."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from calculators.kit.child_process.fair_turns import REMEMBERED as CLIENTS
from calculators.llm.grammar_process import client as grammars
from tests.process.server_process import ServerProcess
from tests.support.memory import resident_bytes
from tests.support.processes import cpu_seconds

_SAID: Final = re.compile(r"state of the process: (\{.*\})")
#: Seconds after which a state without change is taken to be stable.
_STEADY_SECONDS: Final = 40.0
#: Entries of caches for each language model, by class. Costs of clients are remembered by the two
#: queues for prompts, the two for grammars, and that of large bodies.
_KEPT: Final = {
    "calculators.kit.requests.client_identity.ClientIdentity": 5 * CLIENTS,
    "calculators.llm.grammar_process.messages.GrammarAccepted": grammars.REMEMBERED,
}
#: Processes that start when they are needed, a bounded number for each model.
_PASSING: Final = ("llm.grammar_process", "llm.prompt.long_process")
#: The folder of a model, from the line of a process's map of memory.
_MODEL: Final = re.compile(r"/([^/]+)/openvino_\w+\.bin$", re.M)
#: Gauges of the server that should return to their earlier values.
_GAUGES: Final = re.compile(
    r"^(\w*(?:cache|running|waiting|in_flight|current_)\w*(?:\{.*\})?) (\S+)$"
)


@dataclass(frozen=True)
class Held:
    """State at one moment. Memory in MiB; ``children``: by the module that each runs."""

    memory: float
    descriptors: int
    threads: int
    tasks: int
    children: dict[str, float]
    objects: dict[str, int]
    gauges: dict[str, float] = field(default_factory=dict)


def look(server: ServerProcess) -> Held:
    """Request the server's report by SIGUSR1, and read its metrics where it has them."""
    # First, because reading drops series of names that are no longer served.
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
    """Look, like `look`, once no trace of the clients is left or the state is stable.

    At the latest after ``seconds``.
    """
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
    """Return the share of a core that server and children use without requests, 0..."""
    pids = [server.pid, *server.children()]
    used = sum(map(cpu_seconds, pids))
    time.sleep(seconds)
    return (sum(map(cpu_seconds, pids)) - used) / seconds


def leaks(before: Held, after: Held, *, models: int = 1) -> list[str]:
    """Return what has become more, in words; for memory see `tests.reliability.growth`.

    ``models``: the number of language models, for the entries of caches.
    """
    found: list[str] = []

    def check(name: str, then: float, now: float, most: Callable[[float], float]) -> None:
        if now > most(then):
            found.append(f"{name}: {then:g} before, {now:g} after")

    check("descriptors", before.descriptors, after.descriptors, lambda count: count + 2)
    check("threads", before.threads, after.threads, lambda count: count + 2)
    check("tasks", before.tasks, after.tasks, lambda count: count)
    check("children", _lasting(before), _lasting(after), lambda count: count)
    for name, count in after.objects.items():
        if count > models * _KEPT.get(name, 0):
            check(name, before.objects.get(name, 0), count, lambda count: 1.1 * count + 50)
    for name, value in after.gauges.items():
        if "usage" in name or "running" in name or "waiting" in name or "in_flight" in name:
            check(name, before.gauges.get(name, 0.0), value, lambda size: size + 1e-6)
    return found


def _lasting(held: Held) -> int:
    """The number of children that do not end when they are idle for a minute or two."""
    return sum(not name.startswith(_PASSING) for name in held.children)


def grown(before: Held, after: Held, most: float) -> list[str]:
    """Return which processes have grown by more than ``most`` MiB, in words."""
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
    """Return the classes with more objects than before, the largest first; "" if there are none."""
    more = {
        name: count - before.objects.get(name, 0)
        for name, count in after.objects.items()
        if count > before.objects.get(name, 0)
    }
    ordered = sorted(more.items(), key=lambda item: -item[1])[:10]
    return ", ".join(f"{name} +{count}" for name, count in ordered)


def table(moments: dict[str, Held]) -> str:
    """Return a table with a column per moment."""
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


def memory_of_children(server: ServerProcess, *, by_id: bool = False) -> dict[str, float]:
    """Return MiB by kind of child with its model.

    Where several are alike, or ``by_id`` is true, a number is added: a count, or the process's id.
    """
    found: dict[str, float] = {}
    for pid, module in sorted(server.children().items()):
        part = module.removeprefix("calculators.").removesuffix(".process") or "other"
        with contextlib.suppress(OSError):
            mapped = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
            models = sorted(set(_MODEL.findall(mapped)))
            part = " of ".join((part, *models[:1]))
            same = sum(name.startswith(part) for name in found)
            number = f" ({pid})" if by_id else f" {same + 1}" if same else ""
            found[part + number] = memory_of(pid)
    return found


def memory_of(pid: int) -> float:
    """Return the memory of a process in MiB."""
    return round(resident_bytes(pid) / 2**20, 1)


def _gauges(server: ServerProcess) -> dict[str, float]:
    reply = server.client.get("/metrics")
    if reply.status != 200:
        return {}
    matches = map(_GAUGES.match, reply.body.decode().splitlines())
    return {match[1]: float(match[2]) for match in matches if match and "_bucket" not in match[1]}
