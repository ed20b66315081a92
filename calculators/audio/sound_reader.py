"""`SoundReader`: sound files of clients, read in processes of their own."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from calculators.audio.reading_messages import (
    Load,
    Read,
    Ready,
    Refused,
    SoundRead,
    from_reader_decoder,
)
from calculators.child_process.question_lane import QuestionLane
from calculators.child_process.supervisor import LoadError
from calculators.requests.http_payload import RequestError
from graph_runtime import Code, ResourceError

#: Files above this go to a second process, which short recordings do not wait for.
LONG_BYTES: Final = 2 * 1024 * 1024
#: Processor seconds for one file. An hour of stereo takes 7 as MP3 and 26 as Opus (soundfile 0.14,
#: soxr 1.1, a minute of noise and tones on an AMD EPYC).
CPU_SECONDS: Final = 120.0
WALL_SECONDS: Final = 120.0
#: Bytes that a process may grow by: two hours of sound and a copy, with room.
MEMORY: Final = 2 * 1024**3
MOST_WAITING: Final = 64
#: Estimated processor seconds per byte, for the order of clients.
_COST_OF_BYTE: Final = 1e-7


class SoundReader:
    """Two processes, for short files and for long ones; the second starts when it is needed."""

    def __init__(self, name: str) -> None:
        """``name``: the served model's name, for messages."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._short = _lane(f'sound reader of "{name}"')
        self._long = _lane(f'reader of long sounds of "{name}"')
        self._long_start: asyncio.Task[Ready] | None = None

    async def start(self) -> None:
        """Start the process for short files.

        Raises:
            ResourceError: it cannot start.
        """
        try:
            await self._short.start()
        except LoadError as error:
            raise ResourceError(f"sound files cannot be read: {error}") from None

    @property
    def pid(self) -> int | None:
        """The process for short files, while there is one."""
        return self._short.pid

    async def close(self) -> None:
        await self._short.close()
        await self._long.close()
        if self._long_start is not None:
            await asyncio.wait([self._long_start])

    async def read(
        self, content: bytes, *, sample_rate: int, max_seconds: float, param: str = "file"
    ) -> memoryview:
        """Read a file; the result is as `calculators.audio.pcm` has samples.

        Raises:
            RequestError: it is no sound, too long, or takes too long; ``param`` names the field.
                Too many files wait; the process is down.
        """
        question = Read(memoryview(content), sample_rate, max_seconds)
        if len(content) > LONG_BYTES:
            lane = await self._started_long()
            body = await asyncio.to_thread(self._encode, question)
        else:
            lane, body = self._short, self._encode(question)
        try:
            answer: SoundRead | Refused = await lane.ask(body, len(content) * _COST_OF_BYTE)
        except RequestError as error:
            if error.code is Code.INVALID_ARGUMENT:
                error.param = param
            raise
        if isinstance(answer, Refused):
            raise RequestError(
                f"Received input file is not valid wav nor mp3 audio file: it {answer.reason}",
                param=param,
                detail="the file cannot be read as sound",
            )
        return answer.pcm

    async def _started_long(self) -> QuestionLane[Ready]:
        if self._long_start is None:
            self._long_start = asyncio.create_task(self._long.start())
        try:
            await asyncio.shield(self._long_start)
        except LoadError:
            return self._short
        return self._long


def _lane(name: str) -> QuestionLane[Ready]:
    return QuestionLane(
        "calculators.audio.reading_process",
        Load(MEMORY),
        decode=from_reader_decoder.decode,
        ready=Ready,
        name=name,
        subject="sound",
        cpu_seconds=CPU_SECONDS,
        wall_seconds=WALL_SECONDS,
        most_waiting=MOST_WAITING,
        is_shared=True,
    )
