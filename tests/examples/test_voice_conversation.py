"""`examples/graphs/voice_conversation`, with a model that counts and one that speaks tones."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from calculators.speech.text_to_speech.sentences import split_sentences
from tests.calculators.speech.speech_to_text.realtime.sounds import silence, speech
from tests.calculators.speech.text_to_speech.tone_model import seconds
from tests.examples.voice_graph import CONVERSATION, HEARD, put_graph, recording
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

SPOKEN = np.concatenate((silence(0.5), speech(2.4), silence(1.0)))
#: Samples of 16 bits per second in an answer.
BYTES_PER_SECOND = 2 * 24000
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome"]}},
        "required": ["city"],
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, child_program: None) -> Iterator[Serving]:
    folder = put_graph(tmp_path_factory.mktemp("voice"), CONVERSATION)
    words = ["--model_name", "voice", "--model_path", str(folder)]
    with Serving(folder, *words, calculators=()) as serving:
        yield serving.wait_until_serving()


class Client:
    """A client of a conversation. ``seen``: all events so far."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.seen: list[dict[str, Any]] = []

    async def send(self, kind: str, **members: Any) -> None:
        await self._socket.send_str(json.dumps({"type": kind, **members}))

    async def say(self, sound: Any = SPOKEN) -> None:
        for at in range(0, len(sound), 4800):
            audio = base64.b64encode(sound[at : at + 4800].tobytes()).decode()
            await self.send("input_audio_buffer.append", audio=audio)

    async def next(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(await self._socket.receive_str())
        self.seen.append(event)
        return event

    async def until(self, kind: str) -> dict[str, Any]:
        while (event := await self.next())["type"] != kind:
            assert event["type"] != "error", event
        return event

    async def error(self) -> dict[str, Any]:
        while (event := await self.next())["type"] != "error":
            pass
        error: dict[str, Any] = event["error"]
        return error

    async def settings(self, **session: Any) -> dict[str, Any]:
        await self.send("session.update", session={"type": "realtime", **session})
        found: dict[str, Any] = (await self.until("session.updated"))["session"]
        return found

    async def ask(self, text: str, **response: Any) -> dict[str, Any]:
        """Add a text and ask for an answer; return the response."""
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": text}],
        }
        await self.send("conversation.item.create", item=item)
        await self.send("response.create", response=response)
        found: dict[str, Any] = (await self.until("response.done"))["response"]
        return found

    def kinds(self, begin: str = "") -> list[str]:
        """Return the types of events; those that repeat once."""
        found: list[str] = []
        for event in self.seen:
            if event["type"].startswith(begin) and event["type"] not in found[-1:]:
                found.append(event["type"])
        return found

    def joined(self, kind: str) -> str:
        return "".join(event["delta"] for event in self.seen if event["type"] == kind)

    def sound(self) -> bytes:
        kind = "response.output_audio.delta"
        parts = [event["delta"] for event in self.seen if event["type"] == kind]
        return b"".join(map(base64.b64decode, parts))


@asynccontextmanager
async def connected(server: Serving) -> AsyncIterator[Client]:
    address = f"http://127.0.0.1:{server.port}/v1/realtime?model=voice"
    async with (
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.ws_connect(address) as socket,
    ):
        client = Client(socket)
        await client.until("conversation.created")
        yield client


def converse(server: Serving, scenario: Callable[[Client], Awaitable[None]]) -> Client:
    async def run() -> Client:
        async with connected(server) as client:
            await scenario(client)
            return client

    return asyncio.run(run())


def test_what_is_said_is_answered_aloud(server: Serving) -> None:
    async def scenario(client: Client) -> None:
        session = client.seen[0]["session"]
        assert (session["type"], session["output_modalities"]) == ("realtime", ["audio"])
        assert session["audio"]["input"]["turn_detection"]["create_response"] is True
        await client.settings(audio={"input": {"transcription": {}}})
        await client.say()
        response = (await client.until("response.done"))["response"]
        assert response["status"] == "completed"
        (item,) = response["output"]
        text = item["content"][0]["transcript"]
        assert text
        assert client.joined("response.output_audio_transcript.delta") == text
        spoken = seconds(*split_sentences(text))
        assert len(client.sound()) / BYTES_PER_SECOND == pytest.approx(spoken, abs=0.05)
        assert response["usage"]["output_tokens"] > 0
        # The next turn has the first one before it.
        await client.say()
        after = (await client.until("response.done"))["response"]
        assert after["usage"]["input_tokens"] > response["usage"]["input_tokens"]

    client = converse(server, scenario)
    heard = [
        event["transcript"]
        for event in client.seen
        if event["type"] == "conversation.item.input_audio_transcription.completed"
    ]
    assert heard == [HEARD, HEARD]
    first = client.kinds("response.")
    assert first[:4] == [
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
    ]
    assert first[4] == "response.output_audio.delta"
    end = first.index("response.done")
    assert first[end - 4 : end] == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
    ]


