"""`examples/graphs/voice_assistant` with a listener that counts and a speaker of tones."""

from __future__ import annotations

import ast
import io
import shutil
from pathlib import Path
from typing import Final

import numpy as np
import soundfile

from tests.calculators.speech.text_to_speech.tone_model import make_model
from tests.support.checkout import ROOT

EXAMPLE: Final = ROOT / "examples" / "graphs" / "voice_assistant"
CONVERSATION: Final = EXAMPLE.with_name("voice_conversation")
MODELS: Final = ROOT / "examples" / "models"
#: The text that the listener gives of every recording.
HEARD: Final = "one two three four five six seven eight nine ten"


def recording() -> bytes:
    """Return a WAV file of a second."""
    tone = 0.3 * np.sin(np.arange(16000) / 16000 * 2 * np.pi * 300)
    file = io.BytesIO()
    soundfile.write(file, tone, 16000, format="WAV")
    return file.getvalue()


def system_message() -> str:
    """Return the system message of the example."""
    source = ast.parse((EXAMPLE / "assistant.py").read_text(encoding="utf-8"))
    (value,) = [
        each.value
        for each in source.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "MANNER"
    ]
    text: str = ast.literal_eval(value)
    return text


def put_graph(folder: Path, example: Path = EXAMPLE) -> Path:
    """Copy the example to a folder, with its models; return the copy."""
    copy = folder / example.name
    shutil.copytree(example, copy, ignore=shutil.ignore_patterns("__pycache__"))
    graph = (copy / "graph.pbtxt").read_text(encoding="utf-8")
    graph = graph.replace("../../models/demo", str(MODELS / "demo"))
    (copy / "graph.pbtxt").write_text(graph, encoding="utf-8")
    (copy / "speech").mkdir()
    (copy / "speech" / "listener").symlink_to(MODELS / "counter")
    make_model(copy / "speech" / "speaker")
    return copy
