"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

import json
from typing import Final

from calculators.plugin_config import read_json_properties
from calculators.speech_to_text.task_options import SpeechToTextTaskOptions
from calculators.tasks.task import TaskError
from graph_runtime import ResourceError

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


def speech_to_text_graph(options: SpeechToTextTaskOptions, models_path: str = "./") -> str:
    """The graph as text; ``models_path`` is relative to the directory that it is served from.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    try:
        read_json_properties(options.plugin_config)
    except ResourceError as error:
        raise TaskError(f"--{error.message}") from None
    lines = {"models_path": json.dumps(models_path, ensure_ascii=False)}
    if options.target_device:
        lines["target_device"] = json.dumps(options.target_device)
    if options.plugin_config:
        lines["plugin_config"] = json.dumps(options.plugin_config)
    if options.enable_word_timestamps:
        lines["enable_word_timestamps"] = "true"
    return _GRAPH % "\n".join(f"      {name}: {value}" for name, value in lines.items())
