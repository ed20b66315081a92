"""The fronts of a server, HTTP and gRPC: each has its own addresses, both start and stop as one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from graph_runtime import Code, GraphError
from servers.data_plane import DataPlane
from servers.kserve_grpc.settings import GrpcSettings
from servers.openai_http import HttpSettings
from servers.openai_http import start_front as start_http

HTTP: Final = "http"
GRPC: Final = "grpc"


class ListenError(GraphError):
    """An address cannot be listened on; the text says which and why.

    Attributes:
        scheme: of the front that wanted it, `HTTP` or `GRPC`.
    """

    code = Code.UNAVAILABLE

    def __init__(self, message: str, scheme: str = HTTP) -> None:
        super().__init__(message)
        self.scheme = scheme


class Front(Protocol):
    """What takes requests. The order of a stop: `stop_accepting`, `drain`, `close`."""

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        """What was bound: host and port of every listening socket."""

    async def stop_accepting(self) -> None:
        """Take nothing new; what is in hand goes on."""

    async def drain(self, seconds: float) -> int:
        """Wait for what is in hand, at most so long; how many were cut off then."""

    async def close(self) -> None:
        """Close everything now."""


class Fronts:
    """All fronts of one server, themselves a `Front` but for the addresses."""

    def __init__(self) -> None:
        self._fronts: dict[str, Front] = {}

    @property
    def urls(self) -> tuple[str, ...]:
        """What is listened on, with the real ports; HTTP comes first."""
        return tuple(
            f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
            for scheme, front in self._fronts.items()
            for host, port in front.addresses
        )

    async def start(
        self, data_plane: DataPlane, http: HttpSettings | None, grpc: GrpcSettings | None
    ) -> None:
        """Listen with those that have settings.

        Raises:
            ListenError: an address is taken or is none; none is listened on then.
        """
        try:
            if http is not None:
                self._fronts[HTTP] = await _start(start_http, data_plane, http, HTTP)
            if grpc is not None:
                # Only now: gRPC's library takes time to load, and threads.
                # Children are started by fork and exec, which gRPC need not know; it would write to
                # standard error about it.
                os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
                from servers.kserve_grpc.front import start_front as start_grpc

                self._fronts[GRPC] = await _start(start_grpc, data_plane, grpc, GRPC)
        except ListenError:
            await self.close()
            raise

    async def stop_accepting(self) -> None:
        for front in self._fronts.values():
            await front.stop_accepting()

    async def drain(self, seconds: float) -> int:
        return sum(await asyncio.gather(*(each.drain(seconds) for each in self._fronts.values())))

    async def close(self) -> None:
        await asyncio.gather(*(front.close() for front in self._fronts.values()))


Settings = TypeVar("Settings", HttpSettings, GrpcSettings)


async def _start(
    start: Callable[[DataPlane, Settings], Awaitable[Front]],
    data_plane: DataPlane,
    settings: Settings,
    scheme: str,
) -> Front:
    try:
        return await start(data_plane, settings)
    except OSError as error:
        where = ", ".join(f"{host}:{settings.port}" for host in settings.hosts)
        text = f"cannot listen on {where}: {_reason(error)}"
        raise ListenError(text, scheme) from error


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or not error.errno:
        return str(error.strerror or error).lower()
    return os.strerror(error.errno).lower()
