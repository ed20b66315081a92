"""The protocol with the process that reads PDF and HTML files."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.child_process.messages import FromReader, ToReader

#: The most bytes of a file.
MAX_BYTES: Final = 32 * 1024 * 1024


class ReadPdf(msgspec.Struct, frozen=True, tag="read", array_like=True):
    """Read a file, which is written in Base64."""

    content: str


class ReadHtml(msgspec.Struct, frozen=True, tag="read_html", array_like=True):
    """Read a page of HTML, which is written in Base64."""

    content: str


class PdfText(msgspec.Struct, frozen=True, tag="text", array_like=True):
    """The text of all pages, or of a page of HTML."""

    text: str


class PdfRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The file has no text that can be read; ``reason`` completes "the file ..."."""

    reason: str


to_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    ToReader | ReadPdf | ReadHtml
)
from_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    FromReader | PdfText | PdfRefused
)
