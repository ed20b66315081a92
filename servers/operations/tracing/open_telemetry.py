"""`OpenTelemetryTraces`: decides which requests are traced, and makes their spans at their end.

A request has spans for itself, its graphs, their nodes, and generations. Names and attributes
follow OpenTelemetry's semantic conventions for HTTP, RPC and generative models; others are
``graphrt.*``. Of texts they contain only the model's name as the client gave it, and the arguments
of calls of tools if the operator logs prompts.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns, time_ns
from typing import Final, TypeAlias

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord, ToolCallRecord
from calculators.kit.tasks import operation_of
from servers import NAME, version
from servers.operations.request_log import RequestEnd
from servers.operations.tracing.settings import TracingSettings

Value: TypeAlias = str | int | float | list[str]
Attributes: TypeAlias = Mapping[str, Value]

_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)
#: More than any span has.
_MANY_ATTRIBUTES: Final = 32


class SpanSink:
    """Makes ended spans for a span processor.

    The library wants spans to be started, changed and ended, and discourages making `ReadableSpan`
    directly. Here everything is known when a request ends, so that would be unneeded work.
    """

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource
        self._scope = InstrumentationScope(NAME, version())
        self._limits = limits = SpanLimits()
        most = limits.max_span_attributes
        self._is_limited = limits.max_span_attribute_length is not None or (
            most is not None and most < _MANY_ATTRIBUTES
        )

    def put(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        times: tuple[int, int],
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        is_error: bool = False,
    ) -> None:
        """``times``: begin and end, nanoseconds of Unix time."""
        span = ReadableSpan(
            name,
            context,
            parent,
            self._resource,
            self._bounded(attributes) if self._is_limited else attributes,
            kind=kind,
            instrumentation_scope=self._scope,
            status=_ERROR if is_error else _UNSET,
            start_time=times[0],
            end_time=times[1],
        )
        self._processor.on_end(span)

    def _bounded(self, attributes: Attributes) -> BoundedAttributes:
        return BoundedAttributes(
            self._limits.max_span_attributes,
            attributes,
            max_value_len=self._limits.max_span_attribute_length,
        )


# Characters of a name that a client chose.
_LONGEST_NAME: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class RequestTrace:
    """A sampled request, while it runs.

    Attributes:
        context: the context of its span.
        parent: the context of the caller's span, if there is one.
        epoch: the difference of Unix time and ``time.perf_counter_ns``, in nanoseconds. Each
            request has its own, so that its spans fit together although the clock is set.
    """

    sink: SpanSink
    context: SpanContext
    parent: SpanContext | None
    epoch: int

    def child(
        self, parent: SpanContext, name: str, began: int, ended: int, attributes: Attributes
    ) -> SpanContext:
        """Make an ended span below another; return its context."""
        context = SpanContext(
            parent.trace_id, new_span_id(), False, parent.trace_flags, parent.trace_state
        )
        times = began + self.epoch, ended + self.epoch
        self.sink.put(name, context, parent, times, attributes)
        return context


def new_span_id() -> int:
    return random.getrandbits(64) or 1


def end_spans(trace: RequestTrace, record: RequestRecord, end: RequestEnd, ended: int) -> None:
    """Make all spans of a request, the request's own last."""
    nodes = _add_runs(trace, record)
    for route in record.routes:
        chosen: dict[str, Value] = {
            "graphrt.route.name": route.name,
            "graphrt.route.why": route.why,
        }
        if route.passed_over:
            chosen["graphrt.route.passed_over"] = list(route.passed_over)
        trace.child(trace.context, "route", route.time, route.time, chosen)
    for generation in record.generations:
        parent = nodes.get(generation.node, trace.context)
        _add_generation(trace, parent, record.model, generation, ended)
    for call in record.tool_calls:
        _add_tool_call(trace, nodes.get(call.node, trace.context), call, ended)
    attributes = _attributes(record, end)
    failure = record.error or (str(end.status) if end.is_failure else "")
    if failure:
        attributes["error.type"] = failure
    trace.sink.put(
        _name(end),
        trace.context,
        trace.parent,
        (record.began + trace.epoch, ended + trace.epoch),
        attributes,
        kind=SpanKind.SERVER,
        is_error=bool(failure),
    )


