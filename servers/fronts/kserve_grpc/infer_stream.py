"""``ModelStreamInfer``: requests to one run of a model, and its answers as they come.

There are three tasks: one reads requests until the client sends no more, one waits for the run, one
sends answers. The stream ends when the run is over and its last answer is sent, so a run that fails
ends it whatever the client does.
"""

from __future__ import annotations

import asyncio

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import name_model
from calculators.tensors.inference import InferRequest
from calculators.tensors.inference.place import quoted
from graph_runtime import RunError
from servers.contract.data_plane import (
    DataPlane,
    InferAnswer,
    InferFailure,
    InferStream,
    Method,
)
from servers.fronts.kserve_grpc.answers import Answers
from servers.fronts.kserve_grpc.call import StreamCall
from servers.fronts.kserve_grpc.codec import (
    decode_beside,
    encode_stream_error,
    encode_stream_response,
    request_id,
)
from servers.fronts.kserve_grpc.errors import status_of
from servers.fronts.kserve_grpc.settings import GrpcSettings


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
