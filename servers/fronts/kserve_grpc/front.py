"""The gRPC front: starting, draining, closing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import grpc
import grpc.aio

from calculators.kit.requests.http_payload import RequestError
from servers.access import KEY_HEADERS, Access
from servers.contract.data_plane import DataPlane
from servers.fronts.body_room import BodyRoom
from servers.fronts.kserve_grpc import inference_service
from servers.fronts.kserve_grpc.call import Calls, Service
from servers.fronts.kserve_grpc.gate import WINDOW, Gate
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.fronts.kserve_grpc.standard_services import (
    HEALTH_SERVICE,
    REFLECTION_SERVICES,
    REFLECTION_VERSIONS,
    HealthService,
    ReflectionService,
)
from servers.operations.request_log import RequestJournal

_log: Final = logging.getLogger(__name__)

# Seconds for sending the statuses of calls that were cut off, and for cancelling runs.
_CUT_OFF_SECONDS: Final = 2.0
# The name of unknown methods in the log.
_UNKNOWN: Final = "unknown"
_MAX_SENT_BYTES: Final = 2**30
# Calls that wait for a handler. By default gRPC's library drops some above 1000 with CANCELLED,
# which clients take for their own cancellation.
_MAX_PENDING: Final = 2**14
# The shortest interval of clients' keep-alive pings while nothing is sent. With gRPC's default of
# five minutes, a client that pings during a slow inference would be disconnected.
_MIN_PING_MS: Final = 500
# Longer than any drain: `GrpcFront.drain` says when calls are cut off.
_GRACE_SECONDS: Final = 1e7


class GrpcFront:
    """A running front; made by `start_front`.

    The order of a stop: `stop_accepting`, `drain`, `close`; each can be left out.
    """

    def __init__(
        self, server: grpc.aio.Server, gate: Gate, calls: Calls, addresses: list[tuple[str, int]]
    ) -> None:
        self._server = server
        self._gate = gate
        self._calls = calls
        self._addresses = addresses
        self._stopping: asyncio.Task[None] | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every listening socket."""
        return list(self._addresses)

    async def stop_accepting(self) -> None:
        """Close the listening sockets and accept no more calls; calls in progress continue.

        Idle calls, which only watch, end now.
        """
        self._gate.stop_accepting()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._server.stop(_GRACE_SECONDS))
            await asyncio.sleep(0)
        for call in self._calls.in_hand():
            if call.is_idle:
                call.cut_off()

    async def drain(self, seconds: float) -> int:
        """Wait until every call in progress is answered, at most ``seconds``.

        Return the number of calls that were cut off then, with the status UNAVAILABLE.
        """
        await self.stop_accepting()
        assert self._stopping is not None
        await asyncio.wait([self._stopping], timeout=seconds)
        cut_off = self._calls.cut_off()
        await asyncio.wait([self._stopping], timeout=_CUT_OFF_SECONDS)
        return cut_off

    async def close(self) -> None:
        """Close everything now; calls in progress are cancelled."""
        await self.stop_accepting()
        assert self._stopping is not None
        tasks = [call.task for call in self._calls.in_hand()]
        with suppress(TimeoutError):
            async with asyncio.timeout(_CUT_OFF_SECONDS):
                await self._server.stop(None)
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=_CUT_OFF_SECONDS)
            if stuck:
                _log.error("%d calls do not end although they were cancelled", len(stuck))
        self._stopping.cancel()
        await asyncio.wait([self._stopping])
        await self._gate.close()


async def start_front(
    data_plane: DataPlane,
    settings: GrpcSettings,
    journal: RequestJournal | None = None,
    room: BodyRoom | None = None,
) -> GrpcFront:
    """Listen on every host of ``settings`` and answer from ``data_plane``.

    Args:
        journal: records every call.
        room: the memory for messages; None: a room of this front's own.

    Raises:
        OSError: an address cannot be bound; none is then.
    """
    gate = Gate(settings, room or BodyRoom())
    try:
        addresses = await gate.bind(settings.hosts, settings.port)
        calls = Calls(settings.stall_seconds, settings.idle_seconds, gate, journal, settings.access)
        server = grpc.aio.server(
            handlers=[_handler(data_plane, settings, calls, gate)],
            options=list(_channel_arguments(settings).items()),
            maximum_concurrent_rpcs=settings.max_calls,
        )
        server.add_insecure_port(f"unix:{gate.path}")
        await server.start()
        await gate.listen()
    except BaseException:
        await gate.close()
        raise
    return GrpcFront(server, gate, calls, addresses)


def _channel_arguments(settings: GrpcSettings) -> dict[str, int | str]:
    keep_alive = int(settings.keep_alive_seconds * 1000)
    handshake = int(settings.handshake_seconds * 1000)
    return {
        "grpc.max_receive_message_length": settings.max_message_bytes,
        "grpc.max_send_message_length": _MAX_SENT_BYTES,
        "grpc.keepalive_time_ms": keep_alive,
        "grpc.keepalive_timeout_ms": keep_alive // 3,
        "grpc.server_handshake_timeout_ms": handshake,
        "grpc.http2.settings_timeout": handshake,  # for the answer to the server's settings
        "grpc.http2.min_ping_interval_without_data_ms": _MIN_PING_MS,
        "grpc.server.max_pending_requests": _MAX_PENDING,
        "grpc.server.max_pending_requests_hard_limit": _MAX_PENDING,
        # A client may send as much of a message before the gate lets it send more.
        "grpc.http2.lookahead_bytes": WINDOW,
        "grpc.http2.bdp_probe": 0,
        # grpcio would do it in one go, in the event loop's thread.
        "grpc.per_message_decompression": 0,
        **settings.channel_arguments,
    }


class _Handler:
    """A ``GenericRpcHandler`` of gRPC: finds the handler of a method."""

    def __init__(
        self, methods: Mapping[str, grpc.RpcMethodHandler], access: Access, calls: Calls
    ) -> None:
        self._methods = methods
        self._access = access
        self._calls = calls

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler | None:
        method = handler_call_details.method
        if self._access.keys is not None:
            metadata = dict(handler_call_details.invocation_metadata)
            try:
                self._access.check(method, *(metadata.get(name) for name in KEY_HEADERS))
            except RequestError as error:
                name = method[1:] if method in self._methods else _UNKNOWN
                return self._calls.refused(name, error)
        return self._methods.get(method)


def _handler(data_plane: DataPlane, settings: GrpcSettings, calls: Calls, gate: Gate) -> _Handler:
    names = [
        inference_service.NAME_OF_SERVICE,
        HEALTH_SERVICE,
        *REFLECTION_SERVICES,
    ]
    services: list[Service] = [
        inference_service.InferenceService(data_plane, settings),
        HealthService(data_plane, settings.watch_seconds),
        *(ReflectionService(version, names) for version in REFLECTION_VERSIONS),
    ]
    methods: dict[str, grpc.RpcMethodHandler] = {}
    for name, service in zip(names, services, strict=True):
        for method, unary in service.unary.items():
            methods[f"/{name}/{method}"] = calls.unary(f"{name}/{method}", unary)
        for method, stream in service.streams.items():
            methods[f"/{name}/{method}"] = calls.stream(f"{name}/{method}", stream)
    return _Handler(methods, settings.access, calls)
