"""`Response`: one answer of a conversation, from its request to its last event.

The language model's deltas arrive by `take`. Sentences are spoken while the next ones are written,
and each is sent as soon as it is sound.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing, nullcontext
from typing import Any, Final, Protocol

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import (
    Begun,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    Submitted,
    Usage,
)
from calculators.language.events import Arguments, CallDone, Content, Refused, ToolCall
from calculators.llm.conversation.items import ConversationItem
from calculators.llm.conversation.settings import (
    ConversationSettings,
    described_modalities,
    described_output,
)
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.writing import SoundWriter, pcm_writer
from calculators.speech.speech_to_text.realtime.session import failure_of, new_id
from calculators.speech.text_to_speech.sentences import SentenceSplitter
from calculators.speech.text_to_speech.servable import SpeechStyle, T2sServable
from graph_runtime import UnavailableError

#: Bytes of sound in one event.
_PART_BYTES: Final = 48_000
#: Sentences that wait to be spoken; then the model's text is not read on.
MOST_WAITING: Final = 64
_REASONS: Final = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}


class Conversation(Protocol):
    """The session of a response, as the response sees it."""

    @property
    def speaker(self) -> T2sServable: ...

    @property
    def conversation_id(self) -> str: ...

    async def send(self, kind: str, /, **members: Any) -> None:
        """Send an event."""

    async def send_error(self, error: RequestError | UnavailableError) -> None:
        """Send the event of an error that no event of the client's is to blame for."""

    async def add_item(self, item: ConversationItem, after: str | None) -> None:
        """Add an item after another one; None, or one that is not there any more: at the end.

        Raises:
            RequestError: there is no room.
        """

    async def send_done(self, item: ConversationItem) -> None:
        """Say that an item is whole."""

    async def ask(self, response: Response) -> bool:
        """Ask the language model; return False if nothing was said. Deltas come by `take`."""

    def style(self, settings: ConversationSettings) -> SpeechStyle:
        """Return how answers are spoken; raises `RequestError`."""

    def voice(self, settings: ConversationSettings) -> str:
        """Return the name of the voice that speaks."""