def _name(end: RequestEnd) -> str:
    if end.protocol == "grpc":
        return end.method
    return f"{end.method} {end.route}".rstrip()


def _attributes(record: RequestRecord, end: RequestEnd) -> dict[str, Value]:
    attributes: dict[str, Value] = {"graphrt.request_id": record.request_id}
    if record.model:
        attributes["gen_ai.request.model"] = record.model[:_LONGEST_NAME]
    if end.protocol == "grpc":
        service, _, method = end.method.rpartition("/")
        attributes |= {
            "rpc.system": "grpc",
            "rpc.service": service,
            "rpc.method": method,
            "rpc.response.status_code": end.status,
        }
        return attributes
    attributes |= {
        "http.request.method": end.method,
        "http.response.status_code": end.status,
        "url.scheme": end.scheme,
        "url.path": end.path[:_LONGEST_NAME],
    }
    if end.route:
        attributes["http.route"] = end.route
    if end.request_bytes is not None:
        attributes["http.request.body.size"] = end.request_bytes
    return attributes


def _add_runs(trace: RequestTrace, record: RequestRecord) -> dict[str, SpanContext]:
    """Make a span per run of a graph and per node; return the spans of nodes by name."""
    spans: dict[str, SpanContext] = {}
    for graph, times in record.runs:
        if not times.started:
            continue
        attributes: dict[str, Value] = {"graphrt.graph": graph}
        run = trace.child(
            trace.context, f"graph {graph}", times.started, times.last_end, attributes
        )
        for node in times.nodes:
            if not node.calls:
                continue
            attributes = {
                "graphrt.node": node.name,
                "graphrt.calculator": node.calculator,
                "graphrt.calls": node.calls,
                "graphrt.busy_ms": node.busy_ns / 1e6,
            }
            spans[node.name] = trace.child(
                run, f"node {node.name}", node.first_start, node.last_end, attributes
            )
    return spans


def _add_generation(
    trace: RequestTrace,
    parent: SpanContext,
    model: str,
    generation: GenerationRecord,
    ended: int,
) -> None:
    """One generation, and its phases as far as they were reached."""
    last = generation.ended or ended
    operation = operation_of(generation.operation)
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "openvino",
        "gen_ai.request.model": model[:_LONGEST_NAME],
        "gen_ai.usage.input_tokens": generation.prompt_tokens,
        "gen_ai.usage.output_tokens": generation.completion_tokens,
    }
    if generation.finish_reasons:
        attributes["gen_ai.response.finish_reasons"] = generation.finish_reasons
    if generation.max_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = generation.max_tokens
    if generation.first_token:
        seconds = (generation.first_token - generation.began) / 1e9
        attributes["gen_ai.latency.time_to_first_token"] = seconds
    name = f"{operation} {model[:_LONGEST_NAME]}".rstrip()
    span = trace.child(parent, name, generation.began, last, attributes)
    phases = (
        ("make prompt", generation.began, generation.submitted),
        ("prefill", generation.submitted, generation.first_token),
        ("decode", generation.first_token, generation.ended),
    )
    for phase, began, until in phases:
        if began:
            trace.child(span, phase, began, max(began, until or last), {})


def _add_tool_call(
    trace: RequestTrace, parent: SpanContext, call: ToolCallRecord, ended: int
) -> None:
    """Make the span of a call of a tool that this server ran."""
    name = call.name[:_LONGEST_NAME]
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "graphrt.tool_server": call.server,
        "graphrt.tool_output_bytes": call.output_bytes,
    }
    if call.arguments:
        attributes["gen_ai.tool.call.arguments"] = call.arguments
    if call.exceeded:
        attributes["error.type"] = call.exceeded
    elif call.error or not call.ended:
        attributes["error.type"] = "tool_error" if call.ended else "cancelled"
    last = call.began if call.exceeded else call.ended or ended
    trace.child(parent, f"execute_tool {name}", call.began, last, attributes)


