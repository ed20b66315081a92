"""`RealtimeSession`: one client that speaks, and reads its words while it does.

`Transcriber` has the texts of a session's items, one after the other, and the words of speech.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, Protocol

import numpy as np
import orjson

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import Messages, RequestError
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.speech_recognizer import Recognition, SpeechRecognizer, SpeechSettings
from calculators.speech.speech_to_text.realtime.audio_format import Pcm
from calculators.speech.speech_to_text.realtime.session_settings import (
    SessionSettings,
    check_model,
    described,
    described_as_before,
    updated,
    updated_as_before,
)
from calculators.speech.speech_to_text.realtime.voice_detector import (
    FRAME_MS,
    VoiceChange,
    VoiceDetector,
)
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
        is_shown: its text is sent to the client.
    """

    id: str
    begin: int
    sent: str = ""
    heard: str = ""
    heard_samples: int = 0
    is_shown: bool = True


class OnText(Protocol):
    """Receives the text of an item, or the error with which it has none."""

    def __call__(self, item: Item, text: str, error: RequestError | None) -> None: ...


def _nobody(item: Item, text: str, error: RequestError | None) -> None:
    """Drop the text: the client has it."""


@dataclass(frozen=True, slots=True)
class _Work:
    item: Item
    sound: Sound = field(repr=False)
    settings: SpeechSettings


class Transcriber:
    """Recognizes the items of one session in order, and parts of the one that is spoken."""

    def __init__(
        self,
        recognizer: SpeechRecognizer,
        send: Send,
        most_waiting: int,
        recognized: OnText = _nobody,
    ) -> None:
        self._recognizer = recognizer
        self._send = send
        self._recognized = recognized
        self._waiting: asyncio.Queue[_Work] = asyncio.Queue(most_waiting)
        self._recognitions: set[Recognition] = set()
        self._part: asyncio.Task[None] | None = None
        self._part_took = 0.0

    async def work(self) -> None:
        """Recognize what is added, for ever."""
        while True:
            work = await self._waiting.get()
            try:
                text = await self._transcribe(work)
            except (RequestError, UnavailableError) as error:
                if not isinstance(error, RequestError):
                    error = RequestError(error.message, code=error.code)
                self._recognized(work.item, "", error)
                if work.item.is_shown:
                    about = failure_of(error)
                    await self._send(
                        f"{_PREFIX}.failed", item_id=work.item.id, content_index=0, error=about
                    )
            else:
                self._recognized(work.item, text, None)

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

    async def _transcribe(self, work: _Work) -> str:
        """Return the text of an item, which the client gets if it is shown."""
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
        text = transcript.text.strip()
        if item.is_shown:
            await self._send(
                f"{_PREFIX}.completed",
                item_id=item.id,
                content_index=0,
                transcript=text,
                usage={"type": "duration", "seconds": round(work.sound.seconds, 3)},
            )
        return text

    async def _send_beyond(self, item: Item, text: str) -> None:
        """Send what a text has beyond the deltas so far, if it begins with them."""
        text = text.lstrip()
        if not item.is_shown:
            return
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


def failure_of(error: RequestError | UnavailableError) -> Mapping[str, Any]:
    """Return the error object of what failed without an event to blame."""
    is_clients = error.code in (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE)
    return {
        "type": "invalid_request_error" if is_clients else "server_error",
        "code": getattr(error, "reason", None) or error.code.name.lower(),
        "message": error.message,
        "param": getattr(error, "param", None),
    }


#: Seconds of sound that wait for a commit.
MOST_SECONDS: Final = 300


class BufferFullError(Exception):
    """The client has appended `MOST_SECONDS` without a commit."""


class InputBuffer:
    """Sound in order. Places are numbers of samples since the session began.

    Attributes:
        begin, end: places of the first sample that is kept, and after the last one.
    """

    def __init__(self, rate: int) -> None:
        """``rate``: samples per second."""
        self.begin = 0
        self.end = 0
        self._limit = MOST_SECONDS * rate
        self._pieces: deque[Pcm] = deque()

    def append(self, samples: Pcm) -> None:
        """Add sound.

        Raises:
            BufferFullError: there is too much; nothing is added.
        """
        if self.end - self.begin + len(samples) > self._limit:
            raise BufferFullError
        if len(samples):
            self._pieces.append(samples)
            self.end += len(samples)

    def drop_before(self, place: int) -> None:
        """Forget the sound before a place."""
        while self._pieces and self.begin + len(self._pieces[0]) <= place:
            self.begin += len(self._pieces.popleft())
        if self._pieces and self.begin < place:
            # A copy: a view would keep the whole piece.
            self._pieces[0] = self._pieces[0][place - self.begin :].copy()
            self.begin = place

    def between(self, begin: int, end: int) -> Pcm:
        """Return the sound from one place to another; parts that are not kept are left out."""
        found = []
        at = self.begin
        for piece in self._pieces:
            first, last = max(begin - at, 0), min(end - at, len(piece))
            if first < last:
                found.append(piece[first:last])
            at += len(piece)
        return np.concatenate(found) if found else np.empty(0, np.int16)


