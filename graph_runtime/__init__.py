"""graph_runtime: a dataflow engine with MediaPipe's graph language and semantics.

The nouns:

Packet      An immutable value with a timestamp. Timestamps are 64-bit microseconds by convention;
            the engine only compares them.
Stream      A sequence of packets with increasing timestamps, from one producer to any number of
            consumers. Beside packets it carries a *bound*: the smallest timestamp that may still
            come. What lies before the bound is *settled*.
Side packet A value without a timestamp that a node gets before it opens: a model, a setting.
Calculator  A kind of node: ``open``, ``process``, ``close``. See `Calculator`, and `calculator` to
            register one, plain functions included.
Contract    What a calculator promises about its ports; typed ports (`In`, `Out`, `SideIn`,
            `SideOut`) write it for you.
Graph       Nodes connected by streams, described by a ``CalculatorGraphConfig`` (``graph.pbtxt``),
            checked once into a frozen plan (`validate_graph`), run by a `CalculatorGraph`.
Executor    Where calls run: the application's thread, an event loop, a pool of threads.

Authors of calculators import only this module.
"""

from __future__ import annotations

from graph_runtime.authoring.calculator import Calculator, Options, Stop
from graph_runtime.authoring.context import (
    CalculatorContext,
    InputStreamShard,
    OutputSidePacket,
    OutputStreamShard,
)
from graph_runtime.authoring.contract import CalculatorContract
from graph_runtime.authoring.executor import ApplicationThreadExecutor, Executor, ThreadPoolExecutor
from graph_runtime.authoring.metrics import (
    METRICS,
    NO_METRICS,
    GraphMetrics,
    MetricCounter,
    MetricGauge,
    MetricHistogram,
    NodeMetrics,
    metrics_of,
)
from graph_runtime.authoring.ports import In, Out, SideIn, SideOut
from graph_runtime.authoring.service import GraphService
from graph_runtime.engine.poller import OutputStreamPoller
from graph_runtime.errors import (
    CalculatorError,
    Cancelled,
    Code,
    GraphConfigError,
    GraphError,
    GraphSyntaxError,
    NotFoundError,
    PacketTypeError,
    ResourceError,
    RunError,
    StateError,
    TimestampError,
    UnavailableError,
    ValidationError,
)
from graph_runtime.graph import CalculatorGraph
from graph_runtime.language.graph_config import (
    graph_to_binary,
    graph_to_text,
    load_graph_config,
    parse_graph_binary,
    parse_graph_text,
)
from graph_runtime.language.tag_map import TagMap, parse_tag_index
from graph_runtime.observe.call_observers import CallObserver
from graph_runtime.observe.run_totals import GraphNow, NodeTotal, RunTotals
from graph_runtime.observe.statistics import GraphStatistics, NodeStatistics, StreamStatistics
from graph_runtime.observe.tracing import Tracer
from graph_runtime.options.options import find_options, has_options, merge_options, options
from graph_runtime.packet import EMPTY, Packet
from graph_runtime.plan.identity import identity_of
from graph_runtime.plan.leases import KeptResources, NodeResource
from graph_runtime.plan.load_progress import LoadProgress
from graph_runtime.plan.plan import NodePlan, ValidatedGraph
from graph_runtime.plan.registry import REGISTRY, Registry, calculator, resource_initializer
from graph_runtime.plan.resources import (
    FamilySettings,
    GraphResources,
    ResourceInitializer,
    ResourceSettings,
    SharingInitializer,
    make_resources,
)
from graph_runtime.plan.subgraph import SubgraphContext
from graph_runtime.plan.validated_graph import validate_graph
from graph_runtime.prepared_graph import GraphInputStreamAddMode
from graph_runtime.timestamp import Timestamp

__all__ = [
    "EMPTY",
    "METRICS",
    "NO_METRICS",
    "REGISTRY",
    "ApplicationThreadExecutor",
    "Calculator",
    "CalculatorContext",
    "CalculatorContract",
    "CalculatorError",
    "CalculatorGraph",
    "CallObserver",
    "Cancelled",
    "Code",
    "Executor",
    "FamilySettings",
    "GraphConfigError",
    "GraphError",
    "GraphInputStreamAddMode",
    "GraphMetrics",
    "GraphNow",
    "GraphResources",
    "GraphService",
    "GraphStatistics",
    "GraphSyntaxError",
    "In",
    "InputStreamShard",
    "KeptResources",
    "LoadProgress",
    "MetricCounter",
    "MetricGauge",
    "MetricHistogram",
    "NodeMetrics",
    "NodePlan",
    "NodeResource",
    "NodeStatistics",
    "NodeTotal",
    "NotFoundError",
    "Options",
    "Out",
    "OutputSidePacket",
    "OutputStreamPoller",
    "OutputStreamShard",
    "Packet",
    "PacketTypeError",
    "Registry",
    "ResourceError",
    "ResourceInitializer",
    "ResourceSettings",
    "RunError",
    "RunTotals",
    "SharingInitializer",
    "SideIn",
    "SideOut",
    "StateError",
    "Stop",
    "StreamStatistics",
    "SubgraphContext",
    "TagMap",
    "ThreadPoolExecutor",
    "Timestamp",
    "TimestampError",
    "Tracer",
    "UnavailableError",
    "ValidatedGraph",
    "ValidationError",
    "calculator",
    "find_options",
    "graph_to_binary",
    "graph_to_text",
    "has_options",
    "identity_of",
    "load_graph_config",
    "make_resources",
    "merge_options",
    "metrics_of",
    "options",
    "parse_graph_binary",
    "parse_graph_text",
    "parse_tag_index",
    "resource_initializer",
    "validate_graph",
]
