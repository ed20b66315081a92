"""`SoundReader`: sound files of clients, read slice by slice in a process of their own.

A file of a few hundred bytes may have hours of sound, or a second of many channels at a rate of
hundreds of kilohertz. So its duration and its cost are taken from its header, and it is decoded as
its samples are needed, up to 30 s or 0.15 s of processor time at a time; between two slices clients
take turns. No file makes another one's client wait for more than a slice of each client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
from collections.abc import Sequence
from random import SystemRandom
from typing import Any, Final

import msgspec

from calculators.kit.child_process.messages import ReaderLoad, ReaderReady
from calculators.kit.child_process.question_lane import QuestionLane
from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.requests.http_payload import RequestError
from calculators.speech.audio.reading_messages import (
    Close,
    Forgotten,
    Open,
    Opened,
    Read,
    SoundRead,
    SoundRefused,
    from_reader_decoder,
)
from calculators.speech.audio.sound import BYTES_PER_SAMPLE
from graph_runtime import Code, ResourceError

#: A file above this is encoded in a thread.
_LONG_BYTES: Final = 1024 * 1024
#: Processor seconds for opening a file, or for one slice.
CPU_SECONDS: Final = 30.0
WALL_SECONDS: Final = 60.0
#: Bytes that a process may grow by: the open files, a slice of each, with room.
MEMORY: Final = 2 * 1024**3
MOST_WAITING: Final = 128
#: Estimated processor seconds for opening a file, per byte.
_COST_OF_BYTE: Final = 1e-8
#: Slices of a file that the process forgets before each: then the file is given up.
_MOST_FORGOTTEN: Final = 3


#: Sounds in a request, with the ones of earlier messages.
MAX_SOUNDS: Final = 16
#: Seconds of all sounds of a request.
MAX_SOUND_SECONDS: Final = 600
#: Samples per second that language models take.
HEARD_RATE: Final = 16_000
#: Base64 above this is decoded in a thread.
_LONG_CHARACTERS: Final = 256 * 1024
_DATA_URL: Final = re.compile(r"\s*data:[^,]{0,200};base64,", re.IGNORECASE)
_SPACE: Final = b" \t\r\n"


class SoundReader:
    """The process, and the files that are open.

    Attributes:
        most_sounds: of a request to a language model.
    """

    most_sounds = MAX_SOUNDS

    def __init__(self, name: str) -> None:
        """``name``: the served model's name, for messages."""
        self._lane = QuestionLane(
            "calculators.speech.audio.reading_process",
            ReaderLoad(MEMORY),
            decode=from_reader_decoder.decode,
            ready=ReaderReady,
            name=f'sound reader of "{name}"',
            subject="sound",
            cpu_seconds=CPU_SECONDS,
            wall_seconds=WALL_SECONDS,
            most_waiting=MOST_WAITING,
            is_shared=True,
        )

    async def start(self) -> None:
        """Start the process.

        Raises:
            ResourceError: it cannot start.
        """
        try:
            await self._lane.start()
        except LoadError as error:
            raise ResourceError(f"sound files cannot be read: {error}") from None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._lane.pid

    async def close(self) -> None:
        await self._lane.close()

    async def open(
        self, content: bytes, *, sample_rate: int, max_seconds: float, param: str = "file"
    ) -> OpenSound:
        """Open a file, whose samples are then read one slice after the other.

        Raises:
            RequestError: it is not sound, or too long by its header; ``param`` names the field.
                Too many files wait; the process is down.
        """
        file = OpenSound(self._lane, content, sample_rate, max_seconds, param)
        await file.open()
        return file