class Response:
    """One answer.

    Args:
        context: the items that it answers.
        after: the id of the item of the conversation after which the answer stands: while it is
            given, the user may add others.
        is_kept: its items become part of the conversation.
    """

    def __init__(
        self,
        session: Conversation,
        settings: ConversationSettings,
        context: Iterable[ConversationItem],
        *,
        after: str | None,
        is_kept: bool,
    ) -> None:
        self.id = new_id("resp")
        self.settings = settings
        self.context = list(context)
        self._session = session
        self._after = after
        self._is_kept = is_kept
        self._status = "in_progress"
        self._details: dict[str, Any] | None = None
        self._output: list[ConversationItem] = []
        self._message: ConversationItem | None = None
        self._usage: Usage | None = None
        self._stop: Callable[[], None] | None = None
        self._cancelled_by = ""
        #: Only the last events are still to be sent.
        self._is_over = False
        self._deltas: asyncio.Queue[Deltas] = asyncio.Queue()
        self._sentences: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING)
        self._writer: SoundWriter | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Begin to answer."""
        self._task = asyncio.create_task(self._run())
        return self._task

    def take(self, deltas: Deltas) -> bool:
        """Take a turn of the language model; return True with the last one."""
        for item in deltas:
            if isinstance(item, Submitted | Begun):
                self._stop = item.stop
        if self._is_over or self._cancelled_by:
            self._stop_model()
        else:
            self._deltas.put_nowait(deltas)
        return any(isinstance(item, Ended | Failed) for item in deltas)

    def cancel(self, reason: str) -> None:
        """End the answer where it is; ``reason`` is OpenAI's."""
        if self._task is None or self._is_over or self._cancelled_by:
            return
        self._cancelled_by = reason
        self._stop_model()
        self._task.cancel()

    def _stop_model(self) -> None:
        if self._stop is not None:
            self._stop()

    async def _run(self) -> None:
        await self._send("response.created", response=self.described())
        try:
            await self._answer()
            if self._status == "in_progress":
                self._status = "completed"
        except (RequestError, UnavailableError) as error:
            about = failure_of(error)
            self._end("failed", error={"type": about["type"], "code": about["code"]})
            await self._session.send_error(error)
        except asyncio.CancelledError:
            if not self._cancelled_by:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            self._end("cancelled", reason=self._cancelled_by)
        finally:
            self._is_over = True
            self._stop_model()
        await self._end_message()
        await self._send("response.done", response=self.described())

    def _end(self, status: str, **details: Any) -> None:
        self._status = status
        self._details = {"type": status, **details}

    async def _answer(self) -> None:
        for item in self.context:
            if item.heard is not None:
                await item.heard.wait()
                if item.failure is not None and item is self.context[-1]:
                    raise item.failure
        if not await self._session.ask(self):
            return
        reading = asyncio.create_task(self._read())
        try:
            with self._session.speaker.place() if self.settings.speaks else nullcontext():
                while (sentence := await self._sentences.get()) is not None:
                    await self._speak(sentence)
            await reading
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    # The language model ---------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read the model's turns to the end; sentences go on their way to be spoken."""
        splitter = SentenceSplitter()
        error: RequestError | None = None
        is_open = True
        while is_open:
            for item in await self._deltas.get():
                match item:
                    case Gained(events=events):
                        for event in events:
                            await self._gain(event, splitter)
                    case Finished(reason=reason):
                        if reason in _REASONS:
                            self._end("incomplete", reason=_REASONS[reason])
                    case Ended(usage):
                        self._usage = usage
                        is_open = False
                    case Failed(error):
                        is_open = False
                    case _:
                        pass
        for sentence in splitter.finish():
            await self._sentences.put(sentence)
        await self._sentences.put(None)
        if error is not None:
            raise error

    async def _gain(self, event: object, splitter: SentenceSplitter) -> None:
        match event:
            case Content(text) | Refused(text) if self.settings.speaks:
                for sentence in splitter.add(text):
                    await self._sentences.put(sentence)
            case Content(text) | Refused(text):
                item = await self._begun_message("output_text")
                item.text += text
                await self._send_part("response.output_text.delta", item, delta=text)
            case ToolCall(name, call_id):
                item = ConversationItem(
                    new_id("item"),
                    "function_call",
                    name=name,
                    call_id=call_id or new_id("call"),
                    status="in_progress",
                )
                await self._add(item)
            case Arguments(text):
                item = self._output[-1]
                item.text += text
                await self._send_call("delta", item, delta=text)
            case CallDone(arguments, is_complete):
                item = self._output[-1]
                item.text = arguments
                item.status = "completed" if is_complete else "incomplete"
                await self._send_call("done", item, arguments=arguments, name=item.name)
                await self._done(item)
            case _:
                pass

    # Items ----------------------------------------------------------------------------------------

    async def _add(self, item: ConversationItem) -> None:
        """Add an item to the output, and to the conversation."""
        self._output.append(item)
        await self._send_item("response.output_item.added", item)
        if self._is_kept:
            await self._session.add_item(item, self._after)
            self._after = item.id

    async def _done(self, item: ConversationItem) -> None:
        await self._send_item("response.output_item.done", item)
        if self._is_kept:
            await self._session.send_done(item)

    async def _begun_message(self, kind: str) -> ConversationItem:
        """Return the item of the text; the first call makes it."""
        if self._message is None:
            self._message = item = ConversationItem(
                new_id("item"), role="assistant", kind=kind, status="in_progress"
            )
            await self._add(item)
            await self._send_part("response.content_part.added", item, part=self._part(item))
        return self._message

    async def _end_message(self) -> None:
        item = self._message
        if item is None:
            return
        if item.kind == "output_audio":
            rest = b"" if self._writer is None else await asyncio.to_thread(self._writer.finish)
            if rest and not self._cancelled_by:
                await self._send_sound(item, rest)
            await self._send_part("response.output_audio.done", item)
            kind = "response.output_audio_transcript.done"
            await self._send_part(kind, item, transcript=item.text)
        else:
            await self._send_part("response.output_text.done", item, text=item.text)
        await self._send_part("response.content_part.done", item, part=self._part(item))
        item.status = "completed" if self._status == "completed" else "incomplete"
        await self._done(item)

    @staticmethod
    def _part(item: ConversationItem) -> dict[str, str]:
        if item.kind == "output_audio":
            return {"type": "audio", "transcript": item.text}
        return {"type": "text", "text": item.text}

    # Sound ----------------------------------------------------------------------------------------

    async def _speak(self, sentence: str) -> None:
        item = await self._begun_message("output_audio")
        text = f" {sentence}" if item.text else sentence
        is_first = True
        seconds = 0.0
        spoken = self._session.speaker.speak((sentence,), self._session.style(self.settings))
        async with aclosing(spoken) as sounds:
            async for sound in sounds:
                if is_first:
                    # The words come with their sound, so that what was said is known when the user
                    # interrupts.
                    await self._send_words(item, text)
                    is_first = False
                seconds += sound.seconds
                await self._send_sound(item, await self._encoded(sound))
        if is_first:
            await self._send_words(item, text)
        item.spoken.append((sentence, round(seconds * 1000)))

    async def _send_words(self, item: ConversationItem, text: str) -> None:
        item.text += text
        await self._send_part("response.output_audio_transcript.delta", item, delta=text)

    async def _encoded(self, sound: Sound) -> bytes:
        if self._writer is None:
            self._writer = pcm_writer(sound.sample_rate, self.settings.output.rate)
        return await asyncio.to_thread(self._writer.write, sound.samples)

    async def _send_sound(self, item: ConversationItem, pcm: bytes) -> None:
        for begin in range(0, len(pcm), _PART_BYTES):
            part = self.settings.output.encode(pcm[begin : begin + _PART_BYTES])
            delta = base64.b64encode(part).decode()
            await self._send_part("response.output_audio.delta", item, delta=delta)

    # Events ---------------------------------------------------------------------------------------

    async def _send(self, kind: str, **members: Any) -> None:
        await self._session.send(kind, **members)

    async def _send_item(self, kind: str, item: ConversationItem) -> None:
        place = self._output.index(item)
        about = item.described()
        await self._send(kind, response_id=self.id, output_index=place, item=about)

    async def _send_part(self, kind: str, item: ConversationItem, **members: Any) -> None:
        await self._send(
            kind,
            response_id=self.id,
            item_id=item.id,
            output_index=self._output.index(item),
            content_index=0,
            **members,
        )

    async def _send_call(self, what: str, item: ConversationItem, **members: Any) -> None:
        await self._send(
            f"response.function_call_arguments.{what}",
            response_id=self.id,
            item_id=item.id,
            output_index=self._output.index(item),
            call_id=item.call_id,
            **members,
        )

    def described(self) -> Mapping[str, Any]:
        """Return the response's object."""
        settings = self.settings
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": self._status,
            "status_details": self._details,
            "output": [item.described() for item in self._output],
            "conversation_id": self._session.conversation_id if self._is_kept else None,
            "output_modalities": described_modalities(settings),
            "max_output_tokens": settings.max_tokens or "inf",
            "audio": {"output": described_output(settings, self._session.voice(settings))},
            "metadata": settings.metadata,
            "usage": self._described_usage(),
        }

    def _described_usage(self) -> dict[str, Any] | None:
        usage = self._usage
        if usage is None:
            return None
        return {
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.completion_tokens,
            "input_token_details": {
                "text_tokens": usage.prompt_tokens,
                "audio_tokens": 0,
                "cached_tokens": usage.cached_tokens or 0,
            },
            "output_token_details": {"text_tokens": usage.completion_tokens, "audio_tokens": 0},
        }
