"""A session: events in, events out. The recognizer is a double that counts half seconds."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.speech_recognizer import SpeechSettings, Transcript
from calculators.speech.speech_to_text.realtime.audio_format import Pcm
from calculators.speech.speech_to_text.realtime.session import RealtimeSession
from graph_runtime import Code
from tests.calculators.speech.speech_to_text.realtime.sounds import silence, speech
from tests.support.patience import PATIENCE

DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"
USUAL = SpeechSettings()
FAILED = "conversation.item.input_audio_transcription.failed"


class Counted:
    """The text of a sound: a number for each half second."""

    def __init__(self, sound: Sound, settings: SpeechSettings) -> None:
        self.sound = sound
        self.settings = settings
        self.is_cancelled = False
        self.words = [f" {n}" for n in range(1, 1 + int(sound.seconds * 2))]

    async def pieces(self) -> AsyncIterator[str]:
        for word in self.words:
            await asyncio.sleep(0)
            yield word

    async def transcript(self) -> Transcript:
        await asyncio.sleep(0)
        if self.settings.prompt == "fail":
            raise RequestError("the model is down", code=Code.UNAVAILABLE)
        return Transcript(text="".join(self.words), seconds=self.sound.seconds)

    def cancel(self) -> None:
        self.is_cancelled = True


class Counter:
    def __init__(self) -> None:
        self.made: list[Counted] = []

    def recognize(self, sound: Sound, settings: SpeechSettings = USUAL) -> Counted:
        self.made.append(Counted(sound, settings))
        return self.made[-1]


class Client:
    """The client's end of a session."""

    def __init__(self, *, model: str = "", is_old: bool = False) -> None:
        self.recognizer = Counter()
        self._sent: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        self._session = RealtimeSession(self.recognizer, self, model, is_old=is_old)
        self._events = self._session.events()
        self.seen: list[dict[str, Any]] = []

    async def receive(self) -> str | bytes | None:
        return await self._sent.get()

    def send(self, kind: str, **members: Any) -> None:
        self._sent.put_nowait(json.dumps({"type": kind, **members}))

    def send_raw(self, message: str | bytes | None) -> None:
        self._sent.put_nowait(message)

    def say(self, sound: Pcm, step: int = 2400) -> None:
        for at in range(0, len(sound), step):
            self.append(sound[at : at + step].tobytes())

    def append(self, data: bytes) -> None:
        self.send("input_audio_buffer.append", audio=base64.b64encode(data).decode())

    async def next(self) -> dict[str, Any]:
        event = json.loads(await anext(self._events))
        assert event["event_id"]
        self.seen.append(event)
        found: dict[str, Any] = event
        return found

    async def until(self, kind: str) -> dict[str, Any]:
        while (event := await self.next())["type"] != kind:
            assert event["type"] != "error", event
        return event

    async def error(self) -> dict[str, Any]:
        event = await self.next()
        assert event["type"] == "error", event
        error: dict[str, Any] = event["error"]
        assert error.keys() == {"type", "code", "message", "param", "event_id"}
        return error

    async def close(self) -> None:
        self.send_raw(None)
        async for _ in self._events:
            pass

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.seen]


Scenario = Callable[[Client], Coroutine[Any, Any, None]]


def converse(scenario: Scenario, **arguments: Any) -> Client:
    clients: list[Client] = []

    async def run() -> None:
        async with asyncio.timeout(PATIENCE):
            client = Client(**arguments)
            clients.append(client)
            first = await client.next()
            assert first["type"].endswith("session.created")
            await scenario(client)
            await client.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    return clients[0]


def manual(client: Client) -> None:
    client.send("session.update", session={"audio": {"input": {"turn_detection": None}}})


