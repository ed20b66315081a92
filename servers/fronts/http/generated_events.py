"""The answers of a run, each as an event of Triton's ``generate_stream``."""

from __future__ import annotations

import asyncio

from calculators.tensors.inference import InferRequest
from servers.contract.data_plane import InferAnswer, InferFailure, InferStream
from servers.fronts.http.event_stream import EventStream
from servers.fronts.kserve_rest import encode_generated


class GeneratedEvents:
    """Sends answers until one cannot be sent; then the run is ended."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._failure: Exception | None = None
        self._patience: asyncio.Timeout | None = None

    def emit(self, answer: InferAnswer) -> None:
        """Send one answer."""
        if self._failure is not None:
            return
        try:
            if isinstance(answer, InferFailure):
                raise answer.error
            self._stream.emit(b"data: " + encode_generated(answer) + b"\n\n")
        except Exception as failure:
            self._failure = failure
            if self._patience is not None:
                self._patience.reschedule(0)

    async def follow(self, requests: InferStream, only: InferRequest) -> None:
        """Run with one request; return when the run is over.

        Raises:
            Exception: the run failed, or an answer cannot be expressed in JSON.
        """
        try:
            async with asyncio.timeout(None) as self._patience:
                await requests.send(only)
                requests.close_inputs()
                await requests.wait()
        except Exception:
            if self._failure is None:
                raise
        finally:
            self._patience = None
        if self._failure is not None:
            raise self._failure
