"""Graphs behind KServe: tensors become input packets, and output packets become tensors.

A `GraphInterface` describes the inputs and outputs of a loaded graph. `infer_once` runs a graph for
one request, a `GraphStream` for many.
"""

from servers.serving.graph_inference.graph_interface import VERSIONS, GraphInterface
from servers.serving.graph_inference.graph_stream import GraphStream
from servers.serving.graph_inference.loop_delivery import LoopDelivery
from servers.serving.graph_inference.model_tensors import find_model_tensors
from servers.serving.graph_inference.run_end import GIVE_UP_SECONDS, end_run, ending_of, stuck_nodes
from servers.serving.graph_inference.session_places import place_models
from servers.serving.graph_inference.side_parameters import SideParameters
from servers.serving.graph_inference.unary_run import infer_once

__all__ = [
    "GIVE_UP_SECONDS",
    "VERSIONS",
    "GraphInterface",
    "GraphStream",
    "LoopDelivery",
    "SideParameters",
    "end_run",
    "ending_of",
    "find_model_tensors",
    "infer_once",
    "place_models",
    "stuck_nodes",
]
