"""Every state of a run and of a node, and every transition, in two tables.

An event that the table does not list for the current state raises and changes nothing.
``docs/invariants.md`` shows these tables; a test compares the two.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Final, TypeVar

from graph_runtime.errors import Code, GraphError


class RunState(IntEnum):
    """State of a run.

    These enums derive from ``int`` because ints are hashed in C, and every step of a run looks up
    a table.
    """

    NOT_STARTED = auto()  # no run yet, or the last one is finished and cleaned up
    RUNNING = auto()
    PAUSED = auto()  # running calls finish, nothing new starts
    CANCELLING = auto()  # an error is recorded; running calls finish
    TERMINATED = auto()  # nothing runs and nothing can; the errors wait to be collected


class RunEvent(IntEnum):
    """Event that moves a run to another state."""

    START = auto()  # CalculatorGraph.start_run
    PAUSE = auto()  # CalculatorGraph.pause
    RESUME = auto()  # CalculatorGraph.resume
    CANCEL = auto()  # CalculatorGraph.cancel
    QUIT = auto()  # Scheduler.handle_idle: no source is left, or an error is recorded
    CLEAN_UP = auto()  # CalculatorGraph.wait_until_done: nodes closed, errors handed over


class NodeState(IntEnum):
    """State of a node in a run."""

    PREPARED = auto()  # waits for its side packets and the headers of its inputs
    OPENING = auto()  # open() is queued or running
    OPENED = auto()  # runs whenever its handler says so; a source waits for its layer
    ACTIVE = auto()  # a source whose layer's turn has come
    CLOSING = auto()  # close() is queued or running
    CLOSED = auto()  # its outputs are done; what arrives is dropped


class NodeEvent(IntEnum):
    """Event that moves a node to another state."""

    READY_FOR_OPEN = auto()  # Scheduler: side packets and headers are there
    OPEN_RETURNED = auto()  # Scheduler.finished
    ACTIVATE = auto()  # Scheduler.handle_idle: the source's layer is next
    READY_FOR_CLOSE = auto()  # the handler, Stop from a source, or CloseAllPacketSources
    CLOSE_RETURNED = auto()  # Scheduler.finished
    RUN_ENDED = auto()  # clean-up after the run


S = TypeVar("S", bound=IntEnum)
E = TypeVar("E", bound=IntEnum)


class Transitions(dict[tuple[S, E], S]):
    """A table of transitions: ``table[state, event]`` is the state after the event.

    An event that is not listed for the state raises `GraphError` (INTERNAL: a bug in graphrt).
    """

    def __missing__(self, key: tuple[S, E]) -> S:
        state, event = key
        raise GraphError(f"{event!r} is not allowed in {state!r}", code=Code.INTERNAL)


RUN_TRANSITIONS: Final[Transitions[RunState, RunEvent]] = Transitions(
    {
        (RunState.NOT_STARTED, RunEvent.START): RunState.RUNNING,
        (RunState.RUNNING, RunEvent.PAUSE): RunState.PAUSED,
        (RunState.PAUSED, RunEvent.RESUME): RunState.RUNNING,
        (RunState.RUNNING, RunEvent.CANCEL): RunState.CANCELLING,
        (RunState.PAUSED, RunEvent.CANCEL): RunState.CANCELLING,
        (RunState.RUNNING, RunEvent.QUIT): RunState.TERMINATED,
        (RunState.CANCELLING, RunEvent.QUIT): RunState.TERMINATED,
        (RunState.TERMINATED, RunEvent.CLEAN_UP): RunState.NOT_STARTED,
    }
)

NODE_TRANSITIONS: Final[Transitions[NodeState, NodeEvent]] = Transitions(
    {
        (NodeState.PREPARED, NodeEvent.READY_FOR_OPEN): NodeState.OPENING,
        (NodeState.OPENING, NodeEvent.OPEN_RETURNED): NodeState.OPENED,
        (NodeState.OPENED, NodeEvent.ACTIVATE): NodeState.ACTIVE,
        (NodeState.OPENED, NodeEvent.READY_FOR_CLOSE): NodeState.CLOSING,
        (NodeState.ACTIVE, NodeEvent.READY_FOR_CLOSE): NodeState.CLOSING,
        (NodeState.CLOSING, NodeEvent.CLOSE_RETURNED): NodeState.CLOSED,
        (NodeState.PREPARED, NodeEvent.RUN_ENDED): NodeState.CLOSED,
        (NodeState.OPENING, NodeEvent.RUN_ENDED): NodeState.CLOSED,
        (NodeState.OPENED, NodeEvent.RUN_ENDED): NodeState.CLOSED,
        (NodeState.ACTIVE, NodeEvent.RUN_ENDED): NodeState.CLOSED,
        (NodeState.CLOSING, NodeEvent.RUN_ENDED): NodeState.CLOSED,
        (NodeState.CLOSED, NodeEvent.RUN_ENDED): NodeState.CLOSED,
    }
)
