"""The task ``text2speech``: what servers need to know of models that speak."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.model_config import has_safetensors, is_speech_model, is_speecht5
from calculators.kit.tasks.task import ModelToServe, Task
from calculators.speech.text_to_speech.task_options import T2sOptions

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from calculators.speech.text_to_speech.servable import T2sServable
    from graph_runtime import Registry


def _register(registry: Registry) -> None:
    from calculators.speech.text_to_speech.resources import T2sResourceInitializer
    from calculators.speech.text_to_speech.t2s_calculator import T2sCalculator
    from calculators.speech.text_to_speech.text_to_speech_calculator import TextToSpeechCalculator

    registry.register_calculator(T2sCalculator)
    registry.register_calculator(TextToSpeechCalculator)
    registry.register_resource_initializer(T2sResourceInitializer())


def _serves(calculator: str) -> bool:
    return calculator.endswith("T2sCalculator")


def _describe(model: str) -> TaskDescription:
    from calculators.speech.text_to_speech.openapi import describe

    return describe(model)


def _graph(options: Mapping[str, Any], model: ModelToServe) -> str:
    from calculators.speech.text_to_speech.task_graph import t2s_graph

    return t2s_graph(T2sOptions(**options), model.models_path)


def _recognizes(path: Path) -> bool:
    files = ("openvino_model.xml", "openvino_vocoder.xml")
    return is_speech_model(path) and any((path / file).is_file() for file in files)


def _recognizes_source(path: Path) -> bool:
    return has_safetensors(path) and is_speech_model(path)


def _export_arguments(path: Path) -> tuple[str, ...]:
    return ("--task", "text-to-audio")


def _further_export_arguments(path: Path, options: Mapping[str, Any]) -> tuple[str, ...]:
    chosen = T2sOptions(**options)
    if chosen.model_type == "kokoro" or not (chosen.model_type or is_speecht5(path)):
        return ()
    return ("--model-kwargs", json.dumps({"vocoder": chosen.vocoder}))


def _example(model: str) -> tuple[str, dict[str, Any]]:
    return "/v3/audio/speech", {"model": model, "input": "Hello"}


def _facts(servable: T2sServable) -> Mapping[str, Any]:
    """Return the names of the voices."""
    return {"voices": list(servable.voices)}


TASK: Final = Task(
    name="text2speech",
    endpoints=(
        TaskEndpoint("/audio/speech"),
        TaskEndpoint("/audio/voices", methods=("GET",)),
    ),
    register=_register,
    calculators=(
        "T2sCalculator",
        "TextToSpeechCalculator",
    ),
    serves=_serves,
    describe=_describe,
    graph=_graph,
    example=_example,
    docs="calculators/speech/text_to_speech/README.md",
    options=T2sOptions,
    recognizes=_recognizes,
    recognizes_source=_recognizes_source,
    export_arguments=_export_arguments,
    further_export_arguments=_further_export_arguments,
    model_facts=_facts,
)
