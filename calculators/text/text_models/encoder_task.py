"""`EncoderTask`: the description of a family of encoder models, for servers.

The three tasks of this room differ in the head of their models and in their endpoints: a model
that embeds texts, one that scores pairs of texts, and one that classifies texts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.model_config import has_safetensors
from calculators.kit.tasks.task import Task

#: What a model takes, at the path of text-embeddings-inference.
INFO: Final = TaskEndpoint("/info", prefixes=("",), methods=("GET",))
#: Texts of one request; OpenAI has the same limit.
MAX_TEXTS: Final = 2048
#: Characters of one text. A longer one has more tokens than models take, or hundreds of windows.
MAX_CHARACTERS: Final = 128 * 1024
#: Characters, or token ids, of all texts of one request.
MAX_ALL_CHARACTERS: Final = 1024 * 1024

#: Names, defaults and the graph's form are OpenVINO Model Server's
#: (``graph_export/graph_export.cpp``).
_GRAPH: Final = """\
input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {{
  name: "{name}"
  calculator: "{calculator}"
  input_side_packet: "{side_packet}"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options {{
    [type.googleapis.com/{options}] {{
%s
    }}
  }}
}}
"""


def encoder_graph(name: str, calculator: str, side_packet: str, options: str) -> str:
    """Return the graph of one node, with ``%s`` where its options stand.

    Args:
        name: the node's.
        side_packet: tag and name of the packet with the resources of nodes.
        options: the type of the node's options.
    """
    return _GRAPH.format(name=name, calculator=calculator, side_packet=side_packet, options=options)


class EncoderTask(Task):
    """A task whose models are encoders: ``openvino_model.xml`` with a config of the task."""

    @abstractmethod
    def is_model(self, directory: Path) -> bool:
        """Return whether config.json and its neighbours are of a model of the task."""

    def serves(self, calculator: str) -> bool:
        return calculator.endswith(self.calculators[0])

    def recognizes(self, path: Path) -> bool:
        return (path / "openvino_model.xml").is_file() and self.is_model(path)

    def recognizes_source(self, path: Path) -> bool:
        return has_safetensors(path) and self.is_model(path)

    def model_facts(self, resource: Any) -> Mapping[str, Any]:
        """Return the most tokens of a sequence, by vLLM's name."""
        return {"max_model_len": resource.max_tokens}
