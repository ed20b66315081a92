"""The process that reads PDF files, ``python -m calculators.llm.pdf_process FD PARENT``.

Files can be hostile: whatever one does to this process ends only its own request.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import sys
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.child_process.answering_process import Report, run
from calculators.kit.child_process.messages import ReaderLoad, ReaderReady
from calculators.llm.pdf_messages import MAX_BYTES, PdfRefused, PdfText, ReadPdf, to_reader_decoder

if TYPE_CHECKING:
    from pypdf import PdfReader

#: The most pages of a file, and characters of their text.
MAX_PAGES: Final = 1000
MAX_CHARACTERS: Final = 4_000_000


class PdfError(ValueError):
    """The file cannot be read; the text completes "the PDF ..."."""


def pdf_text(content: str) -> str:
    """Return the text of a PDF file that is written in Base64, page after page.

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
        return _text(pypdf.PdfReader(BytesIO(data)))
    except (PdfError, MemoryError):
        raise
    except DependencyError:
        raise PdfError("is encrypted in a way that is not read here") from None
    except LimitReachedError:
        raise PdfError("unpacks to more than is read here") from None
    except Exception:
        # The file is the only input, so it is the cause.
        raise PdfError("is broken: it cannot be read") from None


def _text(reader: PdfReader) -> str:
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
        pages.append(text)
    whole = "\n\n".join(page for page in pages if page)
    if not whole:
        raise PdfError("has no text: its pages are pictures; send them as images")
    # A font's table may give half of a surrogate pair, which UTF-8 does not have.
    return whole.encode("utf-8", "replace").decode("utf-8")


def load(
    message: ReaderLoad, report: Report
) -> tuple[ReaderReady, Callable[[Any], PdfText | PdfRefused]]:
    """Import the library."""
    import pypdf  # noqa: F401

    return ReaderReady(), _answer


def _answer(question: ReadPdf) -> PdfText | PdfRefused:
    try:
        return PdfText(pdf_text(question.content))
    except PdfError as error:
        return PdfRefused(str(error))


def refuse(reason: str) -> PdfRefused:
    """Refuse a file whose reading raised."""
    return PdfRefused(f"cannot be read: {reason}")


if __name__ == "__main__":
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_reader_decoder.decode, ReaderLoad, load, refuse))
