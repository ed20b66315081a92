"""`with_documents`: what a request names as documents becomes files of text in the request itself.

The readers of the APIs know files of text only (`calculators.llm.requests.messages`). So files that
the client has uploaded and documents on the web are read first (`Documents`), and PDF files and
pages of HTML become texts. Uploaded images are read first too; those on the web are the model's
business. Both kinds of files are read in a process that ends with the request, so none leaves
anything, and one that takes too long or too much memory ends only its own request. Few such
processes run at a time.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from calculators.images.media.image import MAX_IMAGE_BYTES
from calculators.images.media.media_rules import MediaRules
from calculators.kit.child_process.messages import ReaderLoad, ReaderReady
from calculators.kit.child_process.question_lane import QuestionLane
from calculators.kit.child_process.supervisor import RETRY_AFTER, LoadError
from calculators.kit.installed_points import is_installed
from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import Documents, HttpPayload, RequestError
from calculators.llm import pdf_messages
from graph_runtime import Code

#: The members in which lists of messages, items, parts and blocks stand.
_LISTS: Final = ("messages", "input", "content", "output", "contents", "parts")
#: The members of Google's parts that hold a file.
_BLOBS: Final = ("inlineData", "inline_data")
#: Lists within lists: a message's, a result's, a document's.
_DEEPEST: Final = 5
_URL: Final = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_PDF: Final = "application/pdf"
_HTML: Final = ("text/html", "application/xhtml+xml")
#: How each PDF begins in Base64.
_PDF_BEGINS: Final = "JVBERi"
#: How pages of HTML begin in Base64: ``<!DOCTYPE html``, ``<!doctype html``, ``<html``.
_HTML_BEGINS: Final = ("PCFET0NUWVBFIGh0bW", "PCFkb2N0eXBlIGh0bW", "PGh0bWw")

_Steps = tuple[str | int, ...]


class _Found(NamedTuple):
    """A PDF file or a page of HTML.

    Attributes:
        steps: to the object with it; ``member``: of that object.
        content: in Base64.
    """

    steps: _Steps
    member: str
    content: str
    is_html: bool


async def with_documents(payload: HttpPayload) -> HttpPayload:
    """Return a request with texts in place of its PDF files and of the documents that it names.

    Raises:
        RequestError: a document cannot be read.
    """
    body = payload.parsed_json
    if not isinstance(body, dict):
        return payload
    if next(_holders(body, (), 0), None) is None:
        return payload
    if payload.documents is not None:
        body = await _with_named(body, payload.documents)
    found = [each for steps, holder in _holders(body, (), 0) for each in _file_of(steps, holder)]
    if not found:
        return payload if body is payload.parsed_json else _with_body(payload, body)
    files = [
        PdfFile(each.content, _path((*each.steps, each.member)), each.is_html) for each in found
    ]
    texts = await read_pdfs(files)
    for each, text in zip(found, texts, strict=True):
        body = _replaced(body, each.steps, _as_text(each, text))
    return _with_body(payload, body)


def _with_body(payload: HttpPayload, body: Mapping[str, Any]) -> HttpPayload:
    return dataclasses.replace(payload, parsed_json=body)


def _holders(
    holder: Mapping[str, Any], steps: _Steps, depth: int
) -> Iterator[tuple[_Steps, Mapping[str, Any]]]:
    """Yield the objects that hold a document, or name one or an image, with the steps to each."""
    kind = holder.get("type")
    if kind in ("document", "image"):
        source = holder.get("source")
        if isinstance(source, dict) and (kind == "document" or source.get("type") == "file"):
            yield (*steps, "source"), source
            yield from _holders(source, (*steps, "source"), depth)
    elif kind == "input_file" or (kind == "input_image" and holder.get("image_url") is None):
        yield steps, holder
    elif kind == "file" and isinstance(holder.get("file"), dict):
        yield (*steps, "file"), holder["file"]
    for name in _BLOBS:
        if isinstance(blob := holder.get(name), dict):
            yield (*steps, name), blob
    for name in _LISTS:
        inner = holder.get(name)
        if isinstance(inner, list) and depth < _DEEPEST:
            for i, each in enumerate(inner):
                if isinstance(each, dict):
                    yield from _holders(each, (*steps, name, i), depth + 1)


def _file_of(steps: _Steps, holder: Mapping[str, Any]) -> Iterator[_Found]:
    """Yield the PDF file or the page of HTML of a holder, if it has one."""
    kind, member, name = "", "data", ""
    if steps[-1] == "source":
        if holder.get("type") != "base64":
            return
        kind = str(holder.get("media_type"))
    elif steps[-1] in _BLOBS:
        kind = str(holder.get("mimeType") or holder.get("mime_type"))
    else:
        member, name = "file_data", str(holder.get("filename"))
    data = holder.get(member)
    if not isinstance(data, str):
        return
    if member == "file_data" and (url := _URL.match(data)) is not None:
        kind, data = url["type"], data[url.end() :]
    kind = kind.lower()
    if kind == _PDF or data.startswith(_PDF_BEGINS):
        yield _Found(steps, member, data, is_html=False)
    elif (
        kind in _HTML
        or data.startswith(_HTML_BEGINS)
        or (not data.startswith("data:") and name.lower().endswith((".html", ".htm")))
    ):
        yield _Found(steps, member, data, is_html=True)


def _path(steps: _Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:]


def _replaced(value: Any, steps: _Steps, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy of a body with one object changed; what is beside it is the same."""
    if not steps:
        return change(value)
    copy = value.copy()
    copy[steps[0]] = _replaced(value[steps[0]], steps[1:], change)
    return copy


