"""Formats of the sound that a client of a session appends: PCM, and both laws of G.711."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Samples as they are kept, shape [N].
Pcm: TypeAlias = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """A format of one channel.

    Attributes:
        type: OpenAI's name, ``audio/pcm``.
        old_name: its name before 2025-08, ``pcm16``.
        rate: samples per second.
        table: the sample of each byte, for G.711; None: 16-bit samples, little-endian.
    """

    type: str
    old_name: str
    rate: int
    table: Pcm | None = None

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample."""
        return 2 if self.table is None else 1

    def decode(self, data: bytes) -> Pcm:
        """Return the samples of a whole number of samples' bytes."""
        if self.table is None:
            return np.frombuffer(data, "<i2").astype(np.int16, copy=False)
        return self.table[np.frombuffer(data, np.uint8)]

    def encode(self, data: bytes) -> bytes:
        """Return 16-bit samples, little-endian, in this format."""
        if self.table is None:
            return data
        codes = np.argsort(self.table, kind="stable")
        values = self.table[codes].astype(np.int32)
        middles = (values[1:] + values[:-1]) // 2
        places = np.searchsorted(middles, np.frombuffer(data, "<i2"))
        return codes[places].astype(np.uint8).tobytes()

    def described(self) -> Mapping[str, object]:
        """Return the format's object."""
        return {"type": self.type, "rate": self.rate} if self.table is None else {"type": self.type}


def _mu_law() -> Pcm:
    """Return the table of ITU-T G.711's mu-law, scaled to 16 bits."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent = (code >> 4 & 7).astype(np.int32)
    magnitude = ((((code & 15).astype(np.int32) << 3) + 0x84) << exponent) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _a_law() -> Pcm:
    """Return the table of ITU-T G.711's A-law, scaled to 16 bits."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent = (code >> 4 & 7).astype(np.int32)
    mantissa = (code & 15).astype(np.int32) << 4
    small = mantissa + 8
    large = (mantissa + 0x108) << np.maximum(exponent - 1, 0)
    magnitude = np.where(exponent == 0, small, large)
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


PCM_RATE: Final = 24000
PCM: Final = AudioFormat("audio/pcm", "pcm16", PCM_RATE)
MU_LAW: Final = AudioFormat("audio/pcmu", "g711_ulaw", 8000, _mu_law())
A_LAW: Final = AudioFormat("audio/pcma", "g711_alaw", 8000, _a_law())
FORMATS: Final = (PCM, MU_LAW, A_LAW)
