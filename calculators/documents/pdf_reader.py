"""`read_pdfs`: the text of PDF files of one request, from a process of its own.

The process ends with the request, so no file leaves anything behind, and one that takes too long or
too much memory ends only its own request. Few such processes run at a time.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from calculators.child_process.question_lane import QuestionLane
from calculators.child_process.supervisor import RETRY_AFTER, LoadError
from calculators.documents.messages import Load, Read, Ready, Refused, Text, from_reader_decoder
from calculators.documents.pdf_text import MAX_BYTES
from calculators.requests import fields
from calculators.requests.http_payload import RequestError
from graph_runtime import Code

#: Processor seconds for one file, and bytes that the process may grow by.
CPU_SECONDS: Final = 20.0
WALL_SECONDS: Final = 60.0
MEMORY: Final = 1024**3
#: Requests whose files are read at a time, and those that wait.
_MOST_AT_A_TIME: Final = 2
_MOST_WAITING: Final = 64
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


class _Room:
    """The room for readers on one event loop."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(_MOST_AT_A_TIME)
        self.waiting = 0


_ROOMS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Room] = WeakKeyDictionary()


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
        if len(file.content) > MAX_BYTES * 4 // 3 + 4:
            raise fields.invalid(
                file.path, f"the PDF has more than the maximum of {MAX_BYTES} bytes"
            )
    async with _turn(), _lane() as lane:
        return [await _read(lane, file) for file in files]


@asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    room = _ROOMS.get(loop)
    if room is None:
        room = _ROOMS[loop] = _Room()
    if room.waiting >= _MOST_WAITING:
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
async def _lane() -> AsyncIterator[QuestionLane[Ready]]:
    lane = QuestionLane(
        "calculators.documents.process",
        Load(MEMORY),
        decode=from_reader_decoder.decode,
        ready=Ready,
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


async def _read(lane: QuestionLane[Ready], file: PdfFile) -> str:
    question = Read(file.content)
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
    if isinstance(answer, Refused):
        raise fields.invalid(file.path, f"the PDF {answer.reason}")
    assert isinstance(answer, Text)
    return answer.text
