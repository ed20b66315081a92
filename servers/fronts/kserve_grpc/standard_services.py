"""gRPC's standard services: health, and reflection.

``grpc.health.v1.Health`` tells readiness. Server reflection lists the served services, and the
files that describe them. Its two versions have the same messages. Only the files of our services
are published, not the whole pool, which also contains the options of authors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import quoted
from graph_runtime import Code, NotFoundError
from protos import messages
from protos.pool import message_class, pool
from servers.contract.data_plane import DataPlane
from servers.fronts.kserve_grpc.call import Call, Stream, StreamCall, Unary, parsed
from servers.fronts.kserve_grpc.inference_service import NAME_OF_SERVICE as INFERENCE

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
