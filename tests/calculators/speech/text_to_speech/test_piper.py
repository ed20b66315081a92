"""Voices of Piper: one made by hand, whose phonemes are letters, in its real process."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks import task_of_model
from calculators.speech.text_to_speech.piper import Espeak
from graph_runtime import REGISTRY, ResourceError, RunError
from servers.config import find_graph
from servers.serving.loaded_graph import load_graph
from tests.calculators.speech.text_to_speech.piper_voice import (
    RATE,
    SPEAKERS,
    expected,
    make_voice,
)
from tests.calculators.speech.text_to_speech.tone_model import graph
from tests.support.patience import PATIENCE

TEXT = "Good day, friend."


class Voice:
    """A served voice."""

    def __init__(self, runner: asyncio.Runner, loaded: Any) -> None:
        self._runner = runner
        self._loaded = loaded

    def packet(self, uri: str = "/v3/audio/speech", **body: Any) -> Any:
        """Return the only packet of an answer; raise the calculator's own error."""

        async def answer() -> list[Any]:
            packets: list[Any] = []
            payload = HttpPayload(uri, {}, b"", {"model": "voice", **body})
            await asyncio.wait_for(self._loaded.answer(payload, packets.append), PATIENCE)
            return packets

        try:
            (packet,) = self._runner.run(answer())
        except RunError as error:
            raise error.errors[0].__cause__ or error from None
        return packet

    def speak(self, **body: Any) -> Any:
        """Return the samples of an answer."""
        packet = self.packet(**body)
        assert isinstance(packet, HttpAnswer)
        samples, rate = soundfile.read(io.BytesIO(packet.body), dtype="float32")
        assert rate == RATE
        return samples


def served(directory: Path) -> Iterator[Voice]:
    (directory / "graph.pbtxt").write_text(graph(), encoding="utf-8")
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY))
        yield Voice(runner, loaded)
        runner.run(loaded.close())


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Voice]:
    yield from served(make_voice(tmp_path_factory.mktemp("voice")))


@pytest.fixture(scope="module")
def choir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Voice]:
    yield from served(make_voice(tmp_path_factory.mktemp("choir"), speakers=True))


def test_a_voice_speaks_and_needs_no_name(voice: Voice) -> None:
    np.testing.assert_allclose(voice.speak(input=TEXT), expected(TEXT), atol=1e-6)
    np.testing.assert_allclose(voice.speak(input=TEXT, voice="default"), expected(TEXT), atol=1e-6)
    assert json.loads(voice.packet("/v3/audio/voices"))["voices"] == [
        {"id": "default", "name": "default"}
    ]


def test_the_voice_itself_speaks_faster(voice: Voice) -> None:
    fast = voice.speak(input=TEXT, speed=2)
    np.testing.assert_allclose(fast, expected(TEXT, speed=2), atol=1e-6)


def test_a_voice_of_several_speakers_names_them(choir: Voice) -> None:
    ben = choir.speak(input=TEXT, voice="ben")
    np.testing.assert_allclose(ben, expected(TEXT, SPEAKERS["ben"]), atol=1e-5)
    np.testing.assert_allclose(choir.speak(input=TEXT), expected(TEXT), atol=1e-6)
    with pytest.raises(RequestError, match="'carl' not found"):
        choir.speak(input=TEXT, voice="carl")
    names = [each["id"] for each in json.loads(choir.packet("/v3/audio/voices"))["voices"]]
    assert names == ["default", "ana", "ben"]


def test_letters_that_a_voice_does_not_know_are_left_out(voice: Voice) -> None:
    np.testing.assert_allclose(voice.speak(input="día 7 a"), expected("dia  a"), atol=1e-6)
    assert len(voice.speak(input="愛")) == 0


def test_a_directory_with_a_voice_is_recognized(tmp_path: Path) -> None:
    task = task_of_model(make_voice(tmp_path))
    assert task is not None
    assert task.name == "text2speech"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"phoneme_type": "pinyin"}, 'phoneme_type "pinyin" is not known'),
        ({"phoneme_id_map": {"a": [1]}}, "it has no 'phoneme_id_map"),
        ({"audio": {}}, "it has no 'sample_rate'"),
        ({"audio": None}, "another type than Piper's"),
    ],
)
def test_settings_that_are_not_pipers_fail_the_load(
    tmp_path: Path, settings: dict[str, Any], text: str
) -> None:
    directory = make_voice(tmp_path, **settings)
    (directory / "graph.pbtxt").write_text(graph(), encoding="utf-8")
    with pytest.raises(ResourceError, match=r"en_test\.onnx\.json") as caught:
        asyncio.run(load_graph(find_graph(directory), REGISTRY))
    assert text in str(caught.value)


def test_voices_of_the_node_are_refused_with_piper(tmp_path: Path) -> None:
    text = graph('voices { name: "alloy" path: "alloy.bin" }')
    (make_voice(tmp_path) / "graph.pbtxt").write_text(text, encoding="utf-8")
    with pytest.raises(ResourceError, match="speakers that its own file names"):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


class TestClauses:
    """`Espeak.phonemes` with a double of the library that reads as the real one (1.52) does."""

    @pytest.mark.parametrize(
        ("read", "phonemes"),
        [
            # Each piece ends with a letter of the next one.
            ([("Hi, y", "haI"), ("ou? O", "ju:"), ("k.", "oUkeI")], "haI, ju:? oUkeI."),
            ([("Dr. S", "dakta"), ("mith!", "smIT")], "dakta smIT!"),
            ([("No mark", "noU mark")], "noU mark."),
            ([("...", "")], ""),
            ([('Say "yes."', "seI jEs")], "seI jEs."),
        ],
    )
    def test_marks_stay_with_their_clauses(
        self, read: list[tuple[str, str]], phonemes: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        espeak = Espeak.__new__(Espeak)
        monkeypatch.setattr(espeak, "_clauses", lambda text: iter(read))
        begins = "".join(text for text, _ in read)
        assert espeak.phonemes(begins) == phonemes
