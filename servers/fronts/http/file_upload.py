"""Uploads of files for batches: forms whose file goes to the disk piece by piece."""

from __future__ import annotations

import asyncio

from aiohttp import web

from calculators.kit.requests.multipart_form import MultipartForm
from servers.batches.errors import StoreError
from servers.batches.upload import Upload
from servers.fronts.http.body import check_encoding
from servers.fronts.http.errors import HttpError
from servers.fronts.http.form_body import FormParser, FormPart, boundary_of
from servers.fronts.http.settings import HttpSettings

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Besides the file: boundaries, headers and fields.
_REST_OF_FORM = 64 * 1024


async def receive_upload(
    request: web.BaseRequest, settings: HttpSettings, upload: Upload, most_bytes: int
) -> tuple[MultipartForm, str]:
    """Write the file of a form into ``upload``; return the form and the file's name.

    Neither parsing nor writing is on the event loop, and at most one piece is in memory.

    Raises:
        HttpError: 400, 408, 413.
        StoreError: the file cannot be written.
        ConnectionError: the client went.
    """
    check_encoding(request)
    parser = _UploadParser(
        boundary_of(request.headers.get("Content-Type", "")), settings, upload, most_bytes
    )
    length = request.content_length
    if length is not None and length > most_bytes + _REST_OF_FORM:
        raise too_large(most_bytes)
    if request.headers.get("Expect") and request.transport is not None:
        request.transport.write(_CONTINUE)
    loop = asyncio.get_running_loop()
    since = loop.time() + settings.body_idle_seconds
    size = 0
    content = request.content
    try:
        while not content.at_eof():
            due = since + size / settings.min_body_rate
            async with asyncio.timeout_at(min(due, loop.time() + settings.body_idle_seconds)):
                piece = await content.readany()
            size += len(piece)
            if piece:
                began = loop.time()
                await asyncio.to_thread(parser.parse, piece)
                since += loop.time() - began
    except TimeoutError:
        raise HttpError(408, "the body did not arrive in time") from None
    except web.RequestPayloadError:
        raise HttpError(400, "the body is not encoded as its headers say") from None
    if not size:
        raise HttpError(400, "the body is empty; it must be a form")
    form = await parser.form()
    if parser.filename is None:
        text = "the form needs a file, with a filename, in its field `file`"
        raise HttpError(400, text, param="file")
    return form, parser.filename


def too_large(most_bytes: int) -> HttpError:
    """Return the error for a file above the limit."""
    return HttpError(413, f"the file is larger than {most_bytes} bytes", param="file")


class _UploadParser(FormParser):
    """Writes the content of the field ``file``. ``filename``: of it; None before it comes."""

    def __init__(
        self, boundary: bytes, settings: HttpSettings, upload: Upload, most_bytes: int
    ) -> None:
        super().__init__(boundary, settings)
        self._upload = upload
        self._most = most_bytes
        self._number = 0
        self.filename: str | None = None

    def add_to_file(self, part: FormPart, data: bytes) -> None:
        if part.name != "file":
            raise HttpError(400, "only the field `file` may be a file", param=part.shown_name)
        if self._number not in (0, part.number):
            raise HttpError(400, "the form has more than one file", param="file")
        self._number = part.number
        self.filename = part.filename or "file"
        if self._upload.size + len(data) > self._most:
            raise too_large(self._most)
        self._upload.write(data)


async def discard(upload: Upload) -> None:
    """Remove an upload that failed. Does nothing to one that is finished."""
    try:
        await asyncio.to_thread(upload.discard)
    except StoreError:
        return
