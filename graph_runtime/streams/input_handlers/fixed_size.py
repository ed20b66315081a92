"""FixedSizeInputStreamHandler: like the default, but old packets give way to new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_runtime import timestamp as ts
from graph_runtime.errors import GraphConfigError
from graph_runtime.language.tag_map import TagMap
from graph_runtime.streams.input_handlers.default import DefaultInputStreamHandler, Settings
from graph_runtime.streams.input_handlers.handler import (
    NOT_READY,
    PROCESS,
    InputSet,
    Readiness,
    read_options,
)
from graph_runtime.streams.input_stream import InputStream
from protos import messages


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
