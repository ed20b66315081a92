"""The models of `graphrt pull speech`: the voice speaks, Whisper writes down what it said."""

from __future__ import annotations

import json
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.speech_to_text import SENTENCES, ask, word_errors, words_of
from calculators.kit.graph_directory import pulled_directory
from tests.documents.snippets import run_python
from tests.examples.voice_graph import CONVERSATION
from tests.process.server_process import ServerProcess
from tests.support.markdown import block

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


@pytest.fixture(scope="module")
def conversation(child_program: None, speaker: ServerProcess) -> Iterator[ServerProcess]:
    # The models are where tests find none: see their configuration.
    words = ("--model_name", "voice_conversation", "--model_path", CONVERSATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(STORE.parent))
        with ServerProcess(*words) as server:
            yield server


def test_a_spoken_question_gets_a_spoken_answer(
    speaker: ServerProcess, listener: ServerProcess, conversation: ServerProcess, tmp_path: Path
) -> None:
    pytest.importorskip("openai", reason="the extra clients is not installed")
    question = "Hello, what is a graph?"
    body = {"model": "speaker", "input": question, "response_format": "pcm"}
    spoken = speaker.client.ask("POST", "/v3/audio/speech", body).body
    with wave.open(str(tmp_path / "question.wav"), "wb") as file:
        file.setparams((1, 2, 24000, 0, "NONE", ""))
        file.writeframes(bytes(24000) + spoken + bytes(48000))
    program = block("examples/graphs/voice_conversation/README.md", "python", "realtime.connect")
    program = program.replace("127.0.0.1:8000", f"127.0.0.1:{conversation.port}")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    you, answer = run_python("program.py", tmp_path).splitlines()
    assert words_of(you.removeprefix("You: ")) == words_of(question)
    text = answer.removeprefix("Answer: ")
    wav = (tmp_path / "answer.wav").read_bytes()
    heard = json.loads(ask(f"127.0.0.1:{listener.port}", "listener", wav))["text"]
    errors, count = word_errors(text, heard)
    # The answer has words of this project, which a small model spells in its own way.
    assert errors / count < 0.4, (text, heard)


def test_what_the_voice_says_is_understood(speaker: ServerProcess, listener: ServerProcess) -> None:
    wrong = said = 0
    for sentence in SENTENCES:
        body = {"model": "speaker", "input": sentence, "response_format": "wav"}
        wav = speaker.client.ask("POST", "/v3/audio/speech", body).body
        heard = json.loads(ask(f"127.0.0.1:{listener.port}", "listener", wav))["text"]
        errors, count = word_errors(sentence, heard)
        wrong, said = wrong + errors, said + count
    assert wrong / said < MOST_WRONG
