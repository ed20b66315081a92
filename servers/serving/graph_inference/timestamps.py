"""Timestamps of requests, from a parameter or counted, and the request of an output packet."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.parameter import Parameters
from calculators.tensors.inference.place import quoted
from graph_runtime import Timestamp
from servers.serving.graph_inference.stream_kinds import OutputStream

#: The parameter of requests, and of the answers of a stream.
TIMESTAMP: Final = "OVMS_MP_TIMESTAMP"

#: The most requests of a stream that are kept; answers to older ones have no id.
REMEMBERED: Final = 10_000


def timestamp_in(parameters: Parameters) -> Timestamp | None:
    """Return the timestamp in ``OVMS_MP_TIMESTAMP``, or None.

    Raises:
        RequestError: it is not a whole number, or not a timestamp of a packet.
    """
    value = parameters.get(TIMESTAMP)
    if value is None:
        return None
    if type(value) is not int:
        raise RequestError(
            f"Malformed packet timestamp - Invalid timestamp format in request parameter "
            f"{TIMESTAMP}. Should be int64",
            param=TIMESTAMP,
        )
    timestamp = Timestamp.of(value)
    if not timestamp.is_range_value():
        raise RequestError(
            f"Malformed packet timestamp - Invalid timestamp in request parameter {TIMESTAMP}: "
            f"{value} is out of range. Should be int64, from {int(Timestamp.MIN)} to "
            f"{int(Timestamp.MAX)}",
            param=TIMESTAMP,
        )
    return timestamp


@dataclass(frozen=True, slots=True)
class Sent:
    """The part of a request that its answers need. ``outputs`` is None for all outputs."""

    id: str = ""
    outputs: tuple[OutputStream, ...] | None = None


class StreamTimes:
    """The timestamps of one stream of requests.

    A request without a timestamp gets the latest one plus 1, the first one 0. Timestamps must grow
    on each input, so two requests may bring different inputs of the same time.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._next = 0
        self._times: list[int] = []
        self._sent: dict[int, Sent] = {}

    def take(self, parameters: Parameters, inputs: Sequence[str], sent: Sent) -> Timestamp:
        """Return the timestamp of a request with packets for these inputs.

        Raises:
            RequestError: the timestamp is invalid, or not later than the last one of an input; the
                state is unchanged.
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
        """Return the request of a packet: the one at its time, else the last one before.

        Safe in any thread.
        """
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
