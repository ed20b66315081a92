"""`Family`: a metric with all its series; `Families`: all metrics of a server.

Counters, gauges and histograms, each with its labels.

prometheus_client's are slower: they take 0.5 to 2 µs per observation of a histogram with OpenVINO
Model Server's 33 buckets, and a small inference makes three observations.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar


class Series(Protocol):
    """One line of the text; several for a histogram."""

    labels: Mapping[str, str]

    def write(self, lines: list[str]) -> None:
        """Append the lines, each with its line break."""


class CounterFamily:
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
        level: the value, unless the gauge follows a function; see `CounterFamily.counted`.
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


S = TypeVar("S", bound=Series)

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


class MetricKind(Enum):
    """The kind of a family; its value is the type in the text."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(Generic[S]):
    """One metric. Any thread may ask for series.

    Attributes:
        name: the name of its lines; for a histogram without ``_bucket`` and other endings.
        is_bare: it is a counter whose name does not end in ``_total``, as OpenVINO Model Server's.
        is_full: it has reached its limit of series, and that was logged.
        is_shown: it is in the text. Families that are not shown are counted all the same.
    """

    def __init__(
        self,
        kind: MetricKind,
        name: str,
        help: str,
        make: type[S],
        *,
        bounds: Sequence[float] = (),
        is_bare: bool = False,
    ) -> None:
        self.kind = kind
        self.name = name
        self.help = help
        self.bounds = tuple(bounds)
        self.is_bare = is_bare
        self.is_shown = True
        self.is_full = False
        self._make = make
        self._series: dict[tuple[tuple[str, str], ...], S] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._series)

    def __iter__(self) -> Iterator[S]:
        return iter(tuple(self._series.values()))

    def of(self, labels: Mapping[str, str]) -> S:
        """Return the series with these labels, which the first call makes."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            found = self._series.get(key)
            if found is None:
                found = self._series[key] = self._new(dict(labels))
        return found

    def has(self, labels: Mapping[str, str]) -> bool:
        return tuple(sorted(labels.items())) in self._series

    def forget(self, labels: Mapping[str, str]) -> None:
        """Drop the series that have all these labels, and possibly more."""
        wanted = labels.items()
        with self._lock:
            for key in [key for key in self._series if wanted <= dict(key).items()]:
                del self._series[key]

    def forget_all(self, label: str, values: Collection[str]) -> None:
        """Drop the series whose label has one of these values."""
        with self._lock:
            gone = [k for k, each in self._series.items() if each.labels.get(label) in values]
            for key in gone:
                del self._series[key]

    def _new(self, labels: Mapping[str, str]) -> S:
        if self.kind is MetricKind.HISTOGRAM:
            return self._make(self.name, labels, self.bounds)  # type: ignore[call-arg]
        return self._make(self.name, labels)  # type: ignore[call-arg]


AnyFamily = Family[CounterFamily] | Family[Gauge] | Family[Histogram]


class Families:
    """The families by name. A second request for a family returns the same one."""

    def __init__(self) -> None:
        self._families: dict[str, AnyFamily] = {}

    def __iter__(self) -> Iterator[AnyFamily]:
        return iter(tuple(self._families.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._families

    def counter(self, name: str, help: str, *, is_bare: bool = False) -> Family[CounterFamily]:
        """Return a counter family. ``is_bare``: do not append ``_total`` to its name.

        Raises:
            ValueError: the name is invalid, or is the name of a family of another kind.
        """
        shown = name if is_bare else name.removesuffix("_total") + "_total"
        family = Family(MetricKind.COUNTER, shown, help, CounterFamily, is_bare=is_bare)
        return self._known(family)

    def gauge(self, name: str, help: str) -> Family[Gauge]:
        return self._known(Family(MetricKind.GAUGE, name, help, Gauge))

    def histogram(self, name: str, help: str, bounds: Sequence[float]) -> Family[Histogram]:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f'the bounds of the histogram "{name}" must rise')
        return self._known(Family(MetricKind.HISTOGRAM, name, help, Histogram, bounds=bounds))

    def forget(self, labels: Mapping[str, str]) -> None:
        """Drop the series of all families that have all these labels."""
        for family in self:
            family.forget(labels)

    def forget_all(self, label: str, values: Collection[str]) -> None:
        """Drop the series of all families whose label has one of these values."""
        for family in self:
            family.forget_all(label, values)

    def _known(self, family: Family[S]) -> Family[S]:
        if _NAME.fullmatch(family.name) is None:
            raise ValueError(
                f'"{family.name}" is not a name of a metric: use letters, digits and "_"'
            )
        known = self._families.setdefault(family.name, family)  # type: ignore[arg-type]
        if (known.kind, known.bounds) != (family.kind, family.bounds):
            raise ValueError(
                f'the metric "{family.name}" is already a {known.kind.value}'
                + (" with other bounds" if known.kind is family.kind else "")
            )
        return known  # type: ignore[return-value]