def test_texts_are_answered_with_text(server: Serving) -> None:
    async def scenario(client: Client) -> None:
        await client.settings(output_modalities=["text"], instructions="You are graphrt.")
        response = await client.ask("What is a graph?", metadata={"topic": "graphs"})
        (item,) = response["output"]
        assert item["content"][0]["text"] == client.joined("response.output_text.delta")
        assert response["metadata"] == {"topic": "graphs"}
        assert response["output_modalities"] == ["text"]
        assert not client.sound()
        limited = await client.ask("Tell me more.", max_output_tokens=1)
        assert limited["status"] == "incomplete"
        assert limited["status_details"]["reason"] == "max_output_tokens"

    converse(server, scenario)


def test_one_who_speaks_interrupts_the_answer(server: Serving) -> None:
    async def scenario(client: Client) -> None:
        await client.send("response.create", response={"input": [LONG]})
        await client.until("response.output_audio.delta")
        await client.say()
        cut = (await client.until("response.done"))["response"]
        assert cut["status"] == "cancelled"
        assert cut["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert cut["output"][0]["status"] == "incomplete"
        answered = (await client.until("response.done"))["response"]
        assert answered["status"] == "completed"
        await client.settings(
            audio={"input": {"turn_detection": {"type": "server_vad", "create_response": False}}}
        )
        await client.send("response.create", response={"input": [LONG]})
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        cut = (await client.until("response.done"))["response"]
        assert cut["status_details"]["reason"] == "client_cancelled"

    converse(server, scenario)


#: The first sentence of its answer comes long before the last one.
LONG = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "Tell me a story."}],
}


def test_items_are_read_cut_and_deleted(server: Serving) -> None:
    async def scenario(client: Client) -> None:
        response = await client.ask("Tell me a story.")
        (item,) = response["output"]
        text = item["content"][0]["transcript"]
        await client.send("conversation.item.retrieve", item_id=item["id"])
        found = (await client.until("conversation.item.retrieved"))["item"]
        assert found == item
        end = round(1000 * seconds(next(split_sentences(text))))
        await client.send(
            "conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=end
        )
        await client.until("conversation.item.truncated")
        await client.send("conversation.item.retrieve", item_id=item["id"])
        cut = (await client.until("conversation.item.retrieved"))["item"]
        assert cut["content"][0]["transcript"] == next(split_sentences(text))
        await client.send("conversation.item.delete", item_id=item["id"])
        await client.until("conversation.item.deleted")
        await client.send("conversation.item.retrieve", item_id=item["id"], event_id="mine")
        error = await client.error()
        assert (error["code"], error["event_id"]) == ("item_not_found", "mine")

    converse(server, scenario)


def test_a_function_is_called_and_its_output_is_answered(server: Serving) -> None:
    async def scenario(client: Client) -> None:
        choice = {"type": "function", "name": "weather"}
        response = await client.ask("Weather in Rome?", tools=[TOOL], tool_choice=choice)
        (call,) = response["output"]
        assert (call["type"], call["name"]) == ("function_call", "weather")
        assert json.loads(call["arguments"]) == {"city": "Rome"}
        done = "response.function_call_arguments.done"
        assert [each["arguments"] for each in client.seen if each["type"] == done] == [
            call["arguments"]
        ]
        output = {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": '{"sky": "clear"}',
        }
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        answer = (await client.until("response.done"))["response"]
        assert answer["output"][0]["content"][0]["transcript"]

    converse(server, scenario)


