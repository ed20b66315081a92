"""``/docs``: a page that shows the OpenAPI document and lets people try requests.

The page is the repository's own, in three files of this folder: it loads nothing from other hosts,
so that it works on a machine without a network, and its policy forbids that too. Swagger UI and
Redoc would do the same in 1 to 2 MB of scripts that need inline styles.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from aiohttp import web

from servers.fronts.http.exchange import Exchange

_FILES: Final = {
    "/docs": ("viewer.html", "text/html"),
    "/docs/viewer.js": ("viewer.js", "text/javascript"),
    "/docs/viewer.css": ("viewer.css", "text/css"),
}
#: Scripts, styles and requests of this server only; nothing inline; in no frame of another page.
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def docs_answer(exchange: Exchange, path: str) -> web.Response:
    """Return the page, or one of its files."""
    name, content_type = _FILES[path]
    return web.Response(
        body=_content(name),
        content_type=content_type,
        charset="utf-8",
        headers={**exchange.headers, **_HEADERS},
    )


@cache
def _content(name: str) -> bytes:
    return (files("servers.fronts.http") / "docs_page_files" / name).read_bytes()
