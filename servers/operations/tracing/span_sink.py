"""`SpanSink`: takes spans that are over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from servers.contract.product import NAME, version

Value: TypeAlias = str | int | float | list[str]
Attributes: TypeAlias = Mapping[str, Value]

_UNSET: Final = Status(StatusCode.UNSET)
_ERROR: Final = Status(StatusCode.ERROR)
#: More than any span has.
_MANY_ATTRIBUTES: Final = 32


class SpanSink:
    """Makes spans as a span processor is given them, with what is the same for all of them.

    The library would have a span started, changed and ended, and discourages making
    `ReadableSpan` by hand; but when all is known already, that is work that nobody needs.
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
