"""Pollers: reading an output stream by asking, instead of being called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from graph_runtime import timestamp as ts
from graph_runtime.errors import wrong_argument
from graph_runtime.packet import EMPTY, Packet, packet_at
from graph_runtime.streams.input_stream import InputStream

if TYPE_CHECKING:
    from graph_runtime.engine.run import Run
    from graph_runtime.streams.output_stream import OutputStream


class OutputStreamPoller:
    """Packets of one stream, in order: ``for packet in poller``, or ``async for``.

    Ends when the stream is done, or after an error in the graph when nothing is left to read
    (``graph.wait_until_done()`` then raises it). With ``set_max_queue_size``, a slow reader holds
    the graph back; without it, unread packets accumulate.
    Source: MediaPipe ``framework/output_stream_poller.h``.
    """

    def __init__(self, name: str, observe_timestamp_bounds: bool) -> None:
        self._name = name
        self._run: Run | None = None
        self._observe_bounds = observe_timestamp_bounds
        self._max_queue_size = -1
        self._last = ts.UNSTARTED
        self.stream: InputStream | None = None

    def start_run(self, run: Run) -> None:
        """Attach to a run that has started. Lock held."""
        self._run = run

    def prepare_run(self, source: OutputStream, throttles: tuple[int, ...]) -> InputStream:
        """Return the receiving end for a new run."""
        self._last = ts.UNSTARTED
        self.stream = InputStream(source, None, 0, None, False, self._max_queue_size, throttles)
        return self.stream

    def set_max_queue_size(self, size: int) -> None:
        """Hold back the sources of the stream at ``size`` unread packets; -1: never.

        Raises:
            ValueError: ``size`` is below -1.
            TypeError: it is not an integer.
        """
        if not isinstance(size, int):
            call = "OutputStreamPoller.set_max_queue_size"
            raise wrong_argument(call, "size", size, "an integer")
        if size < -1:
            raise ValueError("the max queue size must be -1 (no limit) or at least 0")
        self._max_queue_size = size
        if self._run is not None and self.stream is not None:
            self._run.set_limit(self.stream, size)

    @property
    def queue_size(self) -> int:
        """The number of packets that wait to be read."""
        return 0 if self.stream is None else len(self.stream.queue)

    def next(self, timeout: float | None = None) -> Packet | None:
        """Wait for the next packet; None at the end. A bound is an empty packet.

        Args:
            timeout: in seconds; None waits for ever. A call of a node that has begun in the
                caller's thread is not cut off.

        Raises:
            StateError: called from a calculator or observer of the graph, or on its event loop.
            TimeoutError: no packet came in time. The next call goes on waiting.
            TypeError: ``timeout`` is not a number.
        """
        call = "OutputStreamPoller.next"
        if timeout is not None and not isinstance(timeout, int | float):
            raise wrong_argument(call, "timeout", timeout, "a number of seconds or None")
        run = self._run
        if run is None:
            return None
        run.wait(call, self._is_decided, ask_each_call=True, timeout=timeout)
        if timeout is not None and not self._is_decided():
            raise TimeoutError(f'no packet came on "{self._name}" within {timeout} s')
        return self._take(run)

    async def next_async(self) -> Packet | None:
        """`next` for event loops."""
        run = self._run
        if run is None:
            return None
        await run.wait_async("OutputStreamPoller.next_async", self._is_decided)
        return self._take(run)

    def _settled(self) -> int:
        stream = self.stream
        if stream is None or stream.bound == ts.DONE:
            return ts.UNSTARTED
        return ts.previous_allowed_in_stream(stream.bound)

    def _is_decided(self) -> bool:
        stream = self.stream
        return (
            stream is None
            or bool(stream.queue)
            or stream.bound == ts.DONE
            or self._run is None
            or self._run.is_over()
            or (self._observe_bounds and self._settled() > self._last)
        )

    def _take(self, run: Run) -> Packet | None:
        stream = self.stream
        if stream is None:
            return None
        with run.lock:
            if stream.queue:
                packet = stream.queue.popleft()
                self._last = packet.time
                if stream.was_full:
                    run.stream_was_read(stream)
                return packet
            if self._observe_bounds and self._settled() > self._last:
                self._last = self._settled()
                return packet_at(EMPTY, self._last)
            return None

    def __iter__(self) -> Iterator[Packet]:
        while (packet := self.next()) is not None:
            yield packet

    async def __aiter__(self) -> AsyncIterator[Packet]:
        while (packet := await self.next_async()) is not None:
            yield packet
