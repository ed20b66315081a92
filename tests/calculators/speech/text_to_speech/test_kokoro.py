"""Kokoro's form of models: voices are needed, speed is the model's, languages are checked.

English words come from dictionaries beside the model; other languages need espeak-ng.
"""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import REGISTRY, RunError
from servers.config import find_graph
from servers.serving.loaded_graph import load_graph
from tests.calculators.speech.text_to_speech.kokoro_model import (
    RATE,
    SAMPLES_OF_PHONEME,
    VOICE_SIZE,
    make_kokoro,
)
from tests.calculators.speech.text_to_speech.tone_model import graph, make_voice
from tests.servers.cli.process import graphrt
from tests.support.patience import PATIENCE

LOUD = 0.5


class Kokoro:
    """A served model."""

    def __init__(self, runner: asyncio.Runner, loaded: Any) -> None:
        self._runner = runner
        self._loaded = loaded

    def speak(self, **body: Any) -> Any:
        """Return the samples of an answer."""

        async def answer() -> list[Any]:
            packets: list[Any] = []
            payload = HttpPayload("/v3/audio/speech", {}, b"", {"model": "kokoro", **body})
            await asyncio.wait_for(self._loaded.answer(payload, packets.append), PATIENCE)
            return packets

        try:
            (packet,) = self._runner.run(answer())
        except RunError as error:
            raise error.errors[0].__cause__ or error from None
        assert isinstance(packet, HttpAnswer)
        samples, rate = soundfile.read(io.BytesIO(packet.body))
        assert rate == RATE
        return samples


@pytest.fixture(scope="module")
def kokoro(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kokoro]:
    directory = make_kokoro(tmp_path_factory.mktemp("kokoro"), graph())
    make_voice(directory / "voices" / "ana.bin", LOUD, VOICE_SIZE)
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY))
        yield Kokoro(runner, loaded)
        runner.run(loaded.close())


def test_a_voice_speaks_at_the_models_own_speed(kokoro: Kokoro) -> None:
    made = kokoro.speak(input="Hello world.", voice="ana")
    # Eleven phonemes with stress, a blank, a full stop, and the marks of both ends.
    assert len(made) == 15 * SAMPLES_OF_PHONEME
    assert np.abs(made).max() == pytest.approx(LOUD, abs=0.01)
    fast = kokoro.speak(input="Hello world.", voice="ana", language="EN-GB", speed=2)
    assert len(fast) == pytest.approx(len(made) / 2, abs=2)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "voice", "this model needs a voice: name one of ana"),
        ({"voice": "default"}, "voice", "'default' not found in available voices"),
        ({"voice": "ana", "language": "xx"}, "language", "languages are en-us, en-gb, es"),
    ],
)
def test_wrong_requests_are_refused(
    kokoro: Kokoro, body: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        kokoro.speak(input="Hello.", **body)
    assert caught.value.param == param
    assert len(kokoro.speak(input="Hello.", voice="ana"))


@pytest.mark.parametrize("has_dictionaries", [True, False])
def test_missing_dictionaries_are_told_when_the_graph_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_dictionaries: bool
) -> None:
    monkeypatch.delenv("MISAKI_DATA_DIR", raising=False)
    directory = make_kokoro(tmp_path, graph())
    if not has_dictionaries:
        shutil.rmtree(directory / "data")
    done = graphrt("validate", "graph.pbtxt", cwd=directory)
    assert done.returncode == 0
    assert ("data has no us_gold.json" in done.stdout + done.stderr) is not has_dictionaries
