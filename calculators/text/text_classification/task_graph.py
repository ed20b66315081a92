"""The graph of the task, for a model's directory that holds no graph.pbtxt."""

from __future__ import annotations

from typing import Final

from calculators.kit.tasks.graph_text import graph_text
from calculators.kit.tasks.options import DeviceOptions

_GRAPH: Final = """\
input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {
  name: "TextClassificationExecutor"
  calculator: "TextClassificationCalculatorOV"
  input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] {
%s
    }
  }
}
"""


def text_classification_graph(options: DeviceOptions, models_path: str = "./") -> str:
    """The graph as text; ``models_path`` is relative to the directory that it is served from.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    return graph_text(_GRAPH, models_path, options)
