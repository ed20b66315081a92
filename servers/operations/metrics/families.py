"""`Family`: a metric with all its series; `Families`: all metrics of a server."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Generic, TypeVar

from servers.operations.metrics.series import Counter, Gauge, Histogram, Series

S = TypeVar("S", bound=Series)

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


class Kind(Enum):
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
        kind: Kind,
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
        if self.kind is Kind.HISTOGRAM:
            return self._make(self.name, labels, self.bounds)  # type: ignore[call-arg]
        return self._make(self.name, labels)  # type: ignore[call-arg]


AnyFamily = Family[Counter] | Family[Gauge] | Family[Histogram]


class Families:
    """The families by name. A second request for a family returns the same one."""

    def __init__(self) -> None:
        self._families: dict[str, AnyFamily] = {}

    def __iter__(self) -> Iterator[AnyFamily]:
        return iter(tuple(self._families.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._families

    def counter(self, name: str, help: str, *, is_bare: bool = False) -> Family[Counter]:
        """Return a counter family. ``is_bare``: do not append ``_total`` to its name.

        Raises:
            ValueError: the name is invalid, or is the name of a family of another kind.
        """
        shown = name if is_bare else name.removesuffix("_total") + "_total"
        family = Family(Kind.COUNTER, shown, help, Counter, is_bare=is_bare)
        return self._known(family)

    def gauge(self, name: str, help: str) -> Family[Gauge]:
        return self._known(Family(Kind.GAUGE, name, help, Gauge))

    def histogram(self, name: str, help: str, bounds: Sequence[float]) -> Family[Histogram]:
        if not bounds or list(bounds) != sorted(set(bounds)):
            raise ValueError(f'the bounds of the histogram "{name}" must rise')
        return self._known(Family(Kind.HISTOGRAM, name, help, Histogram, bounds=bounds))

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
