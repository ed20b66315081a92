"""A packet: a value and the timestamp at which it stands in a stream."""

from __future__ import annotations

from typing import Any, Final, SupportsIndex, final

from graph_runtime import timestamp as ts
from graph_runtime.errors import StateError
from graph_runtime.timestamp import Timestamp


class _Empty:
    """The payload of an empty packet. Test for it with ``is``; the payload None is a real value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<empty>"

    def __reduce__(self) -> str:
        return "EMPTY"


EMPTY: Final = _Empty()
# Names of the module are faster to look up than attributes of another.
_MIN: Final = ts.MIN
_MAX: Final = ts.MAX


@final
class Packet:
    """An immutable value with a timestamp. Copies share the value, so it must not be modified.

    An *empty* packet (``Packet.empty(t)``) has a timestamp and no value. On an input stream it says
    that the stream is settled up to ``t``; on an output stream it sets the bound to ``t + 1``.

    ``payload`` is the value or ``EMPTY``, ``time`` the timestamp as plain ``int``: the engine reads
    these two directly.
    """

    __slots__ = ("payload", "time")

    payload: Any
    time: int

    def __init__(self, value: Any, timestamp: SupportsIndex | None = None) -> None:
        self.payload = value
        if type(timestamp) is int and _MIN < timestamp < _MAX:
            self.time = timestamp  # like nearly all
        else:
            self.time = ts.UNSET if timestamp is None else ts.as_value(timestamp)

    @staticmethod
    def empty(timestamp: SupportsIndex | None = None) -> Packet:
        """A packet without a value."""
        return Packet(EMPTY, timestamp)

    @property
    def value(self) -> Any:
        """The value.

        Raises:
            StateError: the packet is empty.
        """
        payload = self.payload
        if payload is EMPTY:
            raise StateError(
                "an empty packet has no value; ask is_empty() first "
                f"(its timestamp is {ts.debug_string(self.time)})"
            )
        return payload

    @property
    def timestamp(self) -> Timestamp:
        """The timestamp as a `Timestamp`."""
        return Timestamp.of(self.time)

    def is_empty(self) -> bool:
        """Return True if the packet has no value."""
        return self.payload is EMPTY

    def at(self, timestamp: SupportsIndex) -> Packet:
        """Return the same value at another timestamp."""
        return packet_at(self.payload, ts.as_value(timestamp))

    def __reduce__(self) -> tuple[object, ...]:
        return (packet_at, (self.payload, self.time))

    def __repr__(self) -> str:
        if self.payload is EMPTY:
            return f"Packet.empty({self.timestamp!r})"
        # The type, not the value: payloads are large, and may hold a user's words.
        return f"<Packet {type(self.payload).__name__} at {self.timestamp!r}>"


def packet_at(payload: Any, time: int) -> Packet:
    """A packet from a raw payload and a raw 64-bit time, unchecked."""
    packet = Packet(payload)
    packet.time = time
    return packet
