"""TimestampAlignInputStreamHandler: streams with different clocks, shifted to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET
from graph_runtime.errors import GraphConfigError, did_you_mean
from graph_runtime.language.tag_map import TagMap, parse_tag_index, port_label
from graph_runtime.packet import EMPTY, packet_at
from graph_runtime.streams.input_handlers.handler import (
    CLOSE,
    NOT_READY,
    PROCESS,
    InputSet,
    InputStreamHandler,
    Readiness,
    read_options,
    take,
)
from graph_runtime.streams.input_stream import InputStream
from protos import messages


def _base_place(tag_map: TagMap, options: Any) -> int:
    text = read_options(
        options, messages.TimestampAlignInputStreamHandlerOptions
    ).timestamp_base_tag_index
    place = tag_map.id_of(*parse_tag_index(text))
    if place < 0:
        labels = [port_label(tag, index) for tag, index in tag_map]
        raise GraphConfigError(
            f'TimestampAlignInputStreamHandler: stream "{text}" is not found in the node\'s input '
            f"streams: {', '.join(labels)}.{did_you_mean(text, labels)}"
        )
    return place


class TimestampAlignInputStreamHandler(InputStreamHandler):
    """Shifts the timestamps of all streams to the clock of one of them.

    Option: ``timestamp_base_tag_index``, the stream whose clock counts.

    Packets of the base stream pass alone until every other stream has sent something; then each
    stream is shifted by the difference seen at that moment, and all are synchronised as by the
    default handler.
    """

    def __init__(self, streams: Sequence[InputStream], settings: int, process_bounds: bool) -> None:
        super().__init__(streams, settings, process_bounds)
        self.base = settings
        self.offsets = [0] * len(streams)
        self.is_aligned = len(streams) == 1

    @classmethod
    def prepare(cls, tag_map: TagMap, options: Any, max_in_flight: int) -> int:
        return _base_place(tag_map, options)

    def readiness(self) -> Readiness:
        if not self.is_aligned:
            base = self.streams[self.base]
            self.time = base.min_timestamp_or_bound
            if not base.queue:
                return NOT_READY
            unknown = 0
            for place, stream in enumerate(self.streams):
                if place == self.base:
                    continue
                if stream.queue:
                    self.offsets[place] = self.time - stream.queue[0].time
                else:
                    unknown += 1
            # Until every stream has had a packet, those of the base go alone, as in MediaPipe.
            self.is_aligned = unknown == 0
            return PROCESS
        earliest = min_bound = ts.DONE
        for place, stream in enumerate(self.streams):
            time = stream.min_timestamp_or_bound
            if ts.is_range_value(time):
                time = ts.clamp(time + self.offsets[place])
            if not stream.queue:
                min_bound = min(min_bound, time)
            earliest = min(earliest, time)
        self.time = earliest
        if earliest == ts.DONE:
            return CLOSE
        return PROCESS if min_bound > earliest else NOT_READY

    def fill(self, time: int) -> InputSet:
        if not self.is_aligned:
            return [
                take(stream, time) if place == self.base else (NO_PACKET, False)
                for place, stream in enumerate(self.streams)
            ]
        filled: InputSet = []
        for place, stream in enumerate(self.streams):
            packet, is_done = take(stream, ts.clamp(time - self.offsets[place]))
            if packet.payload is not EMPTY:
                packet = packet_at(packet.payload, time)
            filled.append((packet, is_done))
        return filled
