"""States and transitions of a servable: a graph, or a version of a plain model.

As in `graph_runtime.engine.states`, an event that the table does not list raises and changes
nothing. The names and codes that `/v1/config` shows are OpenVINO Model Server's
(``modelversionstatus.hpp``, ``dags/pipelinedefinitionstatus.cpp``).
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final

from graph_runtime.engine.states import Transitions


class ServableState(IntEnum):
    """The state of a graph or of a version of a model."""

    START = auto()  # named by the configuration; loading has not begun
    LOADING = auto()  # the file is checked, resources are made, the model is compiled
    FAILED = auto()  # could not be loaded; the reason is kept
    AVAILABLE = auto()  # answers requests
    UNLOADING = auto()  # refuses requests; closes its resources after the last one in flight
    END = auto()  # everything is closed
    ON_DEMAND = auto()  # nothing is loaded; the next request loads it and waits


class ServableEvent(IntEnum):
    """A cause of a transition."""

    LOAD = auto()  # loading begins
    LOADED = auto()  # ... and succeeds
    LOAD_FAILED = auto()  # ... or fails, or is interrupted
    RETIRE = auto()  # retiring begins
    UNLOADED = auto()  # ... and ends
    DEFER = auto()  # the next request loads it, because the config says so or it was idle


SERVABLE_TRANSITIONS: Final[Transitions[ServableState, ServableEvent]] = Transitions(
    {
        (ServableState.START, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.LOADING, ServableEvent.LOADED): ServableState.AVAILABLE,
        (ServableState.LOADING, ServableEvent.LOAD_FAILED): ServableState.FAILED,
        (ServableState.FAILED, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.END, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.ON_DEMAND, ServableEvent.LOAD): ServableState.LOADING,
        (ServableState.START, ServableEvent.DEFER): ServableState.ON_DEMAND,
        (ServableState.FAILED, ServableEvent.DEFER): ServableState.ON_DEMAND,
        (ServableState.END, ServableEvent.DEFER): ServableState.ON_DEMAND,
        (ServableState.START, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.FAILED, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.AVAILABLE, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.ON_DEMAND, ServableEvent.RETIRE): ServableState.UNLOADING,
        (ServableState.UNLOADING, ServableEvent.UNLOADED): ServableState.END,
    }
)

#: The ``state`` and the ``error_code`` that clients see.
SHOWN: Final[dict[ServableState, tuple[str, str]]] = {
    ServableState.START: ("START", "OK"),
    ServableState.LOADING: ("LOADING", "OK"),
    ServableState.FAILED: ("LOADING", "FAILED_PRECONDITION"),
    ServableState.AVAILABLE: ("AVAILABLE", "OK"),
    ServableState.UNLOADING: ("UNLOADING", "OK"),
    ServableState.END: ("END", "OK"),
    ServableState.ON_DEMAND: ("AVAILABLE", "OK"),  # a request is answered
}