def test_speech_is_found_and_transcribed() -> None:
    async def scenario(client: Client) -> None:
        client.say(np.concatenate((silence(1), speech(2.4), silence(1.5))))
        done = await client.until(COMPLETED)
        started = next(e for e in client.seen if e["type"].endswith("speech_started"))
        stopped = next(e for e in client.seen if e["type"].endswith("speech_stopped"))
        assert started["audio_start_ms"] == pytest.approx(700, abs=100)
        assert stopped["audio_end_ms"] == pytest.approx(3900, abs=200)
        committed = next(e for e in client.seen if e["type"].endswith("committed"))
        assert committed["previous_item_id"] is None
        assert {e["item_id"] for e in (started, stopped, committed, done)} == {done["item_id"]}
        assert done["transcript"] == "1 2 3 4 5"
        assert done["usage"] == {
            "type": "duration",
            "seconds": pytest.approx(2.4 + 0.3 + 0.2, abs=0.15),
        }
        deltas = [e["delta"] for e in client.seen if e["type"] == DELTA]
        assert "".join(deltas) == done["transcript"]

    client = converse(scenario)
    # Words are sent while one speaks.
    assert client.kinds.index(DELTA) < client.kinds.index("input_audio_buffer.speech_stopped")
    assert "conversation.item.added" in client.kinds


def test_two_utterances_are_two_items_in_order() -> None:
    async def scenario(client: Client) -> None:
        client.say(np.concatenate((speech(1.2), silence(1), speech(1.2), silence(1))))
        first = await client.until(COMPLETED)
        second = await client.until(COMPLETED)
        committed = [e for e in client.seen if e["type"] == "input_audio_buffer.committed"]
        assert committed[1]["previous_item_id"] == first["item_id"] == committed[0]["item_id"]
        assert committed[1]["item_id"] == second["item_id"]

    converse(scenario)


def test_without_voice_detection_the_client_commits() -> None:
    async def scenario(client: Client) -> None:
        manual(client)
        updated = await client.until("session.updated")
        assert updated["session"]["audio"]["input"]["turn_detection"] is None
        client.say(speech(3.0))
        client.send("input_audio_buffer.commit", event_id="mine")
        done = await client.until(COMPLETED)
        assert done["transcript"] == "1 2 3 4 5"
        client.send("input_audio_buffer.commit", event_id="mine")
        error = await client.error()
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "mine")
        client.say(speech(1.0))
        client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        client.send("input_audio_buffer.commit")
        assert (await client.error())["code"] == "input_audio_buffer_commit_empty"

    client = converse(scenario)
    assert "input_audio_buffer.speech_started" not in client.kinds


def test_a_commit_in_the_middle_of_speech_takes_what_there_is() -> None:
    async def scenario(client: Client) -> None:
        client.say(speech(1.2))
        await client.until("input_audio_buffer.speech_started")
        client.send("input_audio_buffer.commit")
        done = await client.until(COMPLETED)
        started = next(e for e in client.seen if e["type"].endswith("speech_started"))
        assert done["item_id"] == started["item_id"]
        assert "input_audio_buffer.speech_stopped" not in client.kinds

    converse(scenario)


def test_speech_without_end_is_cut_into_items() -> None:
    async def scenario(client: Client) -> None:
        client.say(speech(65.0), step=24_000)
        for _ in range(2):
            done = await client.until(COMPLETED)
            assert done["usage"]["seconds"] <= 31

    converse(scenario)


@pytest.mark.parametrize(
    ("name", "old", "rate"),
    [("audio/pcmu", "g711_ulaw", 8000), ("audio/pcma", "g711_alaw", 8000)],
)
@pytest.mark.parametrize("is_old", [False, True])
def test_g711_has_its_rate(name: str, old: str, rate: int, is_old: bool) -> None:
    async def scenario(client: Client) -> None:
        if is_old:
            session = {"input_audio_format": old, "turn_detection": None}
            client.send("transcription_session.update", session=session)
            updated = await client.until("transcription_session.updated")
            assert updated["session"]["input_audio_format"] == old
        else:
            given = {"format": {"type": name}, "turn_detection": None}
            client.send(
                "session.update", session={"type": "transcription", "audio": {"input": given}}
            )
            updated = await client.until("session.updated")
            assert updated["session"]["audio"]["input"]["format"] == {"type": name}
        client.append(bytes(rate))
        client.send("input_audio_buffer.commit")
        done = await client.until(COMPLETED)
        assert done["usage"]["seconds"] == 1.0
        assert client.recognizer.made[-1].sound.sample_rate == rate
        kinds = {"conversation.item.created"} if is_old else {"conversation.item.added"}
        assert kinds <= set(client.kinds)

    converse(scenario)


