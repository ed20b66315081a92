"""The task ``speech2text``: what servers need to know of speech models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.model_config import architectures, has_safetensors, read_model_config
from calculators.kit.tasks.task import ModelToServe, Task
from calculators.speech.speech_to_text.task_options import SpeechToTextTaskOptions

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import Registry

_TRANSCRIPTIONS: Final = "/audio/transcriptions"
_TRANSLATIONS: Final = "/audio/translations"
_REALTIME: Final = "/realtime"
_WHISPER: Final = "WhisperForConditionalGeneration"


def _register(registry: Registry) -> None:
    from calculators.speech.speech_to_text.resources import SpeechToTextResourceInitializer
    from calculators.speech.speech_to_text.s2t_calculator import S2tCalculator
    from calculators.speech.speech_to_text.speech_to_text_calculator import SpeechToTextCalculator

    registry.register_calculator(S2tCalculator)
    registry.register_calculator(SpeechToTextCalculator)
    registry.register_resource_initializer(SpeechToTextResourceInitializer())


def _serves(calculator: str) -> bool:
    return calculator.endswith("S2tCalculator")


def _describe(model: str) -> TaskDescription:
    from calculators.speech.speech_to_text.openapi import describe

    return describe(model)


def _graph(options: Mapping[str, Any], model: ModelToServe) -> str:
    from calculators.speech.speech_to_text.task_graph import speech_to_text_graph

    return speech_to_text_graph(SpeechToTextTaskOptions(**options), model.models_path)


def _is_whisper(path: Path) -> bool:
    return _WHISPER in architectures(read_model_config(path))


def _recognizes(path: Path) -> bool:
    return (path / "openvino_encoder_model.xml").is_file() and _is_whisper(path)


def _recognizes_source(path: Path) -> bool:
    return has_safetensors(path) and _is_whisper(path)


def _export_arguments(path: Path) -> tuple[str, ...]:
    return ("--task", "automatic-speech-recognition-with-past")


def _example(model: str) -> tuple[str, dict[str, Any]]:
    return "/v3" + _TRANSCRIPTIONS, {"model": model, "file": "@speech.wav"}


TASK: Final = Task(
    name="speech2text",
    endpoints=(
        TaskEndpoint(_TRANSCRIPTIONS, streams=True, takes_form=True),
        TaskEndpoint(_TRANSLATIONS, takes_form=True),
        TaskEndpoint(_REALTIME, methods=("GET",), is_socket=True),
    ),
    register=_register,
    calculators=(
        "S2tCalculator",
        "SpeechToTextCalculator",
    ),
    serves=_serves,
    describe=_describe,
    graph=_graph,
    example=_example,
    docs="calculators/speech/speech_to_text/README.md",
    options=SpeechToTextTaskOptions,
    recognizes=_recognizes,
    recognizes_source=_recognizes_source,
    export_arguments=_export_arguments,
)
