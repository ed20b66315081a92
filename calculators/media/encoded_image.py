"""`ImageReference` and `EncodedImage`: an image before it is fetched, and before it is decoded."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from calculators.requests.http_payload import RequestError


class ImageReference(NamedTuple):
    """The source of an image, ``url``, and the request's member that names it."""

    url: str
    param: str


class EncodedImage(msgspec.Struct, frozen=True, array_like=True):
    """The bytes of an image file, maybe as Base64; ``param``: the request's member, for errors."""

    param: str
    data: bytes
    is_base64: bool = False


def image_error(param: str, reason: str) -> RequestError:
    """The error for an image that cannot be fetched or read. ``reason`` names no internal path."""
    return RequestError(f"{param}: {reason}", param=param)
