"""The task that the files of a model show, in OpenVINO's form and as safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calculators.tasks import installed_tasks

CAUSAL = {"architectures": ["Qwen3ForCausalLM"]}
VISION = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {}}
ENCODER = {"architectures": ["BertModel"]}
WHISPER = {"architectures": ["WhisperForConditionalGeneration"]}


def directory(place: Path, config: object, *names: str) -> Path:
    (place / "config.json").write_text(config if type(config) is str else json.dumps(config))
    for name in names:
        (place / name).touch()
    return place


def tasks(path: Path) -> tuple[str | None, str | None]:
    """The names of the tasks that recognize a directory as a model, and as one to export."""
    as_it_is = [task.name for task in installed_tasks() if task.recognizes(path)]
    to_export = [task.name for task in installed_tasks() if task.recognizes_source(path)]
    assert len(as_it_is) <= 1
    assert len(to_export) <= 1
    return next(iter(as_it_is), None), next(iter(to_export), None)


@pytest.mark.parametrize(
    ("config", "more", "task"),
    [
        (CAUSAL, (), "text_generation"),
        (CAUSAL, ("modules.json",), "embeddings"),
        (VISION, (), "text_generation"),
        ({"architectures": ["InternVLChatModel"], "vision_config": {}}, (), "text_generation"),
        (ENCODER, (), "embeddings"),
        (WHISPER, (), "speech2text"),
        ({"architectures": ["BertForSequenceClassification"]}, (), None),
        ({"architectures": "LlamaForCausalLM"}, (), None),
        ({"architectures": [7]}, (), None),
        ([], (), None),
        ("{", (), None),
        ("[" * 100_000, (), None),
    ],
)
def test_safetensors_show_their_task_by_their_config(
    tmp_path: Path, config: object, more: tuple[str, ...], task: str | None
) -> None:
    assert tasks(directory(tmp_path, config, "model.safetensors", *more)) == (None, task)


@pytest.mark.parametrize(
    ("config", "more", "task"),
    [
        (CAUSAL, (), "text_generation"),
        (CAUSAL, ("modules.json",), "embeddings"),
        (ENCODER, (), "embeddings"),
        ("", (), "text_generation"),
    ],
)
def test_models_in_openvinos_form_show_their_task(
    tmp_path: Path, config: object, more: tuple[str, ...], task: str | None
) -> None:
    model = directory(tmp_path, config, "openvino_model.xml", *more)
    assert tasks(model) == (task, None)


def test_a_whisper_in_openvinos_form_is_for_speech(tmp_path: Path) -> None:
    model = directory(tmp_path, WHISPER, "openvino_encoder_model.xml", "openvino_decoder_model.xml")
    assert tasks(model) == ("speech2text", None)


def test_weights_without_a_config_are_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    assert tasks(tmp_path) == (None, None)


@pytest.mark.parametrize(
    ("config", "task", "arguments"),
    [
        (CAUSAL, "text_generation", "--task text-generation-with-past"),
        (VISION, "text_generation", "--task image-text-to-text"),
        (ENCODER, "embeddings", "--task feature-extraction --library transformers"),
        (WHISPER, "speech2text", "--task automatic-speech-recognition-with-past"),
    ],
)
def test_the_exporter_receives_the_task_which_it_cannot_infer(
    tmp_path: Path, config: object, task: str, arguments: str
) -> None:
    path = directory(tmp_path, config, "model.safetensors")
    (found,) = [each for each in installed_tasks() if each.name == task]
    assert found.export_arguments is not None
    assert " ".join(found.export_arguments(path)) == arguments
