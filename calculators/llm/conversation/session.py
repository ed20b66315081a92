"""`ConversationSession`: one client that speaks and is answered aloud.

The input half is that of a session of transcription: sound, turns, texts. Each turn becomes an item
of the conversation, and a `Response` answers the items. A response's request goes to the graph's
language model as a packet, and the model's deltas come back by `ConversationSession.answered`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import ClientConnection, Messages, RequestError
from calculators.kit.requests.request_record import RequestRecord
from calculators.language.delta import Deltas
from calculators.language.generation_request import Api, GenerationRequest
from calculators.llm.conversation.items import ConversationItem, Items, messages_of, read_item
from calculators.llm.conversation.response import Response
from calculators.llm.conversation.settings import (
    ConversationSettings,
    described,
    of_response,
    updated,
)
from calculators.speech.audio.speech_recognizer import SpeechRecognizer
from calculators.speech.speech_to_text.realtime.session import (
    Item,
    RealtimeSession,
    failure_of,
    new_id,
)
from calculators.speech.text_to_speech.servable import DEFAULT_VOICE, SpeechStyle, T2sServable
from graph_runtime import UnavailableError


class ConversationSession(RealtimeSession):
    """The session of one connection.

    Attributes:
        speaker: the model that speaks.
        conversation_id: the id of the conversation.
    """

    _settings: ConversationSettings

    def __init__(
        self,
        recognizer: SpeechRecognizer,
        speaker: T2sServable,
        messages: Messages,
        model: str,
        *,
        client: ClientConnection,
        record: RequestRecord | None,
    ) -> None:
        """``model``: the name by which the connection was opened; "" if unknown."""
        super().__init__(
            recognizer, messages, model, is_old=False, settings=ConversationSettings(model=model)
        )
        self.speaker = speaker
        self.conversation_id = new_id("conv")
        self._client = client
        self._record = record
        self._items = Items()
        #: The conversation's items whose texts are still recognized.
        self._hearing: dict[str, ConversationItem] = {}
        self._response: Response | None = None
        self._running: asyncio.Task[None] | None = None
        #: The responses whose deltas are still to come, in the order of their requests.
        self._asked: deque[Response] = deque()
        self._is_turn_waiting = False
        del self._handlers["transcription_session.update"]
        self._handlers |= {
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.delete": self._delete_item,
            "conversation.item.truncate": self._truncate_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
        }

    async def packets(self) -> AsyncGenerator[str | GenerationRequest, None]:
        """Yield the server's events as JSON, and requests to the language model.

        Raises:
            RequestError: the client sent nothing for too long, or nothing that is understood.
        """
        try:
            async with aclosing(self.events()) as packets:
                async for packet in packets:
                    yield packet
        finally:
            if self._running is not None:
                self._running.cancel()
                await asyncio.wait([self._running])

    def answered(self, deltas: Deltas) -> None:
        """Take a turn of the language model, which answers requests in their order."""
        if self._asked and self._asked[0].take(deltas):
            self._asked.popleft()

    # For responses --------------------------------------------------------------------------------

    async def send(self, kind: str, /, **members: Any) -> None:
        """Send an event."""
        await self._send(kind, **members)

    async def send_error(self, error: RequestError | UnavailableError) -> None:
        """Send the event of a response's error, which no event of the client's is to blame for."""
        await self._send("error", error={**failure_of(error), "event_id": None})

    async def add_item(self, item: ConversationItem, after: str | None) -> None:
        """Add an item after another one; None, or one that is not there any more: at the end.

        Raises:
            RequestError: there is no room.
        """
        await self._add_after(item, after if after in self._items else None)

    async def _add_after(self, item: ConversationItem, after: str | None) -> None:
        previous = self._items.add(item, after)
        await self._send(
            "conversation.item.added", item=item.described(), previous_item_id=previous
        )

    async def send_done(self, item: ConversationItem) -> None:
        """Say that an item is whole."""
        await self._send(
            "conversation.item.done",
            item=item.described(),
            previous_item_id=self._items.before(item),
        )

    async def ask(self, response: Response) -> bool:
        """Send a response's request to the language model; return False if nothing was said."""
        settings = response.settings
        messages = messages_of(response.context)
        if not messages:
            return False
        if settings.instructions:
            messages.insert(0, {"role": "system", "content": settings.instructions})
        sampling = {} if settings.max_tokens is None else {"max_tokens": settings.max_tokens}
        request = GenerationRequest(
            api=Api.CHAT,
            model=self._model,
            messages=tuple(messages),
            tools=settings.chosen_tools(),
            sampling=sampling,
            stream=True,
            id=response.id,
            created=int(time.time()),
            client=self._client,
            record=self._record,
        )
        self._asked.append(response)
        await self._put(request)
        return True

    def style(self, settings: ConversationSettings) -> SpeechStyle:
        """Return how answers are spoken.

        Raises:
            RequestError: the model cannot speak so fast, or needs a voice.
        """
        return self.speaker.style(self._named_voice(settings), speed=settings.speed)

    def voice(self, settings: ConversationSettings) -> str:
        """Return the name of the voice that speaks."""
        return self._named_voice(settings) or DEFAULT_VOICE

    def _named_voice(self, settings: ConversationSettings) -> str:
        """Return the client's voice, the model's own (""), or the first one.

        Clients have to name a voice of OpenAI's, which models seldom have.
        """
        voices = self.speaker.voices
        if settings.speaker in voices:
            return settings.speaker
        return "" if DEFAULT_VOICE in voices or not voices else voices[0]

    # The session ----------------------------------------------------------------------------------

    async def _greet(self) -> None:
        await super()._greet()
        about = {"id": self.conversation_id, "object": "realtime.conversation"}
        await self._send("conversation.created", conversation=about)

    async def _update(self, event: Mapping[str, Any]) -> None:
        session = fields.json_object(event, "session")
        if session is None:
            raise fields.missing("session")
        settings = updated(self._settings, session)
        self.style(settings)
        self._change(settings)
        await self._send_session("updated")

    async def _send_session(self, what: str) -> None:
        session = {"id": self._id, **described(self._settings, self.voice(self._settings))}
        await self._send(f"session.{what}", session=session)

    # Turns ----------------------------------------------------------------------------------------

    @property
    def _needs_text(self) -> bool:
        return True

    async def _speech_began(self) -> None:
        if self._settings.is_interrupted and self._response is not None:
            self._response.cancel("turn_detected")

    async def _add_spoken(self, item: Item) -> None:
        made = ConversationItem(item.id, role="user", kind="input_audio", heard=asyncio.Event())
        previous = self._items.add(made)
        self._hearing[item.id] = made
        await self._send("input_audio_buffer.committed", item_id=item.id, previous_item_id=previous)
        about = made.described()
        await self._send("conversation.item.added", item=about, previous_item_id=previous)
        await self._send("conversation.item.done", item=about, previous_item_id=previous)

    async def _turn_ended(self) -> None:
        if not self._settings.answers_turns:
            return
        if self._is_answering:
            self._is_turn_waiting = True
        else:
            self._respond(self._settings, self._items, is_kept=True)

    def _recognized(self, item: Item, text: str, error: RequestError | None) -> None:
        made = self._hearing.pop(item.id, None)
        if made is not None and made.heard is not None:
            made.text, made.failure = text, error
            made.heard.set()

    # Items ----------------------------------------------------------------------------------------

    async def _create_item(self, event: Mapping[str, Any]) -> None:
        given = fields.json_object(event, "item")
        if given is None:
            raise fields.missing("item")
        item = read_item(given, new_id("item"))
        await self._add_after(item, fields.string(event, "previous_item_id"))
        await self.send_done(item)

    async def _retrieve_item(self, event: Mapping[str, Any]) -> None:
        item = self._items.find(event)
        await self._send("conversation.item.retrieved", item=item.described())

    async def _delete_item(self, event: Mapping[str, Any]) -> None:
        item = self._items.find(event)
        self._items.remove(item)
        await self._send("conversation.item.deleted", item_id=item.id)

    async def _truncate_item(self, event: Mapping[str, Any]) -> None:
        item = self._items.find(event)
        end = event.get("audio_end_ms")
        if type(end) is not int or end < 0:
            raise fields.invalid("audio_end_ms", "expected milliseconds, a number from 0 on")
        if item.kind != "output_audio":
            raise fields.invalid("item_id", "expected an answer that was spoken")
        if end > sum(duration for _, duration in item.spoken) and item.status == "completed":
            raise fields.invalid("audio_end_ms", "the sound of the item is shorter")
        item.truncate(end)
        await self._send(
            "conversation.item.truncated", item_id=item.id, content_index=0, audio_end_ms=end
        )

    # Responses ------------------------------------------------------------------------------------

    @property
    def _is_answering(self) -> bool:
        return self._running is not None and not self._running.done()

    async def _create_response(self, event: Mapping[str, Any]) -> None:
        asked = fields.json_object(event, "response") or {}
        settings = of_response(self._settings, asked)
        self.style(settings)
        conversation = fields.string(asked, "conversation", "response.conversation")
        if conversation not in (None, "auto", "none"):
            raise fields.invalid("response.conversation", 'expected "auto" or "none"')
        if self._is_answering:
            raise RequestError(
                "an answer is being given: cancel it, or wait for response.done",
                reason="conversation_already_has_active_response",
            )
        context = self._items
        given = fields.array(asked, "input", "response.input")
        if given is not None:
            context = self._context(given)
        self._respond(settings, context, is_kept=conversation != "none")

    def _context(self, given: list[Any]) -> Items:
        """Return the items of ``response.create``, some of which name items of the conversation."""
        context = Items()
        for place, each in enumerate(given):
            if not isinstance(each, dict):
                raise fields.invalid(f"response.input[{place}]", "expected an object")
            if each.get("type") == "item_reference":
                context.add(self._items.find({"item_id": each.get("id")}))
            else:
                context.add(read_item(each, new_id("item")))
        return context

    def _respond(self, settings: ConversationSettings, context: Items, *, is_kept: bool) -> None:
        self._response = Response(self, settings, context, after=self._items.last, is_kept=is_kept)
        self._running = self._response.start()
        self._running.add_done_callback(self._response_ended)

    def _response_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if task.exception() is not None:
            self._end(task)
        elif self._is_turn_waiting:
            self._is_turn_waiting = False
            self._respond(self._settings, self._items, is_kept=True)

    async def _cancel_response(self, event: Mapping[str, Any]) -> None:
        name = fields.string(event, "response_id")
        response = self._response
        if not self._is_answering or response is None or name not in (None, response.id):
            raise RequestError(
                "no answer is being given", reason="response_cancel_not_active", param="response_id"
            )
        response.cancel("client_cancelled")
