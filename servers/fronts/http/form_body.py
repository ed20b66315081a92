"""Bodies of ``multipart/form-data``: read by the one reader of bodies, parsed in bounded pieces.

python-multipart finds boundaries at the speed of ``bytes.find``, but steps through lines that only
begin like one. Such lines are counted before it sees them, and the loop has its turn after every
few milliseconds of parsing. It limits headers, but neither parts nor texts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from aiohttp import web
from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser, MultipartState, parse_options_header

from calculators.kit.requests.http_payload import FormFile, MultipartForm
from servers.contract.failure import clean
from servers.fronts.body_room import BodyHold
from servers.fronts.http.body import SHORT, check_encoding, large_bodies, receive
from servers.fronts.http.errors import HttpError
from servers.fronts.http.settings import HttpSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FORM = "multipart/form-data"

# Bytes parsed at a time, and seconds after which others have their turn.
_STEP = 64 * 1024
_TURN_SECONDS = 0.002
# A longer content is joined in a thread, without the GIL.
_JOINED_ON_THE_LOOP = 1024 * 1024
_LONGEST_PADDING = 1024
_SHOWN = 64
_UTF8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
# RFC 7578 deprecates all encodings; these change nothing.
_PLAIN_ENCODINGS = frozenset({"binary", "8bit", "7bit"})
# Media types of parts that are uploads even without a filename.
_OF_FILES = ("audio/", "image/", "video/", "application/octet-stream")

# It warns of each malformed body; the request's log has that.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


def has_form(request: web.BaseRequest) -> bool:
    """Return whether the body of a request is a form, by its Content-Type."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == FORM


async def read_form(
    request: web.BaseRequest, settings: HttpSettings, hold: BodyHold
) -> MultipartForm:
    """Read a form.

    Raises:
        HttpError: 400, 408, 413, 417.
        RequestError: UNAVAILABLE, there is no room for it in time.
        ConnectionError: the client went.
    """
    check_encoding(request)
    parser = FormParser(boundary_of(request.headers.get("Content-Type", "")), settings)
    pieces: deque[bytes] = deque()
    await receive(request, settings, settings.max_upload_bytes, pieces.append, hold)
    size = sum(map(len, pieces))
    if not size:
        raise HttpError(400, "the body is empty; it must be a form")
    try:
        async with _turn(size):
            begin = perf_counter()
            while pieces:
                piece = pieces.popleft()
                for at in range(0, len(piece), _STEP):
                    parser.parse(piece[at : at + _STEP])
                    if perf_counter() - begin > _TURN_SECONDS:
                        # Leave the loop to others for as long as the parser has blocked it.
                        await asyncio.sleep(perf_counter() - begin)
                        begin = perf_counter()
            return await parser.form()
    finally:
        parser.close()


@asynccontextmanager
async def _turn(size: int) -> AsyncIterator[None]:
    if size <= SHORT:
        yield
        return
    # Forms share the turns of JSON bodies: both are parsed on the same core.
    async with large_bodies.turn(float(size)):
        yield


def boundary_of(content_type: str) -> bytes:
    """Return the boundary of a form.

    Raises:
        HttpError: 400, the header has none, or names a charset that is not taken.
    """
    header = content_type.encode("utf-8", "surrogateescape")
    parameters = parse_options_header(header)[1]
    boundary = parameters.get(b"boundary", b"")
    if not boundary:
        raise HttpError(400, "the Content-Type multipart/form-data has no boundary")
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in _UTF8:
        raise HttpError(400, "the texts of a form must be UTF-8: no other charset is accepted")
    return boundary


