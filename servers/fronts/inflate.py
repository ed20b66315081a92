"""Compressed bodies and messages, decoded in bounded steps: a small one cannot become a huge one.

Their content counts in the room for bodies while it is made. Large ones take turns, a step each.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from calculators.kit.child_process.fair_turns import FairTurns
from servers.fronts.body_room import BodyHold

#: Formats, as ``wbits`` of zlib. "deflate" is zlib's own (RFC 9110, and gRPC's compression).
GZIP: Final = 31
DEFLATE: Final = 15

_INPUT_STEP: Final = 64 * 1024
_FIRST_STEP: Final = 64 * 1024
_OUTPUT_STEP: Final = 1024 * 1024  # takes about 4 ms, then others run


class NotCompressedError(ValueError):
    """Bytes are not compressed in the format that they should have."""


class ContentTooLargeError(ValueError):
    """The content is larger than it may be."""


async def inflated(
    body: bytes, window_bits: int, limit: int, hold: BodyHold, turns: FairTurns
) -> bytes:
    """Return the content of compressed bytes.

    Raises:
        NotCompressedError: they are not of this format, or end too early.
        ContentTooLargeError: the content has more than ``limit`` bytes.
        RequestError: UNAVAILABLE, there is no room for the content in time.
    """
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
                    async with turns.turn(float(len(body))):
                        piece = decoder.decompress(rest, _OUTPUT_STEP)
                        await asyncio.sleep(0)
            except zlib.error:
                raise NotCompressedError from None
            if decoder.unused_data:
                raise NotCompressedError
            rest = decoder.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise ContentTooLargeError
            pieces.append(piece)
            if missing := hold.add(len(piece)):
                await hold.wait(missing)
    hold.end()
    if not decoder.eof:
        raise NotCompressedError
    return b"".join(pieces)
