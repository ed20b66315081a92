"""Settings of tracing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: OpenTelemetry's own variables that name a collector.
ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """The destination of spans. OpenTelemetry's variables define everything else.

    Attributes:
        endpoint: base URL of a collector, ``http://localhost:4318``; "": the environment names it.
    """

    endpoint: str = ""


def is_asked_for(environment: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's variables name a collector for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() not in ("", "otlp"):
        return False
    return any(environment.get(name) for name in ENDPOINT_VARIABLES)
