"""`SpanSink`: takes spans that are over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from servers import NAME, version

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
