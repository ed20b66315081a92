"""`LiveReader`: one live stream, with what its client has been sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from servers import NAME, version
from servers.page.events import (
    EVENTS,
    End,
    EngineNow,
    Hello,
    LastPackets,
    PacketSeen,
    RequestNow,
    ServableNow,
    Servables,
)
from servers.page.hour import LastHour
from servers.page.live_graph import LiveGraph, Snapshot
from servers.page.request_feed import RequestFeed
from servers.page.settings import PageSettings

VERSION: Final = 1
#: The most events per second and graph.
FASTEST_HZ: Final = 5.0
#: Events about requests per second.
REQUESTS_PER_SECOND: Final = 50
_NAMES: Final = {kind: name.encode() for name, kind in EVENTS.items()}
_ENCODER: Final = msgspec.json.Encoder()


def encode_event(event: msgspec.Struct) -> bytes:
    """Return a server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (_NAMES[type(event)], _ENCODER.encode(event))


class LiveState:
    """The newest state of everything that readers get. Each value is replaced, not changed.

    Attributes:
        settings: the permissions of the page.
        allows_control: clients may load and unload.
        graphs: the loaded graphs by name.
        servables: everything that is configured.
        engines: the engines of language models, by graph and node.
        packets: the last packets of the nodes in focus, by graph and node.
        requests: the requests of all fronts.
        hour: their last hour.
    """

    def __init__(
        self, settings: PageSettings, requests: RequestFeed, hour: LastHour, *, allows_control: bool
    ) -> None:
        self.settings = settings
        self.allows_control = allows_control
        self.requests = requests
        self.hour = hour
        self.graphs: dict[str, LiveGraph] = {}
        self.servables: Sequence[ServableNow] = ()
        self.engines: dict[tuple[str, str], EngineNow] = {}
        self.packets: dict[tuple[str, str], list[PacketSeen]] = {}


class LiveReader:
    """Sends the changes since its client's last state, whenever the client is ready.

    A client that reads slowly gets fewer events: changes are made from the newest state only, and
    there is no queue.

    Attributes:
        graphs: names of the graphs that the client watches, loaded or not.
        focus: graph and node of the nodes whose last packets it wants.
        is_ready: the client read fast enough at the last look.
    """

    def __init__(
        self,
        state: LiveState,
        graphs: Sequence[str] = (),
        hz: float = FASTEST_HZ,
        focus: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.graphs = tuple(dict.fromkeys(graphs))
        self.focus = tuple(dict.fromkeys(focus))
        self.is_ready = True
        self._state = state
        self._hz = hz
        self._woken = asyncio.Event()
        self._has_ended = False
        #: Revisions that the last hello named.
        self._revisions: dict[str, str] | None = None
        self._snapshots: dict[str, Snapshot] = {}
        self._servables: Sequence[ServableNow] | None = None
        self._engines: dict[tuple[str, str], EngineNow] = {}
        self._packets: dict[tuple[str, str], list[PacketSeen]] = {}
        self._request = -1
        self._requests_at = 0.0
        self._has_hour = False

    def wake(self) -> None:
        """Note that there may be something new."""
        self._woken.set()

    def end(self) -> None:
        """End the stream: the server stops."""
        self._has_ended = True
        self._woken.set()

    async def run(
        self,
        emit: Callable[[bytes], object],
        is_writable: Callable[[], bool],
        spent: Callable[[float], object],
    ) -> None:
        """Send events until `end`; see `LiveFeed.read`.

        ``spent`` gets the CPU time of each turn in seconds.
        """
        period = 0.0 if self._hz >= FASTEST_HZ else 1 / self._hz
        due = 0.0
        while not self._has_ended:
            now = time.monotonic()
            self.is_ready = is_writable()
            if now >= due and self.is_ready:
                due = now + period
                began = time.thread_time()
                data = b"".join(map(encode_event, self._changes(now)))
                if data:
                    emit(data)
                spent(time.thread_time() - began)
            await self._woken.wait()
            self._woken.clear()
        emit(encode_event(End("draining")))

    def _changes(self, now: float) -> Iterator[msgspec.Struct]:
        """Yield the events that lead from the client's state to the present one."""
        state = self._state
        graphs = {name: state.graphs[name] for name in self.graphs if name in state.graphs}
        revisions = {name: graph.revision for name, graph in graphs.items()}
        if revisions != self._revisions:
            for name in self._snapshots.keys() - {
                name for name, revision in revisions.items()
                if self._revisions and self._revisions.get(name) == revision
            }:  # fmt: skip
                del self._snapshots[name]
            self._revisions = revisions
            yield Hello(
                VERSION,
                f"{NAME} {version()}",
                time.perf_counter_ns() // 1000,
                self._hz,
                state.settings.contents,
                state.settings.edit,
                state.allows_control,
                {name: graph.shape for name, graph in graphs.items()},
            )
        if not self._has_hour:
            self._has_hour = True
            yield state.hour.event()
        if state.servables is not self._servables:
            self._servables = state.servables
            yield Servables(list(state.servables))
        for name, graph in graphs.items():
            snapshot, before = graph.snapshot, self._snapshots.get(name)
            if snapshot is not None and snapshot is not before:
                self._snapshots[name] = snapshot
                yield snapshot.since(name, before)
        for key, engine in state.engines.items():
            if self._engines.get(key) is not engine:
                self._engines[key] = engine
                yield engine
        yield from self._requests(now)
        for key in self.focus:
            last = state.packets.get(key)
            if last is not None and last is not self._packets.get(key):
                self._packets[key] = last
                yield LastPackets(key[0], key[1], last)

    def _requests(self, now: float) -> Iterator[RequestNow]:
        requests = self._state.requests
        if self._request < 0:
            # At first the last ended requests, and those that run.
            self._request, self._requests_at = requests.count, now
            yield from requests.ends()
            yield from requests.running()
            return
        if requests.count == self._request:
            return
        most = max(1, int(REQUESTS_PER_SECOND * min(1.0, now - self._requests_at)))
        self._requests_at = now
        events, skipped = requests.since(self._request, most)
        self._request = requests.count
        for event in events:
            yield msgspec.structs.replace(event, skipped=skipped) if skipped else event
            skipped = 0
