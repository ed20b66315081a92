"""Logging of a child's standard error, where libraries and handlers print."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from typing import Final

_log: Final = logging.getLogger("graphrt.child.output")
_LEVEL: Final = logging.INFO

#: A longer line is logged in pieces.
MAX_LINE: Final = 4096
_AT_ONCE: Final = 64 * 1024
#: Limit of bytes read after the child's end: a process that it left behind may go on writing.
_LAST_READS: Final = 16


def is_wanted() -> bool:
    """True if the output would be logged. If not, children share the server's standard error."""
    return _log.isEnabledFor(_LEVEL) and _log.hasHandlers()


class ChildOutput:
    """A pipe whose lines go to the log, on the running event loop."""

    def __init__(self, name: str, reader: int, *, is_logged: bool = True) -> None:
        """Start reading.

        Args:
            name: the child's, printed before each line.
            reader: the reading end of the pipe, which is closed with the output.
            is_logged: if not, the output goes on to this process's standard error.
        """
        self._name = name
        self._reader = reader
        self._is_logged = is_logged
        os.set_blocking(reader, False)
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._loop.add_reader(reader, self._read)

    def finish(self) -> None:
        """Log the rest of the output after the child's end, and close."""
        for _ in range(_LAST_READS):
            if not self._is_open or not self._read():
                break
        self._close()

    def _read(self) -> bool:
        """Log the output that has arrived; False if there was none."""
        try:
            data = os.read(self._reader, _AT_ONCE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close()
            return False
        if not self._is_logged:
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()
            return True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._log_line(line)
        while len(self._rest) >= MAX_LINE:
            self._log_line(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]
        return True

    def _log_line(self, line: bytes) -> None:
        for begin in range(0, len(line), MAX_LINE):
            text = line[begin : begin + MAX_LINE].decode("utf-8", "backslashreplace").rstrip()
            if text:
                _log.log(_LEVEL, "%s: %s", self._name, text)

    def _close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._log_line(self._rest)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._reader)
        os.close(self._reader)
