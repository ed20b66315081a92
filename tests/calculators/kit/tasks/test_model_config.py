"""The task of a model's directory, by config.json, modules.json and its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.tasks import task_of_source

POOLED = [{"type": "sentence_transformers.models.Transformer"}, {"type": "x.models.Pooling"}]
SCORED = [{"type": "sentence_transformers.cross_encoder.LogitScore"}]


def directory(
    folder: Path, name: str, config: dict[str, Any], modules: list[dict[str, str]] | None
) -> Path:
    """Make a directory that looks like safetensors of a hub."""
    made = folder / "org" / name
    made.mkdir(parents=True)
    (made / "config.json").write_text(json.dumps(config))
    (made / "model.safetensors").touch()
    if modules is not None:
        (made / "modules.json").write_text(json.dumps(modules))
    return made


@pytest.mark.parametrize(
    ("name", "architecture", "modules", "task"),
    [
        ("Qwen3-4B", "Qwen3ForCausalLM", None, "text_generation"),
        ("Qwen3-Reranker-0.6B-seq", "Qwen3ForCausalLM", SCORED, "rerank"),
        ("scores", "Qwen3ForCausalLM", SCORED, "rerank"),
        ("Qwen3-Reranker-0.6B", "Qwen3ForCausalLM", None, "rerank"),
        ("Qwen3-Embedding-0.6B", "Qwen3ForCausalLM", None, "embeddings"),
        ("Qwen3-Reranker-0.6B", "Qwen3ForCausalLM", POOLED, "embeddings"),
        ("Llama-embedded", "LlamaForCausalLM", None, "text_generation"),
        ("pairs", "BertForSequenceClassification", [{"type": "a.CrossEncoder"}], "rerank"),
        ("bge", "BertModel", None, "embeddings"),
        ("any", "XModel", POOLED, "embeddings"),
        ("asr", "Qwen3ASRForConditionalGeneration", None, "speech2text"),
        ("whisper", "WhisperForConditionalGeneration", None, "speech2text"),
        ("seamless", "SeamlessM4Tv2Model", None, "speech2text"),
        ("parler", "ParlerTTSForConditionalGeneration", None, "text2speech"),
        ("speecht5", "SpeechT5ForTextToSpeech", None, "text2speech"),
        ("clip", "CLIPTextModel", None, None),
    ],
)
def test_the_task_of_a_directory(
    tmp_path: Path,
    name: str,
    architecture: str,
    modules: list[dict[str, str]] | None,
    task: str | None,
) -> None:
    config = {"architectures": [architecture]}
    if architecture == "BertForSequenceClassification":
        config["id2label"] = {"0": "LABEL_0"}  # type: ignore[assignment]
    found = task_of_source(directory(tmp_path, name, config, modules))
    assert (None if found is None else found.name) == task


def test_a_config_without_classes_is_of_kokoro_if_it_is_about_sound(tmp_path: Path) -> None:
    config = {"architectures": None, "n_mels": 80}
    found = task_of_source(directory(tmp_path, "kokoro", config, None))
    assert found is not None
    assert found.name == "text2speech"
    assert task_of_source(directory(tmp_path, "other", {"architectures": None}, None)) is None