class OpenSound:
    """A file that is being read. It must be closed.

    Attributes:
        seconds: the duration by its header, or an estimate.
        cost: estimated processor seconds to read a second of it.
        is_at_end: everything has been read.
        size: bytes of the file.
    """

    def __init__(
        self,
        lane: QuestionLane[ReaderReady],
        content: bytes,
        sample_rate: int,
        max_seconds: float,
        param: str,
    ) -> None:
        self._lane = lane
        self._encode = msgspec.msgpack.Encoder().encode
        # Workers share the process: a name that no other has.
        self._key = SystemRandom().getrandbits(63)
        self._content = content
        self._sample_rate = sample_rate
        self._max_seconds = max_seconds
        self._param = param
        self.cost = 0.0
        self._bytes_read = 0
        self._is_open = False
        self.is_at_end = False
        self.seconds = 0.0
        self.size = len(content)

    @property
    def _cost_left(self) -> float:
        """Processor seconds for the rest: of a client's files the one with least comes first."""
        read = self._bytes_read / BYTES_PER_SAMPLE / self._sample_rate
        return self.cost * max(0.0, self.seconds - read)

    async def open(self) -> None:
        """Open the file; see `SoundReader.open`."""
        question = Open(self._key, memoryview(self._content), self._sample_rate, self._max_seconds)
        if self.size > _LONG_BYTES:
            body = await asyncio.to_thread(self._encode, question)
        else:
            body = self._encode(question)
        self._is_open = True
        opened = await self._ask(body, self.size * _COST_OF_BYTE)
        assert isinstance(opened, Opened)
        self.seconds, self.cost = opened.seconds, opened.cost

    async def read(self) -> memoryview:
        """Return the next samples, as `calculators.speech.audio.sound` has them; none at the end.

        Raises:
            RequestError: as `SoundReader.open`; the file is broken here, or too long.
        """
        if self.is_at_end:
            return memoryview(b"")
        for _ in range(_MOST_FORGOTTEN):
            answer = await self._ask(self._encode(Read(self._key)), self._cost_left)
            if isinstance(answer, SoundRead):
                self._bytes_read += len(answer.pcm)
                self._note_end(answer)
                return answer.pcm
            assert isinstance(answer, Forgotten)
            if (pcm := await self._again()) is not None:
                return pcm
        raise RequestError(
            "too many sounds are read; try again later", code=Code.UNAVAILABLE, retry_after=1.0
        )

    async def _again(self) -> memoryview | None:
        """Open the file again and read as far as before; return what comes then, if anything."""
        await self.open()
        skipped = 0
        while skipped < self._bytes_read:
            answer = await self._ask(self._encode(Read(self._key)), self._cost_left)
            if not isinstance(answer, SoundRead):
                return None
            skipped += len(answer.pcm)
            if skipped > self._bytes_read or answer.is_last:
                rest = answer.pcm[len(answer.pcm) - max(0, skipped - self._bytes_read) :]
                self._bytes_read += len(rest)
                self._note_end(answer)
                return rest
        return None

    def _note_end(self, answer: SoundRead) -> None:
        if answer.is_last:
            self.is_at_end = True
            self._is_open = False
            self._content = b""

    async def close(self) -> None:
        """Forget the file."""
        self._content = b""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(RequestError):
                await self._lane.ask(self._encode(Close(self._key)), 0.0)

    async def _ask(self, body: bytes, expected: float) -> Any:
        try:
            answer = await self._lane.ask(body, expected)
        except RequestError as error:
            if error.code is Code.INVALID_ARGUMENT:
                error.param = self._param
            raise
        if isinstance(answer, SoundRefused):
            self._is_open = False
            raise RequestError(
                f"Received input file is not valid wav nor mp3 audio file: it {answer.reason}",
                param=self._param,
                detail="the file cannot be read as sound",
            )
        return answer


# Sounds in requests to language models ------------------------------------------------------------


async def read_sounds(reader: SoundReader, sounds: Sequence[tuple[str, str]]) -> list[bytes]:
    """Return the samples of each sound, as `calculators.speech.audio.sound` has them, at 16 kHz.

    Args:
        sounds: files in Base64, maybe as ``data:`` URLs, each with the request's member that has
            it.

    Raises:
        RequestError: one is not Base64, not sound, or empty; together they are too long; too many
            files wait, or the process is down.
    """
    heard: list[bytes] = []
    most = MAX_SOUND_SECONDS * HEARD_RATE * BYTES_PER_SAMPLE
    for data, param in sounds:
        if len(data) > _LONG_CHARACTERS:
            content = await asyncio.to_thread(_decoded, data, param)
        else:
            content = _decoded(data, param)
        heard.append(await _read(reader, content, param))
        if not heard[-1]:
            raise _wrong(param, "there is no sound in it")
        if sum(map(len, heard)) > most:
            raise _wrong(
                param,
                f"the sounds of one request may be {MAX_SOUND_SECONDS} seconds long together",
            )
    return heard


def _decoded(data: str, param: str) -> bytes:
    url = _DATA_URL.match(data)
    text = data[url.end() :] if url else data
    try:
        content = base64.b64decode(
            text.encode("ascii", "replace").translate(None, _SPACE), validate=True
        )
    except (binascii.Error, ValueError):
        raise _wrong(param, "the data is not Base64") from None
    if not content:
        raise _wrong(param, "there is no data")
    return content


async def _read(reader: SoundReader, content: bytes, param: str) -> bytes:
    file = await reader.open(
        content, sample_rate=HEARD_RATE, max_seconds=MAX_SOUND_SECONDS, param=param
    )
    pieces: list[memoryview] = []
    try:
        while not file.is_at_end:
            pieces.append(await file.read())
    finally:
        await file.close()
    return b"".join(pieces)


def _wrong(param: str, reason: str) -> RequestError:
    return RequestError(f"{param}: {reason}", param=param)
