"""The head of an answer that is written without aiohttp's response."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from time import time
from typing import TYPE_CHECKING
from wsgiref.handlers import format_date_time

if TYPE_CHECKING:
    from servers.fronts.http.exchange import Exchange


def response_head(exchange: Exchange, fields: Mapping[str, str]) -> bytes:
    """Status 200, the headers of every answer of this exchange, and ``fields``."""
    lines = [
        "HTTP/1.1 200 OK",
        f"Connection: {'keep-alive' if exchange.keeps_alive else 'close'}",
        f"Date: {_date(int(time()))}",
    ]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    lines += [f"{name}: {value}" for name, value in exchange.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@lru_cache(maxsize=1)
def _date(seconds: int) -> str:
    return format_date_time(seconds)
