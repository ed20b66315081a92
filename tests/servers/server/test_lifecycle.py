"""A server on an event loop: live at once, ready when its graphs are loaded, then stopped."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from servers.config import GraphEntry
from servers.fronts.http import HttpSettings
from servers.server.fronts import ListenError
from servers.server.lifecycle import Server, ServerSettings, until
from tests.servers.serving.served_graphs import TELL_GRAPH, Initializer, make_registry, write_graph


def settings_of(*entries: GraphEntry, initializer: Any = None, **http: Any) -> ServerSettings:
    resources = () if initializer is None else (initializer,)
    return ServerSettings(
        entries, http=HttpSettings(**{"port": 0, **http}), registry=make_registry(*resources)
    )


async def status_of(server: Server, path: str) -> int:
    """Return the status of a GET to the server's first address."""
    host, _, port = server.addresses[0].removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1])


def test_a_server_is_live_before_and_ready_after_its_graphs_are_loaded(tmp_path: Path) -> None:
    entry = write_graph(tmp_path, "tell", TELL_GRAPH)
    initializer = Initializer()

    async def run() -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        server = Server(settings_of(entry, initializer=initializer))
        assert server.addresses == ()
        await server.start()
        loading = asyncio.create_task(server.load())
        await initializer.began.wait()
        assert await status_of(server, "/v2/health/live") == 200
        assert await status_of(server, "/v2/health/ready") == 503
        initializer.gate.set()
        await loading
        assert await status_of(server, "/v2/health/ready") == 200
        await server.stop()
        assert [resource.closed for resource in initializer.made] == [1]
        with pytest.raises(ConnectionRefusedError):
            await status_of(server, "/v2/health/live")

    asyncio.run(run())


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
def test_several_addresses_share_a_port() -> None:
    async def run() -> None:
        server = Server(settings_of(hosts=("127.0.0.1", "::1")))
        await server.start()
        first, second = server.addresses
        assert first.startswith("http://127.0.0.1:")
        assert second == f"http://[::1]:{first.rpartition(':')[2]}"
        await server.stop()

    asyncio.run(run())


def test_an_address_that_cannot_be_bound_is_an_error() -> None:
    async def run(host: str, port: int) -> None:
        await Server(settings_of(hosts=(host,), port=port)).start()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port}: address already in use"):
            asyncio.run(run("127.0.0.1", port))
    # An address reserved for documentation, which no machine has.
    with pytest.raises(ListenError, match=r"203\.0\.113\.1:0: cannot assign requested address"):
        asyncio.run(run("203.0.113.1", 0))


def test_a_server_that_never_listened_can_be_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        await Server(settings_of(write_graph(tmp_path, "tell", TELL_GRAPH))).stop()

    asyncio.run(run())


def test_waiting_ends_when_the_event_comes_first() -> None:
    async def run() -> None:
        event = asyncio.Event()
        assert await until(event, asyncio.sleep(0, "done")) == "done"
        assert await until(None, asyncio.sleep(0, "done")) == "done"
        event.set()
        assert await until(event, asyncio.sleep(1000, "done")) is None

    asyncio.run(run())
