"""The protocol with the process that reads PDF and HTML files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from calculators.kit.child_process.messages import FromReader, ToReader

#: The most bytes of a file.
MAX_BYTES: Final = 32 * 1024 * 1024


#: How pages of a file follow each other in its text.
PAGES_APART: Final = "\n\n"


class PagedText(str):
    """The text of a file with pages; ``pages`` are the places where they begin and their numbers.

    No client can send one.
    """

    pages: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, pages: Iterable[str]) -> PagedText:
        """Return the text of pages; empty ones are left out."""
        places: list[tuple[int, int]] = []
        texts: list[str] = []
        place = 0
        for number, text in enumerate(pages, 1):
            if text:
                places.append((place, number))
                texts.append(text)
                place += len(text) + len(PAGES_APART)
        made = cls(PAGES_APART.join(texts))
        made.pages = tuple(places)
        return made


class ReadPdf(msgspec.Struct, frozen=True, tag="read", array_like=True):
    """Read a file, which is written in Base64."""

    content: str


class ReadHtml(msgspec.Struct, frozen=True, tag="read_html", array_like=True):
    """Read a page of HTML, which is written in Base64."""

    content: str


class PdfText(msgspec.Struct, frozen=True, tag="text", array_like=True):
    """The text of each page of a PDF file, or that of a page of HTML."""

    pages: list[str]


class PdfRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The file has no text that can be read; ``reason`` completes "the file ..."."""

    reason: str


to_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    ToReader | ReadPdf | ReadHtml
)
from_reader_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    FromReader | PdfText | PdfRefused
)
