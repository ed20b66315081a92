"""The process that reads PDF and HTML files, ``python -m calculators.llm.pdf_process FD PARENT``.

Files can be hostile: whatever one does to this process ends only its own request.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from html.parser import HTMLParser
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.child_process.answering_process import Report, run
from calculators.kit.child_process.messages import ReaderLoad, ReaderReady
from calculators.llm.pdf_messages import (
    MAX_BYTES,
    PdfRefused,
    PdfText,
    ReadHtml,
    ReadPdf,
    to_reader_decoder,
)

if TYPE_CHECKING:
    from pypdf import PdfReader

#: The most pages of a file, and characters of their text.
MAX_PAGES: Final = 1000
MAX_CHARACTERS: Final = 4_000_000


class PdfError(ValueError):
    """The file cannot be read; the text completes "the PDF ..."."""


def pdf_pages(content: str) -> list[str]:
    """Return the text of each page of a PDF file that is written in Base64.

    Raises:
        PdfError: it is not a PDF, broken, encrypted or too large, or has no text.
    """
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise PdfError("is not written in Base64") from None
    if len(data) > MAX_BYTES:
        raise PdfError(f"has {len(data)} bytes, which are more than the maximum {MAX_BYTES}")
    if b"%PDF-" not in data[:1024]:
        raise PdfError("is not a PDF file: it does not begin as one")
    import pypdf
    from pypdf.errors import DependencyError, LimitReachedError

    # It reports what it mends, with parts of the file.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        return _pages(pypdf.PdfReader(BytesIO(data)))
    except (PdfError, MemoryError):
        raise
    except DependencyError:
        raise PdfError("is encrypted in a way that is not read here") from None
    except LimitReachedError:
        raise PdfError("unpacks to more than is read here") from None
    except Exception:
        # The file is the only input, so it is the cause.
        raise PdfError("is broken: it cannot be read") from None


#: Elements whose text nobody sees.
_HIDDEN: Final = frozenset({"script", "style", "template", "noscript", "head", "svg"})
#: Elements within a line of text; each other one ends the line.
_INLINE: Final = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "img", "kbd"}
    | {"label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt"}
    | {"u", "var"}
)
_CELLS: Final = frozenset({"td", "th"})
_SPACE: Final = re.compile(r"[ \t\r\f\v\u00a0]*\n\s*|[ \t\r\f\v\u00a0]+")


class _Page(HTMLParser):
    """Collects the text of a page: a line for each block, cells apart, nothing that is hidden."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []
        self._hidden = ""
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN and not self._hidden:
            self._hidden = tag
        elif tag == "li":
            self._pieces.append("\n- ")
        elif tag in _CELLS:
            self._pieces.append("\t")
        elif tag not in _INLINE:
            self._pieces.append("\n")
        self._pre += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""
        if tag not in _INLINE and tag not in _CELLS:
            self._pieces.append("\n")
        self._pre = max(0, self._pre - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            begins = not self._pieces or self._pieces[-1].endswith(("\n", "- ", "\t", " "))
            shown = data if self._pre else _SPACE.sub(" ", data)
            self._pieces.append(shown.lstrip(" ") if begins and not self._pre else shown)

    @property
    def text(self) -> str:
        lines = (line.rstrip() for line in "".join(self._pieces).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def html_text(content: str) -> str:
    """Return the text of a page of HTML that is written in Base64.

    Raises:
        PdfError: it is not text in UTF-8, or too long.
    """
    try:
        source = base64.b64decode(content, validate=True).decode("utf-8-sig")
    except (binascii.Error, UnicodeDecodeError):
        raise PdfError("is not text in UTF-8, written in Base64") from None
    page = _Page()
    page.feed(source)
    page.close()
    text = page.text
    if len(text) > MAX_CHARACTERS:
        raise PdfError(f"has more than the maximum of {MAX_CHARACTERS} characters")
    return text


def _pages(reader: PdfReader) -> list[str]:
    # Files that only forbid printing or copying are encrypted with an empty password.
    if reader.is_encrypted and not reader.decrypt(""):
        raise PdfError("is encrypted: send it without a password")
    count = len(reader.pages)
    if count > MAX_PAGES:
        raise PdfError(f"has {count} pages, which are more than the maximum {MAX_PAGES}")
    pages: list[str] = []
    left = MAX_CHARACTERS
    for page in reader.pages:
        text = page.extract_text().replace("\0", "").strip()
        left -= len(text)
        if left < 0:
            raise PdfError(f"has more than the maximum of {MAX_CHARACTERS} characters")
        # A font's table may give half of a surrogate pair, which UTF-8 does not have.
        pages.append(text.encode("utf-8", "replace").decode("utf-8"))
    if not any(pages):
        raise PdfError("has no text: its pages are pictures; send them as images")
    return pages


def load(
    message: ReaderLoad, report: Report
) -> tuple[ReaderReady, Callable[[Any], PdfText | PdfRefused]]:
    """Import the library, if it is there: pages of HTML need none."""
    with suppress(ImportError):
        import pypdf  # noqa: F401

    return ReaderReady(), _answer


def _answer(question: ReadPdf | ReadHtml) -> PdfText | PdfRefused:
    try:
        if isinstance(question, ReadHtml):
            return PdfText([html_text(question.content)])
        return PdfText(pdf_pages(question.content))
    except PdfError as error:
        return PdfRefused(str(error))


def refuse(reason: str) -> PdfRefused:
    """Refuse a file whose reading raised."""
    return PdfRefused(f"cannot be read: {reason}")


if __name__ == "__main__":
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_reader_decoder.decode, ReaderLoad, load, refuse))
