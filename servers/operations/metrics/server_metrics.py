"""`ServerMetrics`: all metrics of one server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord
from calculators.kit.tasks import task_of_node
from graph_runtime import (
    NO_METRICS,
    MetricCounter,
    MetricGauge,
    MetricHistogram,
    NodeMetrics,
    ValidatedGraph,
)
from graph_runtime.authoring.metrics import NO_LABELS, SECONDS
from servers import version
from servers.config.server_config import MetricsConfig
from servers.operations.metrics.exposition import Exposition, MetricsText
from servers.operations.metrics.families import CounterFamily, Families, Family, Histogram, Series
from servers.operations.metrics.requests import (
    GraphRequestMetrics,
    GraphRuns,
    ModelRequests,
    NodeFamilies,
    OvmsFamilies,
)
from servers.operations.request_log import RequestEnd

if TYPE_CHECKING:
    from calculators.tensors.openvino.model import Model

#: Upper bounds in seconds.
_WAITS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_PER_TOKEN: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0),
)

FINISHED: Final = "finished"
CANCELLED: Final = "cancelled"
REFUSED: Final = "refused"
FAILED: Final = "failed"


class _NodeCounts(NamedTuple):
    preparation: Histogram
    engine_wait: Histogram
    first_token: Histogram
    per_token: Histogram
    whole: Histogram
    prompt_tokens: CounterFamily
    generated_tokens: CounterFamily
    shared_tokens: CounterFamily
    outcomes: dict[str, CounterFamily]
    reasons: dict[str, CounterFamily]


class Generations:
    """The families ``graphrt_llm_...`` that are counted at the end of a request."""

    def __init__(self, families: Families) -> None:
        self._histograms = (
            families.histogram(
                "graphrt_llm_preparation_seconds",
                "From a request's arrival at the node until the engine got it: template, tokens, "
                "grammar.",
                _WAITS,
            ),
            families.histogram(
                "graphrt_llm_engine_wait_seconds",
                "From then to the first token: waiting in the engine's queue and the prompt's pass,"
                " which the engine does not distinguish.",
                _WAITS,
            ),
            families.histogram(
                "graphrt_llm_time_to_first_token_seconds",
                "From a request's arrival at the node to its first token.",
                _WAITS,
            ),
            families.histogram(
                "graphrt_llm_time_per_output_token_seconds",
                "Mean time between the tokens of a choice after the first, one value per request.",
                _PER_TOKEN,
            ),
            families.histogram(
                "graphrt_llm_request_seconds",
                "From a request's arrival at the node to its last token.",
                _WAITS,
            ),
        )
        self._counters = (
            families.counter(
                "graphrt_llm_prompt_tokens_total", "Tokens of the prompts of ended requests."
            ),
            families.counter(
                "graphrt_llm_generated_tokens_total", "Tokens generated for ended requests."
            ),
            families.counter(
                "graphrt_llm_shared_prompt_tokens_total",
                "Tokens of these prompts, in whole blocks, with which earlier requests began too: "
                "an estimate of what prefix caching saved.",
            ),
        )
        self._outcomes = families.counter(
            "graphrt_llm_requests_total",
            "Ended requests: finished, cancelled (the client went, or the time was over), refused "
            "(the request was wrong, or too many were there), failed.",
        )
        self._reasons = families.counter(
            "graphrt_llm_choices_total", "Choices of answers by their finish_reason."
        )
        self._nodes: dict[tuple[str, str], _NodeCounts] = {}

    def begin(self, graph: str, node: str) -> None:
        """Make the series of a node with the value 0."""
        labels = {"graph": graph, "node": node}
        preparation, engine_wait, first_token, per_token, whole = self._histograms
        prompt_tokens, generated_tokens, shared_tokens = self._counters
        self._nodes[graph, node] = _NodeCounts(
            preparation.of(labels),
            engine_wait.of(labels),
            first_token.of(labels),
            per_token.of(labels),
            whole.of(labels),
            prompt_tokens.of(labels),
            generated_tokens.of(labels),
            shared_tokens.of(labels),
            {
                outcome: self._outcomes.of({**labels, "outcome": outcome})
                for outcome in (FINISHED, CANCELLED, REFUSED, FAILED)
            },
            {},
        )

    def forget(self, graph: str) -> None:
        for key in [key for key in self._nodes if key[0] == graph]:
            del self._nodes[key]

    def end(self, graph: str, record: GenerationRecord, outcome: str, ended: int) -> None:
        """Count a generation of a served graph. On the event loop.

        ``ended``: its end, if the record has none.
        """
        counts = self._nodes.get((graph, record.node))
        if counts is None:
            self.begin(graph, record.node)
            counts = self._nodes[graph, record.node]
        ended = record.ended or ended
        counts.outcomes[outcome].counted += 1
        for reason in record.finish_reasons:
            choices = counts.reasons.get(reason)
            if choices is None:
                labels = {"graph": graph, "node": record.node, "finish_reason": reason}
                choices = counts.reasons[reason] = self._reasons.of(labels)
            choices.counted += 1
        counts.prompt_tokens.counted += record.prompt_tokens
        counts.generated_tokens.counted += record.completion_tokens
        counts.shared_tokens.counted += record.shared_tokens
        if record.submitted:
            counts.preparation.note((record.submitted - record.began) / 1e9)
        if record.first_token:
            counts.engine_wait.note((record.first_token - record.submitted) / 1e9)
            counts.first_token.note((record.first_token - record.began) / 1e9)
        if outcome != FINISHED:
            return
        counts.whole.note((ended - record.began) / 1e9)
        # Tokens of a choice after its first; choices are generated in parallel.
        later = record.completion_tokens / max(1, len(record.finish_reasons)) - 1
        if later > 0 and record.first_token:
            counts.per_token.note((ended - record.first_token) / 1e9 / later)


_log: Final = logging.getLogger(__name__)

S = TypeVar("S", bound=Series)

#: Series of one name, over all nodes. More result from labels that clients choose, a mistake.
SERIES_LIMIT: Final = 1000

#: Prefixes of other metrics on the same page.
_KEPT: Final = ("ovms_", "process_", "python_")
#: Labels that are set here, and the label of histograms.
_KEPT_LABELS: Final = frozenset({"graph", "node", "le"})


class GraphNodeMetrics:
    """The metrics of one graph: a `graph_runtime.GraphMetrics`, the service of `METRICS`."""

    def __init__(self, families: Families, graph: str, kept: frozenset[str]) -> None:
        """``kept``: names of the server's own families, which nodes cannot use."""
        self._families = families
        self._graph = graph
        self._kept = kept
        self._nodes: dict[str, NodeMetrics] = {}

    def of_node(self, name: str) -> NodeMetrics:
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = _OneNode(self._families, self._graph, name, self._kept)
        return found


