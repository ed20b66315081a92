"""Log, traces and metrics, made from the arguments of `graphrt serve`.

The log goes to standard error and to a file. As text: lines like ``2026-01-01 12:00:00.000 INFO
name: text``. As JSON: an object per line with ``time`` (UTC), ``level``, ``logger``, ``message``
and ``exception``; lines of requests have the message ``request`` and further members. A line of one
of several workers has its number: ``INFO worker 1 name: text``, or the member ``worker``.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import socket
import stat
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any, Final

from servers.cli.messages import CommandFailed, print_warning, warn_by
from servers.config import MetricsConfig
from servers.config.server_config import refusal_of_list
from servers.operations.tracing import RunningTraces, TracingError, TracingSettings, start_traces
from servers.operations.tracing.settings import is_asked_for
from servers.options.server_options import ServerOptions

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


class StandardErrorHandler(logging.Handler):
    """A handler that writes to standard error and waits for nobody who reads it.

    A pipe whose other end is not read, and a terminal that is held, let writing wait: 64 KiB of
    lines that nobody read stopped the event loop for good. Here a thread waits with them, and what
    has no room to wait is left out, and counted in the log when somebody reads again.
    """

    def __init__(self, descriptor: int, shown: Callable[[str], str]) -> None:
        """
        Args:
            descriptor: of standard error.
            shown: what to write for a text, as `LoadBar.above`.
        """
        super().__init__()
        self._descriptor = descriptor
        self._shown = shown
        self._write_some, self._release = _without_waiting(descriptor)
        self._begin()
        # In tests servers are forks.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._waiting = bytearray()
        self._left_out = 0
        self._is_writing = False
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._shown(self.format(record) + "\n").encode(errors="backslashreplace")
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if not self._waiting and not self._is_writing:
                try:
                    line = line[self._write_some(line) :]
                except BlockingIOError:
                    pass
                except OSError:
                    return  # the reader is gone
            if len(self._waiting) >= _MOST_WAITING_BYTES:
                self._left_out += 1
            elif line:
                self._waiting += line
                self._changed.notify_all()
                if self._thread is None:
                    # A daemon: the server ends while its last lines still wait for a reader.
                    self._thread = threading.Thread(target=self._write, name="log", daemon=True)
                    self._thread.start()

    def flush(self) -> None:
        """Return when all lines are written, or after `_LAST_SECONDS`; `logging` calls it last."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_writing), _LAST_SECONDS)

    def close(self) -> None:
        with self._changed:
            release, self._release = self._release, lambda: None
            self._write_some = lambda line: 0
        release()
        super().close()

    def _write(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting)
                if self._left_out:
                    text = f"graphrt: {self._left_out:,} lines are left out, as none was read\n"
                    self._waiting += text.encode()
                left, self._waiting, self._left_out = memoryview(self._waiting), bytearray(), 0
                self._is_writing = True
            # Not through `sys.stderr`: its lock would be held while the interpreter ends.
            with suppress(OSError):
                while left:
                    left = left[os.write(self._descriptor, left) :]


