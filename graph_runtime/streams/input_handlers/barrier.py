"""BarrierInputStreamHandler: one packet of each stream, whatever their timestamps."""

from __future__ import annotations

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET
from graph_runtime.streams.input_handlers.handler import (
    CLOSE,
    NOT_READY,
    PROCESS,
    InputSet,
    InputStreamHandler,
    Readiness,
)


class BarrierInputStreamHandler(InputStreamHandler):
    """Pairs the heads of all queues; timestamps may repeat or go back.

    The input timestamp is the smallest of the heads. Closes as soon as any stream is empty and
    done.
    """

    is_timed = False

    def readiness(self) -> Readiness:
        earliest = ts.DONE
        all_available = True
        for stream in self.streams:
            time = stream.min_timestamp_or_bound
            if not stream.queue:
                if time == ts.DONE:
                    self.time = ts.DONE
                    return CLOSE
                all_available = False
            earliest = min(earliest, time)
        self.time = earliest
        return PROCESS if all_available else NOT_READY

    def fill(self, time: int) -> InputSet:
        return [
            (stream.queue.popleft() if stream.queue else NO_PACKET, stream.is_done)
            for stream in self.streams
        ]
