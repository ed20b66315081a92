"""A log file that logrotate may move or remove: later lines go to a new file of the same name."""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
from contextlib import suppress
from logging.handlers import WatchedFileHandler
from typing import Final

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
