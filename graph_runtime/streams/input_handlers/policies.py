"""The input policies that nodes and calculators name: when a call is due, and with which packets.

Each is an `InputStreamHandler`. `SyncSetInputStreamHandler`, which groups streams, is next door.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET
from graph_runtime.errors import GraphConfigError, did_you_mean
from graph_runtime.language.tag_map import TagMap, parse_tag_index, port_label
from graph_runtime.packet import EMPTY, Packet, packet_at
from graph_runtime.streams.input_handlers.handler import (
    CLOSE,
    NOT_READY,
    PROCESS,
    InputSet,
    InputStreamHandler,
    Readiness,
    SyncSet,
    bound_of,
    read_options,
    take,
)
from graph_runtime.streams.input_stream import InputStream
from protos import messages


@dataclass(frozen=True)
class Settings:
    """The handler's options, checked."""

    batch_size: int = 1


class DefaultInputStreamHandler(SyncSet, InputStreamHandler):
    """Treats its streams as one sync set.

    Options: ``batch_size`` n collects n input sets and processes them in one go.
    """

    is_packet_driven = True

    def __init__(
        self, streams: Sequence[InputStream], settings: Settings, process_bounds: bool
    ) -> None:
        super().__init__(streams, process_bounds)
        self.batch_size = settings.batch_size

    @classmethod
    def prepare(cls, tag_map: TagMap, options: Any, max_in_flight: int) -> Settings:
        size = read_options(options, messages.DefaultInputStreamHandlerOptions).batch_size
        if size < 1:
            raise GraphConfigError(
                f"{cls.__name__}: Batch size has to be greater than or equal to 1: batch_size is "
                f"{size}"
            )
        if size > 1 and max_in_flight > 1:
            raise GraphConfigError(
                f"{cls.__name__}: Batching cannot be combined with parallel execution: batch_size "
                f"is {size} and max_in_flight is {max_in_flight}; one of them must be 1"
            )
        return Settings(size)

    @classmethod
    def sync_groups(cls, count: int, settings: Any) -> list[list[int]]:
        return [list(range(count))]


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


def _previous(bound: int) -> int:
    return bound - 1 if ts.is_range_value(bound) else bound


@dataclass(frozen=True)
class FixedSizes(Settings):
    """The handler's options, checked."""

    trigger: int = 2
    target: int = 1
    fixed_min: bool = False


class FixedSizeInputStreamHandler(DefaultInputStreamHandler):
    """Drops old packets when queues grow.

    Options: ``trigger_queue_size`` (2), ``target_queue_size`` (1), ``fixed_min_size`` (false).

    When any queue reaches the trigger size while the node is busy or waiting, it is cut to the
    target size, and everything older than the cut is dropped from all streams, late arrivals too.
    With ``fixed_min_size`` this happens only when every queue has reached the trigger size.
    """

    is_packet_driven = False
    erases = True
    may_drop = True

    def __init__(
        self, streams: Sequence[InputStream], settings: FixedSizes, process_bounds: bool
    ) -> None:
        super().__init__(streams, settings, process_bounds)
        self.sizes = settings
        self._is_pending = False
        self._kept_time = ts.UNSET

    @classmethod
    def prepare(cls, tag_map: TagMap, options: Any, max_in_flight: int) -> FixedSizes:
        given = read_options(options, messages.FixedSizeInputStreamHandlerOptions)
        if not 1 <= given.target_queue_size <= given.trigger_queue_size:
            raise GraphConfigError(
                "FixedSizeInputStreamHandler: target_queue_size must be at least 1 and at most "
                f"trigger_queue_size; they are {given.target_queue_size} and "
                f"{given.trigger_queue_size}"
            )
        return FixedSizes(
            super().prepare(tag_map, options, max_in_flight).batch_size,
            given.trigger_queue_size,
            given.target_queue_size,
            given.fixed_min_size,
        )

    def _erase_surplus(self, keep_one: bool) -> None:
        if self.sizes.fixed_min:
            if all(len(stream.queue) >= self.sizes.trigger for stream in self.streams):
                cut = min(stream.min_among_latest(self.sizes.target) for stream in self.streams)
                for stream in self.streams:
                    self.dropped += stream.erase_earlier_than(cut)
            return
        for stream in self.streams:
            length = len(stream.queue)
            size = self.sizes.target if length >= self.sizes.trigger else self.sizes.trigger - 1
            if length > size:
                dropped = ts.next_allowed_in_stream(stream.min_among_latest(size + 1))
                self._kept_time = max(self._kept_time, dropped)
        if keep_one:
            self._kept_time = min(self._kept_time, _previous(self._min_stream_bound()))
        for stream in self.streams:
            self.dropped += stream.erase_earlier_than(self._kept_time)

    def _min_stream_bound(self) -> int:
        return min(
            ts.next_allowed_in_stream(stream.queue[-1].time) if stream.queue else stream.bound
            for stream in self.streams
        )

    def readiness(self) -> Readiness:
        if self._is_pending:
            return NOT_READY
        self._erase_surplus(keep_one=False)
        ready = super().readiness()
        # A packet that arrives late, older than what was dropped, is dropped too.
        while self.time < self._kept_time and ready == PROCESS:
            self._erase_surplus(keep_one=False)
            ready = super().readiness()
        self._is_pending = ready == PROCESS
        return ready

    def packets_added(self) -> None:
        if not self._is_pending:
            self._erase_surplus(keep_one=False)

    def fill(self, time: int) -> InputSet:
        self._erase_surplus(keep_one=True)
        # The surplus that was erased may have had the packets of the given time.
        time = min(
            stream.queue[0].time if stream.queue else _previous(stream.bound)
            for stream in self.streams
        )
        self._is_pending = False
        return super().fill(time)


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
