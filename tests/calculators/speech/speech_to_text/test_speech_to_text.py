"""Transcriptions of the example model that counts, in its real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.places import Places
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.speech_recognizer import SpeechRecognizer, SpeechSettings, Transcript
from calculators.speech.speech_to_text.resources import PlacedSpeechToText
from calculators.speech.speech_to_text.servable import SpeechToTextServable
from calculators.speech.speech_to_text.spoken_text import SpokenText
from graph_runtime import (
    REGISTRY,
    Cancelled,
    Code,
    FamilySettings,
    ResourceError,
    RunError,
)
from servers.config import find_graph
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph
from tests.calculators.here_place import HerePlace
from tests.calculators.speech.audio.sounds import encoded, tone, wav
from tests.calculators.speech.speech_to_text.counter import (
    GRAPH,
    TEXT,
    TRANSLATIONS,
    WITHOUT_LOOPBACK,
    make_model,
    payload,
)
from tests.support.patience import PATIENCE

SPEECH = wav(tone(2.0))


async def answers(loaded: LoadedGraph, request: HttpPayload) -> list[Any]:
    """Return the packets of a graph's answer; raise the calculator's own error."""
    packets: list[Any] = []
    try:
        await loaded.answer(request, packets.append)
    except RunError as error:
        raise error.errors[0].__cause__ or error from None
    return packets


class Counter:
    """A graph that is served for several tests."""

    def __init__(self, runner: asyncio.Runner, loaded: LoadedGraph) -> None:
        self.runner = runner
        self.loaded = loaded

    def ask(self, content: bytes | None = SPEECH, uri: str = "", **fields: Any) -> Any:
        """Return the only packet of an answer."""
        request = payload(content, uri, **fields) if uri else payload(content, **fields)
        (packet,) = self.run(answers(self.loaded, request))
        return packet

    def json(self, content: bytes | None = SPEECH, uri: str = "", **fields: Any) -> Any:
        return json.loads(self.ask(content, uri, **fields))

    def events(self, content: bytes = SPEECH, **fields: Any) -> list[dict[str, Any]]:
        packets = self.run(answers(self.loaded, payload(content, stream="true", **fields)))
        events = b"".join(packets).decode().split("\n\n")
        assert events.pop() == ""
        return [json.loads(event.removeprefix("data: ")) for event in events]

    def run(self, work: Awaitable[Any]) -> Any:
        async def patiently() -> Any:
            return await asyncio.wait_for(work, PATIENCE)

        return self.runner.run(patiently())

    @property
    def servable(self) -> SpeechToTextServable:
        (found,) = self.loaded._resources.resources
        assert isinstance(found, SpeechToTextServable)
        return found


def counting(
    tmp_path_factory: pytest.TempPathFactory, graph: str, place: HerePlace | None = None
) -> Any:
    directory = make_model(tmp_path_factory.mktemp("counter"), graph)
    settings = GraphSettings(families=FamilySettings(Places(lambda name: place)))
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY, settings))
        yield Counter(runner, loaded)
        runner.run(loaded.close())


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Serve the graph of OpenVINO Model Server."""
    yield from counting(tmp_path_factory, GRAPH)


