"""``ModelStreamInfer``: requests to one run of a model, and its answers as they come.

Three tasks: one takes requests, until the client sends no more; one waits for the run; one sends
answers. The stream ends when the run is over and its last answer is sent, so a run that fails ends
it whatever the client does.
"""

from __future__ import annotations

import asyncio

from calculators.inference import InferRequest
from calculators.inference.place import quoted
from calculators.requests.http_payload import RequestError
from calculators.requests.request_record import name_model
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
    decode_request,
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
        """Until the status.

        Raises:
            Exception: what the status says.
        """
        first = await self._read_first()
        name_model(first.model)
        answers = self._answers
        try:
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
        """The first request that can be read: its model is the stream's."""
        while True:
            data = await self._call.read()
            if data is None:
                raise RequestError("the stream ended before its first request")
            try:
                return decode_request(data, self._settings.max_parsed_bytes)
            except RequestError as error:
                await self._call.write(encode_stream_error(status_of(error)[1], request_id(data)))

    async def _take(self, stream: InferStream, first: InferRequest) -> None:
        """Give the run every request, until the client sends no more."""
        request: InferRequest | None = first
        try:
            while request is not None:
                try:
                    await stream.send(request)
                except RequestError as error:
                    self._answers.put(encode_stream_error(status_of(error)[1], request.id))
                request = await self._next(first)
            if not self._answers.ended.done():
                stream.close_inputs()
        except RunError:
            return  # which `wait` tells
        except Exception as error:
            self._answers.finish(error)

    async def _next(self, first: InferRequest) -> InferRequest | None:
        """The next request for this stream; None when none comes."""
        while True:
            await self._answers.writable()
            self._is_reading = True
            data = await self._call.read()
            self._is_reading = False
            if data is None or self._answers.ended.done():
                return None
            try:
                request = decode_request(data, self._settings.max_parsed_bytes)
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
        except ValueError as error:  # no message can say it
            self._answers.finish(error)


def _check_model(request: InferRequest, first: InferRequest) -> None:
    """OpenVINO Model Server's texts, and then the names."""
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
