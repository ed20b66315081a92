"""HTTPS: real handshakes with certificates that the tests make."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from servers import access
from servers.access import TlsFiles
from servers.fronts.http import HttpFront
from tests.servers.certificates import Authority, authority
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane, hang
from tests.servers.fronts.http.http_client import HttpClient, chat_bytes, connected, serving
from tests.servers.fronts.http.test_slow_clients import pour
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.both_loops


@pytest.fixture
def signer(tmp_path: Path) -> Authority:
    return authority(tmp_path)


def client_context(signer: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(signer.file))


@asynccontextmanager
async def secured(
    front: HttpFront, context: ssl.SSLContext, name: str = "localhost", **options: int
) -> AsyncIterator[HttpClient]:
    host, port = front.addresses[0]
    streams = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=name, **options
    )
    client = HttpClient(*streams)
    try:
        yield client
    finally:
        client.abort()


def serial_of(client: HttpClient) -> str:
    return str(client.writer.get_extra_info("peercert")["serialNumber"])


def test_requests_are_answered_whole_and_in_streams(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), tls=tls) as front,
            secured(front, client_context(signer)) as client,
        ):
            assert (await client.ask(chat_bytes())).status == 200
            assert (await client.ask(chat_bytes(stream=True))).body.endswith(b"[DONE]\n\n")

    run(scenario())


def test_old_versions_and_plain_http_are_refused(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        async with serving(FakeDataPlane(), tls=tls) as front:
            old = client_context(signer)
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with secured(front, old):
                    pass
            new = client_context(signer)
            new.maximum_version = ssl.TLSVersion.TLSv1_2
            async with secured(front, new) as client:
                assert (await client.ask(chat_bytes())).status == 200
            async with connected(front) as plain:
                plain.send(chat_bytes())
                assert b"HTTP" not in await plain.wait_closed_by_server()

    run(scenario())


def test_a_client_needs_a_certificate_of_the_authority(
    run: Run, signer: Authority, tmp_path: Path
) -> None:
    served = signer.issue(tmp_path, "server")
    tls = TlsFiles(*served, client_ca=signer.file)
    (tmp_path / "other").mkdir()
    stranger = authority(tmp_path / "other")

    async def status(front: HttpFront, files: tuple[Path, Path] | None) -> int:
        context = client_context(signer)
        if files is not None:
            context.load_cert_chain(*files)
        async with secured(front, context) as client:
            return (await client.ask(chat_bytes())).status

    async def scenario() -> None:
        async with serving(FakeDataPlane(), tls=tls) as front:
            for _ in range(2):
                assert await status(front, signer.issue(tmp_path, "client")) == 200
                for files in (None, stranger.issue(tmp_path, "stranger")):
                    with pytest.raises(
                        (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)
                    ):
                        await status(front, files)
                first = tls.pair
                for old, new in zip(served, signer.issue(tmp_path, "renewed"), strict=True):
                    shutil.copy(new, old)
                tls.read_again()
                assert tls.pair != first

    run(scenario())


def test_a_renewed_certificate_is_used_for_new_connections(
    run: Run, signer: Authority, tmp_path: Path
) -> None:
    certificate, key = signer.issue(tmp_path, "server")
    (tmp_path / "new").mkdir()
    renewed = signer.issue(tmp_path / "new", "server")
    tls = TlsFiles(certificate, key)

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), tls=tls) as front,
            secured(front, client_context(signer)) as first,
        ):
            shutil.copy(renewed[0], certificate)
            tls.read_again()
            async with secured(front, client_context(signer)) as second:  # half of it is there
                assert serial_of(second) == serial_of(first)
            shutil.copy(renewed[1], key)
            tls.read_again()
            async with secured(front, client_context(signer)) as third:
                assert serial_of(third) != serial_of(first)
                assert (await third.ask(chat_bytes())).status == 200
            assert (await first.ask(chat_bytes())).status == 200
            nameless = client_context(signer)
            nameless.check_hostname = False
            async with secured(front, nameless, name="") as fourth:
                assert serial_of(fourth) == serial_of(third)

    run(scenario())


def test_a_missing_handshake_ends_the_connection(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), tls=tls, header_seconds=0.1) as front,
            connected(front) as silent,
            connected(front) as half,
        ):
            half.send(b"\x16\x03\x01\x02\x00")
            assert await silent.wait_closed_by_server() == b""
            await half.wait_closed_by_server()

    run(scenario())


def test_clients_that_leave_or_do_not_read_are_cut_off(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang, pour=pour)
        async with serving(plane, tls=tls, stall_seconds=0.4) as front:
            async with secured(front, client_context(signer)) as leaving:
                leaving.send(chat_bytes("hang"))
                await plane.begun.wait()
            await plane.ended.wait()
            assert plane.cancelled == 1
            plane.ended.clear()
            async with secured(front, client_context(signer), limit=4096) as stalled:
                stalled.send(chat_bytes("pour", stream=True))
                await plane.ended.wait()

    run(scenario())


def test_draining_and_closing_end_connections(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with (
            serving(plane, tls=tls) as front,
            secured(front, client_context(signer)) as busy,
            secured(front, client_context(signer)) as idle,
        ):
            busy.send(chat_bytes("hang"))
            await plane.begun.wait()
            assert await front.drain(0) == 1
            assert (await busy.reply()).status == 503
            assert await idle.wait_closed_by_server() == b""

    run(scenario())


def test_draining_does_not_wait_for_clients_that_keep_connections(
    run: Run, signer: Authority
) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    def keep(address: tuple[str, int]) -> ssl.SSLSocket:
        """Ask once, and read no more, as a pool of connections does."""
        connection = socket.create_connection(address)
        kept = client_context(signer).wrap_socket(connection, server_hostname="localhost")
        kept.sendall(chat_bytes())
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")
        return kept

    async def scenario() -> None:
        async with serving(
            FakeDataPlane(), tls=tls, linger_seconds=0.1, stall_seconds=3600
        ) as front:
            kept = await asyncio.to_thread(keep, front.addresses[0])
            with closing(kept):
                assert await front.drain(3600) == 0

    run(scenario())


def test_a_slow_reader_gets_the_end_of_its_answer(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))
    answer = "x" * (1 << 20)

    async def large(payload: HttpPayload, emit: Emit) -> None:
        emit(answer)

    def read_slowly(address: tuple[str, int]) -> bytes:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.connect(address)
        with client_context(signer).wrap_socket(connection, server_hostname="localhost") as slow:
            slow.sendall(chat_bytes("large", headers={"Connection": "close"}))
            found = b""
            while data := slow.recv(16384):
                found += data
                time.sleep(0.03)
        return found

    async def scenario() -> None:
        plane = FakeDataPlane(large=large)
        async with serving(plane, tls=tls, linger_seconds=0.1) as front:
            found = await asyncio.to_thread(read_slowly, front.addresses[0])
            assert found.endswith(answer.encode())

    run(scenario())


def test_handshakes_that_clients_leave_half_done_are_bounded(
    run: Run, signer: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))
    monkeypatch.setattr(access, "MOST_HANDSHAKES", 8)

    async def scenario() -> None:
        async with serving(FakeDataPlane(), tls=tls, header_seconds=PATIENCE) as front:
            address = front.addresses[0]
            half = [await asyncio.open_connection(*address) for _ in range(20)]
            # The oldest are ended; the others have their time.
            for reader, _ in half[:12]:
                assert await reader.read() == b""
            assert not any(reader.at_eof() for reader, _ in half[12:])
            async with secured(front, client_context(signer)) as client:
                assert (await client.ask(chat_bytes())).status == 200
            for _, writer in half:
                writer.close()

    run(scenario())


def test_a_client_cannot_negotiate_again(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        async with serving(FakeDataPlane(), tls=tls) as front:
            host, port = front.addresses[0]
            # OpenSSL's own client: Python's cannot ask.
            asking = await asyncio.create_subprocess_exec(
                *("openssl", "s_client", "-tls1_2", "-connect", f"{host}:{port}"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await asking.communicate(b"R\n")
            assert b"RENEGOTIATING" in said
            assert b"no renegotiation" in said
            async with secured(front, client_context(signer)) as client:
                assert (await client.ask(chat_bytes())).status == 200

    run(scenario())


def test_a_client_may_close_without_the_end_of_tls(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        async with serving(FakeDataPlane(), tls=tls) as front:
            for _ in range(3):
                async with secured(front, client_context(signer)) as client:
                    assert (await client.ask(chat_bytes())).status == 200
                    wire = client.writer.get_extra_info("socket")
                    # The end of TCP, and nothing of TLS before it.
                    with socket.socket(fileno=os.dup(wire.fileno())) as same:
                        same.shutdown(socket.SHUT_WR)
                    assert await client.reader.read() == b""

    run(scenario())
