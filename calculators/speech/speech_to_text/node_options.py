"""The options of a node with a speech model, checked: `S2tCalculatorOptions`.

Names, defaults and their meaning are OpenVINO Model Server's
(``audio/speech_to_text/s2t_servable.cpp``); the words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calculators.kit.device_options import read_device
from calculators.kit.machine import usable_processors
from calculators.kit.model_directory import find_model_directory, read_checked_json
from calculators.kit.tasks.nodes import find_model_options, naming_node
from graph_runtime import NodePlan, ResourceError, ResourceSettings
from protos import messages

OPTIONS_TYPE = messages.S2tCalculatorOptions
ENCODER: Final = "openvino_encoder_model.xml"

_STREAMS: Final = "NUM_STREAMS"
#: Each pipeline has a copy of the weights.
_MOST_PIPELINES: Final = 64
_EXPORT: Final = (
    "optimum-cli export openvino --task automatic-speech-recognition-with-past makes it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechToTextOptions:
    """The options of one node.

    Attributes:
        directory: the model's directory, absolute.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties of each pipeline.
        pipelines: the number of sounds that are recognized at the same time.
        finds_words: the model reports the times of words.
        languages: the codes of the model's languages; empty if its files do not list them.
        is_multilingual: False if it knows English only, and cannot translate.
        is_whisper: it hears windows of 30 s, and writes times.
    """

    directory: Path
    device: str
    properties: Mapping[str, Any]
    pipelines: int
    finds_words: bool
    languages: tuple[str, ...]
    is_multilingual: bool
    is_whisper: bool = True


def read_speech_options(node: NodePlan, settings: ResourceSettings) -> SpeechToTextOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        return _read(find_model_options(node, OPTIONS_TYPE), settings)


def _read(
    options: messages.S2tCalculatorOptions, settings: ResourceSettings
) -> SpeechToTextOptions:
    directory = _directory(options.models_path, settings.directory)
    device, properties = read_device(options.target_device, options.plugin_config)
    pipelines = _pipelines(properties)
    if device == "CPU" and pipelines > 1:
        # Threads of several pipelines would wait for each other.
        properties.setdefault("INFERENCE_NUM_THREADS", max(1, usable_processors() // pipelines))
    generation = read_checked_json(directory / "generation_config.json")
    found = generation.get("lang_to_id")
    languages = tuple(name.strip("<|>") for name in found) if isinstance(found, dict) else ()
    return SpeechToTextOptions(
        directory=directory,
        device=device,
        properties=properties,
        pipelines=pipelines,
        finds_words=options.enable_word_timestamps,
        languages=languages,
        is_multilingual=generation.get("is_multilingual") is not False,
        is_whisper=_has_decoder(directory) or _is_whisper(directory),
    )


def _pipelines(properties: dict[str, Any]) -> int:
    """Take the number of streams out of the properties: a pipeline uses one."""
    value = str(properties.pop(_STREAMS, "1"))
    if value == "AUTO":
        return 1
    if not value.isdecimal() or len(value) > 4 or not 1 <= int(value) <= _MOST_PIPELINES:
        raise ResourceError(
            f"plugin_config: {_STREAMS} is the number of sounds that are recognized at the same "
            f"time, each by a copy of the model: 1 to {_MOST_PIPELINES} or AUTO (1)"
        )
    return int(value)


def _directory(models_path: str, graph: Path) -> Path:
    directory = find_model_directory(models_path, graph)
    # Speech models other than Whisper have other parts: the library knows them, and names them.
    if _has_decoder(directory) or _is_whisper(directory):
        for name in (ENCODER, "openvino_decoder_model.xml", "openvino_tokenizer.xml",
                     "openvino_detokenizer.xml", "preprocessor_config.json"):  # fmt: skip
            if not (directory / name).is_file():
                raise ResourceError(f'models_path: "{models_path}" has no {name}; {_EXPORT}')
    elif not any(directory.glob("openvino_*.xml")):
        raise ResourceError(f'models_path: "{models_path}" has no {ENCODER}; {_EXPORT}')
    return directory


def _has_decoder(directory: Path) -> bool:
    return (directory / "openvino_decoder_model.xml").is_file()


def _is_whisper(directory: Path) -> bool:
    return read_checked_json(directory / "config.json").get("model_type") == "whisper"