#: The least sound of a commit.
LEAST_MS: Final = 100
#: The longest item that voice detection makes; the model hears 30 s at a time.
MOST_SPEECH_MS: Final = 30_000
#: Items that wait for their text; then the client's messages wait.
MOST_WAITING: Final = 8
#: Events that wait for a slow client; then the client's messages wait.
MOST_EVENTS: Final = 256
#: Events in a row that are refused; then the session ends.
MOST_BAD: Final = 64
#: Characters of base64, and seconds of sound, that are handled before others have their turn.
_DECODED_AT_ONCE: Final = 256 * 1024
_HEARD_AT_ONCE: Final = 2


class RealtimeSession:
    """The session of one connection.

    The client appends sound to a buffer. A commit, or the end of speech, makes an item of it, whose
    text follows as events. While one speaks, the words that two recognitions of the sound so far
    agree on are sent as deltas; the text of the completed item may correct them.

    Args:
        model: the name by which the connection was opened; "" if unknown.
        is_old: the client knows the events before 2025-08 (``OpenAI-Beta: realtime=v1``).
    """

    def __init__(
        self,
        recognizer: SpeechRecognizer,
        messages: Messages,
        model: str,
        *,
        is_old: bool,
        settings: SessionSettings | None = None,
    ) -> None:
        self._messages = messages
        self._model = model
        self._is_old = is_old
        self._id = new_id("sess")
        self._settings = SessionSettings(model=model) if settings is None else settings
        self._events: asyncio.Queue[Any] = asyncio.Queue(MOST_EVENTS)
        self._transcriber = Transcriber(recognizer, self._send, MOST_WAITING, self._recognized)
        self._previous_item: str | None = None
        self._speaking: Item | None = None
        self._bad_events = 0
        self._handlers: dict[str, Callable[[Mapping[str, Any]], Awaitable[None]]] = {
            "session.update": self._update,
            "transcription_session.update": self._update_as_before,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit_by_client,
            "input_audio_buffer.clear": self._clear,
        }
        self._begin_hearing()

    async def events(self) -> AsyncGenerator[Any, None]:
        """Yield the server's events as JSON, and what else was `_put`, until the client closes.

        Raises:
            RequestError: the client sent nothing for too long, or nothing that is understood.
        """
        work = [
            asyncio.create_task(self._listen()),
            asyncio.create_task(self._transcriber.work()),
        ]
        for task in work:
            task.add_done_callback(self._end)
        try:
            await self._greet()
            while (event := await self._events.get()) is not None:
                yield orjson.dumps(event).decode() if isinstance(event, dict) else event
            for task in work:
                if task.done():
                    task.result()
        finally:
            self._transcriber.cancel()
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _send(self, kind: str, /, **members: Any) -> None:
        await self._put({"type": kind, "event_id": new_id("event"), **members})

    async def _put(self, packet: object) -> None:
        await self._events.put(packet)

    async def _greet(self) -> None:
        await self._send_session("created")

    async def _listen(self) -> None:
        while (message := await self._messages.receive()) is not None:
            await self._handle(message)

    def _end(self, task: asyncio.Task[None]) -> None:
        """End the events: the client has closed, or a task has failed."""
        if self._events.full():
            self._events.get_nowait()
        self._events.put_nowait(None)

    async def _handle(self, message: str | bytes) -> None:
        event_id = None
        try:
            event = _parsed(message)
            event_id = fields.string(event, "event_id")
            kind = fields.string(event, "type")
            handler = self._handlers.get(kind or "")
            if handler is None:
                raise fields.invalid("type", f"expected one of {', '.join(self._handlers)}")
            await handler(event)
            self._bad_events = 0
        except RequestError as error:
            await self._send("error", error=error_object(error, event_id))
            self._bad_events += 1
            if self._bad_events == MOST_BAD:
                text = f"{MOST_BAD} events in a row were refused"
                raise RequestError(text, detail=text) from None

    # Settings -------------------------------------------------------------------------------------

    async def _update(self, event: Mapping[str, Any]) -> None:
        self._change(updated(self._settings, _session_of(event)))
        await self._send_session("updated")

    async def _update_as_before(self, event: Mapping[str, Any]) -> None:
        self._is_old = True
        self._change(updated_as_before(self._settings, _session_of(event)))
        await self._send_session("updated")

    def _change(self, settings: SessionSettings) -> None:
        check_model(settings, self._model)
        old, is_empty = self._settings, self._buffer.end == self._buffer.begin
        hears_otherwise = (settings.format, settings.voice) != (old.format, old.voice)
        if settings.format != old.format and not is_empty and old.voice is None:
            text = "the format cannot change while the buffer has sound: commit it, or clear it"
            raise RequestError(text, param="session.audio.input.format")
        self._settings = settings
        if hears_otherwise:
            self._stop_speaking()
            if settings.format != old.format:
                self._begin_hearing()
            else:
                self._detector = self._new_detector()
                self._detector_began = self._buffer.end

    async def _send_session(self, what: str) -> None:
        if self._is_old:
            session = {"id": self._id, **described_as_before(self._settings)}
            await self._send(f"transcription_session.{what}", session=session)
        else:
            session = {"id": self._id, **described(self._settings)}
            await self._send(f"session.{what}", session=session)

    # Sound ----------------------------------------------------------------------------------------

    def _begin_hearing(self) -> None:
        self._rate = self._settings.format.rate
        self._buffer = InputBuffer(self._rate)
        self._half_sample = b""
        self._detector = self._new_detector()
        self._detector_began = 0

    def _new_detector(self) -> VoiceDetector | None:
        voice = self._settings.voice
        return None if voice is None else VoiceDetector(self._rate, voice)

    async def _append(self, event: Mapping[str, Any]) -> None:
        audio = fields.string(event, "audio")
        if audio is None:
            raise fields.missing("audio", "sound in base64")
        data = self._half_sample + await _decoded(audio)
        size = self._settings.format.sample_bytes
        whole = len(data) - len(data) % size
        # A client may cut a sample in two.
        self._half_sample = data[whole:]
        samples = self._settings.format.decode(data[:whole])
        step = _HEARD_AT_ONCE * self._rate
        for at in range(0, len(samples), step):
            try:
                await self._hear(samples[at : at + step])
            except BufferFullError:
                raise RequestError(
                    f"the buffer has {MOST_SECONDS} s of sound: commit it, or clear it",
                    param="audio",
                    reason="input_audio_buffer_full",
                ) from None
            # One message may hold minutes of sound, and the detector runs on the event loop.
            await asyncio.sleep(0)

    async def _hear(self, samples: Pcm) -> None:
        self._buffer.append(samples)
        if self._detector is None:
            return
        for change in self._detector.add(samples):
            if change.begins:
                await self._begin_speech(change)
            else:
                await self._end_speech(self._place(change.frame), self._place(change.noticed))
        if self._speaking is None:
            self._buffer.drop_before(self._buffer.end - self._kept_in_silence())
            return
        if self._buffer.end - self._speaking.begin >= self._samples(MOST_SPEECH_MS):
            await self._end_speech(self._buffer.end, self._buffer.end)
            self._detector.end_speech()
            return
        item, end = self._speaking, self._buffer.end
        wants_part = self._transcriber.wants_part(item, end - item.begin, self._rate)
        if self._settings.transcribes and wants_part:
            sound = self._buffer.between(item.begin, end)
            self._transcriber.hear_part(item, sound, self._rate, self._settings.speech)

    def _samples(self, milliseconds: int) -> int:
        return milliseconds * self._rate // 1000

    def _milliseconds(self, place: int) -> int:
        return place * 1000 // self._rate

    def _place(self, frame: int) -> int:
        """Return the place of a frame of the detector."""
        return self._detector_began + self._samples(frame * FRAME_MS)

    def _kept_in_silence(self) -> int:
        """Return how many samples may belong to speech that is about to begin."""
        voice = self._settings.voice
        assert voice is not None
        return self._samples(voice.prefix_padding_ms + 10 * FRAME_MS)

    async def _begin_speech(self, change: VoiceChange) -> None:
        voice = self._settings.voice
        assert voice is not None
        padding = self._samples(voice.prefix_padding_ms)
        begin = max(self._place(change.frame) - padding, self._buffer.begin)
        self._speaking = Item(new_id("item"), begin)
        await self._send(
            "input_audio_buffer.speech_started",
            audio_start_ms=self._milliseconds(begin),
            item_id=self._speaking.id,
        )
        await self._speech_began()

    async def _end_speech(self, end: int, noticed: int) -> None:
        item = self._speaking
        if item is None:
            return  # committed by the client
        await self._send(
            "input_audio_buffer.speech_stopped",
            audio_end_ms=self._milliseconds(noticed),
            item_id=item.id,
        )
        # A little silence after the last word helps the model to end the sentence.
        end = min(noticed, end + self._samples(10 * FRAME_MS))
        await self._commit(item, end)
        await self._turn_ended()

    def _stop_speaking(self) -> None:
        if self._speaking is not None:
            self._transcriber.forget_part(self._speaking)
            self._speaking = None

    async def _commit_by_client(self, event: Mapping[str, Any]) -> None:
        begin = self._buffer.begin if self._speaking is None else self._speaking.begin
        waits = self._milliseconds(self._buffer.end - begin)
        if waits < LEAST_MS:
            raise RequestError(
                f"the buffer has {waits} ms of sound; a commit needs {LEAST_MS} ms",
                reason="input_audio_buffer_commit_empty",
            )
        await self._commit(self._speaking or Item(new_id("item"), begin), self._buffer.end)
        if self._detector is not None:
            self._detector.end_speech()

    async def _commit(self, item: Item, end: int) -> None:
        self._speaking = None
        sound = self._buffer.between(item.begin, end)
        self._buffer.drop_before(end)
        item.is_shown = self._settings.transcribes
        await self._add_spoken(item)
        if self._needs_text:
            await self._transcriber.add(item, sound, self._rate, self._settings.speech)
        else:
            self._transcriber.forget_part(item)

    # What a conversation does otherwise -----------------------------------------------------------

    @property
    def _needs_text(self) -> bool:
        return self._settings.transcribes

    async def _speech_began(self) -> None:
        """Do what the beginning of speech asks for."""

    async def _turn_ended(self) -> None:
        """Do what the end of speech asks for."""

    def _recognized(self, item: Item, text: str, error: RequestError | None) -> None:
        """Take the text of an item, or the error with which it has none."""

    async def _add_spoken(self, item: Item) -> None:
        """Say that an item of speech is there."""
        previous, self._previous_item = self._previous_item, item.id
        await self._send("input_audio_buffer.committed", item_id=item.id, previous_item_id=previous)
        about = {
            "id": item.id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }
        if self._is_old:
            await self._send("conversation.item.created", item=about, previous_item_id=previous)
        else:
            await self._send("conversation.item.added", item=about, previous_item_id=previous)
            await self._send("conversation.item.done", item=about, previous_item_id=previous)

    async def _clear(self, event: Mapping[str, Any]) -> None:
        self._stop_speaking()
        self._half_sample = b""
        self._buffer.drop_before(self._buffer.end)
        if self._detector is not None:
            self._detector.end_speech()
        await self._send("input_audio_buffer.cleared")


