"""Images in the request itself: ``data:image/png;base64,...``; the error of a bad image."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from calculators.kit.requests.http_payload import RequestError


def image_error(param: str, reason: str) -> RequestError:
    """The error for an image that cannot be fetched or read. ``reason`` names no internal path."""
    return RequestError(f"{param}: {reason}", param=param)


#: OpenVINO Model Server looks for ``base64,`` anywhere, even in an address on the web.
_START: Final = re.compile(r"\s*(data:[^,]{0,200};)?base64,", re.IGNORECASE)
#: How images begin in Base64: PNG, JPEG, GIF, WebP and BMP.
_IMAGE: Final = re.compile(r"\s*(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|Qk[0-3])")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]{32,}={0,2}\s*")
_SPACE: Final = b" \t\r\n"
_DATA: Final = re.compile(r"\s*data:", re.IGNORECASE)


def base64_of(url: str) -> bytes | None:
    """Return the Base64 of a data URI, or of an image alone; None where ``url`` is something else.

    Raises:
        ValueError: ``url`` is a data URI without Base64.
    """
    found = _START.match(url)
    if found is not None:
        return url[found.end() :].encode("ascii", "replace")
    if _IMAGE.match(url) and _BASE64.fullmatch(url):
        return url.encode()
    if _DATA.match(url):
        raise ValueError("a data URI has to look like data:image/png;base64,...")
    return None


def decoded(text: bytes) -> bytes:
    """Decode Base64; line breaks and other space in it are ignored.

    Raises:
        ValueError: ``text`` is not Base64.
    """
    try:
        return base64.b64decode(text.translate(None, _SPACE), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the data is not Base64") from None