def _without_waiting(descriptor: int) -> tuple[Callable[[bytes], int], Callable[[], object]]:
    """Return a `write` that does not block, and the function that releases what it uses.

    `write` returns the number of bytes written, and raises `BlockingIOError` if the descriptor is
    full. Other processes share the descriptor and its mode, so that mode stays as it is.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISSOCK(mode):
        connection = socket.socket(fileno=os.dup(descriptor))
        return lambda line: connection.send(line, socket.MSG_DONTWAIT), connection.close
    try:
        path, flags = f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        own = os.dup(descriptor) if stat.S_ISREG(mode) else os.open(path, flags)
    except OSError:
        return lambda line: 0, lambda: None
    return lambda line: os.write(own, line), lambda: os.close(own)


def _handler(shown: Callable[[str], str]) -> logging.Handler:
    try:
        return StandardErrorHandler(sys.stderr.fileno(), shown)
    except (AttributeError, OSError):
        return logging.StreamHandler()  # it is closed, or none of the system's files


TEXT: Final = "text"
JSON: Final = "json"

#: Bytes of lines that wait to be written, and seconds that they may take at the end.
_MOST_WAITING_BYTES: Final = 1024 * 1024
_LAST_SECONDS: Final = 1.0

#: Characters of one record in the log.
MOST_CHARS: Final = 16 * 1024
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


def shortened(text: str) -> str:
    """Return a record's text without its middle if it is longer than `MOST_CHARS`.

    An exception of an author's code may repeat what a client has sent (``float(text)`` does):
    8 MiB in the log took five seconds of the event loop.
    """
    left_out = len(text) - MOST_CHARS
    if left_out <= 0:
        return text
    half = MOST_CHARS // 2
    return f"{text[:half]}... {left_out:,} characters are left out ...{text[-half:]}"


class _Formatter(logging.Formatter):
    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's
        # Each part is shortened before they are joined.
        parts = traceback.TracebackException(*ei).format()
        return shortened("".join(map(shortened, parts))).removesuffix("\n")


class TextFormatter(_Formatter):
    """Formats a record as one line; further lines of a message are indented."""

    def __init__(self, worker: int = 0) -> None:
        """``worker``: the number of this process among several; 0: it is alone."""
        words = f"worker {worker} " if worker else ""
        super().__init__(_FORMAT.format(words), "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        text = shortened(super().format(record))
        return text if _IS_CLEAN(text) else text.translate(_ESCAPES)


class JsonFormatter(_Formatter):
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
            "message": getattr(record, "event", None) or shortened(record.getMessage()),
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
    shown: Callable[[str], str] = str,
    worker: int = 0,
) -> None:
    """Send the log to standard error, and to the file ``path`` unless it is None.

    ``form``: `TEXT` or `JSON`. ``shown``: see `StandardErrorHandler`. ``worker``: see
    `TextFormatter`.

    Raises:
        CommandFailed: the file cannot be written.
    """
    logging.addLevelName(_TRACE, "TRACE")
    handlers: list[logging.Handler] = [_handler(shown)]
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


_log: Final = logging.getLogger("graphrt")


def set_up_log(
    options: ServerOptions, *, verbose: bool, shown: Callable[[str], str] = str, worker: int = 0
) -> None:
    """Set up the log by the options, with level DEBUG if ``verbose``.

    ``shown``: see `StandardErrorHandler`. ``worker``: the number of this process among several.

    Raises:
        CommandFailed: the log's file cannot be written.
    """
    level = "DEBUG" if verbose else options.log_level
    set_up_logging(level, options.log_path, options.log_format, shown, worker)
    if options.log_format == JSON:
        warn_by(_log.warning)  # a program reads standard error
    if options.log_prompts:
        _log.warning(
            "--log_prompts: PROMPTS AND ANSWERS OF ALL CLIENTS ARE WRITTEN TO THIS LOG, in plain "
            "text; every reader of the log can read them"
        )


def traces_of(options: ServerOptions) -> RunningTraces | None:
    """Start sending spans; None if neither an option nor the environment asks for it.

    Raises:
        CommandFailed: --otlp_endpoint is given, and spans cannot be sent. If only the environment
            asks for them, this is a warning, because it is often set for many services at once.
    """
    if not options.otlp_endpoint and not is_asked_for(os.environ):
        return None
    try:
        return start_traces(TracingSettings(options.otlp_endpoint or ""))
    except TracingError as error:
        if options.otlp_endpoint:
            raise CommandFailed(f"--otlp_endpoint: {error}") from error
        print_warning(f"OTEL_EXPORTER_OTLP_ENDPOINT has no effect: {error}")
        return None


def metrics_of(options: ServerOptions, config: MetricsConfig | None) -> MetricsConfig:
    """Return the choice of metrics, from the options or from ``config``, which is config.json's.

    Raises:
        CommandFailed: both choose, a family is unknown, or HTTP is off, where metrics are read.
    """
    given = MetricsConfig(options.metrics_enable is not False, options.metrics_list)
    is_given = options.metrics_enable is not None or bool(options.metrics_list)
    if is_given and config is not None:
        raise CommandFailed(
            "--metrics_enable and --metrics_list are exclusive with monitoring in the config file",
            status=2,
        )
    if given.metrics_list and not given.enable:
        raise CommandFailed("--metrics_list has no sense with --metrics_enable=false", status=2)
    refusal = refusal_of_list(given.metrics_list)
    if refusal:
        raise CommandFailed(f"--metrics_list: {refusal}", status=2)
    metrics = given if config is None else config
    if options.rest_port == 0:
        if metrics.enable and (is_given or config is not None):
            raise CommandFailed(
                "metrics are at the HTTP port, and --rest_port 0 switches HTTP off", status=2
            )
        return replace(metrics, enable=False)
    return metrics
