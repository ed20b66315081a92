"""The protocol between the server and the process that reads PDF files; MessagePack."""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.child_process.messages import LoadFailed, Loading, Log, Stop


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message.

    Attributes:
        memory_limit: bytes that the process may grow by when it has started.
        model_path: unused; there is no model.
    """

    memory_limit: int
    model_path: str = ""


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The process can read files."""


class Read(msgspec.Struct, frozen=True, tag="read", array_like=True):
    """Read a file, which is written in Base64."""

    content: str


class Text(msgspec.Struct, frozen=True, tag="text", array_like=True):
    """The text of all pages."""

    text: str


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The file has no text that can be read; ``reason`` completes "the PDF ..."."""

    reason: str


to_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Load | Read | Stop)
from_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    Ready | Loading | LoadFailed | Log | Text | Refused
)
