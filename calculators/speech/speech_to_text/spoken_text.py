"""`SpokenText`: one sound's text while it is made, for its one reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from calculators.speech.audio.speech_recognizer import Transcript
from graph_runtime import Cancelled


class SpokenText:
    """A `Recognition`: a task that makes the transcript, and the pieces that it has added."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._changed = asyncio.Event()
        self._work: asyncio.Task[Transcript] | None = None
        self._stop: Callable[[], None] | None = None
        self._has_pieces = False
        self.is_cancelled = False

    def begin(self, work: Coroutine[Any, Any, Transcript]) -> None:
        """Run the coroutine that makes the transcript, in a task."""
        self._work = asyncio.create_task(work)
        self._work.add_done_callback(self._work_ended)

    def add(self, piece: str) -> None:
        """Add text that the model has written."""
        self._pieces.append(piece)
        self._has_pieces = True
        self._changed.set()

    @property
    def has_pieces(self) -> bool:
        """True if text has been added, whether it was read or not."""
        return self._has_pieces

    @property
    def is_done(self) -> bool:
        """True once there is a transcript, or an error."""
        return self._work is not None and self._work.done()

    def cancel_by(self, stop: Callable[[], None] | None) -> None:
        """Note that a process works: ``stop`` cancels it, not its task's end; None: it is done."""
        self._stop = stop

    def cancel(self) -> None:
        if self.is_cancelled or self._work is None or self._work.done():
            return
        self.is_cancelled = True
        if self._stop is None:
            self._work.cancel()
        else:
            self._stop()

    async def pieces(self) -> AsyncIterator[str]:
        assert self._work is not None
        while True:
            self._changed.clear()
            if self._pieces:
                text = "".join(self._pieces)
                self._pieces.clear()
                yield text
            elif self._work.done():
                self._result()
                return
            else:
                await self._changed.wait()

    async def transcript(self) -> Transcript:
        assert self._work is not None
        await asyncio.wait([self._work])
        return self._result()

    def _result(self) -> Transcript:
        assert self._work is not None
        if self._work.cancelled():
            raise Cancelled
        return self._work.result()

    def _work_ended(self, work: asyncio.Task[Transcript]) -> None:
        self._changed.set()
        if not work.cancelled():
            work.exception()  # it is the reader's, if there still is one
