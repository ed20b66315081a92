"""The files of the page: ``GET /`` and ``GET /page/*``.

They are built from the folder ``page`` of the sources and shipped compressed, each as NAME.gz.
Their text is the same on every server and contains nothing of it, so they need no key; everything
that they show comes from below ``/v1``, where keys are asked for. All addresses in them are
relative, so a proxy may serve them below any prefix that it strips.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cached_property
from pathlib import Path
from typing import Final

from aiohttp import web

from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange

#: The name of the file at ``/``.
INDEX: Final = "index.html"

_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "woff2": "font/woff2",
}
_TEXTS: Final = frozenset({"css", "html", "js", "txt"})

#: The policy of the page: own scripts, styles, fonts and requests only; nothing inline; no value
#: becomes HTML or a script's address without one of the three named policies.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; media-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types svelte-trusted-html dompurify graphrt"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "Vary": "Accept-Encoding",
}
_VALIDATED: Final = "no-cache"  # may be cached, and must be validated each time
_FOR_EVER: Final = "public, max-age=31536000, immutable"

#: The bundler's names: a name, eight characters of a hash, and the ending.
_HASHED: Final = re.compile(r".+-[A-Za-z0-9_-]{8}\.[a-z0-9]+")
_NO_QUALITY: Final = re.compile(r"q=0(\.0{0,3})?")


class PageFiles:
    """The built files of the page. They are found when this is made, and read when first sent."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.name.removesuffix(".gz"): _PageFile(path) for path in folder.glob("*.gz")
        }

    def answer(self, exchange: Exchange, name: str) -> web.Response:
        """Return the file of this name, or 304 to a client that has it.

        Raises:
            HttpError: 404, there is no such file; for `INDEX` also if the client takes no HTML.
        """
        file = self._files.get(name)
        request = exchange.request
        if INDEX not in self._files:
            raise HttpError(
                404,
                "the page is not part of this installation: in a checkout, `npm ci && npm run "
                "build` in the folder page builds it; /docs and /openapi.json describe the server",
            )
        if file is None:
            raise HttpError(
                404,
                "the page has no file of this name; if the page shown is of another version, "
                "reload it",
            )
        if name == INDEX and not _takes_html(request.headers.get("Accept", "")):
            raise HttpError(404, "here is a page, text/html; /openapi.json lists what is served")
        is_packed = _takes_gzip(request.headers.get("Accept-Encoding", ""))
        tag = file.tag if is_packed else f"{file.tag}-plain"
        headers = {
            **exchange.headers,
            **_HEADERS,
            "ETag": f'"{tag}"',
            "Cache-Control": _FOR_EVER if _HASHED.fullmatch(name) else _VALIDATED,
        }
        known = request.headers.get("If-None-Match", "").split(",")
        if any(each.strip().removeprefix("W/") in ("*", f'"{tag}"') for each in known):
            return web.Response(status=304, headers=headers)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        ending = name.rpartition(".")[2]
        return web.Response(
            body=file.packed if is_packed else file.plain,
            content_type=_TYPES.get(ending, "application/octet-stream"),
            charset="utf-8" if ending in _TEXTS else None,
            headers=headers,
        )


class _PageFile:
    """One file as shipped, and inflated."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def packed(self) -> bytes:
        return self._path.read_bytes()

    @cached_property
    def plain(self) -> bytes:
        return gzip.decompress(self.packed)

    @cached_property
    def tag(self) -> str:
        return hashlib.sha256(self.packed).hexdigest()[:32]


def _takes_gzip(accepted: str) -> bool:
    """Return whether a header Accept-Encoding names gzip, or everything, with a quality above 0."""
    qualities = {}
    for each in accepted.lower().split(","):
        coding, _, parameter = each.partition(";")
        qualities[coding.strip()] = _NO_QUALITY.fullmatch(parameter.replace(" ", "")) is None
    return qualities.get("gzip", qualities.get("*", False))


def _takes_html(accepted: str) -> bool:
    """Return whether a header Accept allows HTML; without the header, everything is allowed."""
    kinds = {each.partition(";")[0].strip().lower() for each in accepted.split(",")}
    return not accepted.strip() or bool(kinds & {"text/html", "text/*", "*/*"})
