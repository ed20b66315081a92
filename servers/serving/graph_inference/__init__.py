"""Graphs served over KServe: tensors become input packets, output packets become tensors.

A `GraphInterface` describes the inputs and outputs of a loaded graph. `infer_once` runs a graph for
one request, a `GraphStream` for many.
"""

from servers.serving.graph_inference.graph_interface import (
    VERSIONS,
    GraphInterface,
    find_model_tensors,
)
from servers.serving.graph_inference.runs import (
    GIVE_UP_SECONDS,
    GraphStream,
    LoopDelivery,
    SideParameters,
    end_run,
    ending_of,
    infer_once,
    place_models,
    stuck_nodes,
)

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
