"""The binary data behind the JSON of a request, taken piece by piece."""

from __future__ import annotations

from calculators.inference.parameter import Parameter
from calculators.requests.http_payload import RequestError


class BinaryData:
    """What is left of it.

    Args:
        tail: all of it.
        inputs: so many inputs the request has.
    """

    __slots__ = ("_at", "_inputs", "_tail")

    def __init__(self, tail: memoryview, inputs: int) -> None:
        self._tail = tail
        self._inputs = inputs
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Has the body JSON only?"""
        return not self._tail

    def only(self, place: str) -> int:
        """The size of the data when it is all of one input, whose shape does not tell it.

        Raises:
            RequestError: there is none, or there are more inputs.
        """
        if self.is_empty or self._inputs != 1:
            raise self.missing(place)
        return len(self._tail)

    def take(self, size: Parameter, place: str) -> memoryview:
        """The next ``size`` bytes.

        Raises:
            RequestError: ``size`` is no number of bytes, or there are fewer.
        """
        if type(size) is not int or size < 0:
            raise RequestError(f"{place}: binary_data_size must be a number of bytes")
        left = len(self._tail) - self._at
        if size > left:
            raise RequestError(
                f"{place}: the binary data should have {size} bytes, {left} are left in the body"
            )
        piece = self._tail[self._at : self._at + size]
        self._at += size
        return piece

    def check_end(self) -> None:
        """Refuse a body that goes on.

        Raises:
            RequestError: it has bytes behind the last input's.
        """
        left = len(self._tail) - self._at
        if left:
            raise RequestError(f"{left} bytes are left over behind the binary data of the inputs")

    def missing(self, place: str) -> RequestError:
        """The error of an input without data."""
        return RequestError(
            f"{place}: there is no data: give it as data, or as binary data behind the JSON with"
            " the parameter binary_data_size"
        )