def test_an_answer_beside_the_conversation_leaves_it_as_it_is(server: Serving) -> None:
    async def scenario(client: Client) -> None:
        await client.send(
            "response.create",
            response={"conversation": "none", "output_modalities": ["text"], "input": [LONG]},
        )
        response = (await client.until("response.done"))["response"]
        assert response["conversation_id"] is None
        await client.send("conversation.item.retrieve", item_id=response["output"][0]["id"])
        assert (await client.error())["code"] == "item_not_found"

    client = converse(server, scenario)
    assert not client.kinds("conversation.item.added")


@pytest.mark.parametrize(
    ("event", "code", "param"),
    [
        ({"type": "response.cancel"}, "response_cancel_not_active", "response_id"),
        ({"type": "session.update", "session": {"type": "transcription"}}, "invalid_value",
         "session.type"),
        ({"type": "session.update", "session": {"output_modalities": ["text", "audio"]}},
         "invalid_value", "session.output_modalities"),
        ({"type": "session.update", "session": {"tools": [{"type": "mcp"}]}}, "invalid_value",
         "session.tools[0]"),
        ({"type": "session.update", "session": {"tool_choice": "always"}}, "invalid_value",
         "session.tool_choice"),
        ({"type": "session.update", "session": {"audio": {"output": {"speed": 9}}}},
         "invalid_value", "session.audio.output.speed"),
        ({"type": "conversation.item.create", "item": {"type": "thought"}}, "invalid_value",
         "item.type"),
        ({"type": "conversation.item.create", "item": LONG, "previous_item_id": "none"},
         "item_not_found", "previous_item_id"),
        ({"type": "conversation.item.delete", "item_id": "none"}, "item_not_found", "item_id"),
        ({"type": "response.create", "response": {"conversation": "x"}}, "invalid_value",
         "response.conversation"),
        ({"type": "response.create", "response": {"input": ["x"]}}, "invalid_value",
         "response.input[0]"),
        ({"type": "output_audio_buffer.clear"}, "invalid_value", "type"),
    ],
)  # fmt: skip
def test_wrong_events_are_refused_by_name(
    server: Serving, event: dict[str, Any], code: str, param: str
) -> None:
    async def scenario(client: Client) -> None:
        await client.send(**{"kind": event["type"], "event_id": "e1"} | {
            name: value for name, value in event.items() if name != "type"
        })  # fmt: skip
        error = await client.error()
        assert (error["code"], error["param"], error["event_id"]) == (code, param, "e1")
        assert (await client.settings())["type"] == "realtime"

    converse(server, scenario)


def test_a_recording_is_written_down_too(server: Serving) -> None:
    async def run() -> Any:
        form = aiohttp.FormData()
        form.add_field("model", "voice")
        form.add_field("file", recording(), filename="a.wav", content_type="audio/wav")
        address = f"http://127.0.0.1:{server.port}/v1/audio/transcriptions"
        async with aiohttp.ClientSession() as session, session.post(address, data=form) as answer:
            assert answer.status == 200
            return await answer.json()

    assert asyncio.run(run())["text"].strip() == HEARD


def test_laws_of_g711_are_spoken(server: Serving) -> None:
    async def scenario(client: Client) -> None:
        session = await client.settings(
            audio={"output": {"format": {"type": "audio/pcmu"}, "voice": "alloy"}}
        )
        assert session["audio"]["output"]["voice"] == "default"
        response = await client.ask("Tell me a story.")
        text = response["output"][0]["content"][0]["transcript"]
        spoken = seconds(*split_sentences(text))
        assert len(client.sound()) / 8000 == pytest.approx(spoken, abs=0.05)

    converse(server, scenario)


def test_the_agents_of_openai_converse(server: Serving, tmp_path: Path) -> None:
    pytest.importorskip("agents.realtime", reason="the extra clients is not installed")
    (tmp_path / "sound").write_bytes(SPOKEN.tobytes())
    command = [sys.executable, "-m", "tests.examples.agents_conversation"]
    done = subprocess.run(
        [*command, str(server.port), str(tmp_path / "sound")],
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
        timeout=PATIENCE,
    )
    found = json.loads(done.stdout)
    assert found["errors"] == []
    assert found["history"][0] == ["user", HEARD]
    assert found["history"][1][0] == "assistant"
    spoken = seconds(*split_sentences(found["history"][1][1]))
    assert found["seconds"] == pytest.approx(spoken, abs=0.05)
