"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

import json
from typing import Final

from calculators.kit.tasks.graph_text import field, graph_text
from calculators.text.embeddings.task_options import EmbeddingsOptions

_GRAPH: Final = """\
input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {
  name: "EmbeddingsExecutor"
  calculator: "EmbeddingsCalculatorOV"
  input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings_servable"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] {
%s
    }
  }
}
"""


def embeddings_graph(options: EmbeddingsOptions, models_path: str = "./") -> str:
    """The graph as text; ``models_path`` is relative to the directory that it is served from.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    own = [
        field("normalize_embeddings", json.dumps(options.normalize)),
        field("truncate", json.dumps(options.truncate)),
    ]
    if options.pooling:
        own.append(field("pooling", options.pooling))
    return graph_text(_GRAPH, models_path, options, own)
