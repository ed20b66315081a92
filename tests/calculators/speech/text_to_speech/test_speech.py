"""Speech: a model made by hand, in its real process, compared with NumPy."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from calculators.kit.places import Places
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.speech.audio.sound import Sound, can_change_tempo
from calculators.speech.text_to_speech.sentences import split_sentences
from calculators.speech.text_to_speech.servable import T2sServable, VoiceWork
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    Code,
    FamilySettings,
    ResourceError,
    RunError,
)
from servers.config import find_graph
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph
from tests.calculators.here_place import HerePlace
from tests.calculators.speech.text_to_speech.tone_model import (
    RATE,
    expected,
    graph,
    make_model,
    make_voice,
    seconds,
)
from tests.support.patience import PATIENCE

SPEECH = "/v3/audio/speech"
VOICES = "/v3/audio/voices"
SENTENCES = ("Hello there.", "How are you?", "I am fine, thanks!")
TEXT = " ".join(SENTENCES)
LOUD = 0.75


async def answered(loaded: LoadedGraph, uri: str = SPEECH, **body: Any) -> list[Any]:
    """Return the packets of an answer; raise the calculator's own error."""
    packets: list[Any] = []
    payload = HttpPayload(uri, {}, b"", {"model": "tones", **body})
    try:
        await loaded.answer(payload, packets.append)
    except RunError as error:
        raise error.errors[0].__cause__ or error from None
    return packets


def file_of(packets: list[Any]) -> bytes:
    """Return the file of an answer in chunks or in one piece."""
    first, *others = packets
    assert isinstance(first, HttpAnswer)
    assert first.has_more or not others
    return first.body + b"".join(others)


def sound_of(packets: list[Any]) -> Any:
    samples, rate = soundfile.read(io.BytesIO(file_of(packets)), dtype="float32")
    assert rate == RATE
    return samples


class Speaker:
    """A graph that is served for several tests."""

    def __init__(self, runner: asyncio.Runner, loaded: LoadedGraph) -> None:
        self.runner = runner
        self.loaded = loaded
        (servable,) = loaded._resources.resources
        assert isinstance(servable, T2sServable)
        self.servable = servable

    def run(self, work: Awaitable[Any]) -> Any:
        async def limited() -> Any:
            return await asyncio.wait_for(work, PATIENCE)

        return self.runner.run(limited())

    def ask(self, uri: str = SPEECH, **body: Any) -> list[Any]:
        return self.run(answered(self.loaded, uri, **body))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Speaker]:
    """Serve a graph of OpenVINO Model Server with two voices."""
    directory = tmp_path_factory.mktemp("tones")
    make_model(directory, graph('voices { name: "loud" path: "loud.bin" }'))
    make_voice(directory / "voices" / "soft.bin", 0.25)
    make_voice(directory / "voices" / "loud.bin", 0.1)
    make_voice(directory / "loud.bin", LOUD)
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY))
        yield Speaker(runner, loaded)
        runner.run(loaded.close())


def test_a_place_of_its_own_speaks_as_a_process_of_the_server(
    speaker: Speaker, tmp_path: Path
) -> None:
    make_model(tmp_path, graph('voices { name: "loud" path: "loud.bin" }'))
    make_voice(tmp_path / "loud.bin", LOUD)
    here = HerePlace()
    families = FamilySettings(Places(lambda name: here if name == "T2sExecutor" else None))

    async def placed() -> Any:
        settings = GraphSettings(families=families)
        loaded = await load_graph(find_graph(tmp_path), REGISTRY, settings)
        try:
            assert isinstance(here.work, VoiceWork)
            return sound_of(await answered(loaded, input=TEXT, voice="loud"))
        finally:
            await loaded.close()

    assert np.array_equal(speaker.run(placed()), sound_of(speaker.ask(input=TEXT, voice="loud")))


def test_an_answer_is_wav_with_the_models_floats(speaker: Speaker) -> None:
    packets = speaker.ask(input=SENTENCES[0], voice="loud")
    assert (packets[0].content_type, packets[0].has_more) == ("audio/wav", False)
    assert soundfile.info(io.BytesIO(packets[0].body)).subtype == "FLOAT"
    np.testing.assert_allclose(sound_of(packets), expected(SENTENCES[0], LOUD), atol=2e-3)


