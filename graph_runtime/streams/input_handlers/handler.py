"""The interface of input stream handlers, and the sync set that most are made of.

A handler answers one question -- can the node run? -- and fills one input set. It takes no lock and
calls no user code; the engine asks it, always under the graph's lock.
Source: MediaPipe ``framework/input_stream_handler.{h,cc}``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, TypeVar

from graph_runtime import timestamp as ts
from graph_runtime.language.tag_map import TagMap
from graph_runtime.options.options import find_extension_options
from graph_runtime.packet import EMPTY, Packet, packet_at
from graph_runtime.streams.input_stream import InputStream

T = TypeVar("T")


class Readiness(IntEnum):
    """The next thing that a node can do."""

    NOT_READY = 0
    PROCESS = 1
    CLOSE = 2


NOT_READY, PROCESS, CLOSE = Readiness

#: One input set: per stream by id, the packet and whether the stream is done.
InputSet = list[tuple[Packet, bool]]


class InputStreamHandler(ABC):
    """Base class. `readiness` sets ``time``: the timestamp to process, or the bound to forward.

    A subclass is registered under its name; see `graph_runtime.plan.registry`.
    """

    #: A node with this handler and one stream runs whenever that stream has a packet.
    is_packet_driven: ClassVar[bool] = False
    #: False: timestamps are ignored and need not increase.
    is_timed: ClassVar[bool] = True
    #: True if `readiness` may erase packets that no call will see.
    erases: ClassVar[bool] = False
    #: True if these are packets that a call could have seen; ``dropped`` counts them.
    may_drop: ClassVar[bool] = False
    dropped: int = 0
    #: The last stream that has not ended, if each of its packets is an input set: the handler need
    #: not be asked any more. `readiness` and `fill` may set it.
    sole_stream: InputStream | None = None

    def __init__(self, streams: Sequence[InputStream], settings: Any, process_bounds: bool) -> None:
        self.streams = streams
        self.time = ts.UNSET
        self.process_bounds = process_bounds
        self.batch_size = 1

    @classmethod
    def prepare(cls, tag_map: TagMap, options: Any, max_in_flight: int) -> Any:
        """Read the options once, when the graph is validated; the result is ``settings``.

        ``options`` is a ``MediaPipeOptions`` or None.

        Raises:
            GraphConfigError: an option is wrong; the text says what would be right.
        """
        return None

    @classmethod
    def sync_groups(cls, count: int, settings: Any) -> list[list[int]] | None:
        """Return the ids of ``count`` streams, in groups for which a call waits together.

        None if the groups are only known at run time. ``settings``: the result of `prepare`.
        """
        return None

    @abstractmethod
    def readiness(self) -> Readiness:
        """Decide what the node can do now, and set ``time`` accordingly."""

    def fill(self, time: int) -> InputSet:
        """Take the input set at ``time``. Only after `readiness` answered PROCESS."""
        return [take(stream, time) for stream in self.streams]

    def packets_added(self) -> None:
        """React to new packets, after the node was notified. Does nothing by default."""
        return


#: The entry in an input set of a stream that has ended.
ENDED: Final = (packet_at(EMPTY, ts.previous_allowed_in_stream(ts.DONE)), True)
#: The entry of a stream on which nothing has come yet.
_NOTHING_YET: Final = (packet_at(EMPTY, ts.previous_allowed_in_stream(ts.PRESTREAM)), False)


def take(stream: InputStream, time: int) -> tuple[Packet, bool]:
    """Return the packet of a stream at ``time`` and whether the stream is done now."""
    packet = stream.take_at(time)
    return packet, stream.bound == ts.DONE and not stream.queue


def bound_of(stream: InputStream) -> tuple[Packet, bool]:
    """An empty packet at the settled timestamp of a stream, and whether the stream is done."""
    bound = stream.queue[0].time if stream.queue else stream.bound
    if bound == ts.DONE:
        return ENDED
    if bound == ts.PRESTREAM:
        return _NOTHING_YET
    return packet_at(EMPTY, ts.previous_allowed_in_stream(bound)), False


class SyncSet:
    """Streams that are processed together, at timestamps settled on all of them.

    After `readiness`, ``time`` is the timestamp to process (PROCESS), DONE (CLOSE), or the smallest
    timestamp or bound (NOT_READY).
    """

    __slots__ = ("last_processed", "process_bounds", "streams", "time")

    def __init__(self, streams: Sequence[InputStream], process_bounds: bool) -> None:
        self.streams = streams
        self.process_bounds = process_bounds
        self.last_processed = ts.UNSET
        self.time = ts.UNSET

    def readiness(self) -> Readiness:
        min_bound = min_packet = ts.DONE
        for stream in self.streams:
            queue = stream.queue
            if queue:
                time = queue[0].time
                # Comparisons, because ``min`` is a call, and this runs for every packet of every
                # join.
                if time < min_packet:
                    min_packet = time
            elif stream.bound < min_bound:
                min_bound = stream.bound
        earliest = min_packet if min_packet < min_bound else min_bound
        self.time = earliest
        if earliest >= ts.ONE_OVER_POSTSTREAM:
            self.time = ts.DONE
            self.last_processed = ts.MAX
            return CLOSE
        if not self.process_bounds:
            # Strictly: at its bound an input may still get a packet.
            if min_bound > min_packet:
                self.last_processed = earliest
                return PROCESS
            return NOT_READY
        if min_packet == ts.POSTSTREAM and min_bound > min_packet:
            settled = ts.POSTSTREAM
        else:
            settled = ts.previous_allowed_in_stream(min_bound)
        candidate = min(min_packet, settled)
        if candidate > max(self.last_processed, ts.UNSTARTED):
            self.time = self.last_processed = candidate
            return PROCESS
        return NOT_READY


def read_options(options: Any, options_type: type[T]) -> T:
    """The message of this type in a ``MediaPipeOptions``, its defaults where it is not given."""
    return options_type() if options is None else find_extension_options(options, options_type)
