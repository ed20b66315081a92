"""The head of an answer that is written without aiohttp's response."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from time import time
from wsgiref.handlers import format_date_time


def response_head(
    fields: Mapping[str, str], headers: Mapping[str, str], *, keeps_alive: bool
) -> bytes:
    """Status 200, ``fields`` of this kind of answer, and ``headers`` of every answer."""
    lines = [
        "HTTP/1.1 200 OK",
        f"Connection: {'keep-alive' if keeps_alive else 'close'}",
        f"Date: {_date(int(time()))}",
    ]
    lines += map(": ".join, fields.items())
    lines += map(": ".join, headers.items())
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@lru_cache(maxsize=1)
def _date(seconds: int) -> str:
    return format_date_time(seconds)
