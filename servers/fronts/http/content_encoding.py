"""Bodies with a ``Content-Encoding``."""

from __future__ import annotations

from servers.fronts.body_room import BodyHold
from servers.fronts.http.body import large_bodies
from servers.fronts.http.errors import HttpError
from servers.fronts.inflate import (
    DEFLATE,
    GZIP,
    ContentTooLargeError,
    NotCompressedError,
    inflated,
)

# As KServe's clients send them.
_WINDOW_BITS = {"gzip": GZIP, "x-gzip": GZIP, "deflate": DEFLATE}


async def decompressed(body: bytes, encoding: str, limit: int, hold: BodyHold) -> bytes:
    """Return the content of a body with a ``Content-Encoding``.

    Raises:
        RequestError: UNAVAILABLE, there is no room for the content in time.
        HttpError: 413, the content is larger than ``limit`` bytes; 415, the encoding is neither
            gzip nor deflate; 400, the body is not encoded as ``encoding`` says.
    """
    window_bits = _WINDOW_BITS.get(encoding)
    if window_bits is None:
        raise HttpError(415, "the only Content-Encodings of a body here are gzip and deflate")
    try:
        return await inflated(body, window_bits, limit, hold, large_bodies)
    except NotCompressedError:
        text = "the body is not encoded as its Content-Encoding says"
        raise HttpError(400, text) from None
    except ContentTooLargeError:
        raise HttpError(413, f"the body's content is larger than {limit} bytes") from None
