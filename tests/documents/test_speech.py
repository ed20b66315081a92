"""calculators/speech/speech_to_text/README.md: its commands and its program, on a real server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calculators.speech.audio.sounds import tone, wav
from tests.calculators.speech.speech_to_text.counter import TEXT
from tests.documents.snippets import ADDRESS, asked, run_python, served
from tests.servers.cli.serving import Serving
from tests.support.markdown import block, commands

PAGE = "calculators/speech/speech_to_text/README.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    (command,) = commands(PAGE, "graphrt serve examples")
    with served(command) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "speech.wav").write_bytes(wav(tone(2.0)))
    return tmp_path


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_command_is_answered(server: Serving, folder: Path) -> None:
    (command,) = commands(PAGE, "curl -s")
    shown = block(PAGE, "console", "curl -s").split("\n", 1)[1]
    assert asked(command, server, folder).strip() == shown.strip()


def test_the_program_prints_the_text(server: Serving, folder: Path) -> None:
    pytest.importorskip("openai", reason="the extra clients is not installed")
    program = block(PAGE, "python", "transcriptions.create")
    program = program.replace(ADDRESS, f"http://127.0.0.1:{server.port}")
    (folder / "program.py").write_text(program, encoding="utf-8")
    assert run_python("program.py", folder) == TEXT
