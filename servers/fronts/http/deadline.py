"""Time limits of requests: the client's and the server's."""

from __future__ import annotations

from typing import Any

from calculators.kit.tasks.operation import MAX_TIMEOUT
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange

HEADER = "X-Request-Timeout"
TIMEOUT = "timeout"


def limit_time(exchange: Exchange, most: float) -> None:
    """End the request in ``most`` seconds (0: never), or sooner where its header says so.

    Raises:
        HttpError: 400, the header is not a number of seconds.
    """
    if most > 0:
        exchange.end_after(most)
    text = exchange.request.headers.get(HEADER)
    if text is None:
        return
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT:
        raise HttpError(400, f"{HEADER} must be a number of seconds above 0")
    exchange.end_after(seconds)


def limit_time_by(exchange: Exchange, seconds: Any) -> None:
    """End the request sooner; ``seconds`` is the ``timeout`` of its body, if not None.

    Raises:
        HttpError: 400, it is not a number of seconds.
    """
    if seconds is None:
        return
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MAX_TIMEOUT:
        raise HttpError(400, f"{TIMEOUT} must be a number of seconds above 0", param=TIMEOUT)
    exchange.end_after(float(seconds))
