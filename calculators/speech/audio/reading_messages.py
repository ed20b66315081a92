"""The protocol between the server and the process that reads sound files; MessagePack.

A file is opened once, and its samples are read slice by slice. The process may forget a file: it
keeps a limited number, and ends where a file makes it crash. Then the server opens it again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.kit.child_process.messages import FromReader, ToReader


class Open(msgspec.Struct, frozen=True, tag="open", array_like=True):
    """Open a file; see `calculators.speech.audio.reading.SoundFile`.

    Attributes:
        key: the server's name for it.
    """

    key: int
    content: memoryview
    sample_rate: int
    max_seconds: float


class Opened(msgspec.Struct, frozen=True, tag="opened", array_like=True):
    """The file is open.

    Attributes:
        seconds: the duration by its header, or an estimate.
        cost: processor seconds to read one second of it, estimated.
    """

    seconds: float
    cost: float


class Read(msgspec.Struct, frozen=True, tag="read", array_like=True):
    """Read the next slice of a file."""

    key: int


class SoundRead(msgspec.Struct, frozen=True, tag="sound", array_like=True):
    """A slice.

    Attributes:
        pcm: samples as `calculators.speech.audio.sound` has them.
        is_last: the file has no more.
    """

    pcm: memoryview
    is_last: bool


class Close(msgspec.Struct, frozen=True, tag="close", array_like=True):
    """Forget a file."""

    key: int


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", array_like=True):
    """The process does not have the file."""


class SoundRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The file is not sound; ``reason`` is for the client."""

    reason: str


to_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    ToReader | Open | Read | Close
)
from_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    FromReader | Opened | SoundRead | Forgotten | SoundRefused
)
