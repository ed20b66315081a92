"""Prober: asks a server fifty times a second whether it is live, and reads its processes' memory.

    python -m tests.reliability.hostile.prober PORT PID

Prints JSON lines: ``{"begin", "seconds", "starved", "status"}`` of a probe that took long, and
twice a second of the longest; ``{"at", "memory"}`` with MiB by module and process five times a
second. ``starved`` is the part of the seconds in which the server's thread or this one was ready
but had no processor, which is not a stall of the loop.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from tests.reliability.hostile.normal_client import tell
from tests.support.memory import resident_bytes
from tests.support.processes import children_of, module_of

_PERIOD: Final = 0.02
_LOOK_PERIOD: Final = 0.2
#: A probe that takes this many seconds is reported at once.
_LONG: Final = 0.05
_SECONDS: Final = 300.0
_REQUEST: Final = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
_MIB: Final = 1024 * 1024


class _Connection:
    """A connection that is kept open, so that a probe is one packet each way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def ask(self) -> int:
        """Send a probe; return the status, 0 if there is no answer."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(("127.0.0.1", self._port), _SECONDS)
            self._socket.sendall(_REQUEST)
            received = self._socket.recv(65536)
            if received:
                return int(received[9:12])
        except OSError:
            pass
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        return 0


def _probe_on(port: int, pid: int) -> None:
    connection = _Connection(port)
    longest: dict[str, Any] | None = None
    told_at = time.monotonic()
    while True:
        starved = _starved(pid)
        begin = time.monotonic()
        status = connection.ask()
        end = time.monotonic()
        probe = {
            "begin": begin,
            "seconds": end - begin,
            "starved": min(end - begin, _starved(pid) - starved),
            "status": status,
        }
        if longest is None or probe["seconds"] > longest["seconds"]:
            longest = probe
        if end - begin >= _LONG or end - told_at > 0.5:
            tell(longest)
            longest, told_at = None, end
        time.sleep(_PERIOD)


def _starved(pid: int) -> float:
    """Seconds that the server's main thread and this thread have waited for a processor."""
    waited = 0.0
    for thread in (f"/proc/{pid}/task/{pid}", "/proc/thread-self"):
        try:
            waited += int(Path(thread, "schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            continue
    return waited


def _look_on(pid: int) -> None:
    while True:
        memory = {"server": _memory(pid)}
        try:
            children = children_of(pid)
        except OSError:
            children = []
        for child in children:
            try:
                memory[f"{module_of(child)} {child}"] = _memory(child)
            except (OSError, IndexError):
                continue
        tell({"at": time.monotonic(), "memory": memory})
        time.sleep(_LOOK_PERIOD)


def _memory(pid: int) -> float:
    try:
        return resident_bytes(pid) / _MIB
    except OSError:
        return 0.0


def main() -> None:
    port, pid = int(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_probe_on, args=(port, pid), daemon=True).start()
    threading.Thread(target=_look_on, args=(pid,), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
