"""``grpc.health.v1.Health``: gRPC's standard service for readiness."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.place import quoted
from graph_runtime import Code, NotFoundError
from servers.contract.data_plane import DataPlane
from servers.fronts.kserve_grpc.call import Call, Stream, StreamCall, Unary
from servers.fronts.kserve_grpc.inference_service import NAME_OF_SERVICE as INFERENCE
from servers.fronts.kserve_grpc.messages import parsed, serialized

NAME_OF_SERVICE: Final = "grpc.health.v1.Health"

_REQUEST: Final = "grpc.health.v1.HealthCheckRequest"
_RESPONSE: Final = "grpc.health.v1.HealthCheckResponse"
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
        service = parsed(_REQUEST, request).service
        status = self._status(service)
        if status == _UNKNOWN:
            raise RequestError(f"there is no service {quoted(service)}", code=Code.NOT_FOUND)
        return serialized(_RESPONSE, status=status)

    async def _watch(self, call: StreamCall) -> None:
        """Send the status now, and at every change."""
        request = await call.read()
        if request is None:
            raise RequestError("the stream ended before its request")
        service = parsed(_REQUEST, await call.content(request)).service
        call.is_idle = True
        status_of = ""
        while True:
            status = self._status(service)
            if status != status_of:
                status_of = status
                await call.write(serialized(_RESPONSE, status=status))
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
