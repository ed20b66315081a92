"""Bodies with binary data: JSON, whose length is in a header, then the data of the tensors."""

from __future__ import annotations

import re

from calculators.kit.requests.http_payload import RequestError

LENGTH_HEADER = "Inference-Header-Content-Length"

_DIGITS = re.compile(r"[0-9]{1,18}")


def split_body(body: bytes | memoryview, length_header: str | None) -> tuple[bytes, memoryview]:
    """Split a body into JSON and binary data. Without the header all of it is JSON.

    Raises:
        RequestError: the header is not a number of bytes, or is not between 1 and the body's size.
    """
    if length_header is None:
        return bytes(body), memoryview(b"")
    if _DIGITS.fullmatch(length_header.strip()) is None:
        raise RequestError(f"{LENGTH_HEADER} must be a number of bytes")
    length = int(length_header)
    if not 0 < length <= len(body):
        raise RequestError(
            f"{LENGTH_HEADER} is {length}; the JSON must have 1 to {len(body)} bytes, as the body"
            " has no more"
        )
    return bytes(body[:length]), memoryview(body)[length:]
