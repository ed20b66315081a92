"""A WebSocket that a task declares, of a real server: messages, ends, limits, strangers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.servers.cli.serving import Serving
from tests.servers.cli.task_site import make_task_site
from tests.support.patience import PATIENCE

Talk = Callable[["Talker"], Coroutine[Any, Any, None]]


class Talker:
    """A client with one socket, its first message read."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, hello: dict[str, Any]) -> None:
        self.socket = socket
        self.hello = hello

    async def ask(self, message: str | bytes) -> str | bytes | int:
        """Send a message; the next one, or the code with which the server closes."""
        if isinstance(message, str):
            await self.socket.send_str(message)
        else:
            await self.socket.send_bytes(message)
        return await self.next()

    async def next(self) -> str | bytes | int:
        got = await self.socket.receive()
        if got.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            message: str | bytes = got.data
            return message
        assert self.socket.close_code is not None
        return self.socket.close_code


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("site")
    with Serving(folder, make_task_site(folder).name, calculators=()) as serving:
        yield serving.wait_until_serving()


@asynccontextmanager
async def talking(
    server: Serving, path: str = "/v3/talks", **arguments: Any
) -> AsyncIterator[Talker]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{server.port}{path}", **arguments) as socket,
    ):
        yield Talker(socket, json.loads(await socket.receive_str()))


def talk(server: Serving, scenario: Talk, path: str = "/v3/talks", **arguments: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE), talking(server, path, **arguments) as talker:
            await scenario(talker)

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/v3/talks", "/v1/talks?model=talk&intent=x"])
def test_messages_go_both_ways_until_the_graph_ends(server: Serving, path: str) -> None:
    async def scenario(talker: Talker) -> None:
        assert talker.hello["hello"] == path
        assert await talker.ask("é") == "é"
        assert await talker.ask(b"\0\xff") == b"\0\xff"
        assert await talker.ask("") == ""
        assert await talker.ask("x" * 1_000_000) == "x" * 1_000_000
        assert await talker.ask("end") == "bye"
        assert await talker.next() == 1000

    talk(server, scenario, path)


def test_a_client_that_closes_ends_the_graph(server: Serving) -> None:
    async def scenario(talker: Talker) -> None:
        assert await talker.ask("a") == "a"
        await talker.socket.close()
        assert talker.socket.close_code == 1000

    talk(server, scenario)


@pytest.mark.parametrize(("message", "code"), [("fail", 1008), ("bug", 1011)])
def test_an_error_closes_with_its_code(server: Serving, message: str, code: int) -> None:
    async def run() -> None:
        async with talking(server) as talker:
            await talker.socket.send_str(message)
            got = await talker.socket.receive()
            assert got.type is aiohttp.WSMsgType.CLOSE
            assert got.data == code
            assert isinstance(got.extra, str)
            assert ("enough" in got.extra) is (code == 1008)
            assert "/" not in got.extra

    asyncio.run(run())


def test_an_error_before_the_first_message_has_its_status(server: Serving) -> None:
    for path, status in (
        ("/v3/talks?refuse", 403),
        ("/v3/talks?model=gone", 404),
        ("/v3/talks?model=a&model=b", 400),
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            talk(server, _nothing, path)
        assert refused.value.status == status


async def _nothing(talker: Talker) -> None:
    return


def test_a_request_without_an_upgrade_is_told_so(server: Serving) -> None:
    with server.request("GET", "/v3/talks") as response:
        assert response.status == 426
        assert response.headers["Upgrade"] == "websocket"
    with server.request("POST", "/v3/talks", {"model": "talk"}) as response:
        assert response.status == 405


def test_a_page_of_another_site_may_not_open_one(server: Serving) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        talk(server, _nothing, headers={"Origin": "https://page.example"})
    assert refused.value.status == 403


@pytest.mark.parametrize("size", [2 * 1024 * 1024 + 1, 16 * 1024 * 1024])
def test_a_message_that_is_too_long_closes_the_socket(server: Serving, size: int) -> None:
    async def scenario(talker: Talker) -> None:
        assert await talker.ask("x" * size) == 1009

    talk(server, scenario)
    server.wait_for("reason='the WebSocket was closed with 1009'")


def test_a_graph_that_sends_too_much_at_once_loses_its_client(server: Serving) -> None:
    async def run() -> None:
        async with talking(server, max_msg_size=0) as talker:
            await talker.socket.send_str("much")
            received = 0
            while True:
                got = await talker.socket.receive()
                if got.type is not aiohttp.WSMsgType.BINARY:
                    break
                received += 1
            assert received < 200

    asyncio.run(run())


def test_a_client_that_vanishes_cancels_the_graph(server: Serving) -> None:
    async def run() -> None:
        async with talking(server) as talker:
            await talker.socket.send_str("hang")
            connection = talker.socket._response.connection
            assert connection is not None
            assert connection.transport is not None
            connection.transport.abort()
        async with talking(server) as other:
            assert await other.ask("a") == "a"

    asyncio.run(run())


def test_offered_subprotocols_are_answered_and_keys_in_them_are_not_passed_on(
    server: Serving,
) -> None:
    async def scenario(talker: Talker) -> None:
        assert talker.socket.protocol == "realtime"

    talk(server, scenario, protocols=("realtime", "openai-insecure-api-key.k"))


def test_a_stop_closes_open_sockets(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("site")
    words = (make_task_site(folder).name, "--drain_seconds", "0")
    with Serving(folder, *words, calculators=()) as serving:
        serving.wait_until_serving()

        async def run() -> None:
            async with talking(serving) as talker:
                serving.send_signal()
                got = await talker.socket.receive()
                assert (got.type, got.data) == (aiohttp.WSMsgType.CLOSE, 1001)

        asyncio.run(run())
        assert serving.end()[0] == 0


@pytest.mark.parametrize("key", ["right", "wrong", ""])
def test_a_key_may_be_a_subprotocol(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    folder = tmp_path_factory.mktemp("site")
    (folder / "keys").write_text("right\n")
    words = (make_task_site(folder).name, "--api_key_file", "keys")
    protocols = ("realtime", f"openai-insecure-api-key.{key}") if key else ()

    async def scenario(talker: Talker) -> None:
        assert "sec-websocket-protocol" not in talker.hello["headers"]

    with Serving(folder, *words, calculators=()) as serving:
        serving.wait_until_serving()
        if key == "right":
            talk(serving, scenario, protocols=protocols)
            return
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            talk(serving, scenario, protocols=protocols)
        assert refused.value.status == 401


def test_the_websockets_library_talks(server: Serving) -> None:
    library = pytest.importorskip("websockets.sync.client")
    with library.connect(f"ws://127.0.0.1:{server.port}/v1/talks") as socket:
        assert json.loads(socket.recv())["hello"] == "/v1/talks"
        socket.send("a")
        assert socket.recv() == "a"
        assert socket.ping().wait(PATIENCE)
