"""SyncSetInputStreamHandler: groups of streams, each synchronised on its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from graph_runtime import timestamp as ts
from graph_runtime.errors import GraphConfigError, did_you_mean
from graph_runtime.language.tag_map import TagMap, parse_tag_index, port_label
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
)
from graph_runtime.streams.input_stream import InputStream
from protos import messages


def _places(tag_map: TagMap, options: Any) -> list[list[int]]:
    """Return the stream ids of each set; unlisted streams form one more."""
    used: dict[int, str] = {}
    places: list[list[int]] = []
    given = read_options(options, messages.SyncSetInputStreamHandlerOptions)
    for number, sync_set in enumerate(given.sync_set):
        if not sync_set.tag_index:
            raise GraphConfigError(
                f"SyncSetInputStreamHandler: sync_set {number} lists no tag_index"
            )
        group = []
        for tag_index in sync_set.tag_index:
            place = tag_map.id_of(*parse_tag_index(tag_index))
            if place < 0:
                labels = [port_label(tag, index) for tag, index in tag_map]
                raise GraphConfigError(
                    f'SyncSetInputStreamHandler: stream "{tag_index}" is not found in the node\'s '
                    f"input streams: {', '.join(labels)}.{did_you_mean(tag_index, labels)}"
                )
            if place in used:
                raise GraphConfigError(
                    f'SyncSetInputStreamHandler: stream "{tag_index}" is in more than one sync set.'
                )
            used[place] = tag_index
            group.append(place)
        places.append(group)
    return _with_rest(places, len(tag_map))


def places_of(tag_map: TagMap, sync_sets: Iterable[Iterable[tuple[str, int]]]) -> list[list[int]]:
    """The stream ids of the sets of a contract; inputs that are not connected are left out."""
    sets = [[tag_map.id_of(*key) for key in each] for each in sync_sets]
    connected = [[place for place in each if place >= 0] for each in sets]
    return _with_rest([each for each in connected if each], len(tag_map))


def _with_rest(places: list[list[int]], count: int) -> list[list[int]]:
    used = {place for group in places for place in group}
    rest = [place for place in range(count) if place not in used]
    return [*places, rest] if rest else places


class SyncSetInputStreamHandler(InputStreamHandler):
    """Synchronises the streams of each set, but no set with another.

    Options: ``sync_set { tag_index: "LOOPBACK:0" }``, repeated; streams not listed form a set.

    The set that is ready at the earliest timestamp is processed; streams of the other sets show
    only their settled timestamps. A set whose streams are done is dropped, the last one closes the
    node.
    """

    def __init__(
        self, streams: Sequence[InputStream], settings: list[list[int]], process_bounds: bool
    ) -> None:
        super().__init__(streams, settings, process_bounds)
        self.sync_sets: list[SyncSet] = []
        for group in settings:
            members = map(streams.__getitem__, group)
            self.sync_sets.append(SyncSet(list(members), process_bounds))
        self._ready: SyncSet | None = None
        self._ready_time = ts.DONE

    @classmethod
    def prepare(cls, tag_map: TagMap, options: Any, max_in_flight: int) -> list[list[int]]:
        return _places(tag_map, options)

    @classmethod
    def sync_groups(cls, count: int, settings: list[list[int]]) -> list[list[int]]:
        return settings

    def readiness(self) -> Readiness:
        if self._ready is not None:
            self.time = self._ready_time
            return PROCESS
        bound = ts.DONE
        open_sets = []
        for sync_set in self.sync_sets:
            ready = sync_set.readiness()
            bound = sync_set.time
            if ready == CLOSE:
                continue
            open_sets.append(sync_set)
            if ready == PROCESS and sync_set.time < self._ready_time:
                self._ready_time = sync_set.time
                self._ready = sync_set
        if len(open_sets) == 1 < len(self.sync_sets):
            self.sole_stream = self._sole_of(open_sets[0])
        self.sync_sets = open_sets
        if self._ready is not None:
            self.time = self._ready_time
            return PROCESS
        # The bound of the last set asked, as in MediaPipe; no bound holds for several sets.
        self.time = bound
        return NOT_READY if open_sets else CLOSE

    def _sole_of(self, last: SyncSet) -> InputStream | None:
        """The stream of the last set if it is the only one there, and all others have ended."""
        if len(last.streams) > 1 or self.process_bounds:
            return None
        sole = last.streams[0]
        for stream in self.streams:
            if stream is not sole and (stream.bound != ts.DONE or stream.queue):
                return None
        return sole

    def fill(self, time: int) -> InputSet:
        ready = self._ready
        members = ready.streams if ready is not None else ()
        self._ready = None
        self._ready_time = ts.DONE
        filled: InputSet = []
        is_last = False
        for stream in self.streams:
            if stream in members:
                packet = stream.take_at(time)
                is_last = stream.bound == ts.DONE and not stream.queue
                filled.append((packet, is_last))
            else:
                filled.append(bound_of(stream))
        # In a loop the request's stream ends first. From then on the handler need not be asked (the
        # sole input of `flow`).
        if is_last and len(self.sync_sets) == 2:
            first, second = self.sync_sets
            self.sole_stream = self._sole_of(second if ready is first else first)
        return filled
