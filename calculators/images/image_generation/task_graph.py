"""The graph of the task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's
(``graph_export/graph_export.cpp``).
"""

from __future__ import annotations

from typing import Any, Final

from calculators.images.image_generation.task_options import (
    ImageGenerationOptions,
    parse_source_loras,
)
from calculators.kit.tasks.graph_text import field, graph_text, quoted

_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "ImageGenExecutor"
  calculator: "ImageGenCalculator"
  input_side_packet: "IMAGE_GEN_NODE_RESOURCES:pipes"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/mediapipe.ImageGenCalculatorOptions] {
%s
    }
  }
}
"""
#: Fields that have the names of flags, in OpenVINO Model Server's order.
_FIELDS: Final = (
    "resolution",
    "num_images_per_prompt",
    "guidance_scale",
    "max_resolution",
    "default_resolution",
    "max_num_images_per_prompt",
    "default_num_inference_steps",
    "max_num_inference_steps",
)


def image_generation_graph(options: ImageGenerationOptions, models_path: str = "./") -> str:
    """The graph as text; ``models_path`` is relative to the directory that it is served from.

    Raises:
        TaskError: ``plugin_config`` is no JSON object of OpenVINO properties.
    """
    own = []
    for name in _FIELDS:
        value: Any = getattr(options, name)
        if value not in ("", None):
            own.append(field(name, quoted(value) if isinstance(value, str) else value))
    loras = parse_source_loras(options.source_loras)
    for alias, (path, alpha) in loras.adapters.items():
        own.append(
            f"lora_adapters {{ alias: {quoted(alias)} path: {quoted(path)} alpha: {alpha:g} }}"
        )
    for alias, parts in loras.composites.items():
        components = " ".join(
            f"components {{ adapter_alias: {quoted(part)} alpha: {alpha:g} }}"
            for part, alpha in parts.items()
        )
        own.append(f"composite_lora_adapters {{ alias: {quoted(alias)} {components} }}")
    return graph_text(_GRAPH, models_path, options, own, device_field="device")
