"""The models of `graphrt pull speech`: the voice speaks, Whisper writes down what it said."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bench.speech_to_text import SENTENCES, ask, word_errors
from calculators.kit.graph_directory import pulled_directory
from tests.process.server_process import ServerProcess

#: As tests' configuration links it.
STORE = pulled_directory() / "pulled" / "speech"
#: Part of the words that may be wrong, names and numbers in other writings among them.
MOST_WRONG = 0.08


def served(name: str) -> Iterator[ServerProcess]:
    if not (STORE / name).is_dir():
        pytest.skip("the models of speech are not here: `graphrt pull speech` makes them")
    with ServerProcess(STORE / name, "--model_name", name) as server:
        yield server


@pytest.fixture(scope="module")
def speaker(child_program: None) -> Iterator[ServerProcess]:
    yield from served("speaker")


@pytest.fixture(scope="module")
def listener(child_program: None) -> Iterator[ServerProcess]:
    yield from served("listener")


def test_what_the_voice_says_is_understood(speaker: ServerProcess, listener: ServerProcess) -> None:
    wrong = said = 0
    for sentence in SENTENCES:
        body = {"model": "speaker", "input": sentence, "response_format": "wav"}
        wav = speaker.client.ask("POST", "/v3/audio/speech", body).body
        heard = json.loads(ask(f"127.0.0.1:{listener.port}", "listener", wav))["text"]
        errors, count = word_errors(sentence, heard)
        wrong, said = wrong + errors, said + count
    assert wrong / said < MOST_WRONG
