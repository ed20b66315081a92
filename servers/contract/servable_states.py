"""Every state of what is served, a graph or a version of a plain model, and every transition; and
how `/v1/config` shows them.

As `graph_runtime.engine.states`: an event that the table does not list raises and changes nothing.
The shown names and codes are OpenVINO Model Server's (``modelversionstatus.hpp``,
``dags/pipelinedefinitionstatus.cpp``).
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final


class ServableState(IntEnum):
    """Where a graph, or a version of a model, stands."""

    START = auto()  # named by the configuration, nothing has been done
    LOADING = auto()  # its file is checked, its resources are made; the model is compiled
    FAILED = auto()  # it could not be loaded; the reason is kept
    AVAILABLE = auto()  # it answers
    UNLOADING = auto()  # no new requests; those in flight end, then its resources are closed
    END = auto()  # nothing of it is left
    ON_DEMAND = auto()  # nothing of it is loaded; the next request loads it, and waits


class ServableEvent(IntEnum):
    """What moves it."""

    LOAD = auto()  # loading begins
    LOADED = auto()  # ... and succeeds
    LOAD_FAILED = auto()  # ... or fails, or is interrupted
    RETIRE = auto()  # retiring begins
    UNLOADED = auto()  # ... and is through
    DEFER = auto()  # the first request is to load it; or nobody has asked it for long


SERVABLE_TRANSITIONS: Final[dict[tuple[ServableState, ServableEvent], ServableState]] = {
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

#: The ``state`` and the ``error_code`` that clients see.
SHOWN: Final[dict[ServableState, tuple[str, str]]] = {
    ServableState.START: ("START", "OK"),
    ServableState.LOADING: ("LOADING", "OK"),
    ServableState.FAILED: ("LOADING", "FAILED_PRECONDITION"),
    ServableState.AVAILABLE: ("AVAILABLE", "OK"),
    ServableState.UNLOADING: ("UNLOADING", "OK"),
    ServableState.END: ("END", "OK"),
    ServableState.ON_DEMAND: ("AVAILABLE", "OK"),  # who asks it is answered
}