def _as_text(found: _Found, text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the change of an object with a file into one with its text."""
    if found.steps[-1] == "source":
        return lambda _: {"type": "text", "media_type": "text/plain", "data": text}
    written = base64.b64encode(text.encode()).decode()
    if found.member == "data":
        return lambda blob: {
            **{name: each for name, each in blob.items() if name != "mime_type"},
            "mimeType": "text/plain",
            "data": written,
        }
    return lambda file: {**file, found.member: f"data:text/plain;base64,{written}"}


# Documents that a request names -------------------------------------------------------------------

#: The most documents that a request may name, the bytes of all, and those of all that are texts.
MOST_NAMED: Final = 16
MOST_NAMED_BYTES: Final = 64_000_000
MOST_TEXT_BYTES: Final = 8_000_000


class _Name(NamedTuple):
    """The name of a document: the member that has it, and the id of a file or an address."""

    member: str
    value: str
    is_file: bool


def _name_in(steps: _Steps, holder: Mapping[str, Any]) -> _Name | None:
    """Return the name of the document that a holder names; None if it holds the document itself."""
    members: tuple[str, ...]
    if holder.get("type") == "input_image":
        members = ("file_id",)
    elif steps[-1] == "source":
        member = {"file": "file_id", "url": "url"}.get(str(holder.get("type")))
        members = () if member is None else (member,)
    else:
        members = () if holder.get("file_data") is not None else ("file_id", "file_url")
    for member in members:
        value = holder.get(member)
        if isinstance(value, str):
            return _Name(member, value, member == "file_id")
    return None


async def _with_named(body: dict[str, Any], documents: Documents) -> dict[str, Any]:
    """Return a body with the documents that it names in place of their names.

    Raises:
        RequestError: one cannot be read, or there are too many.
    """
    found = [
        (steps, name)
        for steps, holder in _holders(body, (), 0)
        if (name := _name_in(steps, holder)) is not None
    ]
    size, text_size = 0, 0
    for number, (steps, name) in enumerate(found):
        path = _path((*steps, name.member))
        if number >= MOST_NAMED:
            raise fields.invalid(path, f"a request may name {MOST_NAMED} documents at most")
        filename = ""
        try:
            if name.is_file:
                file = await documents.uploaded(name.value, MAX_IMAGE_BYTES)
                filename, content = file.filename, file.content
            else:
                content = await _fetched(name.value, documents.settings.of(MediaRules))
        except ValueError as error:
            raise fields.invalid(path, str(error)) from None
        is_image = _is_image(body, steps)
        is_text = not is_image and not content.startswith(b"%PDF-")
        size += len(content)
        text_size += len(content) if is_text else 0
        if size > MOST_NAMED_BYTES:
            raise fields.invalid(path, f"the documents have more than {MOST_NAMED_BYTES} bytes")
        if text_size > MOST_TEXT_BYTES:
            raise fields.invalid(path, f"the texts have more than {MOST_TEXT_BYTES} bytes")
        written = (await asyncio.to_thread(base64.b64encode, content)).decode()
        if is_image:
            change = _as_image(steps[-1] == "source", written)
        else:
            kind = "text/plain" if is_text else "application/pdf"
            change = _as_held(steps[-1] == "source", kind, written, filename)
        body = _replaced(body, steps, change)
    return body


def _is_image(body: Any, steps: _Steps) -> bool:
    """Return True if what a holder names is an image, by the type of the part or block."""
    for step in steps[:-1] if isinstance(steps[-1], str) else steps:
        body = body[step]
    return body["type"] in ("image", "input_image")


def _as_image(is_source: bool, written: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the change of an object that names an image into one that holds it, in Base64.

    Images are known by their bytes, so the media type says no more than that it is one.
    """
    if is_source:
        return lambda _: {"type": "base64", "media_type": "image/*", "data": written}
    url = f"data:image/*;base64,{written}"
    return lambda part: (
        {name: part[name] for name in part if name != "file_id"} | {"image_url": url}
    )


async def _fetched(url: str, rules: MediaRules) -> bytes:
    # Late: an HTTP client takes long to import, and few requests need it.
    from calculators.images.media.download import download

    async with _room().fetches:
        return await download(url.strip(), rules, what="document")


def _as_held(
    is_source: bool, kind: str, written: str, filename: str
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the change of an object that names a document into one that holds it, in Base64."""
    if is_source:
        return lambda _: {"type": "base64", "media_type": kind, "data": written}
    named = ("file_id", "file_url")
    return lambda file: {
        **({"filename": filename} if filename else {}),
        **{name: value for name, value in file.items() if name not in named},
        "file_data": f"data:{kind};base64,{written}",
    }


# Reading ------------------------------------------------------------------------------------------

#: Processor seconds for one file, and bytes that the process may grow by.
CPU_SECONDS: Final = 20.0
WALL_SECONDS: Final = 60.0
MEMORY: Final = 1024**3
#: Requests whose files are read at a time, and those that wait.
MOST_AT_A_TIME: Final = 2
MOST_WAITING: Final = 64
#: A file above this is encoded in a thread.
_LONG: Final = 1024 * 1024


class PdfFile(NamedTuple):
    """A PDF file of a request, or a page of HTML.

    Attributes:
        content: in Base64.
        path: the member of the request.
    """

    content: str
    path: str
    is_html: bool = False


class _Room:
    """The room for readers and fetches on one event loop."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(MOST_AT_A_TIME)
        self.waiting = 0
        self.fetches = asyncio.Semaphore(MOST_NAMED)


_ROOMS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Room] = WeakKeyDictionary()


def _room() -> _Room:
    loop = asyncio.get_running_loop()
    room = _ROOMS.get(loop)
    if room is None:
        room = _ROOMS[loop] = _Room()
    return room


async def read_pdfs(files: Sequence[PdfFile]) -> list[str]:
    """Return the texts of files.

    Raises:
        RequestError: a file cannot be read, or there is no library that reads it.
            RESOURCE_EXHAUSTED: too many are being read.
    """
    first = next((file.path for file in files if not file.is_html), None)
    if first is not None and not is_installed("pypdf"):
        raise fields.invalid(
            first,
            'this server reads no PDF files; it does with the extra "documents" (pip install '
            '"graphrt[documents]"), or send the text',
        )
    for file in files:
        if len(file.content) > pdf_messages.MAX_BYTES * 4 // 3 + 4:
            raise fields.invalid(
                file.path,
                f"the {_noun(file)} has more than the maximum of {pdf_messages.MAX_BYTES} bytes",
            )
    async with _turn(), _lane() as lane:
        return [await _read(lane, file) for file in files]


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    room = _room()
    if room.waiting >= MOST_WAITING:
        raise RequestError(
            "too many PDF files wait to be read; try again later",
            code=Code.RESOURCE_EXHAUSTED,
            retry_after=RETRY_AFTER,
        )
    room.waiting += 1
    try:
        await room.turns.acquire()
    finally:
        room.waiting -= 1
    try:
        yield
    finally:
        room.turns.release()


@asynccontextmanager
async def _lane() -> AsyncIterator[QuestionLane[ReaderReady]]:
    lane = QuestionLane(
        "calculators.llm.pdf_process",
        ReaderLoad(MEMORY),
        decode=pdf_messages.from_reader_decoder.decode,
        ready=ReaderReady,
        name="reader of PDF files",
        subject="PDF",
        cpu_seconds=CPU_SECONDS,
        wall_seconds=WALL_SECONDS,
        most_waiting=1,
    )
    try:
        try:
            await lane.start()
        except LoadError as error:
            raise RequestError(
                f"PDF files cannot be read: {error}", code=Code.UNAVAILABLE, retry_after=RETRY_AFTER
            ) from None
        yield lane
    finally:
        await lane.close()


async def _read(lane: QuestionLane[ReaderReady], file: PdfFile) -> str:
    read = pdf_messages.ReadHtml if file.is_html else pdf_messages.ReadPdf
    question = read(file.content)
    if len(file.content) > _LONG:
        body = await asyncio.to_thread(msgspec.msgpack.encode, question)
    else:
        body = msgspec.msgpack.encode(question)
    try:
        answer = await lane.ask(body, 0.0)
    except RequestError as error:
        if error.code is Code.INVALID_ARGUMENT:
            raise fields.invalid(file.path, str(error)) from None
        raise
    if isinstance(answer, pdf_messages.PdfRefused):
        raise fields.invalid(file.path, f"the {_noun(file)} {answer.reason}")
    assert isinstance(answer, pdf_messages.PdfText)
    return answer.pages[0] if file.is_html else pdf_messages.PagedText.of(answer.pages)


def _noun(file: PdfFile) -> str:
    return "page of HTML" if file.is_html else "PDF"
