"""Load errors of a model: they name the file and the reason, and nothing else."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.child_process.lean_openvino import load_failure
from calculators.kit.child_process.supervisor import LoadError
from calculators.llm.engine.engine import ProcessEngine
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.engine.stateful_pipeline import StatefulVisionModel
from calculators.llm.prompt.client import PromptProcess
from tests.calculators.llm.demo_model import DEMO, copy_of_demo, rewrite
from tests.support.apart import Apart
from tests.support.conditions import soon

BROKEN: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "weights cut off": ("openvino_model.bin", lambda content: content[:100_000]),
    "no weights": ("openvino_model.bin", lambda content: b""),
    "xml cut off": ("openvino_model.xml", lambda content: content[:5000]),
    "xml that is text": ("openvino_model.xml", lambda content: b"Hello, I am a model.\n"),
    "xml with other tags": (
        "openvino_model.xml",
        lambda content: content.replace(b"<layers>", b"<lairs>"),
    ),
    "tokenizer that is text": ("openvino_tokenizer.xml", lambda content: b"hello"),
    "tokenizer cut off": ("openvino_tokenizer.bin", lambda content: content[:1000]),
    "detokenizer cut off": ("openvino_detokenizer.xml", lambda content: content[:1000]),
}


def is_clean(text: str, folder: Path) -> bool:
    """Return True if the text has no paths of this machine and none of the library's source."""
    internals = (str(folder), str(Path.home()), "site-packages", ".cpp", ".hpp", "Check '", "0x")
    return bool(text) and "\n" not in text and not any(word in text for word in internals)


def _language_model(folder: str) -> Any:
    """Load a model as the engine process does."""
    import openvino_genai as genai

    return genai.ContinuousBatchingPipeline(folder, genai.SchedulerConfig(), "CPU", {})


@pytest.mark.parametrize("how", BROKEN)
def test_the_broken_file_is_named(how: str, tmp_path: Path, in_process_engine: None) -> None:
    file, change = BROKEN[how]
    folder = copy_of_demo(tmp_path / "model")
    rewrite(folder / file, change)
    with pytest.raises(RuntimeError) as caught:
        Apart(_language_model, str(folder))
    reason = load_failure(str(folder), caught.value)
    assert file in reason
    assert is_clean(reason, folder)


@pytest.mark.parametrize("part", ["language", "vision_embeddings"])
def test_the_broken_file_of_a_model_that_sees_images_is_named(
    part: str, tmp_path: Path, in_process_engine: None
) -> None:
    folder = shutil.copytree(DEMO.parent / "shapes_vlm", tmp_path / "model")
    rewrite(folder / f"openvino_{part}_model.bin", lambda content: content[:1000])
    settings = EngineSettings(model_path=str(folder), pipeline_type="VLM", device="CPU")
    with pytest.raises(RuntimeError) as caught:
        Apart(StatefulVisionModel, settings)
    reason = load_failure(str(folder), caught.value)
    assert f"openvino_{part}_model.bin" in reason
    assert is_clean(reason, folder)


def test_a_reason_without_a_file_is_kept(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")
    assert load_failure(str(folder), RuntimeError("no room")) == "no room"
    assert load_failure(str(tmp_path / "nowhere"), RuntimeError("no room")) == "no room"


def start_engine(folder: Path, **settings: object) -> str:
    """Return the text of the error."""
    engine = ProcessEngine(
        EngineSettings(model_path=str(folder), **{"device": "CPU", **settings}),  # type: ignore[arg-type]
        name="demo",
    )
    with pytest.raises(LoadError) as caught:
        asyncio.run(soon(engine.start()))
    assert engine.pid is None
    return str(caught.value)


def test_the_engine_process_reports_it(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")
    rewrite(folder / "openvino_model.bin", lambda content: content[:100_000])
    reason = start_engine(folder)
    assert "openvino_model.bin" in reason
    assert is_clean(reason, folder)


def test_the_prompt_process_reports_it(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")
    rewrite(folder / "openvino_tokenizer.bin", lambda content: content[:1000])
    prompts = PromptProcess(str(folder), name="demo")
    with pytest.raises(LoadError) as caught:
        asyncio.run(soon(prompts.start()))
    assert "openvino_tokenizer.bin" in str(caught.value)
    assert is_clean(str(caught.value), folder)


def test_a_property_that_the_device_does_not_know_is_named(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")
    reason = start_engine(folder, plugin_config={"NO_SUCH_PROPERTY": "YES"})
    assert "NO_SUCH_PROPERTY" in reason
    assert is_clean(reason, folder)


def test_a_missing_device_is_named(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model")
    reason = start_engine(folder, device="TOASTER")
    assert "TOASTER" in reason
    assert is_clean(reason, folder)