def new_id(kind: str) -> str:
    """Return a random id, ``kind`` in front."""
    return f"{kind}_{secrets.token_hex(12)}"


def _parsed(message: str | bytes) -> Mapping[str, Any]:
    if isinstance(message, bytes):
        text = "an event is a text message of JSON, not a binary one"
        raise RequestError(text, reason="invalid_json")
    try:
        event = orjson.loads(message)
    except ValueError:
        raise RequestError("the event is not valid JSON", reason="invalid_json") from None
    if not isinstance(event, dict):
        raise RequestError("the event must be a JSON object", reason="invalid_json")
    return event


def _session_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    session = fields.json_object(event, "session")
    if session is None:
        raise fields.missing("session")
    return session


async def _decoded(audio: str) -> bytes:
    """Decode base64 without holding the event loop up.

    Raises:
        RequestError: it is none.
    """
    pieces = []
    try:
        for at in range(0, len(audio), _DECODED_AT_ONCE):
            if at:
                await asyncio.sleep(0)
            part = audio[at : at + _DECODED_AT_ONCE]
            pieces.append(base64.b64decode(part, validate=True))
    except (binascii.Error, ValueError):
        raise fields.invalid("audio", "expected base64") from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def error_object(error: RequestError, event_id: str | None) -> Mapping[str, Any]:
    """Return the error object of an event of the client's that is refused."""
    return {
        "type": "invalid_request_error",
        "code": error.reason or "invalid_value",
        "message": error.message,
        "param": error.param,
        "event_id": event_id,
    }
