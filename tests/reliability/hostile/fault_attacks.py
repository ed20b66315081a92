"""Attacks by more than requests: on processes, files, connections and the machine's limits."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.calculators.llm.graph_texts import QUICKSTART
from tests.process.existing_graphs import make_model
from tests.process.hostile_structures import schema
from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import PROMPTS
from tests.reliability.hostile.attack import (
    SECONDS,
    Attack,
    Send,
    Target,
    act,
    chat,
    post,
    send_all,
    send_one,
    until,
)

GRAMMARS: Final = "calculators.llm.grammar_process.process"

_UNAVAILABLE: Final = frozenset({503})
_SERVED: Final = frozenset({"200", "503"})
#: Seconds for which a stopped process delays others, who may wait this much longer.
_STOPPED_SECONDS: Final = 2.0
#: Seconds that a restart of a process may add.
_START_SECONDS: Final = 5.0
#: Much longer than a reload takes.
_RELOAD_SECONDS: Final = 60.0
#: Seconds after which the server has closed every silent connection.
_MOST_SILENCE: Final = 33.0


def _schema(name: str) -> dict[str, Any]:
    return schema({"type": "object", "properties": {name: {"type": "null"}}, "required": [name]})


def _pids(target: Target, module: str) -> list[int]:
    return [pid for pid, name in target.server.children().items() if name == module]


async def _until_served(target: Target, body: dict[str, Any], answers: Counter[str]) -> None:
    """Repeat a request until it is no longer answered with 503."""
    deadline = time.monotonic() + 30.0
    while True:
        status = await send_one(target.port, chat(**body))
        answers[status] += 1
        if status != "503" or time.monotonic() > deadline:
            return
        await asyncio.sleep(0.5)


# Processes ----------------------------------------------------------------------------------------


def _stop(module: str, *bodies: dict[str, Any]) -> Send:
    """Send requests while all processes of a module are stopped, and again once they continue."""

    async def send(target: Target) -> Counter[str]:
        pids = _pids(target, module)
        answers: Counter[str] = Counter()
        if not pids:
            answers["no such process"] += 1
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            asked = asyncio.ensure_future(send_all(target.port, [chat(**body) for body in bodies]))
            await asyncio.sleep(_STOPPED_SECONDS)
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)
        answers += await asked
        for body in bodies:
            await _until_served(target, body, answers)
        return answers

    return send


def _kill_while_loading(module: str, *bodies: dict[str, Any]) -> Send:
    """Kill the processes of a module, and the next one as soon as it exists."""

    async def send(target: Target) -> Counter[str]:
        answers: Counter[str] = Counter()
        before = _pids(target, module)
        for pid in before:
            _signal(pid, signal.SIGKILL)
        asked = asyncio.ensure_future(send_all(target.port, [chat(**body) for body in bodies]))
        if await until(lambda: set(_pids(target, module)) - set(before)):
            for pid in set(_pids(target, module)) - set(before):
                _signal(pid, signal.SIGKILL)
        else:
            answers["not started again"] += 1
        answers += await asked
        for body in bodies:
            await _until_served(target, body, answers)
        return answers

    return send


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


# Files --------------------------------------------------------------------------------------------


async def reload_with(
    target: Target, graphs: list[dict[str, Any]], use: Callable[[], Awaitable[Counter[str]]]
) -> Counter[str]:
    """Serve more graphs while an action runs; return its answers and those of both reloads."""
    config = target.folder / "config.json"
    own = config.read_text("utf-8")
    content = json.loads(own)
    content["mediapipe_config_list"] += graphs
    answers: Counter[str] = Counter()
    try:
        config.write_text(json.dumps(content), "utf-8")
        answers[f"reload {await _reload(target)}"] += 1
        answers += await use()
    finally:
        config.write_text(own, "utf-8")
    answers[f"reload {await _reload(target)}"] += 1
    return answers


async def _reload(target: Target) -> str:
    return await send_one(target.port, post("/v1/config/reload", b""), seconds=_RELOAD_SECONDS)


async def _nothing() -> Counter[str]:
    return Counter()


def _template(template: str, user: Any = "Hello") -> Send:
    """Load a model with a template of its own, and send some clients to it."""

    async def send(target: Target) -> Counter[str]:
        folder = target.folder / f"templated {time.monotonic_ns()}"
        make_model(folder, QUICKSTART)
        file = folder / "chat_template.jinja"
        file.unlink(missing_ok=True)
        file.write_text(template, "utf-8")
        body = {"model": "templated", "messages": [{"role": "user", "content": user}]}
        requests = [post(CHAT, {**body, "max_tokens": 2})] * 4
        graph = {"name": "templated", "base_path": str(folder)}
        return await reload_with(target, [graph], lambda: send_all(target.port, requests))

    return send


async def _fifo(target: Target) -> Counter[str]:
    folder = target.folder / "fifo"
    folder.mkdir()
    os.mkfifo(folder / "graph.pbtxt")
    return await reload_with(target, [{"name": "fifo", "base_path": str(folder)}], _nothing)


async def _many_entries(target: Target) -> Counter[str]:
    graphs = [{"name": f"g{number}", "base_path": f"none/{number}"} for number in range(20_000)]
    return await reload_with(target, graphs, _nothing)


# Connections --------------------------------------------------------------------------------------


async def _how_long(port: int, say: bytes, every: float | None) -> str:
    """Connect and send too little; return when the server closes."""
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    ended = asyncio.ensure_future(reader.read())
    try:
        writer.write(say)
        while time.monotonic() - begin < _MOST_SILENCE and not ended.done():
            await asyncio.wait([ended], timeout=every or _MOST_SILENCE)
            if every is not None:
                writer.write(b"x")
        return "closed" if ended.done() else f"open after {_MOST_SILENCE:g} s"
    except OSError:
        return "closed"
    finally:
        ended.cancel()
        writer.close()


def _slow(
    count: int, say: bytes = b"", *, every: float | None = None, grpc: bool = False
) -> Callable[[], Send]:
    async def send(target: Target) -> Counter[str]:
        port = target.grpc_port if grpc else target.port
        ends = await asyncio.gather(*(_how_long(port, say, every) for _ in range(count)))
        return Counter(ends)

    return act(send)


async def _no_descriptors(target: Target) -> Counter[str]:
    """Open more connections than the server has descriptors, for some seconds."""
    pid = target.server.pid
    _, hard = limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 20, hard))
    writers: list[asyncio.StreamWriter] = []
    try:
        while len(writers) < 60:
            writers.append((await asyncio.open_connection("127.0.0.1", target.port))[1])
        await asyncio.sleep(2.0)
    finally:
        for writer in writers:
            writer.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    return Counter({await send_one(target.port, chat()): 1})


# The end ------------------------------------------------------------------------------------------


async def _hang_up(target: Target) -> Counter[str]:
    """Send SIGHUP while streams run; each has to come to its end."""
    body = {"model": "demo", "messages": HELLO, "stream": True, "ignore_eos": True}
    request = post(CHAT, {**body, "max_tokens": 200})
    answers: Counter[str] = Counter()

    async def stream(begun: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
        try:
            writer.write(request.head + request.body)
            received = await reader.read(1)
            begun.set()
            async with asyncio.timeout(SECONDS):
                while piece := await reader.read(65536):
                    received = (received + piece)[-100:]
            answers["whole" if b"data: [DONE]" in received else "broken off"] += 1
        except OSError:
            answers["broken off"] += 1
        finally:
            writer.close()

    begun = [asyncio.Event() for _ in range(4)]
    streams = [asyncio.ensure_future(stream(event)) for event in begun]
    await asyncio.gather(*(event.wait() for event in begun))
    target.server.send_signal(signal.SIGHUP)
    await asyncio.gather(*streams)
    return answers


_SHARED: Final = (
    "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(40) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)
_RELOADED: Final = frozenset({"reload 200", "reload 201", "reload 412"})
_CLOSED: Final = frozenset({"closed"})

FAULT_ATTACKS: Final = (
    Attack(
        "the grammar process stands still",
        act(_stop(GRAMMARS, _schema("stopped"), {"guided_regex": "a+b"})),
        _SERVED,
        most_wait=_STOPPED_SECONDS + 1.0,
        normal=_UNAVAILABLE,
    ),
    Attack(
        "the grammar process is killed while it loads",
        act(_kill_while_loading(GRAMMARS, _schema("killed"))),
        _SERVED,
        most_wait=_START_SECONDS,
        normal=_UNAVAILABLE,
    ),
    Attack(
        "the prompt process stands still",
        act(_stop(PROMPTS, {}, {"messages": [{"role": "user", "content": "Hi"}]})),
        _SERVED,
        most_wait=_STOPPED_SECONDS + 1.0,
        normal=_UNAVAILABLE,
    ),
    Attack(
        "the prompt process is killed while it loads",
        act(_kill_while_loading(PROMPTS, {})),
        _SERVED,
        most_wait=_START_SECONDS,
        normal=_UNAVAILABLE,
    ),
    Attack(
        "a template compares deeply shared lists",
        act(_template(_SHARED + "{{ ns.x == ns.y }}")),
        _RELOADED | {"400"},
    ),
    Attack(
        "a template searches deeply shared lists",
        act(_template(_SHARED + "{{ ns.x in [ns.y] }}{{ [ns.y].index(ns.x) }}")),
        _RELOADED | {"400"},
    ),
    Attack(
        "a template of 2.7 MB",
        act(_template("{% if a %}{{ b }}{% endif %}" * 100_000)),
        # Completions need no template, so the graph is loaded; a chat is refused for lack of one.
        _RELOADED | {"500"},
    ),
    Attack(
        "200 MB from a template",
        act(_template("{% for i in range(100000) %}{{ 'a' * 2000 }}{% endfor %}")),
        _RELOADED | {"400"},
    ),
    Attack("20,000 entries in the config", act(_many_entries), _RELOADED),
    Attack(
        "no descriptors left",
        act(_no_descriptors),
        frozenset({"200"}),
        most_wait=_STOPPED_SECONDS + 1.0,
        normal=frozenset({0, 503}),
    ),
    Attack("100 gRPC connections that say nothing", _slow(100, grpc=True), _CLOSED),
    Attack("100 HTTP connections that say nothing", _slow(100), _CLOSED),
    Attack("100 heads, a byte a second", _slow(100, b"GET / HTTP/1.1\r\nX: ", every=1.0), _CLOSED),
    Attack(
        "SIGHUP beside streams, then SIGTERM",
        act(_hang_up),
        frozenset({"whole"}),
        ends_server=True,
    ),
    Attack(
        "a FIFO as graph.pbtxt, then SIGTERM", act(_fifo), _RELOADED, ends_server=True
    ),
)  # fmt: skip
