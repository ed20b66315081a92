"""`ModelStream`: a stream of requests to a plain model, answered in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from calculators.kit.requests.http_payload import ClientConnection, RequestError
from calculators.tensors.inference import InferRequest, InferResponse
from calculators.tensors.inference.place import quoted
from servers.contract.data_plane import InferAnswer, InferFailure

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
