"""The WebSocket of a real server with the model that counts to ten, by real clients."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from calculators.speech.speech_to_text.realtime.audio_format import Pcm
from tests.calculators.speech.speech_to_text.counter import TEXT, make_model
from tests.calculators.speech.speech_to_text.realtime.sounds import silence, speech
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE

SPOKEN = np.concatenate((silence(0.5), speech(2.4), silence(1.0)))
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, child_program: None) -> Iterator[Serving]:
    site = tmp_path_factory.mktemp("site")
    make_model(Path(site) / "counter", "")
    words = ["--model_name", "counter", "--model_path", "counter"]
    with Serving(site, *words, calculators=()) as serving:
        yield serving.wait_until_serving()


def appended(sound: Pcm, step: int = 4800) -> Iterator[str]:
    for at in range(0, len(sound), step):
        audio = base64.b64encode(sound[at : at + step].tobytes()).decode()
        yield json.dumps({"type": "input_audio_buffer.append", "audio": audio})


async def until(socket: aiohttp.ClientWebSocketResponse, kind: str) -> list[dict[str, Any]]:
    """Return the events up to the first one of this kind."""
    events = []
    while True:
        event = json.loads(await socket.receive_str())
        events.append(event)
        if event["type"] == kind:
            return events
        assert event["type"] != "error", event


def test_one_speaks_and_reads(server: Serving) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            aiohttp.ClientSession() as session,
            session.ws_connect(
                f"http://127.0.0.1:{server.port}/v1/realtime?model=counter"
            ) as socket,
        ):
            (created,) = await until(socket, "session.created")
            assert created["session"]["audio"]["input"]["transcription"]["model"] == "counter"
            for _ in range(2):
                for message in appended(SPOKEN):
                    await socket.send_str(message)
                events = await until(socket, COMPLETED)
                assert events[-1]["transcript"] == TEXT.strip()
                deltas = [event["delta"] for event in events if event["type"] == DELTA]
                assert "".join(deltas) == TEXT.strip()

    asyncio.run(run())


def test_a_client_that_goes_while_the_model_works_leaves_it_to_others(server: Serving) -> None:
    async def run() -> None:
        address = f"http://127.0.0.1:{server.port}/v3/realtime"
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            for _ in range(3):
                socket = await session.ws_connect(address)
                for message in appended(SPOKEN):
                    await socket.send_str(message)
                await until(socket, "input_audio_buffer.committed")
                connection = socket._response.connection
                assert connection is not None
                assert connection.transport is not None
                connection.transport.abort()
            async with session.ws_connect(address) as other:
                for message in appended(SPOKEN):
                    await other.send_str(message)
                assert (await until(other, COMPLETED))[-1]["transcript"] == TEXT.strip()

    asyncio.run(run())


def test_the_websockets_library_gets_an_older_session(server: Serving) -> None:
    library = pytest.importorskip("websockets.sync.client")
    address = f"ws://127.0.0.1:{server.port}/v1/realtime?intent=transcription"
    with library.connect(address, additional_headers={"OpenAI-Beta": "realtime=v1"}) as socket:
        assert json.loads(socket.recv())["type"] == "transcription_session.created"
        session = {"input_audio_format": "g711_ulaw", "turn_detection": None}
        socket.send(json.dumps({"type": "transcription_session.update", "session": session}))
        assert json.loads(socket.recv())["type"] == "transcription_session.updated"
        audio = base64.b64encode(bytes(range(256)) * 40).decode()
        socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        while (event := json.loads(socket.recv(PATIENCE)))["type"] != COMPLETED:
            assert event["type"] != "error"
        assert event["transcript"] == TEXT.strip()
        assert event["usage"]["seconds"] == 1.28


def test_openais_client_transcribes(server: Serving) -> None:
    openai = pytest.importorskip("openai")
    pytest.importorskip("websockets")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
    with client.realtime.connect(model="counter") as connection:
        assert connection.recv().type == "session.created"
        connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": {"model": "counter", "language": "en"},
                        "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                        "noise_reduction": {"type": "near_field"},
                    }
                },
            }
        )
        assert connection.recv().type == "session.updated"
        for at in range(0, len(SPOKEN), 4800):
            audio = base64.b64encode(SPOKEN[at : at + 4800].tobytes()).decode()
            connection.input_audio_buffer.append(audio=audio)
        kinds = []
        while (event := connection.recv()).type != COMPLETED:
            kinds.append(event.type)
        assert event.transcript == TEXT.strip()
        assert event.usage.type == "duration"
        assert "input_audio_buffer.speech_started" in kinds
        assert "error" not in kinds


async def flood(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Send what is not an event, and read no errors."""
    while True:
        await socket.send_str("{")


def test_hostile_messages_do_no_harm(server: Serving) -> None:
    async def run() -> None:
        address = f"http://127.0.0.1:{server.port}/v1/realtime"
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            async with session.ws_connect(address) as socket:
                await until(socket, "session.created")
                for message in (
                    "{",
                    "[]",
                    '{"type": "x"}',
                    '{"type": "input_audio_buffer.append"}',
                ):
                    await socket.send_str(message)
                    assert json.loads(await socket.receive_str())["type"] == "error"
                await socket.send_bytes(b"\0")
                assert json.loads(await socket.receive_str())["type"] == "error"
                # The head of a message says how long it is. The rest of it would meet a closed
                # connection, whose reset may overtake the reason.
                assert socket._conn is not None
                transport = socket._conn.transport
                assert transport is not None
                transport.write(struct.pack("!BBQ4s", 0x81, 0x80 | 127, 3 << 20, b"mask"))
                assert (await socket.receive()).data == 1009
            async with session.ws_connect(address) as socket:
                await until(socket, "session.created")
                with pytest.raises(ConnectionError):
                    await flood(socket)
            async with session.ws_connect(address) as socket:
                await until(socket, "session.created")

    asyncio.run(run())
