"""Programs of the pages about realtime sessions, on real servers."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from calculators.speech.speech_to_text.realtime.audio_format import PCM_RATE
from calculators.speech.text_to_speech.sentences import split_sentences
from tests.calculators.speech.speech_to_text.counter import TEXT
from tests.calculators.speech.speech_to_text.realtime.sounds import silence, speech
from tests.calculators.speech.text_to_speech.tone_model import seconds
from tests.documents.snippets import run_python, served
from tests.examples.voice_graph import CONVERSATION, HEARD, put_graph
from tests.support.markdown import block, commands

PAGE = "calculators/speech/speech_to_text/realtime/README.md"


def test_the_program_prints_the_text(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="the extra clients is not installed")
    pytest.importorskip("websockets", reason="the extra clients is not installed")
    with wave.open(str(tmp_path / "speech.wav"), "wb") as file:
        file.setparams((1, 2, PCM_RATE, 0, "NONE", ""))
        file.writeframes(np.concatenate((silence(0.5), speech(2.4), silence(1))).tobytes())
    (command,) = commands(PAGE, "graphrt serve examples")
    with served(command) as server:
        program = block(PAGE, "python", "realtime.connect")
        program = program.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        assert run_python("program.py", tmp_path) == TEXT.strip()


def test_the_program_of_the_conversation_hears_an_answer(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="the extra clients is not installed")
    pytest.importorskip("websockets", reason="the extra clients is not installed")
    page = "examples/graphs/voice_conversation/README.md"
    folder = put_graph(tmp_path, CONVERSATION)
    with wave.open(str(tmp_path / "question.wav"), "wb") as file:
        file.setparams((1, 2, PCM_RATE, 0, "NONE", ""))
        file.writeframes(np.concatenate((silence(0.5), speech(2.4), silence(1))).tobytes())
    with served(f"graphrt serve {folder}") as server:
        program = block(page, "python", "realtime.connect")
        program = program.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        heard, answer = run_python("program.py", tmp_path).splitlines()
    assert heard == f"You: {HEARD}"
    text = answer.removeprefix("Answer: ")
    with wave.open(str(tmp_path / "answer.wav")) as file:
        spoken = file.getnframes() / file.getframerate()
    assert spoken == pytest.approx(seconds(*split_sentences(text)), abs=0.05)
