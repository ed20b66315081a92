"""One version of a plain model: loading, inference, retiring."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload, RequestError
from calculators.tensors.inference import Datatype, InferRequest, InferResponse, quoted
from calculators.tensors.openvino.model import Model
from graph_runtime import GraphError, LoadProgress
from graph_runtime.errors import reason_of
from servers.config import ModelEntry
from servers.contract.data_plane import (
    SERVABLE_TRANSITIONS,
    InferAnswer,
    InferFailure,
    InferStream,
    ServableEvent,
    ServableState,
)
from servers.serving.loaded_graph import GraphSettings
from servers.serving.models.request_tensors import (
    arrays_of,
    decoded_images,
    response_of,
    wanted_outputs,
)
from servers.serving.models.version_folders import Listing, source_of
from servers.serving.servable import Loading, UseCount, unavailable_error

#: Requests in flight on one stream per infer request of the model: one computes, one waits.
_IN_HAND = 2


class ModelStream:
    """A `servers.contract.data_plane.InferStream` over a plain model.

    As many inferences overlap as the model has infer requests. An error in a request is its answer;
    only the client ends the stream.
    """

    def __init__(
        self,
        model: str,
        version: int,
        nireq: int,
        infer: Callable[[InferRequest], Coroutine[Any, Any, InferResponse]],
        client: ClientConnection,
        emit: Callable[[InferAnswer], object],
    ) -> None:
        """
        Args:
            nireq: the number of concurrent inferences of the model.
            infer: makes one inference.
        """
        self._model = model
        self._version = version
        self._infer = infer
        self._client = client
        self._emit = emit
        self._free = asyncio.Semaphore(_IN_HAND * nireq)
        #: Ids and inferences in the order of the requests; None is the end.
        self._answers: asyncio.Queue[tuple[str, asyncio.Task[InferResponse]] | None]
        self._answers = asyncio.Queue()
        self._emitting = asyncio.create_task(self._emit_answers())

    async def send(self, request: InferRequest) -> None:
        """Take a request once the client reads answers and there is room for the request.

        Raises:
            RequestError: the request names another model or version than the stream.
        """
        if request.model != self._model:
            raise RequestError(
                f"this stream is one to the model {quoted(self._model)}, not to "
                f"{quoted(request.model)}",
                param="model_name",
            )
        if request.version not in ("", "0", str(self._version)):
            raise RequestError(
                f"this stream is one to version {self._version} of the model, not to "
                f"{quoted(request.version)}",
                param="model_version",
            )
        if not self._client.is_writable:
            await self._client.writable()
        await self._free.acquire()
        inference = asyncio.create_task(self._infer(request))
        self._answers.put_nowait((request.id, inference))

    def close_inputs(self) -> None:
        """End the requests."""
        self._answers.put_nowait(None)

    async def wait(self) -> None:
        """Return when the requests have ended and every answer has been emitted."""
        await asyncio.shield(self._emitting)

    async def end(self) -> None:
        """Cancel requests in flight."""
        self._emitting.cancel()
        inferences = []
        while not self._answers.empty():
            item = self._answers.get_nowait()
            if item is not None:
                item[1].cancel()
                inferences.append(item[1])
        await asyncio.gather(self._emitting, *inferences, return_exceptions=True)

    async def _emit_answers(self) -> None:
        while (item := await self._answers.get()) is not None:
            request_id, inference = item
            answer: InferAnswer
            try:
                answer = await inference
            except Exception as error:
                answer = InferFailure(request_id, error)
            self._free.release()
            self._emit(answer)


_log: Final = logging.getLogger(__name__)


class ModelVersion:
    """A version by number, through loading, answering and retiring.

    Once loaded a `servers.contract.data_plane.LoadedServable`. Belongs to one event loop.

    Attributes:
        model: the loaded model; None unless the state is AVAILABLE. Running graphs keep it longer.
        reason: why loading failed, for clients; "" otherwise.
        created: when the version was loaded, Unix time in seconds.
        files: its files when it was loaded.
        users: inferences and open streams.
        loading: how far loading is; None unless the state is LOADING.
    """

    def __init__(self, entry: ModelEntry, number: int, settings: GraphSettings) -> None:
        self.number = number
        self.model: Model | None = None
        self.reason = ""
        self.created = 0
        self.files: Listing = ()
        self._entry = entry
        self._settings = settings
        self._state = ServableState.START
        self.users = UseCount(entry.name, settings.request_limit)
        self.loading: Loading | None = None
        self._end_watching: Callable[[], None] | None = None

    @property
    def state(self) -> ServableState:
        return self._state

    async def load(self, path: Path | None) -> None:
        """Load from a folder or file; None if there is none. A failure is logged and kept."""
        self._move(ServableEvent.LOAD)
        self.reason = ""
        self.loading = loading = Loading(f"{self._entry.name} version {self.number}")
        _log.info("%s: loading version %d", self._entry.name, self.number)
        try:
            self.model = await asyncio.to_thread(self._load, path, loading.progress)
        except asyncio.CancelledError:
            self.reason = "its loading was interrupted"
            self._move(ServableEvent.LOAD_FAILED)
            raise
        except Exception as error:
            self.reason = reason_of(error) if isinstance(error, GraphError) else "internal error"
            self._move(ServableEvent.LOAD_FAILED)
            _log.error(
                "%s: version %d could not be loaded: %s",
                self._entry.name,
                self.number,
                self.reason,
                exc_info=None if isinstance(error, GraphError) else error,
            )
            return
        finally:
            self.loading = None
        if self._settings.metrics is not None:
            self._end_watching = self._settings.metrics.watch_model(self.model)
        self.created = int(time.time())
        self._move(ServableEvent.LOADED)
        _log.info("%s: version %d loaded in %.1f s", self._entry.name, self.number, loading.seconds)

    def _load(self, path: Path | None, progress: LoadProgress) -> Model:
        source = source_of(self._entry, self.number, path)
        settings = replace(
            source.settings,
            cache_dir=self._settings.cache_dir if self._entry.is_cached else "",
            cache_bytes=self._settings.cache_dir_size,
            extension=self._settings.cpu_extension,
        )
        return replace(source, settings=settings).load(progress)

    async def answer(self, payload: HttpPayload, emit: Callable[[ResponsePacket], object]) -> None:
        """Refuse an HTTP request.

        Raises:
            RequestError: always, because a plain model takes tensors only.
        """
        name = self._entry.name
        raise RequestError(
            f'The model "{name}" does not answer such requests: it takes tensors, at '
            f"/v2/models/{name}/infer",
            param="model",
        )

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """Wait for a turn, make one inference, and return the answer.

        Raises:
            UnavailableError: the version is not loaded.
            RequestError: the request does not fit the model; too many are in flight
                (RESOURCE_EXHAUSTED); or the inference failed (INTERNAL).
        """
        return await self._infer(request, self._loaded())

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """Open a stream whose requests are answered in order, by the model that is loaded now.

        The stream keeps the model when it is replaced.

        Raises:
            UnavailableError: the version is not loaded.
        """
        model = self._loaded()

        def infer(request: InferRequest) -> Coroutine[Any, Any, InferResponse]:
            return self._infer(request, model)

        with self.users.stream():
            stream = ModelStream(self._entry.name, self.number, model.nireq, infer, client, emit)
            try:
                yield stream
            finally:
                await stream.end()

    async def _infer(self, request: InferRequest, model: Model) -> InferResponse:
        try:
            with self.users:
                wanted = wanted_outputs(request, model)
                images: Mapping[int, Any] = {}
                if any(tensor.datatype == Datatype.BYTES for tensor in request.inputs):
                    images = await decoded_images(request, model)
                ignores = self._settings.ignores_further_inputs
                arrays = arrays_of(request, model, images, ignores_others=ignores)
                outputs = await model.infer_checked(arrays)
        except RequestError:
            raise
        except GraphError as error:
            raise RequestError(str(error), code=error.code) from error
        return response_of(request, model, wanted, outputs)

    def begin_retiring(self) -> bool:
        """Refuse new requests. False if they were refused already."""
        if self._state in (ServableState.UNLOADING, ServableState.END):
            return False
        self.model = None
        if self._end_watching is not None:
            self._end_watching()
        self._move(ServableEvent.RETIRE)
        return True

    async def end_retiring(self) -> None:
        """Wait for requests in flight and open streams, which keep the model."""
        await self.users.close()
        self._move(ServableEvent.UNLOADED)
        _log.info("%s: version %d unloaded", self._entry.name, self.number)

    def _loaded(self) -> Model:
        if self.model is None:
            what = f'Version {self.number} of the model "{self._entry.name}"'
            raise unavailable_error(what, self._state, self.reason)
        return self.model

    def _move(self, event: ServableEvent) -> None:
        self._state = SERVABLE_TRANSITIONS[self._state, event]
