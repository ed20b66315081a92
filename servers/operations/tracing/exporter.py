"""The exporter that sends spans to a collector over OTLP, by OpenTelemetry's variables."""

from __future__ import annotations

import os
from typing import Final

from opentelemetry.sdk.trace.export import SpanExporter

from servers.operations.tracing.settings import TracingSettings

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
        return OTLPSpanExporter(endpoint if endpoint.endswith(_PATH) else endpoint + _PATH)
    if protocol == _GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as GrpcSpanExporter,
        )

        return GrpcSpanExporter(endpoint or None)
    raise ValueError(f"{_PROTOCOLS[1]} is {protocol!r}; known are {_HTTP} and {_GRPC}")