def test_an_old_client_is_greeted_in_its_form() -> None:
    async def scenario(client: Client) -> None:
        assert client.seen[0]["type"] == "transcription_session.created"
        assert client.seen[0]["session"]["input_audio_format"] == "pcm16"

    converse(scenario, is_old=True)


def test_a_sample_may_be_split_between_two_messages() -> None:
    async def scenario(client: Client) -> None:
        manual(client)
        await client.until("session.updated")
        data = speech(0.5).tobytes()
        for at in range(0, len(data), 1001):
            client.append(data[at : at + 1001])
        client.send("input_audio_buffer.commit")
        await client.until(COMPLETED)
        samples = client.recognizer.made[-1].sound.samples
        assert np.array_equal(samples * 32768, np.frombuffer(data, "<i2"))

    converse(scenario)


def test_the_settings_of_the_speech_reach_the_model() -> None:
    async def scenario(client: Client) -> None:
        transcription = {"model": "m", "language": "de", "prompt": "so", "keywords": ["a", "b"]}
        given = {"transcription": transcription, "turn_detection": None, "format": {}}
        client.send("session.update", session={"audio": {"input": given}})
        await client.until("session.updated")
        client.say(speech(1))
        client.send("input_audio_buffer.commit")
        await client.until(COMPLETED)
        settings = client.recognizer.made[-1].settings
        assert (settings.language, settings.prompt, settings.hotwords) == ("de", "so", "a, b")

    converse(scenario, model="m")


def test_sound_may_be_committed_without_a_text() -> None:
    async def scenario(client: Client) -> None:
        given = {"transcription": None, "turn_detection": None}
        client.send("session.update", session={"audio": {"input": given}})
        await client.until("session.updated")
        client.say(speech(1))
        client.send("input_audio_buffer.commit")
        await client.until("conversation.item.done")
        assert client.recognizer.made == []

    converse(scenario)