def test_sentences_follow_each_other(speaker: Speaker) -> None:
    wanted = np.concatenate([expected(sentence, LOUD) for sentence in SENTENCES])
    np.testing.assert_allclose(sound_of(speaker.ask(input=TEXT, voice="loud")), wanted, atol=2e-3)
    np.testing.assert_allclose(
        sound_of(speaker.ask(input=TEXT, voice={"id": "loud"}, stream_format="audio")),
        wanted,
        atol=2e-3,
    )


def test_each_sentence_is_sent_when_it_is_made(speaker: Speaker) -> None:
    first, *others = speaker.ask(input=TEXT, stream_format="audio")
    assert first.has_more
    made = [len(part) / 4 / RATE for part in (first.body[58:], *others)]
    assert made == pytest.approx([seconds(each) for each in SENTENCES])


def test_events_carry_the_parts_of_a_file(speaker: Speaker) -> None:
    packets = speaker.ask(input=TEXT, stream_format="sse", response_format="pcm")
    assert packets[0].content_type == "text/event-stream"
    *events, rest = file_of(packets).decode().split("\n\n")
    assert rest == ""
    *deltas, done = [json.loads(event.removeprefix("data: ")) for event in events]
    assert {each["type"] for each in deltas} == {"speech.audio.delta"}
    made = b"".join(base64.b64decode(each["audio"]) for each in deltas)
    assert len(made) / 2 / 24000 == pytest.approx(seconds(*SENTENCES), abs=0.001)
    tokens = int(np.ceil(seconds(*SENTENCES) * 20))
    assert done == {
        "type": "speech.audio.done",
        "usage": {
            "input_tokens": len(TEXT),
            "output_tokens": tokens,
            "total_tokens": len(TEXT) + tokens,
        },
    }


def test_voices_are_listed_and_entries_replace_files(speaker: Speaker) -> None:
    (packet,) = speaker.ask(VOICES)
    assert json.loads(packet) == {
        "object": "list",
        "voices": [{"id": name, "name": name} for name in ("default", "loud", "soft")],
    }
    soft = sound_of(speaker.ask(input="Hello.", voice="soft"))
    assert np.abs(soft).max() == pytest.approx(0.25, abs=0.01)
    own = sound_of(speaker.ask(input="Hello."))
    np.testing.assert_array_equal(own, sound_of(speaker.ask(input="Hello.", voice="default")))


@pytest.mark.skipif(not can_change_tempo(), reason="needs the extra av")
@pytest.mark.parametrize("speed", [0.5, 2, 4.0])
def test_speed_changes_the_duration(speaker: Speaker, speed: float) -> None:
    text = "A sentence that is long enough to measure how fast it is spoken."
    made = sound_of(speaker.ask(input=text, voice="loud", speed=speed))
    assert len(made) / RATE == pytest.approx(seconds(text) / speed, abs=0.15)


