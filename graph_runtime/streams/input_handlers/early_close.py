"""EarlyCloseInputStreamHandler: like the default, but the first finished stream ends the node."""

from __future__ import annotations

from typing import Any

from graph_runtime import timestamp as ts
from graph_runtime.streams.input_handlers.handler import (
    CLOSE,
    NOT_READY,
    PROCESS,
    InputStreamHandler,
    Readiness,
)


class EarlyCloseInputStreamHandler(InputStreamHandler):
    """Closes as soon as any stream is empty and done; packets queued on the others are lost."""

    is_packet_driven = False

    @classmethod
    def sync_groups(cls, count: int, settings: Any) -> list[list[int]]:
        return [list(range(count))]

    def readiness(self) -> Readiness:
        earliest = min_bound = ts.DONE
        for stream in self.streams:
            time = stream.min_timestamp_or_bound
            if not stream.queue:
                if time == ts.DONE:
                    self.time = ts.DONE
                    return CLOSE
                min_bound = min(min_bound, time)
            earliest = min(earliest, time)
        self.time = earliest
        return PROCESS if min_bound > earliest else NOT_READY
