"""PDF files for tests, made by hand."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from io import BytesIO

import pypdf


def pdf(*pages: str) -> bytes:
    """Return a PDF file with a line of text on each page."""
    return pdf_of([f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET".encode() for page in pages])


def pdf_of(contents: Sequence[bytes], *, is_packed: bool = False) -> bytes:
    """Return a PDF file whose pages have these contents."""
    count = len(contents)
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, content in enumerate(contents):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * i} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        filtered = b"/Filter /FlateDecode " if is_packed else b""
        objects.append(
            b"<< %s/Length %d >>\nstream\n%s\nendstream" % (filtered, len(content), content)
        )
    made = BytesIO()
    made.write(b"%PDF-1.4\n")
    places = []
    for number, each in enumerate(objects, 1):
        places.append(made.tell())
        made.write(b"%d 0 obj\n%s\nendobj\n" % (number, each))
    start = made.tell()
    made.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for place in places:
        made.write(b"%010d 00000 n \n" % place)
    made.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
               % (len(objects) + 1, start))  # fmt: skip
    return made.getvalue()


def bomb() -> bytes:
    """Return a small file whose page has 256 MiB."""
    packer = zlib.compressobj(1)
    block = b" " * (1 << 20)
    packed = b"".join(packer.compress(block) for _ in range(256)) + packer.flush()
    return pdf_of([packed], is_packed=True)


def encrypted(user: str, algorithm: str) -> bytes:
    """Return an encrypted file; the user's password "" opens it for reading."""
    writer = pypdf.PdfWriter(BytesIO(pdf("Secret")))
    writer.encrypt(user, "owner", algorithm=algorithm)
    made = BytesIO()
    writer.write(made)
    return made.getvalue()