def test_an_item_that_fails_is_told_and_the_next_one_works() -> None:
    async def scenario(client: Client) -> None:
        for prompt, kind in (("fail", FAILED), ("", COMPLETED)):
            given = {"transcription": {"prompt": prompt}, "turn_detection": None}
            client.send("session.update", session={"audio": {"input": given}})
            await client.until("session.updated")
            client.say(speech(1))
            client.send("input_audio_buffer.commit")
            event = await client.until(kind)
            if kind == FAILED:
                assert event["error"]["type"] == "server_error"
                assert "down" in event["error"]["message"]

    converse(scenario)


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        ("[1]", "invalid_json", None),
        ("[" * 100_000, "invalid_json", None),
        (b"\0\1", "invalid_json", None),
        ("{}", "invalid_value", "type"),
        ('{"type": 5}', "invalid_value", "type"),
        ('{"type": "response.create"}', "invalid_value", "type"),
        ('{"type": "input_audio_buffer.append"}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.append", "audio": 5}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.append", "audio": "a b"}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.append", "audio": "é"}', "invalid_value", "audio"),
        ('{"type": "session.update"}', "invalid_value", "session"),
        ('{"type": "session.update", "session": {"type": "realtime"}}', None, "session.type"),
        ('{"type": "session.update", "session": {"audio": 5}}', None, "session.audio"),
    ],
)
def test_bad_messages_are_answered_and_the_session_goes_on(
    message: str | bytes, code: str | None, param: str | None
) -> None:
    async def scenario(client: Client) -> None:
        client.send_raw(message)
        error = await client.error()
        assert error["type"] == "invalid_request_error"
        assert error["param"] == param
        assert code in (None, error["code"])
        client.say(np.concatenate((speech(1.2), silence(1))))
        await client.until(COMPLETED)

    converse(scenario)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"format": {"type": "audio/mp3"}}, "format.type"),
        ({"format": {"type": "audio/pcm", "rate": 16000}}, "format.rate"),
        ({"turn_detection": {"type": "semantic_vad"}}, "turn_detection.type"),
        ({"turn_detection": {"threshold": 2}}, "turn_detection.threshold"),
        ({"turn_detection": {"prefix_padding_ms": -1}}, "turn_detection.prefix_padding_ms"),
        ({"turn_detection": {"silence_duration_ms": 1}}, "turn_detection.silence_duration_ms"),
        ({"noise_reduction": {"type": "magic"}}, "noise_reduction.type"),
        ({"transcription": {"model": "other"}}, "transcription.model"),
        ({"transcription": {"prompt": "x" * 5000}}, "transcription.prompt"),
        ({"transcription": {"keywords": [1]}}, "transcription.keywords"),
        ({"transcription": "whisper"}, "transcription"),
    ],
)
def test_bad_settings_change_nothing(given: dict[str, Any], param: str) -> None:
    async def scenario(client: Client) -> None:
        client.send("session.update", session={"audio": {"input": given}})
        error = await client.error()
        assert error["param"] == f"session.audio.input.{param}"
        client.send("session.update", session={})
        updated = await client.until("session.updated")
        assert updated["session"] == client.seen[0]["session"]

    converse(scenario, model="served")


def test_the_format_cannot_change_under_sound_that_waits() -> None:
    async def scenario(client: Client) -> None:
        manual(client)
        client.say(speech(1))
        client.send(
            "session.update", session={"audio": {"input": {"format": {"type": "audio/pcmu"}}}}
        )
        await client.until("session.updated")
        assert (await client.error())["param"] == "session.audio.input.format"

    converse(scenario)


@pytest.mark.unmeasured
def test_hours_of_silence_take_no_memory_and_no_model() -> None:
    async def scenario(client: Client) -> None:
        hush = silence(60).tobytes()
        for _ in range(60):
            client.append(hush)
        client.say(np.concatenate((speech(1.2), silence(1))))
        started = await client.until("input_audio_buffer.speech_started")
        assert started["audio_start_ms"] == pytest.approx(3_600_000, abs=400)
        await client.until(COMPLETED)
        assert client.recognizer.made[-1].sound.seconds < 3

    converse(scenario)


def test_the_buffer_has_a_limit_without_voice_detection() -> None:
    async def scenario(client: Client) -> None:
        manual(client)
        await client.until("session.updated")
        for _ in range(6):
            client.append(silence(60).tobytes())
        assert (await client.error())["code"] == "input_audio_buffer_full"
        client.send("input_audio_buffer.commit")
        assert (await client.until(COMPLETED))["usage"]["seconds"] == 300

    converse(scenario)


def test_a_client_that_leaves_cancels_what_is_recognized() -> None:
    async def run() -> None:
        class Endless(Counted):
            async def pieces(self) -> AsyncIterator[str]:
                yield " 1"
                await asyncio.Event().wait()

        class Slow(Counter):
            def recognize(self, sound: Sound, settings: SpeechSettings = USUAL) -> Counted:
                self.made.append(Endless(sound, settings))
                return self.made[-1]

        client = Client()
        client.recognizer = Slow()
        client._session = RealtimeSession(client.recognizer, client, "", is_old=False)
        client._events = client._session.events()
        manual(client)
        client.say(speech(1))
        client.send("input_audio_buffer.commit")
        async with asyncio.timeout(PATIENCE):
            await client.until(DELTA)
            await client.close()
        assert client.recognizer.made[-1].is_cancelled
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