class FormParser:
    """Collects the parts of one form. A subclass may take the content of files elsewhere."""

    def __init__(self, boundary: bytes, settings: HttpSettings) -> None:
        self._settings = settings
        self._fields: dict[str, list[str]] = {}
        self._files: dict[str, list[tuple[FormPart, list[bytes]]]] = {}
        self._delimiter = b"\r\n--" + boundary
        self._delimiters = 0
        self._parts = 0
        self._text_bytes = 0
        self._is_whole = False
        self._part = FormPart(0)
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_begin": self._begin_header,
                    "on_header_field": self._add_to_name,
                    "on_header_value": self._add_to_value,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._add_data,
                    "on_part_end": self._end_part,
                    "on_end": self._end,
                },
                max_header_count=settings.max_part_headers,
                max_header_size=settings.max_part_header_bytes,
            )
        except FormParserError:
            raise HttpError(400, "the boundary of the form is too long") from None

    def parse(self, piece: bytes) -> None:
        """Parse the next piece of the body.

        Raises:
            HttpError: 400, 413.
        """
        # Each part ends with a delimiter, and no other line may begin like one.
        self._delimiters += piece.count(self._delimiter)
        # Counted in C before the parser sees the piece: it steps through such lines byte by byte in
        # Python.
        if self._delimiters > self._settings.max_form_parts + 1:
            raise self._too_many_parts()
        was_padding = self._parser.state is MultipartState.BOUNDARY_PADDING
        try:
            self._parser.write(piece)
        except MultipartParseError as error:
            raise self._malformed(str(error)) from None
        is_padding = self._parser.state is MultipartState.BOUNDARY_PADDING
        if was_padding and is_padding and len(piece) > _LONGEST_PADDING:
            # It steps through the blanks after a boundary too.
            raise self._malformed("blanks")

    async def form(self) -> MultipartForm:
        """Return the form after its last piece.

        Raises:
            HttpError: 400, the body is cut.
        """
        if not self._is_whole:
            if not self._parts:
                raise _no_boundary()
            raise HttpError(
                400,
                f"the form breaks off in part {self._parts}: the boundary that ends it is missing",
            )
        files: dict[str, list[FormFile]] = {}
        for name, uploads in self._files.items():
            for part, pieces in uploads:
                content = await _joined(pieces)
                # The content is there twice while it is joined; the room counts it once.
                pieces.clear()
                upload = FormFile(part.filename or "", part.content_type, content)
                files.setdefault(name, []).append(upload)
        return MultipartForm(self._fields, files)

    def close(self) -> None:
        """End the parser, which is in a reference cycle with this: it would keep the files."""
        del self._parser

    def add_to_file(self, part: FormPart, data: bytes) -> None:
        """Take a piece of a file's content."""
        part.pieces.append(data)

    # Called by the parser.

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > self._settings.max_form_parts:
            raise self._too_many_parts()
        self._part = FormPart(self._parts)

    def _begin_header(self) -> None:
        self._part.headers.append((bytearray(), bytearray()))

    def _add_to_name(self, data: bytes, start: int, end: int) -> None:
        self._part.headers[-1][0].extend(data[start:end])

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._part.headers[-1][1].extend(data[start:end])

    def _end_headers(self) -> None:
        self._part.read_headers()

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        if not part.is_file:
            self._text_bytes += end - start
            if self._text_bytes > self._settings.max_form_text_bytes:
                limit = self._settings.max_form_text_bytes
                raise HttpError(
                    413,
                    f"the texts of the form have more than {limit} bytes; a file's part has a "
                    "filename",
                    param=part.shown_name,
                )
            part.pieces.append(data[start:end])
        else:
            self.add_to_file(part, data[start:end])

    def _end_part(self) -> None:
        part = self._part
        if part.is_file:
            self._files.setdefault(part.name, []).append((part, part.pieces))
            return
        text = part.text()
        if part.name == "_charset_":
            if text.strip().lower() not in _UTF8:
                raise HttpError(400, "the texts of a form must be UTF-8", param="_charset_")
            return
        self._fields.setdefault(part.name, []).append(text)

    def _end(self) -> None:
        self._is_whole = True

    def _too_many_parts(self) -> HttpError:
        return HttpError(400, f"the form has more than {self._settings.max_form_parts} parts")

    def _malformed(self, reason: str) -> HttpError:
        settings = self._settings
        if not self._parts:
            return _no_boundary()
        part = f"part {self._parts} of the form"
        if "header size" in reason:
            limit = settings.max_part_header_bytes
            return HttpError(400, f"{part} has a header of more than {limit} bytes")
        if "header count" in reason:
            return HttpError(400, f"{part} has more than {settings.max_part_headers} headers")
        return HttpError(400, f"{part} is malformed")


class FormPart:
    """One part, as far as it has arrived.

    Attributes:
        filename: None: the part has none.
        content_type: in lower case, without parameters; "" without one.
    """

    __slots__ = ("content_type", "filename", "headers", "is_file", "name", "number", "pieces")

    def __init__(self, number: int) -> None:
        self.number = number
        self.headers: list[tuple[bytearray, bytearray]] = []
        self.pieces: list[bytes] = []
        self.name = ""
        self.filename: str | None = None
        self.content_type = ""
        self.is_file = False

    @property
    def shown_name(self) -> str:
        """The name for an error."""
        return clean(self.name[:_SHOWN])

    def read_headers(self) -> None:
        """Read the headers, once all are there.

        Raises:
            HttpError: 400.
        """
        headers = {bytes(name).lower(): bytes(value) for name, value in self.headers}
        kind, parameters = parse_options_header(headers.get(b"content-disposition"))
        if kind != b"form-data":
            raise HttpError(400, f"part {self.number} has no Content-Disposition: form-data")
        try:
            self.name = parameters.get(b"name", b"").decode()
        except UnicodeDecodeError:
            raise HttpError(400, f"the name of part {self.number} is not UTF-8") from None
        if not self.name:
            raise HttpError(400, f"part {self.number} of the form has no name")
        if b"filename" in parameters:
            self.filename = parameters[b"filename"].decode("utf-8", "replace")
        media, of_media = parse_options_header(headers.get(b"content-type"))
        self.content_type = media.decode("latin-1")
        self.is_file = self.filename is not None or self.content_type.startswith(_OF_FILES)
        encoding = headers.get(b"content-transfer-encoding", b"binary").strip().lower()
        if encoding.decode("latin-1") not in _PLAIN_ENCODINGS:
            raise self._error("has a Content-Transfer-Encoding; send its bytes as they are")
        charset = of_media.get(b"charset", b"utf-8").decode("latin-1").strip().lower()
        if not self.is_file and charset not in _UTF8:
            raise self._error("must be UTF-8: no other charset is accepted")

    def text(self) -> str:
        """Return the content of a part that is not a file.

        Raises:
            HttpError: 400, it is not UTF-8.
        """
        content = b"".join(self.pieces)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise self._error(f"is not UTF-8: byte {error.start + 1}") from None

    def _error(self, text: str) -> HttpError:
        name = self.shown_name
        return HttpError(400, f'the field "{name}" of the form {text}', param=name)


async def _joined(pieces: list[bytes]) -> bytes:
    if sum(map(len, pieces)) <= _JOINED_ON_THE_LOOP:
        return b"".join(pieces)
    return await asyncio.to_thread(b"".join, pieces)


def _no_boundary() -> HttpError:
    return HttpError(400, "the form does not begin with the boundary that its Content-Type names")
