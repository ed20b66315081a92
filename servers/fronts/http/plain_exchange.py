"""Queries of requests that run no model, and the JSON of their answers."""

from __future__ import annotations

from urllib.parse import parse_qs

from aiohttp import web

from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange

_MOST_FIELDS = 16


def query_of(request: web.BaseRequest) -> dict[str, str]:
    """Return the last value of each name in the query.

    Raises:
        HttpError: 400, it has too many fields.
    """
    text = request.raw_path.partition("?")[2]
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HttpError(400, f"the query has more than {_MOST_FIELDS} fields") from None
    return {name: values[-1] for name, values in found.items()}


def json_answer(exchange: Exchange, body: bytes, status: int = 200) -> web.Response:
    """Return an answer of encoded JSON that no cache keeps."""
    return web.Response(
        status=status,
        body=body,
        content_type="application/json",
        headers={**exchange.headers, "Cache-Control": "no-store"},
    )
