"""`PreparedGraph`: a graph, and everything that is attached to it between its runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from graph_runtime.authoring.executor import Executor
from graph_runtime.authoring.service import GraphService
from graph_runtime.engine.poller import OutputStreamPoller
from graph_runtime.engine.run import Run
from graph_runtime.engine.run_setup import RunSetup
from graph_runtime.errors import (
    Code,
    GraphConfigError,
    GraphError,
    NotFoundError,
    StateError,
    did_you_mean,
    wrong_argument,
)
from graph_runtime.language.graph_config import (
    graph_to_binary,
    graph_to_text,
    load_graph_config,
    parse_graph_text,
)
from graph_runtime.observe.call_observers import CallObserver
from graph_runtime.observe.run_totals import RunTotals
from graph_runtime.packet import Packet
from graph_runtime.plan.executor_plan import is_reserved_executor_name
from graph_runtime.plan.plan import ValidatedGraph
from graph_runtime.plan.registry import REGISTRY, Registry
from graph_runtime.plan.validated_graph import validate_graph

T = TypeVar("T")


class GraphInputStreamAddMode(Enum):
    """Behaviour of ``add_packet_to_input_stream`` while the graph is throttled."""

    WAIT_TILL_NOT_FULL = "WAIT_TILL_NOT_FULL"
    ADD_IF_NOT_FULL = "ADD_IF_NOT_FULL"


class PreparedGraph:
    """The base of `CalculatorGraph`: its plan, and what the application attaches to it.

    Observers, pollers, executors and services are attached while no run is going on, and stay for
    all later runs.
    """

    def __init__(
        self,
        graph_config: Any = None,
        *,
        text_config: str | None = None,
        graph_path: str | os.PathLike[str] | None = None,
        binary_graph_path: str | os.PathLike[str] | None = None,
        validated_graph: ValidatedGraph | None = None,
        registry: Registry | None = None,
        executors: Mapping[str, Executor] | None = None,
        services: Mapping[GraphService[Any], Any] | None = None,
    ) -> None:
        """Make a graph from exactly one of: a config message or text, text, a file, or a plan.

        ``graph_path`` and ``binary_graph_path`` (MediaPipe's name) are paths of a text or binary
        file. Subgraph files beside it are not loaded: register them. A graph from a plan
        (`validate_graph`) is cheap: make many. ``executors`` supplies the executors that the graph
        names without a type, and may replace others. ``services`` also reach subgraph functions.

        Raises:
            GraphSyntaxError: the text does not parse.
            ValidationError: the graph cannot run.
        """
        path = graph_path if graph_path is not None else binary_graph_path
        given = (graph_config, text_config, graph_path, binary_graph_path, validated_graph)
        count = len(given) - given.count(None)
        if count != 1:
            raise GraphConfigError(
                "CalculatorGraph needs exactly one of graph_config, text_config, graph_path, "
                f"binary_graph_path and validated_graph, not {count} of them"
            )
        provided: dict[str, Any] = {}
        for service, value in (services or {}).items():
            provided[service.key] = value
        if isinstance(graph_config, ValidatedGraph):
            validated_graph = graph_config
        if validated_graph is None:
            config = graph_config if text_config is None else text_config
            if path is not None:
                config = load_graph_config(path)
            elif isinstance(config, str):
                config = parse_graph_text(config)
            validated_graph = validate_graph(
                config, registry=registry, executors=executors or {}, services=provided
            )
        self._plan = validated_graph
        self._setup = RunSetup(self._plan, registry or REGISTRY, dict(executors or {}), provided)
        self._add_mode = GraphInputStreamAddMode.WAIT_TILL_NOT_FULL
        self._tracer: CallObserver | None = None
        self._totals: RunTotals | None = None
        self._lock = threading.Lock()
        #: The run that is going on.
        self._run: Run | None = None

    @property
    def plan(self) -> ValidatedGraph:
        """The frozen plan; other graphs can be made from it."""
        return self._plan

    @property
    def text_config(self) -> str:
        """The canonical config (subgraphs expanded, nodes sorted) as text."""
        return graph_to_text(self._plan.config)

    @property
    def binary_config(self) -> bytes:
        """The canonical config, serialized."""
        return graph_to_binary(self._plan.config)

    @property
    def max_queue_size(self) -> int:
        """The limit of every input queue; -1 is none."""
        return self._plan.max_queue_size

    @property
    def graph_input_stream_add_mode(self) -> GraphInputStreamAddMode:
        return self._add_mode

    @graph_input_stream_add_mode.setter
    def graph_input_stream_add_mode(self, mode: GraphInputStreamAddMode) -> None:
        self._add_mode = mode

    def observe_output_stream(
        self,
        stream_name: str,
        callback: Callable[[str, Packet], object],
        observe_timestamp_bounds: bool = False,
    ) -> None:
        """Call ``callback(stream_name, packet)`` for each packet of any stream of the graph.

        With ``observe_timestamp_bounds``, an empty packet reports how far the stream is settled. An
        exception from the callback fails the run, and the observer is not called again.

        Raises:
            NotFoundError: no such stream.
            StateError: the graph is running.
        """
        if self._run is not None or stream_name not in self._plan.producers:
            raise self._not_attachable(stream_name, "observe_output_stream")
        if not callable(callback):
            raise wrong_argument("observe_output_stream", "callback", callback, "a function")
        self._setup.observers.append((stream_name, callback, observe_timestamp_bounds))

    def add_output_stream_poller(
        self, stream_name: str, observe_timestamp_bounds: bool = False
    ) -> OutputStreamPoller:
        """Make a poller, which reads the packets of a stream on request.

        Raises:
            NotFoundError: no such stream.
            StateError: the graph is running.
        """
        if self._run is not None or stream_name not in self._plan.producers:
            raise self._not_attachable(stream_name, "add_output_stream_poller")
        poller = OutputStreamPoller(stream_name, observe_timestamp_bounds)
        self._setup.pollers.append((stream_name, poller))
        return poller

    def set_executor(self, name: str, executor: Executor) -> None:
        """Run the nodes of the executor ``name`` ("" is the default one) in ``executor``.

        Raises:
            GraphError: given before (ALREADY_EXISTS); a reserved name; the graph is running.
        """
        self._check_not_running("set_executor")
        if not isinstance(executor, Executor):
            raise wrong_argument("set_executor", "executor", executor, "an Executor")
        if is_reserved_executor_name(name):
            raise GraphConfigError(f'"{name}" is a reserved executor name.')
        if name in self._setup.executors:
            raise GraphError(
                f'SetExecutor must be called only once for the executor "{name}"',
                code=Code.ALREADY_EXISTS,
            )
        self._setup.executors[name] = executor

    def set_service_object(self, service: GraphService[T], value: T) -> None:
        """Provide a service to the nodes that ask for it."""
        self._check_not_running("set_service_object")
        self._setup.services[service.key] = value

    def disallow_service_default_initialization(self) -> None:
        """Require every service to be provided, even if it could make a default."""
        self._setup.allows_default_services = False

    def set_error_callback(self, callback: Callable[[GraphError], object]) -> None:
        """Call ``callback(error)`` once for each recorded error, from the failing thread.

        It must not call the graph. Raises StateError while the graph is running.
        """
        self._check_not_running("set_error_callback")
        if not callable(callback):
            raise wrong_argument("set_error_callback", "callback", callback, "a function")
        self._setup.on_error = callback

    def set_input_stream_max_queue_size(self, stream_name: str, size: int) -> None:
        """Limit the queues that one graph input feeds, from the next run on; -1 is no limit."""
        self._find_graph_input(stream_name, "set_input_stream_max_queue_size")
        if not isinstance(size, int):
            raise wrong_argument("set_input_stream_max_queue_size", "size", size, "an integer")
        self._setup.stream_limits[stream_name] = size

    def trace(self, tracer: CallObserver) -> None:
        """Record the next runs. A `Tracer` writes them for Perfetto, by ``tracer.save(path)``."""
        self._check_not_running("trace")
        self._tracer = tracer

    def count_into(self, totals: RunTotals) -> None:
        """Add the calls and counters of later runs to ``totals``, made for the same plan."""
        self._totals = totals

    # Inside ---------------------------------------------------------------------------------------

    def _check_not_running(self, call: str) -> None:
        if self._run is not None:
            raise _is_running(call)

    def _not_attachable(self, name: str, call: str) -> GraphError:
        if self._run is not None:
            return _is_running(call)
        return NotFoundError(
            f'Unable to attach observer to output stream "{name}" because it doesn\'t exist.'
            f"{did_you_mean(name, self._plan.producers)}"
        )

    def _find_graph_input(self, name: str, call: str) -> int:
        places = self._plan.input_places
        place = places.get(name)
        if place is None:
            raise NotFoundError(
                f'{camel_case(call)} called on input stream "{name}" which is not a graph input '
                f"stream.{did_you_mean(name, places)} Graph input streams: "
                f"{', '.join(places) or 'none'}"
            )
        return place


def camel_case(call: str) -> str:
    """MediaPipe's name of a method, for its texts of errors."""
    return "".join(word.capitalize() for word in call.removesuffix("_async").split("_"))


def _is_running(call: str) -> StateError:
    return StateError(f"{call}() can only be called while no run is going on")
