"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

from typing import Final

from calculators.kit.tasks.graph_text import field, graph_text
from calculators.text.rerank.task_options import RerankTaskOptions

_GRAPH: Final = """\
input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {
  name: "RerankExecutor"
  calculator: "RerankCalculatorOV"
  input_side_packet: "RERANK_NODE_RESOURCES:rerank_servable"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/mediapipe.RerankCalculatorOVOptions] {
%s
    }
  }
}
"""


def rerank_graph(options: RerankTaskOptions, models_path: str = "./") -> str:
    """The graph as text; ``models_path`` is relative to the directory that it is served from.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    own = [field("max_allowed_chunks", options.max_allowed_chunks)]
    return graph_text(_GRAPH, models_path, options, own)
