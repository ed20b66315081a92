"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

import json
from typing import Final

from calculators.embeddings.task_options import EmbeddingsOptions
from calculators.plugin_config import read_json_properties
from calculators.tasks.task import TaskError
from graph_runtime import ResourceError

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
    try:
        read_json_properties(options.plugin_config)
    except ResourceError as error:
        raise TaskError(f"--{error.message}") from None
    lines = {
        "models_path": json.dumps(models_path, ensure_ascii=False),
        "normalize_embeddings": json.dumps(options.normalize),
        "truncate": json.dumps(options.truncate),
    }
    if options.pooling:
        lines["pooling"] = options.pooling
    if options.target_device:
        lines["target_device"] = json.dumps(options.target_device)
    if options.plugin_config:
        lines["plugin_config"] = json.dumps(options.plugin_config)
    return _GRAPH % "\n".join(f"      {name}: {value}" for name, value in lines.items())
