"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

from typing import Final

from calculators.kit.tasks.graph_text import graph_text
from calculators.speech.text_to_speech.task_options import T2sOptions

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


def t2s_graph(options: T2sOptions, models_path: str = "./") -> str:
    """The graph as text; ``models_path`` is relative to the directory that it is served from.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    return graph_text(_GRAPH, models_path, options)
