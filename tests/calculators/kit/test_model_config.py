"""The task that the files of a model show, in OpenVINO's form and as safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calculators.kit.tasks import installed_tasks, task_of_model, task_of_source

CAUSAL = {"architectures": ["Qwen3ForCausalLM"]}
VISION = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {}}
ENCODER = {"architectures": ["BertModel"]}
SPEECHT5 = {"architectures": ["SpeechT5ForTextToSpeech"]}
#: As Kokoro's authors write it, and as the exporter does.
KOKORO = {"n_mels": 80, "vocab": {"a": 1}}
EXPORTED_KOKORO = {"architectures": ["KModel"], **KOKORO}
CROSS_ENCODER = {
    "architectures": ["BertForSequenceClassification"],
    "id2label": {"0": "LABEL_0"},
}
CLASSIFIER = {
    "architectures": ["RobertaForSequenceClassification"],
    "id2label": {"0": "anger", "1": "joy", "2": "fear"},
}
WHISPER = {"architectures": ["WhisperForConditionalGeneration"]}


def directory(place: Path, config: object, *names: str) -> Path:
    (place / "config.json").write_text(config if type(config) is str else json.dumps(config))
    for name in names:
        (place / name).touch()
    return place


def tasks(path: Path) -> tuple[str | None, str | None]:
    """The names of the tasks that recognize a directory as a model, and as one to export."""
    others = [task for task in installed_tasks() if not task.is_default]
    assert sum(task.recognizes(path) for task in others) <= 1
    assert sum(task.recognizes_source(path) for task in others) <= 1
    found = (task_of_model(path), task_of_source(path))
    as_it_is, to_export = (None if task is None else task.name for task in found)
    return as_it_is, to_export


@pytest.mark.parametrize(
    ("config", "more", "task"),
    [
        (CAUSAL, (), "text_generation"),
        (CAUSAL, ("modules.json",), "embeddings"),
        (VISION, (), "text_generation"),
        ({"architectures": ["InternVLChatModel"], "vision_config": {}}, (), "text_generation"),
        (ENCODER, (), "embeddings"),
        (SPEECHT5, (), "text2speech"),
        (KOKORO, (), "text2speech"),
        (EXPORTED_KOKORO, (), "text2speech"),
        (CROSS_ENCODER, (), "rerank"),
        (CROSS_ENCODER, ("modules.json",), "rerank"),
        ({"architectures": ["BertForSequenceClassification"]}, (), "text_classification"),
        (CLASSIFIER, (), "text_classification"),
        (WHISPER, (), "speech2text"),
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
        (SPEECHT5, ("openvino_vocoder.xml",), "text2speech"),
        (KOKORO, (), "text2speech"),
        (EXPORTED_KOKORO, (), "text2speech"),
        (CROSS_ENCODER, (), "rerank"),
        (CLASSIFIER, (), "text_classification"),
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
        (SPEECHT5, "text2speech", "--task text-to-audio"),
        (KOKORO, "text2speech", "--task text-to-audio"),
        (CROSS_ENCODER, "rerank", "--task text-classification"),
        (CAUSAL, "rerank", "--task text-generation"),
        (CLASSIFIER, "text_classification", "--task text-classification"),
        (WHISPER, "speech2text", "--task automatic-speech-recognition-with-past"),
    ],
)
def test_the_exporter_receives_the_task_which_it_cannot_infer(
    tmp_path: Path, config: object, task: str, arguments: str
) -> None:
    path = directory(tmp_path, config, "model.safetensors")
    (found,) = [each for each in installed_tasks() if each.name == task]
    exported = found.export_arguments(path)
    assert exported is not None
    assert " ".join(exported) == arguments


@pytest.mark.parametrize(
    ("config", "options", "arguments"),
    [
        (SPEECHT5, {}, '--model-kwargs {"vocoder": "microsoft/speecht5_hifigan"}'),
        (SPEECHT5, {"vocoder": "mine"}, '--model-kwargs {"vocoder": "mine"}'),
        (SPEECHT5, {"model_type": "kokoro"}, ""),
        (KOKORO, {}, ""),
        (KOKORO, {"model_type": "speecht5", "vocoder": "v"}, '--model-kwargs {"vocoder": "v"}'),
    ],
)
def test_options_of_a_task_reach_the_exporter(
    tmp_path: Path, config: object, options: dict[str, str], arguments: str
) -> None:
    path = directory(tmp_path, config, "model.safetensors")
    (found,) = [each for each in installed_tasks() if each.name == "text2speech"]
    assert " ".join(found.further_export_arguments(path, options)) == arguments
