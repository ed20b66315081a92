"""`Transcriber`: the texts of a session's items, one after the other, and the words of speech."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, Protocol

import numpy as np

from calculators.kit.requests.http_payload import RequestError
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.speech_recognizer import Recognition, SpeechRecognizer, SpeechSettings
from calculators.speech.speech_to_text.realtime.audio_format import Pcm
from graph_runtime import Code, UnavailableError

_PREFIX: Final = "conversation.item.input_audio_transcription"
#: Seconds of new sound after which the utterance so far is recognized again.
_PART_SECONDS: Final = 1.0
#: Least new sound as a multiple of the time that the last recognition took, so that the model
#: has time for other work.
_PAUSE: Final = 2.0


class Send(Protocol):
    """Sends an event to the client."""

    def __call__(self, kind: str, /, **members: Any) -> Awaitable[None]: ...


@dataclass(slots=True, eq=False)
class Item:
    """One utterance.

    Attributes:
        begin: the place of its first sample.
        sent: the text that its deltas have so far.
        heard: the text of the last recognition of its beginning.
        heard_samples: the samples of that beginning.
    """

    id: str
    begin: int
    sent: str = ""
    heard: str = ""
    heard_samples: int = 0


@dataclass(frozen=True, slots=True)
class _Work:
    item: Item
    sound: Sound = field(repr=False)
    settings: SpeechSettings


class Transcriber:
    """Recognizes the items of one session in order, and parts of the one that is spoken."""

    def __init__(self, recognizer: SpeechRecognizer, send: Send, most_waiting: int) -> None:
        self._recognizer = recognizer
        self._send = send
        self._waiting: asyncio.Queue[_Work] = asyncio.Queue(most_waiting)
        self._recognitions: set[Recognition] = set()
        self._part: asyncio.Task[None] | None = None
        self._part_took = 0.0

    async def work(self) -> None:
        """Recognize what is added, for ever."""
        while True:
            work = await self._waiting.get()
            try:
                await self._transcribe(work)
            except (RequestError, UnavailableError) as error:
                about = _error_object(error)
                await self._send(
                    f"{_PREFIX}.failed", item_id=work.item.id, content_index=0, error=about
                )

    async def add(self, item: Item, pcm: Pcm, rate: int, settings: SpeechSettings) -> None:
        """Recognize a whole item after the ones before it. Waits while there are too many."""
        self.forget_part(item)
        await self._waiting.put(_Work(item, _sound(pcm, rate), settings))

    def wants_part(self, item: Item, samples: int, rate: int) -> bool:
        """Return whether the words of an item that is still spoken should be looked at.

        That is so with enough new sound, unless its last part or earlier items are in progress.
        """
        is_idle = not self._recognitions and self._waiting.empty()
        is_free = self._part is None or self._part.done()
        needed = max(_PART_SECONDS, _PAUSE * self._part_took)
        return is_idle and is_free and samples - item.heard_samples >= needed * rate

    def hear_part(self, item: Item, pcm: Pcm, rate: int, settings: SpeechSettings) -> None:
        """Look at the words of an item that is still spoken."""
        item.heard_samples = len(pcm)
        self._part = asyncio.create_task(self._hear(item, _sound(pcm, rate), settings))

    def forget_part(self, item: Item) -> None:
        """Stop looking at parts: the item is whole, or will never be."""
        if self._part is not None:
            self._part.cancel()
            self._part = None

    def cancel(self) -> None:
        """Stop everything: the client is gone."""
        if self._part is not None:
            self._part.cancel()
        for recognition in self._recognitions:
            recognition.cancel()

    async def _hear(self, item: Item, sound: Sound, settings: SpeechSettings) -> None:
        try:
            recognition = self._recognizer.recognize(sound, settings)
        except RequestError:
            return  # the whole item will have the error
        self._recognitions.add(recognition)
        began = perf_counter()
        try:
            text = (await recognition.transcript()).text
        except (RequestError, UnavailableError):
            return
        except asyncio.CancelledError:
            recognition.cancel()
            raise
        finally:
            self._recognitions.discard(recognition)
            self._part_took = perf_counter() - began
        agreed = _agreed_words(item.heard, text)
        item.heard = text
        await self._send_beyond(item, agreed)

    async def _transcribe(self, work: _Work) -> None:
        item = work.item
        recognition = self._recognizer.recognize(work.sound, work.settings)
        self._recognitions.add(recognition)
        try:
            so_far = ""
            async for piece in recognition.pieces():
                so_far += piece
                await self._send_beyond(item, so_far)
            transcript = await recognition.transcript()
        except BaseException:
            recognition.cancel()
            raise
        finally:
            self._recognitions.discard(recognition)
        await self._send(
            f"{_PREFIX}.completed",
            item_id=item.id,
            content_index=0,
            transcript=transcript.text.strip(),
            usage={"type": "duration", "seconds": round(work.sound.seconds, 3)},
        )

    async def _send_beyond(self, item: Item, text: str) -> None:
        """Send what a text has beyond the deltas so far, if it begins with them."""
        text = text.lstrip()
        if len(text) <= len(item.sent) or not text.startswith(item.sent):
            return
        delta = text[len(item.sent) :]
        item.sent = text
        await self._send(f"{_PREFIX}.delta", item_id=item.id, content_index=0, delta=delta)


def _agreed_words(before: str, now: str) -> str:
    """Return the words with which both texts begin, as the second one writes them."""
    first, second = before.split(), now.split()
    count = 0
    # The last word of the earlier text may have been cut off.
    for one, other in zip(first[:-1], second, strict=False):
        if one != other:
            break
        count += 1
    at = 0
    for word in second[:count]:
        at = now.index(word, at) + len(word)
    return now[:at]


def _sound(pcm: Pcm, rate: int) -> Sound:
    return Sound(pcm.astype(np.float32) / 32768.0, rate)


def _error_object(error: RequestError | UnavailableError) -> dict[str, Any]:
    is_clients = error.code in (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE)
    return {
        "type": "invalid_request_error" if is_clients else "server_error",
        "code": getattr(error, "reason", None) or error.code.name.lower(),
        "message": error.message,
        "param": getattr(error, "param", None),
    }
