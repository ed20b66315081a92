"""API keys over gRPC: every method except health needs one."""

from __future__ import annotations

import logging

import grpc
import grpc.aio
import pytest

from servers.access import Access, ApiKeys
from servers.fronts.kserve_grpc.front import start_front
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane
from tests.servers.fronts.kserve_grpc.grpc_client import (
    HEALTH,
    INFERENCE,
    Client,
    connected,
    infer_request,
    serving,
    shown,
)

KEY = "sk-CANARY-91aa"
GUARDED = GrpcSettings(access=Access(ApiKeys.of_text(KEY, "here")))
NO_KEY = "UNAUTHENTICATED: no API key: send `Authorization: Bearer KEY`, or `x-api-key: KEY`"
WRONG_KEY = "UNAUTHENTICATED: the API key is not valid"


async def status(client: Client, path: str, *metadata: tuple[str, str | bytes]) -> str:
    """Return ``CODE: text`` of a unary call with an empty request."""
    try:
        await client.channel.unary_unary(path)(b"", metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return shown(error)
    return "OK"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ((("authorization", f"Bearer {KEY}"),), "OK"),
        ((("authorization", f"bearer {KEY}"),), "OK"),
        ((("x-api-key", KEY),), "OK"),
        ((), NO_KEY),
        ((("authorization", KEY),), NO_KEY),
        ((("authorization-bin", KEY.encode()),), NO_KEY),
        ((("api-key", KEY),), NO_KEY),
        ((("authorization", f"Bearer {KEY}x"),), WRONG_KEY),
        ((("x-api-key", "no"),), WRONG_KEY),
    ],
)
def test_a_key_is_accepted_in_either_metadata(
    run: Run, metadata: tuple[tuple[str, str | bytes], ...], expected: str
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), GUARDED) as client:
            assert await status(client, f"/{INFERENCE}/ServerMetadata", *metadata) == expected

    run(scenario())


def test_without_a_key_only_health_is_answered(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        async with serving(data_plane, GUARDED) as client:
            for method in ("ServerLive", "ServerReady"):
                assert await status(client, f"/{INFERENCE}/{method}") == "OK"
            assert (await client.call("Check", HEALTH)).status == 1
            for method in (
                *("ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer"),
                *("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"),
                *("NoSuchMethod", "ServerLive/", "serverlive"),
            ):
                assert await status(client, f"/{INFERENCE}/{method}") == NO_KEY
            for path in ("/no.Such/Method", f"/{INFERENCE}//ServerLive"):
                assert await status(client, path) == NO_KEY
            for path in ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo",):
                call = client.channel.stream_stream(f"/{path}")()
                await call.done_writing()
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
        assert not data_plane.begun.is_set()

    run(scenario())


def test_streams_without_a_key_end_at_once(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        async with serving(data_plane, GUARDED) as client:
            refused = client.stream()()
            assert await refused.code() is grpc.StatusCode.UNAUTHENTICATED
            assert not data_plane.begun.is_set()
            call = client.stream()(metadata=(("x-api-key", KEY),))
            await call.write(infer_request(id="a"))
            assert (await call.read()).infer_response.id == "a"
            await call.done_writing()
            assert await call.code() is grpc.StatusCode.OK

    run(scenario())


def test_a_large_request_without_a_key_is_refused(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), GUARDED) as client:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw("ModelInfer", bytes(30_000_000))
            assert shown(caught.value) == NO_KEY

    run(scenario())


def test_named_methods_are_open(run: Run) -> None:
    async def scenario() -> None:
        access = Access(GUARDED.access.keys, open_routes=(f"/{INFERENCE}/Model*",))
        async with serving(FakeDataPlane(), GrpcSettings(access=access)) as client:
            assert (await client.call("ModelReady", name="echo")).ready
            assert await status(client, f"/{INFERENCE}/ServerMetadata") == NO_KEY

    run(scenario())


def test_no_key_is_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with caplog.at_level(logging.DEBUG):
            async with serving(FakeDataPlane(), GUARDED) as client:
                path = f"/{INFERENCE}/ServerMetadata"
                assert await status(client, path, ("x-api-key", KEY)) == "OK"
                assert await status(client, path, ("x-api-key", f"{KEY}x")) == WRONG_KEY

    run(scenario())
    assert "CANARY" not in caplog.text


def test_models_are_not_loaded_or_unloaded_without_permission(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        settings = GrpcSettings(access=Access(allows_control=False))
        async with serving(data_plane, settings) as client:
            for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
                refusal = await client.refusal(method, model_name="echo")
                assert refusal.startswith("PERMISSION_DENIED: what is loaded cannot be changed")
            assert await client.call("RepositoryIndex")
        assert (data_plane.loaded, data_plane.unloaded) == ([], [])

    run(scenario())


def test_connections_beyond_the_limit_are_not_accepted(run: Run) -> None:
    async def scenario() -> None:
        front = await start_front(FakeDataPlane(), GrpcSettings(max_connections=1))
        try:
            async with connected(front) as first:
                assert (await first.call("ServerLive")).live
                async with connected(front) as second:
                    assert (await second.refusal("ServerLive")).startswith("UNAVAILABLE: ")
                assert (await first.call("ServerLive")).live
        finally:
            await front.close()

    run(scenario())
