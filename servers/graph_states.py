"""Every state of a served graph and every transition, and how `/v1/config` shows them.

As `graph_runtime.states`: an event that the table does not list raises and changes nothing.
The shown names and codes are OpenVINO Model Server's (``modelversionstatus.hpp``,
``dags/pipelinedefinitionstatus.cpp``).
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final


class GraphState(IntEnum):
    """Where a served graph stands."""

    START = auto()  # named by the configuration, nothing has been done
    LOADING = auto()  # its file is checked, its resources are made
    FAILED = auto()  # it could not be loaded; the reason is kept
    AVAILABLE = auto()  # it answers
    UNLOADING = auto()  # no new requests; those in flight end, then its resources are closed
    END = auto()  # nothing of it is left


class GraphEvent(IntEnum):
    """What moves a served graph."""

    LOAD = auto()  # GraphDefinition.load begins
    LOADED = auto()  # ... and succeeds
    LOAD_FAILED = auto()  # ... or fails, or is interrupted
    RETIRE = auto()  # GraphDefinition.retire begins
    UNLOADED = auto()  # ... and is through


GRAPH_TRANSITIONS: Final[dict[tuple[GraphState, GraphEvent], GraphState]] = {
    (GraphState.START, GraphEvent.LOAD): GraphState.LOADING,
    (GraphState.LOADING, GraphEvent.LOADED): GraphState.AVAILABLE,
    (GraphState.LOADING, GraphEvent.LOAD_FAILED): GraphState.FAILED,
    (GraphState.FAILED, GraphEvent.LOAD): GraphState.LOADING,
    (GraphState.END, GraphEvent.LOAD): GraphState.LOADING,
    (GraphState.START, GraphEvent.RETIRE): GraphState.UNLOADING,
    (GraphState.FAILED, GraphEvent.RETIRE): GraphState.UNLOADING,
    (GraphState.AVAILABLE, GraphEvent.RETIRE): GraphState.UNLOADING,
    (GraphState.UNLOADING, GraphEvent.UNLOADED): GraphState.END,
}

#: The ``state`` and the ``error_code`` that clients see.
SHOWN: Final[dict[GraphState, tuple[str, str]]] = {
    GraphState.START: ("START", "OK"),
    GraphState.LOADING: ("LOADING", "OK"),
    GraphState.FAILED: ("LOADING", "FAILED_PRECONDITION"),
    GraphState.AVAILABLE: ("AVAILABLE", "OK"),
    GraphState.UNLOADING: ("UNLOADING", "OK"),
    GraphState.END: ("END", "OK"),
}
