"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

import json
from typing import Final

from calculators.plugin_config import read_json_properties
from calculators.rerank.task_options import RerankTaskOptions
from calculators.tasks.task import TaskError
from graph_runtime import ResourceError

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
    try:
        read_json_properties(options.plugin_config)
    except ResourceError as error:
        raise TaskError(f"--{error.message}") from None
    lines = {
        "models_path": json.dumps(models_path, ensure_ascii=False),
        "max_allowed_chunks": str(options.max_allowed_chunks),
    }
    if options.target_device:
        lines["target_device"] = json.dumps(options.target_device)
    if options.plugin_config:
        lines["plugin_config"] = json.dumps(options.plugin_config)
    return _GRAPH % "\n".join(f"      {name}: {value}" for name, value in lines.items())