class _OneNode:
    """The metrics of one node: a `graph_runtime.NodeMetrics`."""

    def __init__(self, families: Families, graph: str, node: str, kept: frozenset[str]) -> None:
        self._families = families
        self._place = {"graph": graph, "node": node}
        self._kept = kept

    def counter(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricCounter:
        self._check(name.removesuffix("_total") + "_total")
        return self._of(self._families.counter(name, help), labels) or NO_METRICS.counter("", "")

    def gauge(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricGauge:
        self._check(name)
        return self._of(self._families.gauge(name, help), labels) or NO_METRICS.gauge("", "")

    def histogram(
        self,
        name: str,
        help: str,
        labels: Mapping[str, str] = NO_LABELS,
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> MetricHistogram:
        self._check(name)
        family = self._families.histogram(name, help, bounds)
        return self._of(family, labels) or NO_METRICS.histogram("", "")

    def _check(self, name: str) -> None:
        if name in self._kept or name.startswith(_KEPT):
            raise ValueError(f'the metric "{name}" is one of the server\'s: choose another name')

    def _of(self, family: Family[S], labels: Mapping[str, str]) -> S | None:
        for label in labels:
            if label in _KEPT_LABELS or not label.isidentifier() or not label.isascii():
                raise ValueError(
                    f'the metric "{family.name}" cannot have the label "{label}": graph and node '
                    f"are set, and others are letters, digits and _"
                )
        all_labels = {**self._place, **labels}
        if len(family) >= SERIES_LIMIT and not family.has(all_labels):
            if not family.is_full:
                family.is_full = True
                _log.warning(
                    "the metric %r has %d series: others are not counted; its labels must have few "
                    "values",
                    family.name,
                    len(family),
                )
            return None
        return family.of(all_labels)


#: Upper bounds in seconds.
_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
_HTTP_METHODS: Final = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})


class TransportCounts:
    """The counts of both fronts. Clients cannot choose values of labels, so there are few."""

    def __init__(self, families: Families) -> None:
        self._http = families.counter(
            "graphrt_http_requests_total", "HTTP requests by route, method and status."
        )
        self._http_seconds = families.histogram(
            "graphrt_http_request_seconds",
            "From a request's headers to the end of its answer.",
            _SECONDS,
        )
        self._grpc = families.counter(
            "graphrt_grpc_calls_total", "Calls over gRPC by method and status."
        )
        self._grpc_seconds = families.histogram(
            "graphrt_grpc_call_seconds", "From a call's begin to its status.", _SECONDS
        )
        self._known: dict[tuple[str, str, int | str], tuple[CounterFamily, Histogram | None]] = {}

    def count(self, end: RequestEnd, seconds: float) -> None:
        key = (end.route, end.method, end.status)
        known = self._known.get(key)
        if known is None:
            known = self._known[self._safe(end)] = self._series(end)
        known[0].counted += 1
        if known[1] is not None:
            known[1].note(seconds)

    def _safe(self, end: RequestEnd) -> tuple[str, str, int | str]:
        """Return the key of the series. An HTTP method may be any word that a client sends."""
        return (end.route, self._method(end), end.status)

    def _series(self, end: RequestEnd) -> tuple[CounterFamily, Histogram | None]:
        method = self._method(end)
        if end.protocol == "grpc":
            method = method.rpartition("/")[2] or method
            return (
                self._grpc.of({"method": method, "code": str(end.status)}),
                self._grpc_seconds.of({"method": method}),
            )
        route = end.route or "none"
        return (
            self._http.of({"route": route, "method": method, "code": str(end.status)}),
            # The length of a stream of what runs is that of its client's interest.
            None if end.is_watching else self._http_seconds.of({"route": route}),
        )

    def _method(self, end: RequestEnd) -> str:
        if end.protocol == "http" and end.method not in _HTTP_METHODS:
            return "other"
        return end.method


_GOOD = frozenset({200, "OK"})
#: Statuses of requests whose client left, or whose time limit was exceeded.
_CANCELLED = frozenset({499, 504, "CANCELLED", "DEADLINE_EXCEEDED"})


class Served(NamedTuple):
    """A name that clients may call.

    Attributes:
        versions: the versions of a plain model; None for a graph.
        adapters: further names, which count as this one.
        is_loaded: it is in memory, not to be loaded by the next request.
    """

    name: str
    is_ready: bool
    versions: tuple[str, ...] | None = None
    adapters: Sequence[str] = ()
    is_loaded: bool = True


class ServerMetrics:
    """The metrics of one server. Belongs to one event loop, except the metrics of nodes.

    Names that clients send become labels only if a graph or model of that name is served.
    """

    def __init__(self, settings: MetricsConfig | None = None) -> None:
        self.families = Families()
        #: Returns what is served now; set by the server.
        self.served: Callable[[], Iterable[Served]] = lambda: ()
        self._ovms = OvmsFamilies(self.families, settings or MetricsConfig())
        self._transports = TransportCounts(self.families)
        self._cancelled = self.families.counter(
            "graphrt_requests_cancelled_total",
            "Requests whose client went, whose time was over, or that the server's end cut off.",
        )
        self._ready = self.families.gauge(
            "graphrt_model_ready", "Would the graph or model answer now? 1 or 0."
        )
        self._generations = Generations(self.families)
        self._nodes = NodeFamilies(self.families)
        build = self.families.gauge("graphrt_build_info", "1; the label says which version runs.")
        build.of({"version": version()}).set(1)
        self._kept = frozenset(family.name for family in self.families)
        self._graphs: dict[str, GraphRequestMetrics] = {}
        self._models: dict[str, ModelRequests] = {}
        #: The graph of each adapter.
        self._adapted: dict[str, str] = {}
        self._services: dict[str, GraphNodeMetrics] = {}
        #: Names that have series.
        self._names: set[str] = set()
        self._runs: set[GraphRuns] = set()
        self._exposition = Exposition(self.families, self._look)

    def text(self, accept: str = "") -> MetricsText:
        """Return the body of ``GET /metrics``; ``accept``: the header."""
        return self._exposition.text(accept)

    async def text_in_turns(self, accept: str = "") -> MetricsText:
        """Return `text` without blocking the event loop."""
        return await self._exposition.text_in_turns(accept)

    # Loaded graphs and models ---------------------------------------------------------------------

    def service_of(self, graph: str) -> GraphNodeMetrics:
        """Return the service `graph_runtime.METRICS` of a graph."""
        self._names.add(graph)
        found = self._services.get(graph)
        if found is None:
            found = GraphNodeMetrics(self.families, graph, self._kept)
            self._services[graph] = found
        return found

    def begin_graph(self, name: str, plan: ValidatedGraph) -> GraphRuns:
        """Begin to count a loaded graph, until `end_graph`."""
        runs = GraphRuns(name, plan, self._nodes, self.service_of(name))
        self._runs.add(runs)
        for node in plan.nodes:
            task = task_of_node(node.calculator_type)
            if task is not None and task.generates_text:
                self._generations.begin(name, node.name)
        return runs

    def end_graph(self, runs: GraphRuns) -> None:
        """End a graph that is closed. Another may be loaded under its name."""
        runs.close()
        self._runs.discard(runs)

    def watch_model(self, model: Model) -> Callable[[], None]:
        """Begin to count a version of a plain model. The returned function ends it."""
        self._names.add(model.name)
        labels = {"name": model.name, "version": str(model.version)}
        model.observe_times(
            self._ovms.wait_time.of(labels).note, self._ovms.inference_time.of(labels).note
        )
        ends = (
            self._ovms.streams.of(labels).follow(lambda: model.streams),
            self._ovms.queue_size.of(labels).follow(lambda: model.nireq),
            self._ovms.active.of(labels).follow(lambda: model.active),
        )

        def end() -> None:
            for each in ends:
                each()

        return end

    # Requests -------------------------------------------------------------------------------------

    def graph(self, name: str) -> GraphRequestMetrics | None:
        """Return the counts of the graph with this name or adapter; None if there is none."""
        found = self._graphs.get(self._adapted.get(name, name))
        if found is None and name not in self._models:
            self._take_served(name)
            found = self._graphs.get(self.graph_name(name))
        return found

    def graph_name(self, name: str) -> str:
        """Return the name of the graph that answers to ``name``, which may be an adapter's."""
        return self._adapted.get(name, name)

    def model(self, name: str) -> ModelRequests | None:
        """Return the counts of a plain model; None if no such model is served."""
        found = self._models.get(name)
        if found is None and name not in self._graphs:
            self._take_served(name)
            found = self._models.get(name)
        return found

    def end_request(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """Count a request that is answered, or whose client is gone."""
        self._transports.count(end, (ended - record.began) / 1e9)
        if not record.generations or self.graph(record.model) is None:
            return
        is_stream = len(record.generations) > 1
        for generation in record.generations:
            outcome = _outcome_of(end)
            # For a stream of requests the status only says how the call ended.
            if generation.finish_reasons and (is_stream or end.status in _GOOD):
                outcome = FINISHED
            self._generations.end(self.graph_name(record.model), generation, outcome, ended)

    def forget_generation(self, record: RequestRecord, generation: GenerationRecord) -> None:
        """Count a generation that the record of a long stream drops before its end."""
        if self.graph(record.model) is not None:
            outcome = FINISHED if generation.finish_reasons else CANCELLED
            graph = self.graph_name(record.model)
            self._generations.end(graph, generation, outcome, perf_counter_ns())

    # Polled metrics -------------------------------------------------------------------------------

    def _look(self) -> Iterator[None]:
        served = list(self.served())
        self._forget_others(served)
        for each in served:
            self._take_up(each)
            self._ready.of({"name": each.name}).set(each.is_ready)
            if each.versions is None:
                self._ovms.graph_loaded.of({"name": each.name}).set(each.is_loaded)
            yield
        for runs in tuple(self._runs):
            runs.look()
            yield

    def _take_served(self, name: str) -> None:
        served = list(self.served())
        found = [each for each in served if each.name == name or name in each.adapters]
        if found:
            self._forget_others(served)
        for each in found:
            self._take_up(each)

    def _forget_others(self, served: Iterable[Served]) -> None:
        """Drop the series of names that are not served any more; update the names of adapters."""
        graphs = {each.name for each in served if each.versions is None}
        models = {each.name: each.versions for each in served if each.versions is not None}
        served_as = {**dict.fromkeys(graphs, True), **dict.fromkeys(models, False)}
        changed = {
            *(name for name in self._graphs if not served_as.get(name, False)),
            *(name for name in self._models if served_as.get(name, True)),
        }
        self._forget(changed | (self._names - served_as.keys()))
        # A model's name takes precedence over an adapter's.
        adapted = {name: each.name for each in served for name in each.adapters}
        self._adapted = {name: adapted[name] for name in adapted.keys() - served_as.keys()}

    def _take_up(self, served: Served) -> None:
        """Make the series of a name, unless it has some."""
        name = served.name
        self._names.add(name)
        if served.versions is None:
            if name not in self._graphs:
                self._graphs[name] = GraphRequestMetrics(name, self._ovms, self._cancelled)
            return
        known = self._models.get(name)
        if known is None:
            known = self._models[name] = ModelRequests(name, self._ovms, self._cancelled)
        if known.versions != frozenset(served.versions):
            for gone in known.versions.difference(served.versions):
                self.families.forget({"name": name, "version": gone})
            known.set_versions(served.versions)

    def _forget(self, names: Collection[str]) -> None:
        if not names:
            return
        for name in names:
            self._names.discard(name)
            self._graphs.pop(name, None)
            self._models.pop(name, None)
            self._services.pop(name, None)
            self._generations.forget(name)
        for runs in self._runs:
            if runs.name in names:
                runs.forget()
        for label in ("name", "graph"):
            self.families.forget_all(label, names)


def _outcome_of(end: RequestEnd) -> str:
    """Return the outcome of a generation that did not finish."""
    if end.status in _CANCELLED:
        return CANCELLED
    # An error after the first event of a stream leaves the status good.
    return FAILED if end.is_failure or end.status in _GOOD else REFUSED
