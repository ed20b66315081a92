"""Connections without a call are closed; a client that has made one may be idle."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import grpc
import grpc.aio
import pytest

from servers.access import TlsFiles
from servers.fronts.kserve_grpc.front import start_front
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.certificates import authority
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane
from tests.servers.fronts.kserve_grpc.grpc_client import HEALTH, Client

pytestmark = pytest.mark.both_loops

SECONDS = 1.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
#: Bytes that a client sends before it falls silent.
WORDS = {
    "nothing": b"",
    "half a greeting of TLS": b"\x16\x03\x01\x02\x00\x01",
    "a preface": PREFACE,
    "a preface and settings": PREFACE + SETTINGS,
}


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("has_shaken_hands", [False, True])
@pytest.mark.parametrize("words", WORDS)
def test_a_connection_that_falls_silent_before_its_first_call_is_closed(
    run: Run, tmp_path: Path, words: str, is_encrypted: bool, has_shaken_hands: bool
) -> None:
    if has_shaken_hands and not is_encrypted:
        pytest.skip("there are no hands to shake")
    signer = authority(tmp_path)
    tls = TlsFiles(*signer.issue(tmp_path, "server"))
    context = ssl.create_default_context(cafile=str(signer.file)) if has_shaken_hands else None
    if context is not None:
        context.set_alpn_protocols(["h2"])

    async def scenario() -> None:
        settings = GrpcSettings(handshake_seconds=SECONDS, tls=tls if is_encrypted else None)
        front = await start_front(FakeDataPlane(), settings)
        try:
            host, port = front.addresses[0]
            name = None if context is None else "localhost"
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname=name
            )
            writer.write(WORDS[words])
            try:
                async with asyncio.timeout(30):
                    while await reader.read(4096):  # the client's settings frame
                        pass
            except ConnectionError:
                pass
            writer.transport.abort()
        finally:
            await front.close()

    run(scenario())


def test_an_idle_client_keeps_its_connection(run: Run) -> None:
    async def scenario() -> None:
        front = await start_front(FakeDataPlane(), GrpcSettings(handshake_seconds=SECONDS))
        try:
            host, port = front.addresses[0]
            async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
                client = Client(channel)
                await client.call("Check", HEALTH)
                changed = asyncio.create_task(
                    channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
                )
                _, idle = await asyncio.wait({changed}, timeout=4 * SECONDS)
                assert idle
                await client.call("Check", HEALTH)
                assert channel.get_state() is grpc.ChannelConnectivity.READY
                changed.cancel()
        finally:
            await front.close()

    run(scenario())
