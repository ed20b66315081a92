"""`ReservedPorts`: the ports of a server, held by its supervisor while its workers share them."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from servers.server.fronts import ListenError


class ReservedPorts:
    """Sockets that are bound and do not listen: other servers cannot take the ports."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, scheme: str, hosts: Sequence[str], port: int) -> int:
        """Reserve a port on all hosts, and return it.

        Args:
            scheme: the front that will listen, for errors.
            port: 0 takes a free one.

        Raises:
            ListenError: an address is taken or invalid.
        """
        where = ", ".join(f"{host}:{port}" for host in hosts)
        try:
            for host in hosts:
                found = socket.getaddrinfo(
                    host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                )
                for family, kind, protocol, _, address in found:
                    # Without SO_REUSEPORT first: another server that shares its port is found too.
                    if port:
                        _bound(family, kind, protocol, (address[0], port), shares=False).close()
                    bound = _bound(family, kind, protocol, (address[0], port), shares=True)
                    self._sockets.append(bound)
                    port = bound.getsockname()[1]
        except OSError as error:
            self.close()
            is_name = isinstance(error, socket.gaierror) or not error.errno
            reason = str(error.strerror or error) if is_name else os.strerror(error.errno or 0)
            text = f"cannot listen on {where}: {reason.lower()}"
            raise ListenError(text, scheme) from error
        return port

    def close(self) -> None:
        """Release the ports."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def _bound(
    family: int, kind: int, protocol: int, address: tuple[object, int], *, shares: bool
) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made
