"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

from typing import Final

from calculators.kit.tasks.graph_text import field, graph_text
from calculators.speech.speech_to_text.task_options import SpeechToTextTaskOptions

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
    own = [field("enable_word_timestamps", "true")] if options.enable_word_timestamps else []
    return graph_text(_GRAPH, models_path, options, own)
