"""``inference.GRPCInferenceService``: KServe's protocol with Triton's repository of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import name_model
from calculators.tensors.inference.place import quoted
from graph_runtime import Code
from servers import NAME, version
from servers.contract.data_plane import DataPlane, Method, TensorMetadata
from servers.fronts.kserve_grpc.call import Call, Stream, StreamCall, Unary
from servers.fronts.kserve_grpc.codec import decode_beside, encode_response
from servers.fronts.kserve_grpc.infer_stream import StreamSession
from servers.fronts.kserve_grpc.messages import parsed, serialized
from servers.fronts.kserve_grpc.settings import GrpcSettings

NAME_OF_SERVICE: Final = "inference.GRPCInferenceService"

_EXTENSIONS: Final = ("model_repository", "parameters")
# Triton's clients always send it. Models here have no dependents.
_UNLOAD_PARAMETER: Final = "unload_dependents"


class InferenceService:
    """The methods by name: `unary` and `streams`."""

    def __init__(self, data_plane: DataPlane, settings: GrpcSettings) -> None:
        self._data_plane = data_plane
        self._settings = settings
        self.unary: Mapping[str, Unary] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ServerMetadata": self._server_metadata,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model_metadata,
            "ModelInfer": self._model_infer,
            "RepositoryIndex": self._repository_index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
        }
        self.streams: Mapping[str, Stream] = {"ModelStreamInfer": self._model_stream_infer}

    async def _model_infer(self, request: bytes, call: Call) -> bytes:
        call.end_after(self._settings.request_seconds)
        decoded = await decode_beside(request, self._settings.max_parsed_bytes)
        name_model(decoded.model)
        servable = await self._data_plane.resolve(decoded.model, Method.INFER, decoded.version)
        return encode_response(await servable.infer(decoded, call))

    async def _model_stream_infer(self, call: StreamCall) -> None:
        await StreamSession(call, self._data_plane, self._settings).run()

    async def _server_live(self, request: bytes, call: Call) -> bytes:
        parsed("inference.ServerLiveRequest", request)
        return serialized("inference.ServerLiveResponse", live=True)

    async def _server_ready(self, request: bytes, call: Call) -> bytes:
        parsed("inference.ServerReadyRequest", request)
        return serialized("inference.ServerReadyResponse", ready=self._data_plane.is_ready)

    async def _server_metadata(self, request: bytes, call: Call) -> bytes:
        parsed("inference.ServerMetadataRequest", request)
        return serialized(
            "inference.ServerMetadataResponse",
            name=NAME,
            version=version(),
            extensions=_EXTENSIONS,
        )

    async def _model_ready(self, request: bytes, call: Call) -> bytes:
        asked = parsed("inference.ModelReadyRequest", request)
        name_model(asked.name)
        is_ready = self._data_plane.is_model_ready(asked.name, asked.version)
        return serialized("inference.ModelReadyResponse", ready=is_ready)

    async def _model_metadata(self, request: bytes, call: Call) -> bytes:
        asked = parsed("inference.ModelMetadataRequest", request)
        name_model(asked.name)
        known = await self._data_plane.metadata(asked.name, asked.version)
        return serialized(
            "inference.ModelMetadataResponse",
            name=known.name,
            versions=known.versions,
            platform=known.platform,
            inputs=_tensors(known.inputs),
            outputs=_tensors(known.outputs),
        )

    async def _repository_index(self, request: bytes, call: Call) -> bytes:
        asked = parsed("inference.RepositoryIndexRequest", request)
        _check_repository(asked.repository_name)
        models = [
            {
                "name": entry.name,
                "version": entry.version,
                "state": entry.state,
                "reason": entry.reason,
            }
            for entry in self._data_plane.index()
            if entry.state == "READY" or not asked.ready
        ]
        return serialized("inference.RepositoryIndexResponse", models=models)

    async def _load(self, request: bytes, call: Call) -> bytes:
        self._settings.access.check_control()
        asked = parsed("inference.RepositoryModelLoadRequest", request)
        model = _model_of(asked)
        _refuse_parameters(asked.parameters)
        name_model(model)
        await self._data_plane.load(model)
        return serialized("inference.RepositoryModelLoadResponse", model_name=model, isLoaded=True)

    async def _unload(self, request: bytes, call: Call) -> bytes:
        self._settings.access.check_control()
        asked = parsed("inference.RepositoryModelUnloadRequest", request)
        model = _model_of(asked)
        _refuse_parameters(name for name in asked.parameters if name != _UNLOAD_PARAMETER)
        name_model(model)
        await self._data_plane.unload(model)
        return serialized(
            "inference.RepositoryModelUnloadResponse", model_name=model, isUnloaded=True
        )


def _tensors(known: Iterable[TensorMetadata]) -> list[dict[str, object]]:
    return [
        {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape}
        for tensor in known
    ]


def _model_of(asked: Any) -> str:
    """Return the model that a request names: Triton's clients and KServe's use different fields."""
    if asked.model_name:
        _check_repository(asked.repository_name)
        return str(asked.model_name)
    if asked.repository_name:
        return str(asked.repository_name)
    raise RequestError("the request has no model_name")


def _check_repository(name: str) -> None:
    if name:
        raise RequestError(
            f"there is no repository {quoted(name)}: there is one, and it has no name",
            code=Code.NOT_FOUND,
        )


def _refuse_parameters(names: Iterable[str]) -> None:
    for name in names:
        raise RequestError(
            f"the parameter {quoted(name)} is not supported: a model is loaded as its files and the"
            " configuration say",
            code=Code.UNIMPLEMENTED,
        )
