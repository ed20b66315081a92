"""The server's log, on standard error and in a file.

As text: lines like ``2026-01-01 12:00:00.000 INFO name: text``. As JSON: an object per line with
``time`` (UTC), ``level``, ``logger``, ``message`` and ``exception``; lines of requests have the
message ``request`` and further members. A line of one of several workers has its number: ``INFO
worker 1 name: text``, or the member ``worker``.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import stat
import sys
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Final, Protocol

from servers.cli.messages import CommandFailed

_CANNOT_WRITE: Final = "graphrt: the log file cannot be written: {}; trying again with each line\n"


class FollowedFile(WatchedFileHandler):
    """A handler that opens the file again when it was moved. Errors of writing are not raised."""

    def __init__(self, path: str) -> None:
        """
        Raises:
            OSError: the file cannot be written, or is a pipe or a socket.
        """
        with suppress(FileNotFoundError):
            mode = os.stat(path).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):  # writing would wait for a reader
                raise OSError(errno.EINVAL, "it is a pipe or a socket, not a regular file", path)
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self._is_failing = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.reopenIfNeeded()
            if self.stream is None:
                self.stream = self._open()
                self._statstream()
            # Not by `logging.StreamHandler.emit`, which hides failures.
            self.stream.write(self.format(record) + self.terminator)
            self.stream.flush()
        except Exception as error:
            self._fail(error)
        else:
            self._is_failing = False

    def _fail(self, error: Exception) -> None:
        # Reported once; logging itself would print a traceback for every line.
        if self._is_failing:
            return
        self._is_failing = True
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        sys.stderr.write(_CANNOT_WRITE.format(reason))


TEXT: Final = "text"
JSON: Final = "json"

_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)s {}%(name)s: %(message)s"
_TRACE: Final = 5

# Messages may contain text of clients, which must neither begin a line, nor move a cursor, nor
# change the direction of text.
_CONTROL: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    0x061C,
    0x200E,
    0x200F,
    *range(0xD800, 0xE000),
)
_ESCAPES: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROL
}
_ESCAPES[ord("\n")] = "\n  "
# Nearly all lines match, and need no translation.
_IS_CLEAN: Final = re.compile("[ -~]*").fullmatch


class LogStream(Protocol):
    """A destination of a log handler."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class TextFormatter(logging.Formatter):
    """Formats a record as one line; further lines of a message are indented."""

    def __init__(self, worker: int = 0) -> None:
        """``worker``: the number of this process among several; 0: it is alone."""
        words = f"worker {worker} " if worker else ""
        super().__init__(_FORMAT.format(words), "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if _IS_CLEAN(text) else text.translate(_ESCAPES)


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object in ASCII."""

    def __init__(self, worker: int = 0) -> None:
        """``worker``: see `TextFormatter`."""
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": getattr(record, "event", None) or record.getMessage(),
        }
        if self._worker:
            line["worker"] = self._worker
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line.update((name, value) for name, value in fields.items() if name not in line)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logging(
    level: str,
    path: str | None,
    form: str = TEXT,
    terminal: LogStream | None = None,
    worker: int = 0,
) -> None:
    """Send the log to standard error, and to the file ``path`` unless it is None.

    ``form``: `TEXT` or `JSON`. ``terminal`` replaces standard error. ``worker``: see
    `TextFormatter`.

    Raises:
        CommandFailed: the file cannot be written.
    """
    logging.addLevelName(_TRACE, "TRACE")
    handlers: list[logging.Handler] = [
        logging.StreamHandler(sys.stderr if terminal is None else terminal)
    ]
    if path is not None:
        try:
            handlers.append(FollowedFile(path))
        except OSError as error:
            raise CommandFailed(f"--log_path {path}: {error.strerror}") from error
    for handler in handlers:
        handler.setFormatter(JsonFormatter(worker) if form == JSON else TextFormatter(worker))
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(level)
