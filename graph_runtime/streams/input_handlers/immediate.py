"""ImmediateInputStreamHandler: every stream on its own, no packet waits for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_runtime import timestamp as ts
from graph_runtime.streams.input_handlers.handler import (
    CLOSE,
    NOT_READY,
    PROCESS,
    InputSet,
    InputStreamHandler,
    Readiness,
    SyncSet,
    bound_of,
    take,
)
from graph_runtime.streams.input_stream import InputStream


class ImmediateInputStreamHandler(InputStreamHandler):
    """Each stream is a sync set of its own; the smallest ready timestamp is processed.

    Input timestamps can go back between streams. A stream that becomes done causes one more call
    without packets: at MAX with process_timestamp_bounds, else at the smallest bound of the others.
    """

    def __init__(self, streams: Sequence[InputStream], settings: Any, process_bounds: bool) -> None:
        super().__init__(streams, settings, process_bounds)
        self.sync_sets = [SyncSet([stream], process_bounds) for stream in streams]
        #: Per stream: the timestamp it is ready at, or UNSET.
        self.ready_times = [ts.UNSET] * len(streams)

    @classmethod
    def sync_groups(cls, count: int, settings: Any) -> list[list[int]]:
        return [[place] for place in range(count)]

    def readiness(self) -> Readiness:
        input_time = min_bound = ts.DONE
        became_done = False
        ready_times = self.ready_times
        for place, sync_set in enumerate(self.sync_sets):
            if ready_times[place] > ts.UNSET:
                min_bound = min(min_bound, ready_times[place])
                input_time = min(input_time, ready_times[place])
                continue
            previous = sync_set.last_processed
            ready = sync_set.readiness()
            time = sync_set.time
            min_bound = min(min_bound, time)
            if ready == PROCESS:
                ready_times[place] = time
                input_time = min(input_time, time)
            elif ready == CLOSE:
                if self.process_bounds:
                    if previous < ts.MAX:
                        min_bound = min(min_bound, ts.MAX)
                        input_time = min(input_time, ts.MAX)
                        ready_times[place] = ts.MAX
                    else:
                        ready_times[place] = ts.DONE
                elif previous < ts.DONE:
                    # As in MediaPipe, a node is called once more when a set of its streams ends;
                    # with timestamp bounds at ``Timestamp.MAX``.
                    became_done = True
                    ready_times[place] = ts.DONE
        self.time = min_bound
        if min_bound == ts.DONE:
            return CLOSE
        if input_time < ts.DONE:
            self.time = input_time
            return PROCESS
        return PROCESS if became_done else NOT_READY

    def fill(self, time: int) -> InputSet:
        filled: InputSet = []
        for place, stream in enumerate(self.streams):
            if self.ready_times[place] == time:
                filled.append(take(stream, time))
                self.ready_times[place] = ts.UNSET
            else:
                filled.append(bound_of(stream))
        return filled
