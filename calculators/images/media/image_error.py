"""The error of an image that cannot be used."""

from __future__ import annotations

from calculators.kit.requests.http_payload import RequestError


def image_error(param: str, reason: str) -> RequestError:
    """The error for an image that cannot be fetched or read. ``reason`` names no internal path."""
    return RequestError(f"{param}: {reason}", param=param)
