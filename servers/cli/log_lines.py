"""The server's log: lines like ``2026-01-01 12:00:00.000 INFO name: text`` on standard error."""

from __future__ import annotations

import logging
import sys
from typing import Final

from servers.cli.messages import CommandFailed

_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
_TRACE: Final = 5


class _OneLine(logging.Formatter):
    """What clients send may stand in a message, and must neither begin a line nor move a cursor."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return super().formatMessage(record).translate(_ESCAPES)


_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127) if chr(code) != "\n"}
_ESCAPES[ord("\n")] = "\n  "


def set_up_logging(level: str, path: str | None) -> None:
    """Send the log to standard error, and to a file where one is given.

    Raises:
        CommandFailed: the file cannot be written.
    """
    logging.addLevelName(_TRACE, "TRACE")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if path is not None:
        try:
            handlers.append(logging.FileHandler(path, encoding="utf-8"))
        except OSError as error:
            raise CommandFailed(f"--log_path {path}: {error.strerror}") from error
    for handler in handlers:
        handler.setFormatter(_OneLine(_FORMAT, "%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = handlers
    root.setLevel(level)
