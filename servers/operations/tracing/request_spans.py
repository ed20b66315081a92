"""The spans of one request: the request, its graphs, their nodes, and generations.

Names and attributes follow OpenTelemetry's semantic conventions for HTTP, RPC and generative
models; others are ``graphrt.*``. Of texts they contain only the model's name as the client gave it,
and the arguments of calls of tools if the operator logs prompts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from opentelemetry.trace import SpanContext, SpanKind

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord, ToolCallRecord
from calculators.kit.tasks import operation_of
from servers.operations.request_log import RequestEnd
from servers.operations.tracing.span_sink import Attributes, SpanSink, Value

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
