"""`OpenTelemetryTraces`: decides which requests are traced, and makes their spans at their end."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from time import perf_counter_ns, time_ns
from typing import Final

from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanKind, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from calculators.request_record import RequestRecord
from servers.product import NAME, version
from servers.request_log import RequestEnd
from servers.tracing.exporter import new_exporter
from servers.tracing.request_spans import RequestTrace, end_spans
from servers.tracing.settings import TracingSettings

#: A collector that does not answer does not hold up the end of the server for longer.
CLOSE_SECONDS: Final = 3.0
_TRACEPARENT_LENGTH: Final = 55


class OpenTelemetryTraces:
    """See `servers.request_log.Traces`. A request that is not sampled costs the decision only.

    The decision is the sampler's that OpenTelemetry's variables name (``OTEL_TRACES_SAMPLER``), or
    the caller's, by ``traceparent``. `begin` and `end` belong to one event loop.
    """

    def __init__(self, settings: TracingSettings) -> None:
        """Raises: ValueError: OpenTelemetry does not take its variables."""
        self._ids = _ChosenIds()
        self._provider = TracerProvider(
            resource=_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(new_exporter(settings)))
        self._sampler = self._provider.sampler
        self._tracer = self._provider.get_tracer(NAME, version())
        self._propagator = TraceContextTextMapPropagator()
        # Then a caller who samples nothing, as most do most of the time, costs nothing either.
        sampler = os.environ.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
        self._follows_callers = sampler.startswith("parentbased_")
        self._is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"

    def begin(self, record: RequestRecord, header: Callable[[str], str | None]) -> None:
        """Decide whether it is traced; its span begins, and its record is told."""
        context = None
        trace_id = 0
        sent = header("traceparent")
        if sent is not None:
            if self._follows_callers and _is_unsampled(sent):
                return
            carrier = {"traceparent": sent, "tracestate": header("tracestate") or ""}
            context = self._propagator.extract(carrier)
            trace_id = get_current_span(context).get_span_context().trace_id
        trace_id = trace_id or random.getrandbits(128) or 1
        result = self._sampler.should_sample(context, trace_id, NAME, SpanKind.SERVER)
        if result.decision is not Decision.RECORD_AND_SAMPLE or self._is_off:
            return
        self._ids.trace_id = trace_id
        epoch = time_ns() - perf_counter_ns()
        span = self._tracer.start_span(
            NAME, context, SpanKind.SERVER, start_time=record.began + epoch
        )
        record.trace = RequestTrace(self._tracer, span, epoch)
        record.trace_id = f"{trace_id:032x}"

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """Make the spans of what is known now, and end them all."""
        trace = record.trace
        if isinstance(trace, RequestTrace):
            end_spans(trace, record, end, ended)

    def close(self) -> None:
        """Send what is left; waits `CLOSE_SECONDS` at most."""
        closing = threading.Thread(
            target=self._provider.shutdown, name="graphrt-traces", daemon=True
        )
        closing.start()
        closing.join(CLOSE_SECONDS)


class _ChosenIds(IdGenerator):
    """Gives a new trace the id for which it was sampled."""

    trace_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return random.getrandbits(64) or 1


def _is_unsampled(traceparent: str) -> bool:
    """Is it one of version 00 whose flags do not say "sampled"?"""
    return (
        len(traceparent) == _TRACEPARENT_LENGTH
        and traceparent.startswith("00-")
        and traceparent[-1] in "02468ace"
    )


def _resource() -> Resource:
    """What the environment says of the service; its name is ours without."""
    resource = Resource.create({SERVICE_VERSION: version()})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: NAME}))
    return resource
