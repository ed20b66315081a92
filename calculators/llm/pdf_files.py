"""`with_pdf_texts`: a request's PDF files become files of text, before the request is read.

The readers of the APIs know files of text only (`calculators.llm.requests.messages`). Files are
read in a process that ends with the request, so none leaves anything behind, and one that takes too
long or too much memory ends only its own request. Few such processes run at a time.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import importlib.util
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from calculators.kit.child_process.question_lane import QuestionLane
from calculators.kit.child_process.supervisor import RETRY_AFTER, LoadError
from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.llm import pdf_messages
from graph_runtime import Code

#: The members in which lists of messages, items, parts and blocks stand.
_LISTS: Final = ("messages", "input", "content", "output")
#: Lists within lists: a message's, a result's, a document's.
_DEEPEST: Final = 5
_PDF_URL: Final = re.compile(r"data:application/pdf(?:;[^;,]*)*;base64,", re.IGNORECASE)
#: How each PDF begins in Base64.
_PDF_BEGINS: Final = "JVBERi"

_Steps = tuple[str | int, ...]


class _Found(NamedTuple):
    """A PDF file: the steps to the object with it, the member of that object, and the file."""

    steps: _Steps
    member: str
    content: str


async def with_pdf_texts(payload: HttpPayload) -> HttpPayload:
    """Return a request with texts in place of its PDF files.

    Raises:
        RequestError: a file cannot be read.
    """
    body = payload.parsed_json
    if not isinstance(body, dict):
        return payload
    found = list(_pdf_files(body, (), 0))
    if not found:
        return payload
    files = [PdfFile(each.content, _path((*each.steps, each.member))) for each in found]
    texts = await read_pdfs(files)
    for each, text in zip(found, texts, strict=True):
        body = _replaced(body, each.steps, each.member, text)
    return dataclasses.replace(payload, parsed_json=body)


def _pdf_files(holder: Mapping[str, Any], steps: _Steps, depth: int) -> Iterator[_Found]:
    kind = holder.get("type")
    if kind == "document":
        source = holder.get("source")
        if isinstance(source, dict):
            yield from _of_source(source, (*steps, "source"))
            yield from _pdf_files(source, (*steps, "source"), depth)
    elif kind == "input_file":
        yield from _of_file(holder, steps)
    elif kind == "file" and isinstance(holder.get("file"), dict):
        yield from _of_file(holder["file"], (*steps, "file"))
    for name in _LISTS:
        inner = holder.get(name)
        if isinstance(inner, list) and depth < _DEEPEST:
            for i, each in enumerate(inner):
                if isinstance(each, dict):
                    yield from _pdf_files(each, (*steps, name, i), depth + 1)


def _of_source(source: Mapping[str, Any], steps: _Steps) -> Iterator[_Found]:
    data = source.get("data")
    if source.get("type") == "base64" and isinstance(data, str):
        kind = source.get("media_type")
        if kind == "application/pdf" or data.startswith(_PDF_BEGINS):
            yield _Found(steps, "data", data)


def _of_file(file: Mapping[str, Any], steps: _Steps) -> Iterator[_Found]:
    data = file.get("file_data")
    if not isinstance(data, str):
        return
    url = _PDF_URL.match(data)
    if url is not None:
        yield _Found(steps, "file_data", data[url.end() :])
    elif data.startswith(_PDF_BEGINS):
        yield _Found(steps, "file_data", data)


def _path(steps: _Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:]


def _replaced(value: Any, steps: _Steps, member: str, text: str) -> Any:
    """Return a copy of a body with a text in place of a file; what is beside it is the same."""
    if steps:
        copy = value.copy()
        copy[steps[0]] = _replaced(value[steps[0]], steps[1:], member, text)
        return copy
    if member == "data":
        return {"type": "text", "media_type": "text/plain", "data": text}
    written = base64.b64encode(text.encode()).decode()
    return {**value, member: f"data:text/plain;base64,{written}"}


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
    """A PDF file of a request.

    Attributes:
        content: in Base64.
        path: the member of the request.
    """

    content: str
    path: str


class _RoomForPdfs:
    """The room for readers on one event loop."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(MOST_AT_A_TIME)
        self.waiting = 0


_ROOMS: WeakKeyDictionary[asyncio.AbstractEventLoop, _RoomForPdfs] = WeakKeyDictionary()


async def read_pdfs(files: Sequence[PdfFile]) -> list[str]:
    """Return the texts of files.

    Raises:
        RequestError: a file cannot be read, or there is no library that reads it.
            RESOURCE_EXHAUSTED: too many are being read.
    """
    if importlib.util.find_spec("pypdf") is None:
        raise fields.invalid(
            files[0].path,
            'this server reads no PDF files; it does with the extra "pdf" (pip install '
            '"graphrt[pdf]"), or send the text',
        )
    for file in files:
        if len(file.content) > pdf_messages.MAX_BYTES * 4 // 3 + 4:
            raise fields.invalid(
                file.path, f"the PDF has more than the maximum of {pdf_messages.MAX_BYTES} bytes"
            )
    async with _turn(), _lane() as lane:
        return [await _read(lane, file) for file in files]


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    room = _ROOMS.get(loop)
    if room is None:
        room = _ROOMS[loop] = _RoomForPdfs()
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
async def _lane() -> AsyncIterator[QuestionLane[pdf_messages.PdfReady]]:
    lane = QuestionLane(
        "calculators.llm.pdf_process",
        pdf_messages.PdfLoad(MEMORY),
        decode=pdf_messages.from_reader_decoder.decode,
        ready=pdf_messages.PdfReady,
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


async def _read(lane: QuestionLane[pdf_messages.PdfReady], file: PdfFile) -> str:
    question = pdf_messages.ReadPdf(file.content)
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
        raise fields.invalid(file.path, f"the PDF {answer.reason}")
    assert isinstance(answer, pdf_messages.PdfText)
    return answer.text
