"""Standard output as JSON lines or as text, each piece written at once."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO


class JsonLines:
    """Writes objects to a binary stream, one per line, or pieces of text; flushed.

    Attributes:
        is_broken: the reader has gone; later lines are dropped.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_broken = False

    def write(self, fields: dict[str, Any] | None) -> None:
        """Write one line, null for None, as UTF-8. Lone surrogates are escaped."""
        try:
            line = json.dumps(fields, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            line = json.dumps(fields).encode()
        self._send(line + b"\n")

    def write_text(self, text: str) -> None:
        """Write a piece of text as UTF-8, as it is."""
        self._send(text.encode(errors="replace"))

    def _send(self, data: bytes) -> None:
        if self.is_broken:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            self.is_broken = True


@contextlib.contextmanager
def json_lines_output() -> Iterator[JsonLines]:
    """Reserve standard output for JSON lines: print() writes to standard error inside.

    Raises:
        BrokenPipeError: at the end, if the reader has gone.
    """
    output = JsonLines(sys.stdout.buffer)
    with contextlib.redirect_stdout(sys.stderr):
        yield output
    if output.is_broken:
        raise BrokenPipeError
