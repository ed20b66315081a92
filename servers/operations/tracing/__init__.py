"""Requests as OpenTelemetry's spans, sent to a collector. Needs the extra ``otel``.

Nothing of OpenTelemetry is imported before `start_traces`.
"""

from servers.operations.tracing.settings import TracingSettings
from servers.operations.tracing.start import RunningTraces, TracingError, start_traces

__all__ = ["RunningTraces", "TracingError", "TracingSettings", "start_traces"]
