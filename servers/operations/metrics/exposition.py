"""The text of ``GET /metrics``: Prometheus's, or OpenMetrics if the client asks for it.

Our own families are written here, from heads that are made once, so that thousands of lines block
the event loop for a few milliseconds at most. prometheus_client chooses the format and writes the
metrics of the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from graph_runtime.interrupts import raise_interrupt
from servers.operations.metrics.families import AnyFamily, Families, Kind

_log: Final = logging.getLogger(__name__)

#: Series that are written in one iteration of the event loop.
_AT_ONCE: Final = 200
OPENMETRICS: Final = "application/openmetrics-text"


class MetricsText(NamedTuple):
    """The body, and the value of the header Content-Type."""

    body: bytes
    content_type: str


class _Writing:
    """A text that is being written."""

    def __init__(self, accept: str) -> None:
        self._encode, self._content_type = choose_encoder(accept)
        self.is_openmetrics = self._content_type.startswith(OPENMETRICS)
        self.lines: list[str] = []

    def text(self, process: CollectorRegistry) -> MetricsText:
        """Return the text. The metrics of the process are last, and end an OpenMetrics text."""
        return MetricsText("".join(self.lines).encode() + self._encode(process), self._content_type)


class Exposition:
    """Writes the text of all families."""

    def __init__(
        self, families: Families, before: Callable[[], Iterable[None]] = lambda: ()
    ) -> None:
        """``before``: updates polled metrics before each text, in steps."""
        self._families = families
        self._before = before
        #: Families that could not be read; each is logged once.
        self._broken: set[str] = set()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    def text(self, accept: str = "") -> MetricsText:
        """Return the text for an Accept header."""
        writing = _Writing(accept)
        for _ in self._write(writing):
            pass
        return writing.text(self._process)

    async def text_in_turns(self, accept: str = "") -> MetricsText:
        """Return the text without blocking the event loop, even if it has millions of lines."""
        writing = _Writing(accept)
        for number, _ in enumerate(self._write(writing), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return writing.text(self._process)

    def _write(self, writing: _Writing) -> Iterator[None]:
        """Write the text, in steps."""
        yield from self._before()
        for family in self._families:
            if family.is_shown:
                _write_head(family, writing.lines, writing.is_openmetrics)
                yield from self._write_series(family, writing.lines)

    def _write_series(self, family: AnyFamily, lines: list[str]) -> Iterator[None]:
        for series in family:
            yield
            try:
                series.write(lines)
            except BaseException as error:  # of a function of an author's metric; write the others
                raise_interrupt(error)
                if family.name not in self._broken:
                    self._broken.add(family.name)
                    _log.exception("the metric %r cannot be read", family.name)


def _write_head(family: AnyFamily, lines: list[str], is_openmetrics: bool) -> None:
    name, kind = family.name, family.kind.value
    if is_openmetrics and family.kind is Kind.COUNTER:
        if family.is_bare:
            kind = "unknown"  # in OpenMetrics a counter's lines must end in _total
        else:
            name = name.removesuffix("_total")
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if is_openmetrics:
        text = text.replace('"', r"\"")
    lines.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n")
