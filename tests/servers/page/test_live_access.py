"""Who may look, how many, and how the streams end."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from servers.access import Access, ApiKeys
from servers.fronts.http import connection
from servers.page.settings import PageSettings
from tests.servers.page.watching import Page, on_page
from tests.support.patience import PATIENCE

PATHS = ("/v1/live", "/v1/graphs/echo", "/v1/graphs/echo/nodes/Echo", "/v1/requests/some-id")


def test_a_ninth_stream_is_refused_until_one_closes(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with AsyncExitStack() as open_streams:
            # Kept, because a response is closed with the last iterator over it.
            kept = [await open_streams.enter_async_context(page.watching()) for _ in range(7)]
            for watched in kept:
                await watched.read()
            async with page.watching() as last:
                await last.read()
                refused = await page.client.get("/v1/live")
                assert refused.status_code == 503
                assert "8 live streams are open" in refused.json()["error"]["message"]
            async with asyncio.timeout(PATIENCE):
                while page.server.views and page.server.views.feed.readers == 8:
                    await page.echo()
            async with page.watching() as again:
                assert (await again.read())[0] == "hello"

    on_page(tmp_path, scenario)


def test_keys_are_needed_for_what_runs(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        for path in PATHS:
            assert (await page.client.get(path)).status_code == 401, path
        assert (await page.client.post("/v1/graphs/echo/follow", json={})).status_code == 401
        async with page.watching(headers={"Authorization": "Bearer secret-key"}) as watched:
            assert (await watched.read())[0] == "hello"

    on_page(tmp_path, scenario, access=Access(ApiKeys.of_text("secret-key", "a test")))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
    ],
    ids=["origin", "no-cors", "opaque"],
)
def test_pages_of_other_sites_may_not_look(tmp_path: Path, headers: dict[str, str]) -> None:
    async def scenario(page: Page) -> None:
        for path in PATHS:
            assert (await page.client.get(path, headers=headers)).status_code == 403, path
        answer = await page.client.post("/v1/graphs/echo/follow", json={"next": 1}, headers=headers)
        assert answer.status_code == 403

    on_page(tmp_path, scenario)


def test_the_own_page_and_listed_ones_may_look(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        own = {"Origin": page.server.addresses[0], "Sec-Fetch-Site": "same-origin"}
        listed = {"Origin": "https://console.example", "Sec-Fetch-Site": "cross-site"}
        for headers in (own, listed):
            answer = await page.client.get("/v1/graphs/echo", headers=headers)
            assert answer.status_code == 200

    on_page(tmp_path, scenario, allowed_origins=("https://console.example",))


def test_without_the_page_there_are_no_such_paths(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        for path in PATHS:
            assert (await page.client.get(path)).status_code == 404, path
        answer = await page.client.post("/v1/graphs/echo/follow", json={"next": 1})
        assert answer.status_code == 404
        assert "/v1/live" not in (await page.client.get("/openapi.json")).json()["paths"]
        assert (await page.echo()).status_code == 200

    on_page(tmp_path, scenario, page=PageSettings(page=False))


def test_a_stop_ends_live_streams_at_once(tmp_path: Path) -> None:
    """A page that is open would else hold the server for all of its time to drain."""

    async def scenario(page: Page) -> None:
        async with page.watching("graphs=echo") as watched:
            await watched.until(lambda seen: "echo" in seen.graphs)
            stopping = asyncio.create_task(page.server.stop())
            await watched.until(lambda seen: bool(seen.named("end")))
            assert watched.events[-1] == ("end", {"reason": "draining"})
            with pytest.raises(StopAsyncIteration):
                await watched.read()
        await stopping

    on_page(tmp_path, scenario)


def test_a_client_that_does_not_read_gets_the_newest_state_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its buffers are full nothing is sent to it, and others are served."""
    # Small buffers of the kernel fill sooner: at most 50 events about requests a second are sent.
    monkeypatch.setattr(connection, "_UNSENT_IN_KERNEL", 2048)

    async def scenario(page: Page) -> None:
        assert page.server.views is not None
        feed = page.server.views.feed
        host, _, port = page.server.addresses[0].removeprefix("http://").rpartition(":")
        idle = socket.socket()
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(idle, (host, int(port)))
        head = f"GET /v1/live?graphs=echo HTTP/1.1\r\nHost: {host}\r\n\r\n"
        await loop.sock_sendall(idle, head.encode())
        sent: list[int] = []

        async with page.watching("graphs=echo") as watched:
            await watched.until(lambda seen: feed.readers == 2 and "echo" in seen.graphs)
            # Request events fill the buffers of the client that does not read.
            name = "x" * 128
            async with asyncio.timeout(PATIENCE):
                while not any(not each.is_ready for each in feed.all_readers()):
                    await asyncio.gather(*(page.echo(**{"x-request-id": name}) for _ in range(64)))
                    sent.append(64)
            await watched.until(lambda seen: seen.graphs["echo"]["ended"] >= sum(sent))
        received = b""
        want = f'"ended":{sum(sent)},'.encode()
        async with asyncio.timeout(PATIENCE):
            while want not in received:
                received += await loop.sock_recv(idle, 65536)
        idle.close()

    on_page(tmp_path, scenario, write_buffer_bytes=4096)


def test_live_streams_are_quiet_in_log_and_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(page: Page) -> None:
        with caplog.at_level("INFO", logger="graphrt.request"):
            async with page.watching() as watched:
                await watched.read()
            async with asyncio.timeout(PATIENCE):
                while page.server.views and page.server.views.feed.readers:
                    await page.echo()
            text = (await page.client.get("/metrics")).text
        assert not [each for each in caplog.records if "/v1/live" in each.getMessage()]
        assert 'graphrt_http_requests_total{route="/v1/live"' in text
        assert 'graphrt_http_request_seconds_count{route="/v1/live"' not in text

    on_page(tmp_path, scenario)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("hz=6", "hz"),
        ("hz=fast", "hz"),
        ("hz=nan", "hz"),
        ("graphs=" + ",".join("abc" for _ in range(65)), "graphs"),
    ],
)
def test_a_wrong_query_is_an_error_that_names_it(tmp_path: Path, query: str, place: str) -> None:
    async def scenario(page: Page) -> None:
        answer = await page.client.get(f"/v1/live?{query}")
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == place

    on_page(tmp_path, scenario, graphs=("echo",))