_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP: Final = "http/protobuf"
_GRPC: Final = "grpc"
_PATH: Final = "/v1/traces"


def new_exporter(settings: TracingSettings) -> SpanExporter:
    """Make an exporter for the endpoint of the settings, else of the environment.

    Raises:
        ValueError: the environment names a protocol other than ``http/protobuf`` and ``grpc``.
    """
    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), _HTTP)
    endpoint = settings.endpoint.rstrip("/")
    if protocol == _HTTP:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        if not endpoint:
            return OTLPSpanExporter()
        # The exporter adds the path to an endpoint of the environment only.
        return OTLPSpanExporter(endpoint if endpoint.endswith(_PATH) else endpoint + _PATH)
    if protocol == _GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as GrpcSpanExporter,
        )

        return GrpcSpanExporter(endpoint or None)
    raise ValueError(f"{_PROTOCOLS[1]} is {protocol!r}; known are {_HTTP} and {_GRPC}")


#: Seconds for which a collector that does not answer may delay the end of the server.
CLOSE_SECONDS: Final = 3.0
_TRACEPARENT_LENGTH: Final = 55
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class OpenTelemetryTraces:
    """A `request_log.Traces`. For a request that is not sampled, only the decision costs time.

    The sampler that OpenTelemetry's variables name (``OTEL_TRACES_SAMPLER``) decides, or the
    caller, by ``traceparent``. `begin` and `end` belong to one event loop.
    """

    def __init__(self, settings: TracingSettings) -> None:
        """Make the provider of spans.

        Raises:
            ValueError: OpenTelemetry rejects its variables.
        """
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        processor = BatchSpanProcessor(new_exporter(settings))
        self._provider.add_span_processor(processor)
        self._sink = SpanSink(processor, self._provider.resource)
        self._sampler = self._provider.sampler
        self._propagator = TraceContextTextMapPropagator()
        # Then a caller that does not sample, which is the usual case, costs nothing either.
        sampler = os.environ.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
        self._follows_callers = sampler.startswith("parentbased_")
        self._is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"

    def begin(self, record: RequestRecord, header: Callable[[str], str | None]) -> None:
        """See `request_log.Traces.begin`."""
        context: Context | None = None
        parent: SpanContext | None = None
        sent = header("traceparent")
        if sent is not None:
            if self._follows_callers and _is_unsampled(sent):
                return
            carrier = {"traceparent": sent, "tracestate": header("tracestate") or ""}
            context = self._propagator.extract(carrier)
            found = get_current_span(context).get_span_context()
            parent = found if found.is_valid else None
        # 0 is not a valid id (W3C Trace Context).
        trace_id = random.getrandbits(128) or 1 if parent is None else parent.trace_id
        result = self._sampler.should_sample(context, trace_id, NAME, SpanKind.SERVER)
        if result.decision is not Decision.RECORD_AND_SAMPLE or self._is_off:
            return
        own = SpanContext(trace_id, new_span_id(), False, _SAMPLED, result.trace_state)
        record.trace = RequestTrace(self._sink, own, parent, time_ns() - perf_counter_ns())
        record.trace_id = f"{trace_id:032x}"

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """See `request_log.Traces.end`. Makes all spans of the request."""
        trace = record.trace
        if isinstance(trace, RequestTrace):
            end_spans(trace, record, end, ended)

    def close(self) -> None:
        """Send the remaining spans within `CLOSE_SECONDS`."""
        closing = threading.Thread(
            target=self._provider.shutdown, name="graphrt-traces", daemon=True
        )
        closing.start()
        closing.join(CLOSE_SECONDS)


def _is_unsampled(traceparent: str) -> bool:
    """Return whether this is a header of version 00 without the flag "sampled"."""
    return (
        len(traceparent) == _TRACEPARENT_LENGTH
        and traceparent.startswith("00-")
        and traceparent[-1] in "02468ace"
    )


def _resource() -> Resource:
    """Return the resource from the environment, with our name if that has none."""
    resource = Resource.create({SERVICE_VERSION: version()})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: NAME}))
    return resource
