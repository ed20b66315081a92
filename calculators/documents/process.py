"""The process that reads PDF files: ``python -m calculators.documents.process FD PARENT``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from calculators.child_process.answering_process import Report, run
from calculators.documents.messages import Load, Read, Ready, Refused, Text, to_reader_decoder
from calculators.documents.pdf_text import PdfError, pdf_text


def load(message: Load, report: Report) -> tuple[Ready, Callable[[Any], Text | Refused]]:
    """Import the library."""
    import pypdf  # noqa: F401

    return Ready(), _answer


def _answer(question: Read) -> Text | Refused:
    try:
        return Text(pdf_text(question.content))
    except PdfError as error:
        return Refused(str(error))


def refuse(reason: str) -> Refused:
    """Refuse a file whose reading raised."""
    return Refused(f"cannot be read: {reason}")


if __name__ == "__main__":
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_reader_decoder.decode, Load, load, refuse))
