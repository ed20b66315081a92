"""The fronts of a server, HTTP and gRPC, which start and stop together."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from graph_runtime import Code, GraphError
from servers.contract.data_plane import DataPlane
from servers.fronts.body_room import BodyRoom
from servers.fronts.http import HttpFront, HttpSettings
from servers.fronts.http import start_front as start_http
from servers.fronts.http.handler import MetricsText
from servers.fronts.http.page_requests import MakeDocument
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.operations.metrics.observed_data_plane import ObservedDataPlane
from servers.operations.metrics.requests import GRPC as GRPC_INTERFACE
from servers.operations.metrics.requests import REST
from servers.operations.metrics.server_metrics import ServerMetrics
from servers.operations.request_log import RequestJournal
from servers.page.views import PageViews

if TYPE_CHECKING:
    from servers.batches.desk import BatchDesk

HTTP: Final = "http"
GRPC: Final = "grpc"
#: The port of Ollama's clients, for an error.
OLLAMA: Final = "ollama"


class ListenError(GraphError):
    """An address cannot be listened on; the text says which and why.

    Attributes:
        scheme: the front that failed, `HTTP` or `GRPC`; or `OLLAMA`.
    """

    code = Code.UNAVAILABLE

    def __init__(self, message: str, scheme: str = HTTP) -> None:
        super().__init__(message)
        self.scheme = scheme


class Front(Protocol):
    """A listener for requests, stopped by `stop_accepting`, `drain`, `close`, in this order."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """Host and port of every listening socket."""

    async def stop_accepting(self) -> None:
        """Accept no more connections and requests. Requests in flight continue."""

    async def drain(self, seconds: float) -> int:
        """Wait for requests in flight, at most ``seconds``. Return how many were cut off."""

    async def close(self) -> None:
        """Close everything now."""


class Fronts:
    """The fronts of one server."""

    def __init__(
        self,
        journal: RequestJournal | None = None,
        metrics: ServerMetrics | None = None,
        metrics_text: MetricsText | None = None,
    ) -> None:
        """``journal`` records every request; ``metrics`` are published over HTTP, with the text
        that ``metrics_text`` makes, or their own."""
        self._journal = journal or RequestJournal()
        self._metrics = metrics
        self._metrics_text = metrics_text
        if metrics_text is None and metrics is not None:
            self._metrics_text = metrics.text_in_turns
        self._fronts: dict[str, Front] = {}
        self._http: HttpFront | None = None
        self._schemes: dict[str, str] = {}

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all listening sockets, with the real ports, HTTP first."""
        return tuple(
            f"{self._schemes[scheme]}://[{host}]:{port}"
            if ":" in host
            else f"{self._schemes[scheme]}://{host}:{port}"
            for scheme, front in self._fronts.items()
            for host, port in front.addresses
        )

    async def start(
        self,
        data_plane: DataPlane,
        http: HttpSettings | None,
        grpc: GrpcSettings | None,
        document: MakeDocument | None = None,
        views: PageViews | None = None,
        batches: BatchDesk | None = None,
    ) -> None:
        """Start the fronts whose settings are given.

        ``document`` makes what is published over HTTP, ``views`` are for the page, and ``batches``
        has files and batches.

        Raises:
            ListenError: an address is taken or invalid; no front listens then.
        """
        self._schemes = {
            name: name if settings is None or settings.tls is None else f"{name}s"
            for name, settings in ((HTTP, http), (GRPC, grpc))
        }
        room = BodyRoom()
        try:
            if http is not None:
                start = partial(
                    start_http,
                    journal=self._journal,
                    document=document,
                    metrics=self._metrics_text,
                    room=room,
                    views=views,
                    batches=batches,
                )
                plane = self._observed(data_plane, REST)
                self._http = await _start(start, plane, http, HTTP)
                self._fronts[HTTP] = self._http
            if grpc is not None:
                # gRPC would stop its threads for each child process, and log that it cannot.
                # Children run another program, so they need no support for fork.
                os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
                # Imported late: gRPC's library takes time to load, and starts threads.
                from servers.fronts.kserve_grpc.front import start_front as start_grpc

                start_calls = partial(start_grpc, journal=self._journal, room=room)
                plane = self._observed(data_plane, GRPC_INTERFACE)
                self._fronts[GRPC] = await _start(start_calls, plane, grpc, GRPC)
        except ListenError:
            await self.close()
            raise

    def _observed(self, data_plane: DataPlane, interface: str) -> DataPlane:
        if self._metrics is None:
            return data_plane
        return ObservedDataPlane(data_plane, self._metrics, interface)

    async def take(self, connected: socket.socket) -> None:
        """Serve HTTP on a connection that was made otherwise. HTTP must be started."""
        assert self._http is not None
        await self._http.take(connected)

    async def stop_accepting(self) -> None:
        for front in self._fronts.values():
            await front.stop_accepting()

    async def drain(self, seconds: float) -> int:
        return sum(await asyncio.gather(*(each.drain(seconds) for each in self._fronts.values())))

    async def close(self) -> None:
        await asyncio.gather(*(front.close() for front in self._fronts.values()))


Settings = TypeVar("Settings", HttpSettings, GrpcSettings)
Started = TypeVar("Started", bound=Front)


async def _start(
    start: Callable[[DataPlane, Settings], Awaitable[Started]],
    data_plane: DataPlane,
    settings: Settings,
    scheme: str,
) -> Started:
    try:
        return await start(data_plane, settings)
    except OSError as error:
        where = ", ".join(f"{host}:{settings.port}" for host in settings.hosts)
        if error.filename is not None:
            where, scheme = str(error.filename), OLLAMA
        text = f"cannot listen on {where}: {_reason(error)}"
        raise ListenError(text, scheme) from error


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or not error.errno:
        return str(error.strerror or error).lower()
    return os.strerror(error.errno).lower()
