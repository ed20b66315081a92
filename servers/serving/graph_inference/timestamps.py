"""Timestamps of requests: given as a parameter, or counted; and which request a packet is of."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calculators.inference.parameter import Parameters
from calculators.inference.place import quoted
from calculators.requests.http_payload import RequestError
from graph_runtime import Timestamp
from servers.serving.graph_inference.stream_kinds import OutputStream

#: The parameter, of requests and of the answers of a stream.
TIMESTAMP: Final = "OVMS_MP_TIMESTAMP"

#: Requests of a stream that are remembered; the answers to older ones have no id.
REMEMBERED: Final = 10_000


def timestamp_in(parameters: Parameters) -> Timestamp | None:
    """What ``OVMS_MP_TIMESTAMP`` says.

    Raises:
        RequestError: it is no whole number, or none that a packet can have.
    """
    value = parameters.get(TIMESTAMP)
    if value is None:
        return None
    if type(value) is not int:
        raise RequestError(
            f"Invalid timestamp format in request parameter {TIMESTAMP}. Should be int64",
            param=TIMESTAMP,
        )
    timestamp = Timestamp.of(value)
    if not timestamp.is_range_value():
        raise RequestError(
            f"Invalid timestamp in request parameter {TIMESTAMP}: {value} is out of range. Should "
            f"be int64, from {int(Timestamp.MIN)} to {int(Timestamp.MAX)}",
            param=TIMESTAMP,
        )
    return timestamp


@dataclass(frozen=True, slots=True)
class Sent:
    """What is remembered of a request. ``outputs``: those it asks for; None is all."""

    id: str = ""
    outputs: tuple[OutputStream, ...] | None = None


class StreamTimes:
    """The times of one stream of requests.

    A request without a timestamp is one later than the latest so far, the first at 0. On each
    input times must grow; so two requests can bring different inputs of the same time.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._next = 0
        self._times: list[int] = []
        self._sent: dict[int, Sent] = {}

    def take(self, parameters: Parameters, inputs: Sequence[str], sent: Sent) -> Timestamp:
        """The time of a request, which brings packets for these inputs.

        Raises:
            RequestError: the timestamp is none, or is not later than an input's last one; nothing
                has changed then.
        """
        time = timestamp_in(parameters)
        if time is None:
            time = Timestamp.of(self._next)
            if not time.is_range_value():
                raise RequestError(f"the stream ends at the timestamp {int(Timestamp.MAX)}")
        for name in inputs:
            last = self._last.get(name)
            if last is not None and time <= last:
                raise RequestError(
                    f"the timestamp {int(time)} is not after {last}, the last one of the input "
                    f"{quoted(name)}; the timestamps of an input must grow",
                    param=TIMESTAMP,
                )
        for name in inputs:
            self._last[name] = int(time)
        self._next = max(self._next, int(time) + 1)
        self._remember(int(time), sent)
        return time

    def sent_at(self, time: int) -> Sent:
        """The request that a packet of this time belongs to: of the same time, else the last one
        before it. Any thread."""
        times = self._times
        place = bisect_right(times, time)
        return self._sent.get(times[place - 1], _UNKNOWN) if place else _UNKNOWN

    def _remember(self, time: int, sent: Sent) -> None:
        is_new = time not in self._sent
        self._sent[time] = sent
        if not is_new:
            return
        if len(self._times) >= 2 * REMEMBERED:
            for old in self._times[:REMEMBERED]:
                del self._sent[old]
            self._times = self._times[REMEMBERED:]
        insort(self._times, time)


_UNKNOWN: Final = Sent()
