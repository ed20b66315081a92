"""A conversation with doubles of its three models: what a real one does only by chance."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import NoClient, RequestError
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
from calculators.language.events import Content, Refused
from calculators.language.generation_request import GenerationRequest
from calculators.llm.conversation import items
from calculators.llm.conversation.session import ConversationSession
from calculators.speech.audio.sound import Sound
from calculators.speech.text_to_speech.servable import SpeechStyle
from graph_runtime import Code
from tests.calculators.speech.speech_to_text.realtime.sounds import silence, speech
from tests.calculators.speech.speech_to_text.realtime.test_session import Counter
from tests.support.patience import PATIENCE

RATE = 24000
USAGE = Usage(3, 5)


class Speaker:
    """Speaks 100 ms for each character."""

    voices = ("ana", "ben")

    def __init__(self) -> None:
        self.spoken: list[str] = []
        self.failure: RequestError | None = None
        self.is_full = False

    def style(self, voice: str = "", language: str = "", speed: float = 1.0) -> SpeechStyle:
        return SpeechStyle(voice, language, speed)

    @contextmanager
    def place(self) -> Iterator[None]:
        if self.is_full:
            raise RequestError("too many requests", code=Code.UNAVAILABLE)
        yield

    async def speak(
        self, sentences: Iterable[str], style: SpeechStyle
    ) -> AsyncGenerator[Sound, None]:
        for sentence in sentences:
            await asyncio.sleep(0)
            if self.failure is not None:
                raise self.failure
            self.spoken.append(sentence)
            yield Sound(np.zeros(len(sentence) * RATE // 10, np.float32), RATE)


class Client:
    """The client's end, and the language model's."""

    def __init__(self) -> None:
        self.speaker = Speaker()
        self._sent: asyncio.Queue[str | None] = asyncio.Queue()
        speaker: Any = self.speaker
        self.session = ConversationSession(
            Counter(), speaker, self, "voice", client=NoClient(), record=None
        )
        self._packets = self.session.packets()
        self.requests: list[GenerationRequest] = []
        self.seen: list[dict[str, Any]] = []
        self.stopped = 0

    async def receive(self) -> str | None:
        return await self._sent.get()

    def send(self, kind: str, **members: Any) -> None:
        self._sent.put_nowait(json.dumps({"type": kind, **members}))

    def ask(self, text: str = "Hello", **response: Any) -> None:
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
        self.send("conversation.item.create", item=item)
        self.send("response.create", response=response)

    def say(self) -> None:
        for sound in (silence(0.5), speech(1.2), silence(1.0)):
            audio = base64.b64encode(sound.tobytes()).decode()
            self.send("input_audio_buffer.append", audio=audio)

    async def next(self) -> dict[str, Any] | GenerationRequest:
        packet = await anext(self._packets)
        if isinstance(packet, GenerationRequest):
            self.requests.append(packet)
            return packet
        event: dict[str, Any] = json.loads(packet)
        self.seen.append(event)
        return event

    async def until(self, kind: str) -> dict[str, Any]:
        while True:
            event = await self.next()
            if isinstance(event, dict) and event["type"] == kind:
                return event

    async def asked(self) -> GenerationRequest:
        while not isinstance(event := await self.next(), GenerationRequest):
            pass
        self.session.answered(Deltas((Submitted(self._stop),)))
        self.session.answered(Deltas((Begun(1, USAGE, event, stop=self._stop),)))
        return event

    def _stop(self) -> None:
        self.stopped += 1

    def write(self, text: str) -> None:
        self.session.answered(Deltas((Gained(0, (Content(text),)),)))

    def end(self, reason: FinishReason = FinishReason.STOP) -> None:
        self.session.answered(Deltas((Finished(0, reason), Ended(USAGE))))

    async def close(self) -> None:
        self._sent.put_nowait(None)
        async for _ in self._packets:
            pass


def converse(scenario: Callable[[Client], Awaitable[None]]) -> Client:
    async def run() -> Client:
        client = Client()
        async with asyncio.timeout(PATIENCE):
            await scenario(client)
            await client.close()
        return client

    return asyncio.run(run())


def test_the_first_sentence_is_heard_while_the_model_writes_the_second() -> None:
    async def scenario(client: Client) -> None:
        client.ask()
        await client.asked()
        client.write("One is here. Two is")
        await client.until("response.output_audio.delta")
        assert client.speaker.spoken == ["One is here."]
        client.write(" late.")
        client.end()
        response = (await client.until("response.done"))["response"]
        assert client.speaker.spoken == ["One is here.", "Two is late."]
        assert response["output"][0]["content"] == [
            {"type": "output_audio", "transcript": "One is here. Two is late."}
        ]

    converse(scenario)


def test_a_model_is_asked_what_was_said_with_the_instructions() -> None:
    async def scenario(client: Client) -> None:
        client.send("session.update", session={"type": "realtime", "instructions": "Be short."})
        client.ask("Who?")
        await client.asked()
        client.write("I.")
        client.end()
        await client.until("response.done")
        client.ask("Why?", max_output_tokens=7)
        request = await client.asked()
        assert [(each["role"], each["content"]) for each in request.messages] == [
            ("system", "Be short."),
            ("user", "Who?"),
            ("assistant", "I."),
            ("user", "Why?"),
        ]
        assert request.sampling == {"max_tokens": 7}

    converse(scenario)


def test_an_interrupted_answer_is_remembered_as_far_as_it_was_sent() -> None:
    async def scenario(client: Client) -> None:
        client.ask()
        await client.asked()
        client.write("One is here. Two is")
        await client.until("response.output_audio.delta")
        client.say()
        cut = (await client.until("response.done"))["response"]
        assert cut["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert client.stopped
        # What the model still writes is of the answer that was cut.
        client.write(" late.")
        client.end()
        request = await client.asked()
        assert request.messages[-2]["content"] == "One is here."
        assert request.messages[-1]["role"] == "user"
        client.write("Yes.")
        client.end()
        answer = (await client.until("response.done"))["response"]
        assert answer["output"][0]["content"][0]["transcript"] == "Yes."

    client = converse(scenario)
    assert "Two is late." not in client.speaker.spoken


def test_an_answer_that_is_cancelled_before_the_model_has_begun_stops_it_then() -> None:
    async def scenario(client: Client) -> None:
        client.ask()
        while not isinstance(await client.next(), GenerationRequest):
            pass
        client.send("response.cancel")
        await client.until("response.done")
        assert not client.stopped
        client.session.answered(Deltas((Submitted(client._stop),)))
        assert client.stopped

    converse(scenario)


@pytest.mark.parametrize("part", ["model", "speaker", "place"])
def test_what_fails_ends_the_answer_and_not_the_conversation(part: str) -> None:
    async def scenario(client: Client) -> None:
        error = RequestError("it is down", code=Code.UNAVAILABLE)
        client.speaker.is_full = part == "place"
        client.speaker.failure = error if part == "speaker" else None
        client.ask()
        await client.asked()
        if part == "model":
            client.session.answered(Deltas((Failed(error),)))
        else:
            client.write("Yes. ")
            client.end()
        about = (await client.until("error"))["error"]
        assert (about["type"], about["code"]) == ("server_error", "unavailable")
        response = (await client.until("response.done"))["response"]
        assert response["status"] == "failed"
        assert response["status_details"]["error"]["code"] == "unavailable"
        client.speaker.is_full, client.speaker.failure = False, None
        client.ask()
        await client.asked()
        client.write("Yes.")
        client.end()
        assert (await client.until("response.done"))["response"]["status"] == "completed"

    converse(scenario)


def test_a_refusal_is_spoken() -> None:
    async def scenario(client: Client) -> None:
        client.ask()
        await client.asked()
        client.session.answered(Deltas((Gained(0, (Refused("I do not say that."),)),)))
        client.end(FinishReason.CONTENT_FILTER)
        response = (await client.until("response.done"))["response"]
        assert (response["status"], response["status_details"]["reason"]) == (
            "incomplete",
            "content_filter",
        )

    assert converse(scenario).speaker.spoken == ["I do not say that."]


def test_a_second_answer_waits_for_the_first() -> None:
    async def scenario(client: Client) -> None:
        client.ask()
        await client.asked()
        client.send("response.create", event_id="second")
        error = (await client.until("error"))["error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert error["event_id"] == "second"
        client.write("Yes.")
        client.end()
        await client.until("response.done")

    converse(scenario)


def test_one_who_may_not_interrupt_is_answered_afterwards() -> None:
    async def scenario(client: Client) -> None:
        turns = {"type": "semantic_vad", "interrupt_response": False}
        client.send(
            "session.update",
            session={"type": "realtime", "audio": {"input": {"turn_detection": turns}}},
        )
        client.ask()
        await client.asked()
        client.say()
        await client.until("input_audio_buffer.committed")
        client.write("Yes.")
        client.end()
        assert (await client.until("response.done"))["response"]["status"] == "completed"
        request = await client.asked()
        assert [each["role"] for each in request.messages] == ["user", "assistant", "user"]

    converse(scenario)


def test_a_client_that_commits_asks_for_the_answer_itself() -> None:
    async def scenario(client: Client) -> None:
        client.send(
            "session.update",
            session={"type": "realtime", "audio": {"input": {"turn_detection": None}}},
        )
        client.say()
        client.send("input_audio_buffer.commit")
        client.send("response.create")
        request = await client.asked()
        assert request.messages[0]["content"] == "1 2 3 4 5"
        kinds = [event["type"] for event in client.seen]
        assert not any("transcription" in kind for kind in kinds), "the client did not ask for it"

    converse(scenario)


def test_a_full_conversation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MOST_ITEMS", 1)

    async def scenario(client: Client) -> None:
        client.ask()
        client.send("response.cancel")
        await client.until("conversation.item.done")
        client.ask()
        error = (await client.until("error"))["error"]
        while error["code"] != "conversation_full":
            error = (await client.until("error"))["error"]

    converse(scenario)
