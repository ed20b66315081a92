"""UTF-8 as openvino-tokenizers' ``UTF8Validate`` reads it, in pieces.

Invalid bytes become U+FFFD by a simpler rule than Python's ``errors="replace"``: a lead byte
(0xC2-0xDF, 0xE0-0xEF, 0xF0-0xF7) with too few continuation bytes becomes one U+FFFD together with
them; with enough of them that still encode no character (0xED 0xA0 0x80), each byte becomes one.
Measured against openvino-tokenizers 2026.4.1; a test compares.
"""

from __future__ import annotations

from typing import Final

REPLACEMENT: Final = "\ufffd"


def _length(lead: int) -> int:
    """Return the number of bytes of a character with this first byte; 0 if none begins with it."""
    if lead < 0x80:
        return 1
    if 0xC2 <= lead <= 0xDF:
        return 2
    if 0xE0 <= lead <= 0xEF:
        return 3
    return 4 if 0xF0 <= lead <= 0xF7 else 0


def decode_certain(data: bytes) -> tuple[str, bytes]:
    """Return the text that further bytes cannot change, and an unfinished character's bytes."""
    try:
        return data.decode(), b""
    except UnicodeDecodeError:
        return _walk(data)


def decode_all(data: bytes) -> str:
    """Decode bytes that are complete: an unfinished character becomes U+FFFD."""
    text, rest = decode_certain(data)
    return text + REPLACEMENT if rest else text


def _walk(data: bytes) -> tuple[str, bytes]:
    pieces: list[str] = []
    place, end = 0, len(data)
    while place < end:
        length = _length(data[place])
        stop = place + 1
        while stop < min(place + length, end) and data[stop] & 0xC0 == 0x80:
            stop += 1
        if stop == end and stop - place < length:
            return "".join(pieces), data[place:]
        try:
            pieces.append(data[place:stop].decode())
        except UnicodeDecodeError:
            cut_short = stop - place < length or length == 0
            pieces.append(REPLACEMENT if cut_short else REPLACEMENT * length)
        place = stop
    return "".join(pieces), b""
