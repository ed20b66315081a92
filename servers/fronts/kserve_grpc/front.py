"""The gRPC front: starting, draining, closing, and gRPC's standard services.

``grpc.health.v1.Health`` tells readiness. Server reflection lists the served services, and the
files that describe them. Its two versions have the same messages. Only the files of our services
are published, not the whole pool, which also contains the options of authors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import grpc
import grpc.aio

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import quoted
from graph_runtime import Code, NotFoundError
from protos import messages
from protos.pool import message_class, pool
from servers.access import KEY_HEADERS, Access
from servers.contract.data_plane import DataPlane
from servers.fronts.body_room import BodyRoom
from servers.fronts.kserve_grpc import inference_service
from servers.fronts.kserve_grpc.call import Call, Calls, Service, Stream, StreamCall, Unary, parsed
from servers.fronts.kserve_grpc.gate import WINDOW, Gate
from servers.fronts.kserve_grpc.inference_service import NAME_OF_SERVICE as INFERENCE
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.operations.request_log import RequestJournal

REFLECTION_VERSIONS: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
REFLECTION_SERVICES: Final = tuple(f"{version}.ServerReflection" for version in REFLECTION_VERSIONS)


class ReflectionService:
    """The methods of one version by name: `unary` and `streams`."""

    def __init__(self, version: str, services: Sequence[str]) -> None:
        """``services``: the full names of all served services."""
        self._version = version
        self._services = services
        self._files = Files(services)
        self.unary: Mapping[str, Unary] = {}
        self.streams: Mapping[str, Stream] = {"ServerReflectionInfo": self._info}

    async def _info(self, call: StreamCall) -> None:
        call.is_idle = True
        while (request := await call.read()) is not None:
            content = await call.content(request)
            asked: Any = parsed(message_class(f"{self._version}.ServerReflectionRequest"), content)
            answer = {"valid_host": asked.host, "original_request": asked, **self._answer(asked)}
            response = message_class(f"{self._version}.ServerReflectionResponse")
            await call.write(response(**answer).SerializeToString())

    def _answer(self, asked: Any) -> dict[str, object]:
        match asked.WhichOneof("message_request"):
            case "list_services":
                names = [{"name": name} for name in self._services]
                return {"list_services_response": {"service": names}}
            case "file_by_filename":
                return _described(self._files.by_name(asked.file_by_filename))
            case "file_containing_symbol":
                return _described(self._files.by_symbol(asked.file_containing_symbol))
            case "all_extension_numbers_of_type":
                name = asked.all_extension_numbers_of_type
                if name not in self._files.message_types:
                    return _not_found()
                return {"all_extension_numbers_response": {"base_type_name": name}}
            case "file_containing_extension":
                return _not_found()  # our messages have none
            case _:
                return _error(grpc.StatusCode.INVALID_ARGUMENT, "the request is empty")


class Files:
    """The files of some services, with the files that these import."""

    def __init__(self, services: Sequence[str]) -> None:
        """``services``: full names."""
        self._files: dict[str, Any] = {}
        self._of_symbol: dict[str, str] = {}
        self.message_types: set[str] = set()
        for service in services:
            self._add(pool().FindServiceByName(service).file)

    def by_name(self, name: str) -> list[bytes]:
        """Return a file and its imports, serialized; [] if there is no such file."""
        found: dict[str, bytes] = {}
        waiting = [self._files[name]] if name in self._files else []
        while waiting:
            file = waiting.pop()
            found.setdefault(file.name, file.serialized_pb)
            waiting += [each for each in file.dependencies if each.name not in found]
        return list(found.values())

    def by_symbol(self, symbol: str) -> list[bytes]:
        """Return the file that declares a service, method or type, as `by_name`."""
        return self.by_name(self._of_symbol.get(symbol, ""))

    def _add(self, file: Any) -> None:
        if file.name in self._files:
            return
        self._files[file.name] = file
        for service in file.services_by_name.values():
            self._of_symbol[service.full_name] = file.name
            for method in service.methods:
                self._of_symbol[method.full_name] = file.name
        for enum in file.enum_types_by_name.values():
            self._of_symbol[enum.full_name] = file.name
        for message_type in file.message_types_by_name.values():
            self._add_type(message_type, file.name)
        for imported in file.dependencies:
            self._add(imported)

    def _add_type(self, message_type: Any, file: str) -> None:
        self.message_types.add(message_type.full_name)
        self._of_symbol[message_type.full_name] = file
        for inner in (*message_type.fields, *message_type.enum_types):
            self._of_symbol[inner.full_name] = file
        for nested in message_type.nested_types:
            self._add_type(nested, file)


def _described(files: list[bytes]) -> dict[str, object]:
    if not files:
        return _not_found()
    return {"file_descriptor_response": {"file_descriptor_proto": files}}


def _not_found() -> dict[str, object]:
    return _error(grpc.StatusCode.NOT_FOUND, "nothing of that name is served")


def _error(code: grpc.StatusCode, text: str) -> dict[str, object]:
    return {"error_response": {"error_code": code.value[0], "error_message": text}}


HEALTH_SERVICE: Final = "grpc.health.v1.Health"

_UNKNOWN: Final = "SERVICE_UNKNOWN"


class HealthService:
    """The methods by name: `unary` and `streams`.

    A request names a service: "" or the inference service for the whole server, or a model.
    """

    def __init__(self, data_plane: DataPlane, watch_seconds: float) -> None:
        self._data_plane = data_plane
        self._watch_seconds = watch_seconds
        self.unary: Mapping[str, Unary] = {"Check": self._check}
        self.streams: Mapping[str, Stream] = {"Watch": self._watch}

    async def _check(self, request: bytes, call: Call) -> bytes:
        service = parsed(messages.HealthCheckRequest, request).service
        status = self._status(service)
        if status == _UNKNOWN:
            raise RequestError(f"there is no service {quoted(service)}", code=Code.NOT_FOUND)
        return messages.HealthCheckResponse(status=status).SerializeToString()

    async def _watch(self, call: StreamCall) -> None:
        """Send the status now, and at every change."""
        request = await call.read()
        if request is None:
            raise RequestError("the stream ended before its request")
        service = parsed(messages.HealthCheckRequest, await call.content(request)).service
        call.is_idle = True
        status_of = ""
        while True:
            status = self._status(service)
            if status != status_of:
                status_of = status
                await call.write(messages.HealthCheckResponse(status=status).SerializeToString())
            await asyncio.sleep(self._watch_seconds)

    def _status(self, service: str) -> str:
        if service in ("", INFERENCE):
            is_serving = self._data_plane.is_ready
        else:
            try:
                is_serving = self._data_plane.is_model_ready(service)
            except NotFoundError:
                return _UNKNOWN
        return "SERVING" if is_serving else "NOT_SERVING"


_log: Final = logging.getLogger(__name__)

# Seconds for sending the statuses of calls that were cut off, and for cancelling runs.
_CUT_OFF_SECONDS: Final = 2.0
# The name of unknown methods in the log.
_UNKNOWN_METHOD: Final = "unknown"
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
                # grpcio waits for the coroutines of cancelled calls, which may hang.
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
                name = method[1:] if method in self._methods else _UNKNOWN_METHOD
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