@pytest.fixture(scope="module")
def with_words(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Serve a graph without a loop, whose model finds words."""
    yield from counting(tmp_path_factory, WITHOUT_LOOPBACK)


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Serve the same graph with a model in a place of its own."""
    yield from counting(tmp_path_factory, GRAPH, HerePlace())


def test_a_place_of_its_own_answers_as_a_process_of_the_server(
    counter: Counter, placed: Counter
) -> None:
    (resource,) = placed.loaded._resources.resources
    assert isinstance(resource, PlacedSpeechToText)
    assert placed.json() == counter.json()
    assert placed.json(response_format="verbose_json") == counter.json(
        response_format="verbose_json"
    )
    assert placed.events()[-1] == counter.events()[-1]
    assert len(placed.events()) > 1
    sound = Sound(np.zeros(32_000, np.float32), 16_000)

    async def text_of(each: Any) -> str:
        transcript: Transcript = await each.recognize(sound).transcript()
        return transcript.text

    assert placed.run(text_of(resource)) == counter.run(text_of(counter.servable))
    refused_fields: list[dict[str, Any]] = [{"content": b"no sound"}, {"language": "xx"}]
    for wrong in refused_fields:
        texts = []
        for each in (counter, placed):
            with pytest.raises(RequestError) as refused:
                each.json(**wrong)
            texts.append((str(refused.value), refused.value.param, refused.value.code))
        assert texts[0] == texts[1]


def test_the_answer_is_openais_with_the_models_text(counter: Counter) -> None:
    usage = {"type": "duration", "seconds": 2.0}
    assert counter.json() == {"text": TEXT, "usage": usage}
    assert counter.json(language="English", temperature="0", response_format="json") == {
        "text": TEXT,
        "usage": usage,
    }
    assert counter.json(uri=TRANSLATIONS)["text"] == TEXT


def test_formats_of_files_give_the_same_text(counter: Counter) -> None:
    for form in ({"format": "FLAC"}, {"format": "MP3"}, {"format": "OGG", "subtype": "OPUS"}):
        assert counter.json(encoded(tone(2.0), **form))["text"] == TEXT


def test_text_and_subtitles_have_no_blanks_around_them(counter: Counter) -> None:
    text = counter.ask(response_format="text")
    assert isinstance(text, HttpAnswer)
    assert text.body.decode() == TEXT.strip() + "\n"
    assert text.media_type == "text/plain"
    srt = counter.ask(response_format="srt").body.decode()
    assert re.fullmatch(rf"1\n00:00:00,000 --> 00:00:0\d,\d\d0\n{TEXT.strip()}\n\n", srt), srt
    vtt = counter.ask(response_format="vtt")
    assert vtt.media_type == "text/vtt"
    assert vtt.body.decode().startswith("WEBVTT\n\n00:00:00.000 --> ")


def test_verbose_json_has_segments_language_and_duration(counter: Counter) -> None:
    answer = counter.json(response_format="verbose_json")
    assert (answer["task"], answer["language"], answer["duration"]) == (
        "transcribe",
        "english",
        2.0,
    )
    (segment,) = answer["segments"]
    assert (segment["id"], segment["start"], segment["text"]) == (0, 0.0, TEXT)
    assert 0.0 < segment["end"] <= 30.0
    assert len(segment["tokens"]) >= 10
    assert "words" not in answer
    translated = counter.json(uri=TRANSLATIONS, response_format="verbose_json")
    assert translated["task"] == "translate"


def test_segments_are_told_in_the_form_of_openvino_model_server(counter: Counter) -> None:
    answer = counter.json(times=["segment"])
    ((segment),) = answer["segments"]
    assert set(segment) == {"text", "start", "end"}
    assert segment["text"] == answer["text"] == TEXT


def test_words_have_times_where_the_node_finds_them(with_words: Counter) -> None:
    answer = with_words.json(times=["word", "segment"])
    assert "".join(each["word"] for each in answer["words"]).split() == TEXT.split()
    starts = [each["start"] for each in answer["words"]]
    assert starts == sorted(starts)
    assert all(each["start"] <= each["end"] for each in answer["words"])
    verbose = with_words.json(times=["word"], response_format="verbose_json")
    assert len(verbose["words"]) == 10
    assert "segments" not in verbose
    plain = with_words.json()
    assert plain["text"] == TEXT


@pytest.mark.parametrize("fixture", ["counter", "with_words"])
def test_a_stream_sends_pieces_and_then_the_whole_text(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    *deltas, done = request.getfixturevalue(fixture).events()
    assert {each["type"] for each in deltas} == {"transcript.text.delta"}
    assert "".join(each["delta"] for each in deltas) == TEXT
    assert done == {"type": "transcript.text.done", "text": TEXT, "logprobs": []}


def test_long_sound_is_heard_in_windows(counter: Counter) -> None:
    content = wav(tone(65.0))
    answer = counter.json(content, response_format="verbose_json")
    assert answer["text"].split().count("ten") >= 2
    assert answer["duration"] == 65.0
    starts = [each["start"] for each in answer["segments"]]
    assert starts == sorted(starts)
    assert starts[-1] >= 29.0
    *deltas, done = counter.events(content)
    assert "".join(each["delta"] for each in deltas) == done["text"] == answer["text"]


def test_a_sound_in_parts_has_the_text_and_times_of_the_whole(
    counter: Counter, with_words: Counter
) -> None:
    # More than a part: the windows are those that openvino-genai takes.
    content = encoded(tone(400.0), format="FLAC")
    answer = counter.json(content, response_format="verbose_json")
    assert answer["text"] == TEXT * 14
    assert [each["start"] for each in answer["segments"]] == [30.0 * each for each in range(14)]
    assert answer["segments"][-1]["end"] == answer["duration"] == 400.0
    assert answer["language"] == counter.json(response_format="verbose_json")["language"]
    one = with_words.json(response_format="verbose_json", times=["word"])["words"]
    words = with_words.json(content, response_format="verbose_json", times=["word"])["words"]
    assert [each["word"] for each in words] == [each["word"] for each in one] * 14
    assert [each["start"] for each in words] == sorted(each["start"] for each in words)
    assert words[-1]["start"] >= 390.0


def test_a_prompt_is_for_the_beginning_of_a_long_sound_alone(counter: Counter) -> None:
    content = encoded(tone(400.0), format="FLAC")
    text = counter.json(content, prompt=" one two")["text"]
    assert text.endswith(TEXT * 13)
    assert len(text) < len(TEXT * 14)
    assert counter.json(content, hotwords=" one")["text"].count("ten") == 14


def test_others_have_their_turn_between_the_windows_of_a_long_sound(counter: Counter) -> None:
    async def scenario() -> None:
        def begun(name: str, seconds: float) -> SpokenText:
            set_current_record(RequestRecord(name, client=ClientIdentity(name)))
            return counter.servable.recognize(Sound(tone(seconds), 16_000))

        hours = [begun("ann", 600.0) for _ in range(2)]
        async for _ in hours[0].pieces():
            break
        for name in ("bob", "eve", "bob"):
            assert (await begun(name, 1.0).transcript()).text == TEXT
        assert not any(each.is_done for each in hours)
        # A short sound of the same client does not wait for its long ones.
        assert (await begun("ann", 1.0).transcript()).text == TEXT
        assert not any(each.is_done for each in hours)
        for each in hours:
            each.cancel()
            with pytest.raises(Cancelled):
                await each.transcript()
        interrupted = begun("ann", 200.0)
        async for _ in interrupted.pieces():
            break
        others = [begun("bob", 1.0) for _ in range(5)]
        assert (await interrupted.transcript()).text == TEXT * 7
        assert {(await each.transcript()).text for each in others} == {TEXT}

    counter.run(scenario())


def test_a_file_that_breaks_in_the_middle_is_refused_when_that_is_read(counter: Counter) -> None:
    content = encoded(tone(400.0), format="FLAC")
    with pytest.raises(RequestError, match="it is broken") as raised:
        counter.json(content[: len(content) // 2])
    assert raised.value.param == "file"
    assert counter.json()["text"] == TEXT


def test_a_client_without_a_sound_may_begin_one_when_another_has_all_the_room(
    counter: Counter,
) -> None:
    async def scenario() -> None:
        def begun(name: str) -> SpokenText:
            set_current_record(RequestRecord(name, client=ClientIdentity(name)))
            return counter.servable.recognize(Sound(tone(1.0), 16_000))

        spoken = []

        async def fill() -> None:
            for _ in range(100):
                spoken.append(begun("ann"))
                await asyncio.sleep(0)

        with pytest.raises(RequestError, match="too many sounds wait"):
            await fill()
        assert (await begun("bob").transcript()).text == TEXT
        for each in spoken:
            each.cancel()
        for each in spoken:
            with contextlib.suppress(Cancelled):
                await each.transcript()

    counter.run(scenario())


def test_a_sound_that_is_too_short_for_the_model_has_no_text(counter: Counter) -> None:
    for count in (0, 1, 200):
        assert counter.json(wav(tone(1.0)[:count]))["text"] == ""
    assert counter.json(wav(tone(1.0)[:201]))["text"] == TEXT
    (done,) = counter.events(wav(tone(1.0)[:100]))
    assert done["text"] == ""


def test_a_prompt_reaches_the_model(counter: Counter) -> None:
    # Each token before the answer moves it on by one number.
    text = counter.json(prompt=" one two")["text"]
    assert text != TEXT
    assert TEXT.endswith(text)
    assert counter.json(hotwords=" one")["text"] != TEXT
    assert counter.json(keywords=["one"])["text"] != TEXT
    long = counter.json(prompt="one two " * 500)
    assert TEXT.endswith(long["text"])


@pytest.mark.parametrize(
    "language", ["en", "EN", "english", "German", "en-US", "en_GB", "<|fr|>", "ja", ""]
)
def test_languages_are_taken_by_code_and_name(counter: Counter, language: str) -> None:
    assert counter.json(language=language)["text"] == TEXT


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"language": "klingon"}, "language", "Invalid language code. The model's are de, en"),
        ({"language": "sv"}, "language", "Invalid language code."),
        ({"language": "x" * 100}, "language", "100 characters"),
        ({"temperature": "warm"}, "temperature", "Invalid temperature type."),
        ({"temperature": "3"}, "temperature", "above the maximum 2"),
        ({"temperature": "-1"}, "temperature", "below the minimum 0"),
        ({"times": ["word", "letter"]}, "timestamp_granularities",
         'Invalid timestamp_granularities type. Allowed types: "segment", "word"'),
        ({"times": ["word"]}, "timestamp_granularities",
         "Word timestamps not supported for this model"),
        ({"response_format": "diarized_json"}, "response_format", '"verbose_json"'),
        ({"response_format": "srt", "stream": "true"}, "response_format", "events, not srt"),
        ({"stream": "maybe"}, "stream", "true or false"),
        ({"include": ["logprobs"]}, "include", "no log-probabilities"),
        ({"known_speaker_names": ["a"]}, "known_speaker_names", "speakers"),
        ({"prompt": "a" * 10_000}, "prompt", "10000 characters"),
        ({"langage": "en"}, "langage", "language"),
        ({"language": ["en", "de"]}, "language", "expected one value, got 2"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_with_its_name(
    counter: Counter, fields: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(RequestError) as raised:
        counter.ask(**fields)
    assert raised.value.param == param
    assert words in str(raised.value)
    assert counter.json()["text"] == TEXT


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "File parsing fails"),
        (b"", "File parsing fails"),
        (b"not a sound", "Received input file is not valid wav nor mp3 audio file"),
        (SPEECH[:30], "Received input file is not valid wav nor mp3 audio file"),
        (encoded(np.full(1000, np.nan, np.float32), format="WAV", subtype="FLOAT"), "NaN"),
    ],
)
def test_a_wrong_file_is_refused(counter: Counter, content: bytes | None, words: str) -> None:
    with pytest.raises(RequestError, match=words) as raised:
        counter.ask(content)
    assert raised.value.param == "file"
    assert raised.value.code is Code.INVALID_ARGUMENT
    assert counter.json()["text"] == TEXT


def test_other_requests_are_refused(counter: Counter) -> None:
    with pytest.raises(RequestError, match="streaming is not supported for translations"):
        counter.ask(uri=TRANSLATIONS, stream="true")
    with pytest.raises(RequestError, match="Unsupported URI: /v3/chat/completions") as raised:
        counter.ask(uri="/v3/chat/completions")
    assert raised.value.code is Code.NOT_FOUND
    request = HttpPayload("/v3/audio/transcriptions", {}, b"{}", {"model": "counter"})
    with pytest.raises(RequestError, match="Failed to parse multipart data"):
        counter.run(answers(counter.loaded, request))


def test_a_model_of_english_only_drops_the_language_and_does_not_translate(tmp_path: Path) -> None:
    model = make_model(tmp_path)
    file = model / "generation_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    del settings["lang_to_id"], settings["task_to_id"], settings["task"]
    settings["is_multilingual"] = False
    file.write_text(json.dumps(settings), encoding="utf-8")

    async def scenario() -> None:
        loaded = await load_graph(find_graph(model), REGISTRY)
        try:
            (packet,) = await answers(loaded, payload(SPEECH, language="en"))
            # Its prompt is two tokens shorter.
            assert json.loads(packet)["text"] in TEXT
            for fields, param in (({"language": "de"}, "language"), ({}, "model")):
                uri = TRANSLATIONS if param == "model" else "/v3/audio/transcriptions"
                with pytest.raises(RequestError, match="English only") as raised:
                    await answers(loaded, payload(SPEECH, uri, **fields))
                assert raised.value.param == param
        finally:
            await loaded.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_is_restarted(counter: Counter) -> None:
    (pid,) = counter.servable.pids
    os.kill(pid, signal.SIGKILL)
    assert counter.json()["text"] == TEXT
    assert counter.servable.pids != [pid]


def test_sounds_in_graphs_are_recognized_at_any_rate(counter: Counter) -> None:
    recognizer = counter.servable
    assert isinstance(recognizer, SpeechRecognizer)

    async def scenario() -> None:
        spoken = recognizer.recognize(Sound(tone(1.0, 24_000), 24_000))
        pieces = [piece async for piece in spoken.pieces()]
        transcript = await spoken.transcript()
        assert "".join(pieces) == transcript.text == TEXT
        assert (transcript.language, transcript.seconds) == ("en", 1.0)
        with pytest.raises(RequestError, match="Invalid language code"):
            recognizer.recognize(Sound(tone(1.0), 16_000), SpeechSettings(language="xx"))
        with pytest.raises(RequestError, match="samples per second"):
            recognizer.recognize(Sound(tone(1.0), 10))

    counter.run(scenario())


def test_many_at_once_are_answered_one_after_the_other(counter: Counter) -> None:
    async def scenario() -> None:
        sound = Sound(tone(1.0), 16_000)
        spoken = [counter.servable.recognize(sound) for _ in range(8)]
        texts = await asyncio.gather(*(each.transcript() for each in spoken))
        assert {each.text for each in texts} == {TEXT}

    counter.run(scenario())


def test_a_queue_that_is_full_asks_to_come_back(counter: Counter) -> None:
    async def scenario() -> None:
        sound = Sound(tone(1.0), 16_000)
        spoken: list[SpokenText] = []

        async def fill() -> None:
            for _ in range(100):
                spoken.append(counter.servable.recognize(sound))
                await asyncio.sleep(0)

        with pytest.raises(RequestError, match="too many sounds wait") as raised:
            await fill()
        assert raised.value.code is Code.UNAVAILABLE
        assert raised.value.retry_after is not None
        assert raised.value.retry_after >= 1
        for each in spoken:
            each.cancel()
        for each in spoken:
            with pytest.raises(Cancelled):
                await each.transcript()
        assert (await counter.servable.recognize(sound).transcript()).text == TEXT

    counter.run(scenario())


def test_a_cancelled_sound_stops_at_its_next_token(counter: Counter) -> None:
    async def scenario() -> None:
        spoken = counter.servable.recognize(Sound(tone(120.0), 16_000))
        async for _ in spoken.pieces():
            break
        spoken.cancel()
        with pytest.raises(Cancelled):
            await spoken.transcript()
        short = counter.servable.recognize(Sound(tone(1.0), 16_000))
        assert (await short.transcript()).text == TEXT

    counter.run(scenario())


def test_two_pipelines_are_two_processes(tmp_path: Path) -> None:
    model = make_model(tmp_path, GRAPH.replace('"NUM_STREAMS":"1"', '"NUM_STREAMS":"2"'))

    async def scenario() -> None:
        loaded = await load_graph(find_graph(model), REGISTRY)
        try:
            (servable,) = loaded._resources.resources
            assert isinstance(servable, SpeechToTextServable)
            assert len(set(servable.pids)) == 2
            packets = await asyncio.gather(*(answers(loaded, payload(SPEECH)) for _ in range(4)))
            assert {json.loads(packet)["text"] for (packet,) in packets} == {TEXT}
        finally:
            await loaded.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('models_path: "./"', 'models_path: "nowhere"', '"nowhere" is not a directory'),
        ('target_device: "CPU"', 'target_device: "TPU"', '"TPU" is not a device'),
        ("""'{"NUM_STREAMS":"1"}'""", "'[1]'", "must be a JSON object"),
        ('"NUM_STREAMS":"1"', '"NUM_STREAMS":"0"', "1 to 64 or AUTO"),
        ('"NUM_STREAMS":"1"', '"NO_SUCH_OPTION":"1"', "cannot be loaded"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    make_model(tmp_path, GRAPH.replace(old, new))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: (model / "openvino_encoder_model.xml").unlink(), "has no openvino_encoder"),
        (lambda model: (model / "openvino_tokenizer.xml").unlink(), "has no openvino_tokenizer"),
        (lambda model: (model / "generation_config.json").write_text("{"), "cannot be read"),
        (lambda model: (model / "openvino_decoder_model.xml").write_text("<"), "cannot be loaded"),
    ],
)
def test_a_broken_model_is_refused_with_the_file_at_fault(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    change(make_model(tmp_path))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))
