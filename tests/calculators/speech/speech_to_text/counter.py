"""The example model that counts to ten, whatever it hears, and requests to it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from calculators.kit.requests.http_payload import FormFile, HttpPayload, MultipartForm
from tests.support.checkout import ROOT

MODEL: Final = ROOT / "examples" / "models" / "counter"
TEXT: Final = " one two three four five six seven eight nine ten"
TRANSCRIPTIONS: Final = "/v3/audio/transcriptions"
TRANSLATIONS: Final = "/v3/audio/translations"

#: The text that OpenVINO Model Server's ``--pull`` writes.
GRAPH: Final = """\
# File created with: OpenVINO Model Server 2026.2
# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO

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
    input_stream_info: {
        tag_index: 'LOOPBACK:0',
        back_edge: true
    }
    node_options: {
        [type.googleapis.com / mediapipe.S2tCalculatorOptions]: {
            models_path: "./"
            target_device: "CPU"
            plugin_config: '{"NUM_STREAMS":"1"}'
        }
    }
    input_stream_handler {
        input_stream_handler: "SyncSetInputStreamHandler",
        options {
            [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
                sync_set {
                    tag_index: "LOOPBACK:0"
                }
            }
        }
    }
}
"""
#: The older form, without a loop, which OpenVINO Model Server does not stream with.
WITHOUT_LOOPBACK: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "S2tExecutor"
  calculator: "S2tCalculator"
  input_side_packet: "STT_NODE_RESOURCES:s2t_servable"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options: {
    [type.googleapis.com/mediapipe.S2tCalculatorOptions]: {
      models_path: "./"
      enable_word_timestamps: true
    }
  }
}
"""


def make_model(directory: Path, graph: str = GRAPH) -> Path:
    """Copy the model, with a graph."""
    shutil.copytree(MODEL, directory, dirs_exist_ok=True)
    if graph:
        (directory / "graph.pbtxt").write_text(graph, encoding="utf-8")
    return directory


def payload(
    content: bytes | None, uri: str = TRANSCRIPTIONS, **fields: str | list[str]
) -> HttpPayload:
    """Return the request with a file. ``fields``: ``times`` is timestamp_granularities[]."""
    texts = {
        name: [value] if isinstance(value, str) else value
        for name, value in {"model": "counter", **fields}.items()
    }
    if "times" in texts:
        texts["timestamp_granularities[]"] = texts.pop("times")
    files = {} if content is None else {"file": [FormFile("a.wav", "audio/wav", content)]}
    return HttpPayload(uri, {}, b"", None, form=MultipartForm(texts, files))
