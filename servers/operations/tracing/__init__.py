"""Requests as OpenTelemetry's spans, sent to a collector. Needs the extra ``otel``.

Nothing of OpenTelemetry is imported before `start_traces`.
"""

from __future__ import annotations

from typing import Protocol

from graph_runtime import Code, GraphError
from servers.operations.request_log import Traces
from servers.operations.tracing.settings import TracingSettings


class TracingError(GraphError):
    """Spans cannot be sent; the text gives the reason."""

    code = Code.FAILED_PRECONDITION


class RunningTraces(Traces, Protocol):
    """Traces that run until they are closed."""

    def close(self) -> None:
        """Send the remaining spans, which may block for a few seconds."""


def start_traces(settings: TracingSettings) -> RunningTraces:
    """Begin to send spans, in a thread.

    Raises:
        TracingError: the libraries are not installed, or reject the settings.
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


__all__ = ["RunningTraces", "TracingError", "TracingSettings", "start_traces"]
