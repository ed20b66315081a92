"""``inference.GRPCInferenceService``: KServe's protocol with Triton's repository of models.

``ModelStreamInfer``: requests to one run of a model, and its answers as they come.

There are three tasks: one reads requests until the client sends no more, one waits for the run, one
sends answers. The stream ends when the run is over and its last answer is sent, so a run that fails
ends it whatever the client does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import name_model
from calculators.tensors.inference import InferRequest, quoted
from graph_runtime import Code, RunError
from protos import messages
from servers import NAME, version
from servers.contract.data_plane import (
    DataPlane,
    InferAnswer,
    InferFailure,
    InferStream,
    Method,
    TensorMetadata,
)
from servers.fronts.kserve_grpc.call import (
    Call,
    ClientGone,
    Stream,
    StreamCall,
    Unary,
    parsed,
    status_of,
)
from servers.fronts.kserve_grpc.codec import (
    decode_beside,
    encode_response,
    encode_stream_error,
    encode_stream_response,
    request_id,
)
from servers.fronts.kserve_grpc.settings import GrpcSettings


class Answers:
    """A queue of messages to a client, which calculators see as its connection.

    A `calculators.kit.requests.http_payload.ClientConnection`. Belongs to one event loop.

    Attributes:
        ended: done when everything is sent; with an exception if the stream ends with one.
    """

    def __init__(self, call: StreamCall, settings: GrpcSettings) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_disconnect = call.on_disconnect
        self._call = call
        self._settings = settings
        self._waiting: deque[bytes] = deque()
        self._unsent = 0
        self._is_last = False
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_disconnected(self) -> bool:
        return self._call.is_disconnected

    @property
    def is_writable(self) -> bool:
        return self._room.is_set() or self.is_disconnected

    async def writable(self) -> None:
        # A calculator that sends without end must yield to the loop: otherwise nothing is sent.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._room.wait()

    def put(self, message: bytes) -> None:
        """Queue a message. After the end of the stream it is dropped."""
        if self._is_last or self.ended.done():
            return
        if self._unsent > self._settings.max_unsent_bytes:
            text = f"the client does not take its answers: {self._unsent} bytes wait for it"
            self._end(RequestError(text, code=Code.RESOURCE_EXHAUSTED))
            return
        self._waiting.append(message)
        self._unsent += len(message)
        if self._unsent > self._settings.write_buffer_bytes:
            self._room.clear()
        self._news.set()

    def finish(self, error: Exception | None = None) -> None:
        """End the stream, with this error, once everything is sent."""
        if not self._is_last:
            self._is_last = True
            self._error = error
            self._news.set()

    def drop(self) -> None:
        """Drop unsent messages: the client is gone."""
        self._is_last = True
        self._waiting.clear()
        self._room.set()

    async def send_all(self) -> None:
        """Send queued messages until `finish`; then set `ended`."""
        try:
            while not self._is_last or self._waiting:
                if not self._waiting:
                    self._news.clear()
                    await self._news.wait()
                    continue
                message = self._waiting.popleft()
                await self._call.write(message)
                self._unsent -= len(message)
                if self._unsent <= self._settings.write_buffer_bytes:
                    self._room.set()
        except ClientGone as gone:
            self._end(gone)
        else:
            self._end(self._error)

    def _end(self, error: Exception | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


class StreamSession:
    """One call of ``ModelStreamInfer``."""

    def __init__(self, call: StreamCall, data_plane: DataPlane, settings: GrpcSettings) -> None:
        self._call = call
        self._data_plane = data_plane
        self._settings = settings
        self._answers = Answers(call, settings)
        self._is_reading = False

    async def run(self) -> None:
        """Handle the call up to its status.

        Raises:
            Exception: the error for the status.
        """
        answers = self._answers
        try:
            first = await self._read_first()
            name_model(first.model)
            servable = await self._data_plane.resolve(
                first.model, Method.INFER_STREAM, first.version
            )
            async with servable.open_stream(first, answers, self._emit) as stream:
                sending = asyncio.create_task(answers.send_all())
                finishing = asyncio.create_task(self._finish(stream))
                taking = asyncio.create_task(self._take(stream, first))
                try:
                    await answers.ended
                except asyncio.CancelledError:
                    if self._call.ending is None:
                        self._call.disconnect()
                    raise
                finally:
                    answers.drop()
                    tasks = [sending, finishing]
                    # A read ends with the call, and must not be cancelled.
                    if not self._is_reading:
                        tasks.append(taking)
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            answers.ended.cancel()

    # Requests -------------------------------------------------------------------------------------

    async def _read_first(self) -> InferRequest:
        """Return the first valid request, which chooses the model of the stream."""
        while True:
            data = await self._call.read()
            if data is None:
                raise RequestError("the stream ended before its first request")
            try:
                data = await self._call.content(data)
                return await decode_beside(data, self._settings.max_parsed_bytes)
            except RequestError as error:
                await self._call.write(encode_stream_error(status_of(error)[1], request_id(data)))

    async def _take(self, stream: InferStream, first: InferRequest) -> None:
        """Pass requests to the run until the client sends no more."""
        request: InferRequest | None = first
        try:
            while request is not None:
                try:
                    await stream.send(request)
                except RequestError as error:
                    self._answers.put(encode_stream_error(status_of(error)[1], request.id))
                self._call.release()
                request = await self._next(first)
            if not self._answers.ended.done():
                stream.close_inputs()
        except RunError:
            return  # `InferStream.wait` raises it too
        except Exception as error:
            self._answers.finish(error)

    async def _next(self, first: InferRequest) -> InferRequest | None:
        """Return the next valid request; None when the client sends no more."""
        while True:
            await self._answers.writable()
            self._is_reading = True
            data = await self._call.read()
            self._is_reading = False
            if data is None or self._answers.ended.done():
                return None
            try:
                data = await self._call.content(data)
                request = await decode_beside(data, self._settings.max_parsed_bytes)
                _check_model(request, first)
            except RequestError as error:
                # One wrong request does not end the stream, as in OpenVINO Model Server.
                self._answers.put(encode_stream_error(status_of(error)[1], request_id(data)))
            else:
                return request

    # Answers --------------------------------------------------------------------------------------

    async def _finish(self, stream: InferStream) -> None:
        try:
            await stream.wait()
        except Exception as error:
            self._answers.finish(error)
        else:
            self._answers.finish()

    def _emit(self, answer: InferAnswer) -> None:
        if isinstance(answer, InferFailure):
            self._answers.put(encode_stream_error(status_of(answer.error)[1], answer.id))
            return
        try:
            self._answers.put(encode_stream_response(answer))
        except ValueError as error:  # no message can express it
            self._answers.finish(error)


def _check_model(request: InferRequest, first: InferRequest) -> None:
    """Refuse a request for another model; the texts begin as OpenVINO Model Server's."""
    if request.model not in ("", first.model):
        raise RequestError(
            f"Subsequent request with incorrect servable name {quoted(request.model)}: this stream"
            f" is of {quoted(first.model)}"
        )
    if request.version not in ("", "0", first.version):
        raise RequestError(
            f"Subsequent request with incorrect servable version {quoted(request.version)}: this"
            f" stream is of {quoted(first.version)}"
        )


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
        parsed(messages.ServerLiveRequest, request)
        return messages.ServerLiveResponse(live=True).SerializeToString()

    async def _server_ready(self, request: bytes, call: Call) -> bytes:
        parsed(messages.ServerReadyRequest, request)
        return messages.ServerReadyResponse(ready=self._data_plane.is_ready).SerializeToString()

    async def _server_metadata(self, request: bytes, call: Call) -> bytes:
        parsed(messages.ServerMetadataRequest, request)
        return messages.ServerMetadataResponse(
            name=NAME,
            version=version(),
            extensions=_EXTENSIONS,
        ).SerializeToString()

    async def _model_ready(self, request: bytes, call: Call) -> bytes:
        asked = parsed(messages.ModelReadyRequest, request)
        name_model(asked.name)
        is_ready = self._data_plane.is_model_ready(asked.name, asked.version)
        return messages.ModelReadyResponse(ready=is_ready).SerializeToString()

    async def _model_metadata(self, request: bytes, call: Call) -> bytes:
        asked = parsed(messages.ModelMetadataRequest, request)
        name_model(asked.name)
        known = await self._data_plane.metadata(asked.name, asked.version)
        return messages.ModelMetadataResponse(
            name=known.name,
            versions=known.versions,
            platform=known.platform,
            inputs=_tensors(known.inputs),
            outputs=_tensors(known.outputs),
        ).SerializeToString()

    async def _repository_index(self, request: bytes, call: Call) -> bytes:
        asked = parsed(messages.RepositoryIndexRequest, request)
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
        return messages.RepositoryIndexResponse(models=models).SerializeToString()

    async def _load(self, request: bytes, call: Call) -> bytes:
        self._settings.access.check_control()
        asked = parsed(messages.RepositoryModelLoadRequest, request)
        model = _model_of(asked)
        _refuse_parameters(asked.parameters)
        name_model(model)
        await self._data_plane.load(model)
        return messages.RepositoryModelLoadResponse(
            model_name=model, isLoaded=True
        ).SerializeToString()

    async def _unload(self, request: bytes, call: Call) -> bytes:
        self._settings.access.check_control()
        asked = parsed(messages.RepositoryModelUnloadRequest, request)
        model = _model_of(asked)
        _refuse_parameters(name for name in asked.parameters if name != _UNLOAD_PARAMETER)
        name_model(model)
        await self._data_plane.unload(model)
        return messages.RepositoryModelUnloadResponse(
            model_name=model, isUnloaded=True
        ).SerializeToString()


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
