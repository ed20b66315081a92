"""gRPC over TLS: real handshakes with certificates that the tests make."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from servers.access import TlsFiles
from servers.fronts.kserve_grpc.front import GrpcFront, start_front
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.certificates import Authority, authority
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane
from tests.servers.fronts.kserve_grpc.grpc_client import Client, connected

pytestmark = pytest.mark.both_loops


@pytest.fixture
def signer(tmp_path: Path) -> Authority:
    return authority(tmp_path)


@asynccontextmanager
async def secured(
    front: GrpcFront, signer: Authority, files: tuple[Path, Path] | None = None
) -> AsyncIterator[Client]:
    certificate, key = files or (None, None)
    credentials = grpc.ssl_channel_credentials(
        signer.file.read_bytes(),
        None if key is None else key.read_bytes(),
        None if certificate is None else certificate.read_bytes(),
    )
    options = (("grpc.use_local_subchannel_pool", 1),)
    address = f"localhost:{front.addresses[0][1]}"
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        yield Client(channel)


@asynccontextmanager
async def serving(tls: TlsFiles) -> AsyncIterator[GrpcFront]:
    front = await start_front(FakeDataPlane(), GrpcSettings(tls=tls))
    try:
        yield front
    finally:
        await front.close()


async def serial_of(front: GrpcFront, signer: Authority, **versions: ssl.TLSVersion) -> str:
    """Return the serial number of the certificate that a new connection receives."""
    context = ssl.create_default_context(cafile=str(signer.file))
    context.set_alpn_protocols(["h2"])
    for name, version in versions.items():
        setattr(context, name, version)
    host, port = front.addresses[0]
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
    try:
        return str(writer.get_extra_info("peercert")["serialNumber"])
    finally:
        writer.transport.abort()


def test_calls_over_tls_are_answered_and_plain_ones_are_not(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        async with serving(tls) as front:
            async with secured(front, signer) as client:
                assert (await client.call("ServerLive")).live
            async with connected(front) as plain:
                assert (await plain.refusal("ServerLive")).startswith("UNAVAILABLE: ")

    run(scenario())


def test_tls_begins_with_1_2(run: Run, signer: Authority) -> None:
    tls = TlsFiles(*signer.issue(signer.file.parent, "server"))

    async def scenario() -> None:
        async with serving(tls) as front:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                assert await serial_of(front, signer, maximum_version=version)
            old = ssl.TLSVersion.TLSv1_1
            with (
                pytest.warns(DeprecationWarning, match="TLSv1_1"),
                pytest.raises((ssl.SSLError, ConnectionError)),
            ):
                await serial_of(front, signer, minimum_version=old, maximum_version=old)

    run(scenario())


def test_a_client_needs_a_certificate_of_the_authority(
    run: Run, signer: Authority, tmp_path: Path
) -> None:
    tls = TlsFiles(*signer.issue(tmp_path, "server"), client_ca=signer.file)
    (tmp_path / "other").mkdir()
    stranger = authority(tmp_path / "other").issue(tmp_path, "stranger")

    async def scenario() -> None:
        async with serving(tls) as front:
            async with secured(front, signer, signer.issue(tmp_path, "client")) as client:
                assert (await client.call("ServerLive")).live
            for files in (None, stranger):
                async with secured(front, signer, files) as client:
                    assert (await client.refusal("ServerLive")).startswith("UNAVAILABLE: ")

    run(scenario())


def test_a_renewed_certificate_is_used_for_new_connections(
    run: Run, signer: Authority, tmp_path: Path
) -> None:
    certificate, key = signer.issue(tmp_path, "server")
    (tmp_path / "new").mkdir()
    renewed = signer.issue(tmp_path / "new", "server")
    tls = TlsFiles(certificate, key)

    async def scenario() -> None:
        async with serving(tls) as front, secured(front, signer) as client:
            assert (await client.call("ServerLive")).live
            first = await serial_of(front, signer)
            shutil.copy(renewed[0], certificate)
            tls.read_again()
            assert await serial_of(front, signer) == first  # the key is still missing
            shutil.copy(renewed[1], key)
            tls.read_again()
            assert await serial_of(front, signer) != first
            assert (await client.call("ServerLive")).live

    run(scenario())
