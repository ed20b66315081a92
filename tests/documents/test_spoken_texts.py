"""calculators/speech/text_to_speech/README.md: its commands and its program, on a real server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import soundfile

from tests.calculators.speech.text_to_speech.tone_model import make_model, seconds
from tests.documents.snippets import ADDRESS, asked, run_python, served
from tests.support.markdown import block, commands

PAGE = "calculators/speech/text_to_speech/README.md"
SENTENCES = ("Good morning.", "How are you?")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_speak_and_list_the_voices(tmp_path: Path) -> None:
    make_model(tmp_path / "speaker")
    serve, speak, voices = commands(PAGE, "graphrt serve")
    with served(serve, tmp_path) as server:
        assert asked(speak, server, tmp_path) == ""
        listed = json.loads(asked(voices, server, tmp_path))
    assert listed["voices"] == [{"id": "default", "name": "default"}]
    made = soundfile.info(tmp_path / "morning.mp3")
    assert made.duration == pytest.approx(seconds(*SENTENCES), abs=0.3)


def test_the_program_streams_samples(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="needs the extra clients")
    make_model(tmp_path / "speaker")
    program = block(PAGE, "python", "with_streaming_response")
    with served(commands(PAGE, "graphrt serve")[0], tmp_path) as server:
        here = program.replace(ADDRESS, f"http://127.0.0.1:{server.port}")
        (tmp_path / "speak.py").write_text(here, encoding="utf-8")
        output = run_python("speak.py", tmp_path)
    sizes = [int(line.split()[0]) for line in output.splitlines()]
    assert sum(sizes) / 2 / 24000 == pytest.approx(seconds(*SENTENCES), abs=0.01)
