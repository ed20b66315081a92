"""The pictures in ``docs/pictures`` that are made from graphs and from runs.

``python -m website.pictures`` writes them; a test checks that they are up to date.
"""

from __future__ import annotations

from typing import Final

import calculators
from graph_runtime import REGISTRY, Registry
from website.drawings import draw_file, draw_node
from website.repository_pages import ROOT
from website.trace_picture import to_svg, trace

FOLDER: Final = ROOT / "docs" / "pictures"

#: Example graphs, and the packets of their feeds that a picture has room for.
_GRAPHS: Final = {"join": 4, "running_sum": 2, "flow_limiter": 5}
_LANGUAGE_NODES: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "REQUEST:request"
}
node {
  calculator: "LLMCalculator"
  input_stream: "REQUEST:request"
  input_stream: "LOOPBACK:loopback"
  output_stream: "LOOPBACK:loopback"
  output_stream: "DELTAS:deltas"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    calculators.register_all(REGISTRY)
    made = {"language_nodes.svg": draw_node(_LANGUAGE_NODES, "language nodes", REGISTRY)}
    guard = ROOT / "examples" / "graphs" / "guard" / "graph.pbtxt"
    made["guard.svg"] = draw_file(guard, REGISTRY)
    for name, packets in _GRAPHS.items():
        file = ROOT / "examples" / "graphs" / f"{name}.pbtxt"
        run = trace(file, Registry(REGISTRY), packets)
        made[f"packet_{name}.svg"] = to_svg(run)
    return made


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
