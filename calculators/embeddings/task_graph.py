"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

import json
from typing import Final

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


def embeddings_graph(
    *,
    pooling: str = "",
    normalize: bool = True,
    truncate: bool = False,
    target_device: str = "",
    plugin_config: str = "",
) -> str:
    """The graph as text, to be served from the model's directory; "" leaves an option out.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    try:
        read_json_properties(plugin_config)
    except ResourceError as error:
        raise TaskError(f"--{error.message}") from None
    options = {
        "models_path": '"./"',
        "normalize_embeddings": json.dumps(normalize),
        "truncate": json.dumps(truncate),
    }
    if pooling:
        options["pooling"] = pooling
    if target_device:
        options["target_device"] = json.dumps(target_device)
    if plugin_config:
        options["plugin_config"] = json.dumps(plugin_config)
    return _GRAPH % "\n".join(f"      {name}: {value}" for name, value in options.items())
