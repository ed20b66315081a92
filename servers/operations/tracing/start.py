"""Starting to send spans: the one door to OpenTelemetry."""

from __future__ import annotations

from typing import Protocol

from graph_runtime import Code, GraphError
from servers.operations.request_log import Traces
from servers.operations.tracing.settings import TracingSettings


class TracingError(GraphError):
    """Spans cannot be sent; the text says why."""

    code = Code.FAILED_PRECONDITION


class RunningTraces(Traces, Protocol):
    """Takes requests until it is closed."""

    def close(self) -> None:
        """Send what is left, which may block for a few seconds."""


def start_traces(settings: TracingSettings) -> RunningTraces:
    """Begin to send spans, from a thread of its own.

    Raises:
        TracingError: the libraries are not installed, or do not take the settings.
    """
    try:
        from servers.operations.tracing.open_telemetry import OpenTelemetryTraces
    except ImportError as error:
        raise TracingError(
            'traces need OpenTelemetry, which is not installed: pip install "graphrt[otel]"'
        ) from error
    try:
        return OpenTelemetryTraces(settings)
    except ValueError as error:
        raise TracingError(f"OpenTelemetry does not take its settings: {error}") from error
