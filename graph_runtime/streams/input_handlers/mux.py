"""MuxInputStreamHandler: a control stream selects one of the others."""

from __future__ import annotations

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET
from graph_runtime.errors import GraphConfigError
from graph_runtime.language.tag_map import TagMap
from graph_runtime.packet import Packet
from graph_runtime.streams.input_handlers.handler import (
    CLOSE,
    NOT_READY,
    PROCESS,
    InputSet,
    InputStreamHandler,
    Readiness,
    take,
)


class MuxInputStreamHandler(InputStreamHandler):
    """Reads the stream that the last stream selects.

    The last stream by id carries an int c; a call waits for it and stream number c only.

    Data packets older than the control packet are dropped.
    """

    erases = True

    @classmethod
    def prepare(cls, tag_map: TagMap, options: object, max_in_flight: int) -> None:
        if len(tag_map) < 2:
            raise GraphConfigError(
                "MuxInputStreamHandler needs a control stream, which is the last by tag, and at "
                "least one data stream"
            )

    def _erase_earlier_than(self, time: int) -> None:
        for stream in self.streams[:-1]:
            stream.erase_earlier_than(time)

    def _selected(self, packet: Packet) -> int:
        selected = packet.payload
        count = len(self.streams) - 1
        if not isinstance(selected, int) or not 0 <= selected < count:
            raise GraphConfigError(
                f'MuxInputStreamHandler: control stream "{self.streams[-1].name}" selects '
                f"{selected!r} at timestamp {ts.debug_string(packet.time)}, but there are {count} "
                f"data streams (0 to {count - 1})"
            )
        return selected

    def readiness(self) -> Readiness:
        # The last input by tag and index, as in MediaPipe: SELECT in its graphs.
        control = self.streams[-1]
        self.time = time = control.min_timestamp_or_bound
        self._erase_earlier_than(time)
        if not control.queue:
            return CLOSE if time == ts.DONE else NOT_READY
        data = self.streams[self._selected(control.queue[0])]
        if not data.queue and data.bound <= time:
            return NOT_READY
        return PROCESS

    def fill(self, time: int) -> InputSet:
        filled: InputSet = [(NO_PACKET, stream.is_done) for stream in self.streams]
        selected = self._selected(self.streams[-1].queue[0])
        filled[-1] = take(self.streams[-1], time)
        filled[selected] = take(self.streams[selected], time)
        self._erase_earlier_than(ts.next_allowed_in_stream(time))
        return filled
