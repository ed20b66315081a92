"""Counters, gauges and histograms, each with its labels.

prometheus_client's are slower: they take 0.5 to 2 µs per observation of a histogram with OpenVINO
Model Server's 33 buckets, and a small inference makes three observations.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol


class Series(Protocol):
    """One line of the text; several for a histogram."""

    labels: Mapping[str, str]

    def write(self, lines: list[str]) -> None:
        """Append the lines, each with its line break."""


class Counter:
    """See `graph_runtime.MetricCounter`.

    Attributes:
        counted: the value without followed functions. Code that counts only on the event loop adds
            to it directly, which takes a quarter of the time of `add`.
    """

    __slots__ = ("_head", "_lock", "_reads", "counted", "labels")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self._head = name + label_text(labels)
        self.counted = 0.0
        self._reads: list[Callable[[], float]] = []
        self._lock = threading.Lock()

    def add(self, amount: float = 1) -> None:
        with self._lock:
            self.counted += amount

    @property
    def value(self) -> float:
        with self._lock:
            return self.counted + sum(read() for read in self._reads)

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        with self._lock:
            self._reads.append(read)

        def end() -> None:
            with self._lock:
                if read in self._reads:
                    self._reads.remove(read)
                    self.counted += read()

        return end

    def write(self, lines: list[str]) -> None:
        lines.append(f"{self._head} {number_text(self.value)}\n")


class Gauge:
    """See `graph_runtime.MetricGauge`.

    Attributes:
        level: the value, unless the gauge follows a function; see `Counter.counted`.
    """

    __slots__ = ("_head", "_lock", "_read", "labels", "level")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self._head = name + label_text(labels)
        self.level = 0.0
        self._read: Callable[[], float] | None = None
        self._lock = threading.Lock()

    def set(self, value: float) -> None:
        self.level = value

    def add(self, amount: float) -> None:
        with self._lock:
            self.level += amount

    @property
    def value(self) -> float:
        return self.level if self._read is None else self._read()

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        self._read = read

        def end() -> None:
            if self._read is read:
                self._read = None
                self.level = 0.0

        return end

    def write(self, lines: list[str]) -> None:
        lines.append(f"{self._head} {number_text(self.value)}\n")


class Histogram:
    """See `graph_runtime.MetricHistogram`. A value is in the first bucket that can hold it."""

    __slots__ = ("_bounds", "_counts", "_heads", "_lock", "_sum", "_text", "_written", "labels")

    def __init__(self, name: str, labels: Mapping[str, str], bounds: Sequence[float]) -> None:
        self.labels = labels
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        #: The last text, and its counts.
        self._text = ""
        self._written: list[int] = []
        self._lock = threading.Lock()
        shown = [number_text(float(bound)) for bound in bounds] + ["+Inf"]
        self._heads = [f"{name}_bucket{label_text({**labels, 'le': each})} " for each in shown]
        self._heads += [f"{name}_count{label_text(labels)} ", f"{name}_sum{label_text(labels)} "]

    def observe(self, value: float) -> None:
        with self._lock:
            self.note(value)

    def note(self, value: float) -> None:
        """`observe`, for code that observes only on the event loop."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def write(self, lines: list[str]) -> None:
        with self._lock:
            counts, total = self._counts.copy(), self._sum
        # Most have not changed: few models of a server are in use at a time.
        if counts != self._written:
            seen = 0
            written: list[str] = []
            for head, count in zip(self._heads, counts, strict=False):
                seen += count
                written.append(f"{head}{seen}\n")
            written.append(f"{self._heads[-2]}{seen}\n")
            written.append(f"{self._heads[-1]}{number_text(total)}\n")
            self._text, self._written = "".join(written), counts
        lines.append(self._text)


def label_text(labels: Mapping[str, str]) -> str:
    """Return ``{name="demo",version="1"}``; "" without labels."""
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def number_text(value: float) -> str:
    """Format a number for both text formats, as a float: 10 is ``10.0``."""
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
