"""`OpenTelemetryTraces`: decides which requests are traced, and makes their spans at their end."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from time import perf_counter_ns, time_ns
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from calculators.kit.requests.request_record import RequestRecord
from servers import NAME, version
from servers.operations.request_log import RequestEnd
from servers.operations.tracing.exporter import new_exporter
from servers.operations.tracing.request_spans import RequestTrace, end_spans, new_span_id
from servers.operations.tracing.settings import TracingSettings
from servers.operations.tracing.span_sink import SpanSink

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
