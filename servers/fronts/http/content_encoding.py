"""Compressed bodies, decoded in bounded steps: a small body cannot become a huge one.

Their content counts in the room for bodies, and takes turns with other large bodies.
"""

from __future__ import annotations

import asyncio
import zlib

from servers.fronts.body_room import BodyHold
from servers.fronts.http.body import large_bodies
from servers.fronts.http.errors import HttpError

# "deflate" is zlib's format (RFC 9110), as KServe's clients send it.
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_INPUT_STEP = 64 * 1024
_FIRST_STEP = 64 * 1024
_OUTPUT_STEP = 1024 * 1024  # takes about 4 ms, then others run


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
    decoder = zlib.decompressobj(window_bits)
    pieces: list[bytes] = []
    size = 0
    for at in range(0, len(body), _INPUT_STEP):
        rest = body[at : at + _INPUT_STEP]
        while rest:
            try:
                if size < _FIRST_STEP:
                    piece = decoder.decompress(rest, _FIRST_STEP)
                else:
                    async with large_bodies.turn(float(len(body))):
                        piece = decoder.decompress(rest, _OUTPUT_STEP)
                        await asyncio.sleep(0)
            except zlib.error:
                raise _not_encoded() from None
            if decoder.unused_data:
                raise _not_encoded()
            rest = decoder.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise HttpError(413, f"the body's content is larger than {limit} bytes")
            pieces.append(piece)
            if missing := hold.add(len(piece)):
                await hold.wait(missing)
    hold.end()
    if not decoder.eof:
        raise _not_encoded()
    return b"".join(pieces)


def _not_encoded() -> HttpError:
    return HttpError(400, "the body is not encoded as its Content-Encoding says")