def test_long_sentences_are_spoken_in_parts(speaker: Speaker) -> None:
    text = "word, " * 300
    made = speaker.ask(input=text, response_format="pcm")
    assert len(made) > 5
    # Parts have as many tokens as the whole, up to some at the cuts.
    duration = sum(map(len, [made[0].body, *made[1:]])) / 2 / 24000
    assert duration == pytest.approx(seconds(text.strip()), rel=0.1)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "input", "input field is missing in JSON body"),
        ({"input": None}, "input", "input field is missing in JSON body"),
        ({"input": 5}, "input", "input field is not a string"),
        ({"input": ["a"]}, "input", "input field is not a string"),
        ({"input": ""}, "input", "nothing to speak"),
        ({"input": " ... \n"}, "input", "nothing to speak"),
        ({"input": "a" * 70_000}, "input", "70000 characters"),
        ({"input": "a. " * 7000}, "input", "set stream_format to audio"),
        ({"input": "a", "voice": 5}, "voice", "voice field is not a string"),
        ({"input": "a", "voice": {"id": 5}}, "voice", "voice field is not a string"),
        ({"input": "a", "voice": {"name": "x"}}, "voice.name", "Unknown member"),
        (
            {"input": "a", "voice": "alloy"},
            "voice",
            "Requested voice 'alloy' not found in available voices",
        ),
        ({"input": "a", "voice": "../loud"}, "voice", "not found in available voices"),
        ({"input": "a", "language": 5}, "language", "language field is not a string"),
        ({"input": "a", "language": "x" * 100}, "language", "code such as en-us"),
        ({"input": "a", "speed": "fast"}, "speed", "speed field is not a number"),
        ({"input": "a", "speed": True}, "speed", "speed field is not a number"),
        (
            {"input": "a", "speed": 5},
            "speed",
            "speed must be between speed_min (0.25) and speed_max (4)",
        ),
        *(
            (
                {"input": "a", "speed": speed},
                "speed",
                "speed must be between speed_min (0.25) and speed_max (4)",
            )
            for speed in (0, -1, float("nan"), 10**400, -(10**400))
        ),
        ({"input": "a", "response_format": "ogg"}, "response_format", '"opus", "aac", "flac"'),
        ({"input": "a", "stream_format": "chunks"}, "stream_format", '"audio", "sse"'),
        ({"input": "a", "instructions": "whisper"}, "instructions", "not supported"),
        ({"input": "a", "stream": True}, "stream", "Unknown member"),
    ],
)
def test_a_wrong_request_is_refused_with_what_would_be_right(
    speaker: Speaker, body: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(RequestError) as caught:
        speaker.ask(**body)
    assert caught.value.param == param
    assert words in str(caught.value)
    assert len(sound_of(speaker.ask(input="Hello.")))


def test_null_means_absent(speaker: Speaker) -> None:
    names = ("voice", "response_format", "speed", "language", "stream_format", "instructions")
    absent: dict[str, Any] = dict.fromkeys(names)
    assert len(sound_of(speaker.ask(input="Hello.", **absent)))


@pytest.mark.parametrize(
    "text", ["\0Hello\x1b[31m", "Hello \ud800 there", "🙂", "$", "a\u0301" * 600, "x" * 5000]
)
def test_odd_texts_are_spoken(speaker: Speaker, text: str) -> None:
    assert len(file_of(speaker.ask(input=text)))


def test_other_paths_are_refused(speaker: Speaker) -> None:
    with pytest.raises(RequestError, match="Unsupported URI: /v3/audio/other") as caught:
        speaker.ask("/v3/audio/other", input="a")
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_is_restarted(speaker: Speaker) -> None:
    before = file_of(speaker.ask(input="Hello."))
    assert speaker.servable.pid is not None
    os.kill(speaker.servable.pid, signal.SIGKILL)
    assert file_of(speaker.ask(input="Hello.")) == before


def test_what_a_client_does_not_hear_is_not_made(speaker: Speaker) -> None:
    async def leave() -> int:
        made = 0
        style = speaker.servable.style()
        sentences = (f"Sentence {number}." for number in range(10_000))

        def counted() -> Iterator[str]:
            nonlocal made
            for sentence in sentences:
                made += 1
                yield sentence

        async with aclosing(speaker.servable.speak(counted(), style)) as sounds:
            async for _ in sounds:
                break
        return made

    # One is heard, one was being made meanwhile, and one may have been looked at.
    assert speaker.run(leave()) <= 3
    assert len(sound_of(speaker.ask(input="Hello.")))


def test_requests_beyond_the_limit_are_sent_away(speaker: Speaker) -> None:
    servable = speaker.servable
    before, servable._most_requests = servable._most_requests, 1
    try:
        with servable.place(), pytest.raises(RequestError, match="try again later") as caught:
            speaker.ask(input="Hello.")
    finally:
        servable._most_requests = before
    assert caught.value.code is Code.UNAVAILABLE
    assert caught.value.retry_after
    assert len(sound_of(speaker.ask(input="Hello.")))


def test_clients_take_turns_between_sentences(speaker: Speaker) -> None:
    order: list[str] = []

    async def speak(name: str, count: int, begun: asyncio.Event) -> None:
        set_current_record(RequestRecord(name, client=ClientIdentity(name)))
        sentences = (f"This is {number}." for number in range(count))
        style = speaker.servable.style()
        async with aclosing(speaker.servable.speak(sentences, style)) as sounds:
            async for _ in sounds:
                order.append(name)
                begun.set()

    async def both() -> None:
        begun = asyncio.Event()
        long = asyncio.create_task(speak("long", 20, begun))
        await begun.wait()
        await asyncio.gather(long, speak("short", 1, asyncio.Event()))

    speaker.run(both())
    assert order.index("short") < 19


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: (model / "openvino_vocoder.xml").unlink(), "has no openvino_vocoder.xml"),
        (lambda model: (model / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda model: (model / "config.json").write_text("{}"), "is not a model that speaks"),
        (lambda model: (model / "config.json").unlink(), "has no config.json"),
        (lambda model: (model / "openvino_postnet.xml").write_text("<"), "cannot be loaded"),
        (lambda model: make_voice(model / "voices/x.bin", 1, 5), "with 512 32-bit floats. Got: 5"),
        (lambda model: make_voice(model / "voices/x.bin", float("nan")), "not numbers"),
        (
            lambda model: (make_voice(model / "voices/x.bin", 1)).write_bytes(b"abcde"),
            "File size is not a multiple of float size",
        ),
    ],
)
def test_a_broken_model_is_refused_with_the_file_at_fault(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    change(make_model(tmp_path, graph()))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("speed_min: 2 speed_max: 1", "invalid speed bounds in graph"),
        ("speed_min: nan", "invalid speed bounds in graph"),
        (
            'voices { name: "x" path: "none.bin" }',
            "Requested voice speaker embeddings file does not exist: none.bin",
        ),
        ('voices { name: "" path: "none.bin" }', "a name must have"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: str, words: str) -> None:
    make_model(tmp_path, graph(options))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


TYPED = """
input_stream: "text"
output_stream: "sound"
node {
  name: "Speak"
  calculator: "TextToSpeechCalculator"
  input_side_packet: "TTS_NODE_RESOURCES:tts"
  input_side_packet: "VOICE:voice"
  input_stream: "TEXT:text"
  output_stream: "SOUND:sound"
}
"""


def test_a_stream_of_words_is_spoken_while_it_grows(speaker: Speaker) -> None:
    words = [f"{word} " for word in TEXT.split(" ")]

    async def run() -> list[Sound]:
        sounds: list[Sound] = []
        heard = asyncio.Event()

        def hear(name: str, packet: Any) -> None:
            sounds.append(packet.payload)
            heard.set()

        running = CalculatorGraph(TYPED, registry=REGISTRY)
        running.observe_output_stream("sound", hear)
        await running.start_run_async({"tts": {"Speak": speaker.servable}, "voice": "loud"})
        for time, word in enumerate(words):
            if time == 3:
                await heard.wait()  # the first sentence, long before the text ends
                assert len(sounds) == 1
            await running.add_packet_to_input_stream_async("text", word, time)
        running.close_all_input_streams()
        await running.wait_until_done_async()
        return sounds

    sounds = speaker.run(run())
    for sound, sentence in zip(sounds, split_sentences(TEXT), strict=True):
        np.testing.assert_allclose(sound.samples, expected(sentence, LOUD), atol=2e-3)


def test_a_voice_that_a_node_does_not_have_fails_its_run(speaker: Speaker) -> None:
    async def run() -> None:
        running = CalculatorGraph(TYPED, registry=REGISTRY)
        await running.start_run_async({"tts": {"Speak": speaker.servable}, "voice": "none"})
        running.close_all_input_streams()
        await running.wait_until_done_async()

    with pytest.raises(RunError, match="Requested voice 'none' not found"):
        speaker.run(run())


def test_the_compiled_model_is_kept_for_the_next_start(tmp_path: Path) -> None:
    make_model(tmp_path / "model", graph())
    cache = tmp_path / "cache"

    async def start() -> bytes:
        settings = GraphSettings(cache_dir=str(cache))
        loaded = await load_graph(find_graph(tmp_path / "model"), REGISTRY, settings)
        try:
            return file_of(await answered(loaded, input="Hello."))
        finally:
            await loaded.close()

    def written() -> list[tuple[str, int]]:
        return sorted((file.name, file.stat().st_mtime_ns) for file in cache.rglob("*.blob"))

    first = asyncio.run(start())
    kept = written()
    assert kept
    assert asyncio.run(start()) == first
    assert written() == kept
