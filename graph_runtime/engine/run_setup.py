"""`RunSetup`: everything that is the same for all runs of one graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graph_runtime.authoring.context import Counter
    from graph_runtime.authoring.executor import Executor
    from graph_runtime.engine.constant_outputs import ConstantOutputs
    from graph_runtime.engine.poller import OutputStreamPoller
    from graph_runtime.errors import GraphError
    from graph_runtime.packet import Packet
    from graph_runtime.plan.plan import ValidatedGraph
    from graph_runtime.plan.registry import Registry


@dataclass(slots=True, eq=False)
class RunSetup:
    """The plan of a graph, and what the application has attached to it for its runs.

    Attributes:
        executors: by name; they take the place of the plan's.
        services: the provided objects, by the key of their service.
        allows_default_services: a service that was not provided may make its default.
        stream_limits: per graph input, the length at which its queues are full; -1: no limit.
        observers: names of streams, callbacks, and if they get settled timestamps too.
        pollers: each with the name of its stream.
        on_error: called with each recorded error.
        counters: the graph's, by ``<node>-<name>``; they go on counting from run to run.
        constants: by node id, the outputs of the last run that nodes without streams send again.
    """

    plan: ValidatedGraph
    registry: Registry
    executors: dict[str, Executor]
    services: dict[str, Any]
    allows_default_services: bool = True
    stream_limits: dict[str, int] = field(default_factory=dict)
    observers: list[tuple[str, Callable[[str, Packet], object], bool]] = field(default_factory=list)
    pollers: list[tuple[str, OutputStreamPoller]] = field(default_factory=list)
    on_error: Callable[[GraphError], object] | None = None
    counters: dict[str, Counter] = field(default_factory=dict)
    constants: dict[int, ConstantOutputs] = field(default_factory=dict)
