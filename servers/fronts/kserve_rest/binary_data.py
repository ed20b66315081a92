"""The binary data behind the JSON of a request, consumed piece by piece."""

from __future__ import annotations

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.parameter import Parameter


class BinaryData:
    """The rest of the binary data.

    Args:
        tail: all of it.
        inputs: the number of inputs of the request.
    """

    __slots__ = ("_at", "_inputs", "_tail")

    def __init__(self, tail: memoryview, inputs: int) -> None:
        self._tail = tail
        self._inputs = inputs
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Return whether the body has JSON only."""
        return not self._tail

    def only(self, place: str) -> int:
        """Return the size of the data of the only input, if its shape does not give the size.

        Raises:
            RequestError: there is no data, or there are more inputs.
        """
        if self.is_empty or self._inputs != 1:
            raise self.missing(place)
        return len(self._tail)

    def take(self, size: Parameter, place: str) -> memoryview:
        """Return the next ``size`` bytes.

        Raises:
            RequestError: ``size`` is not a number of bytes, or fewer are left.
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
        """Check that no data is left.

        Raises:
            RequestError: there are bytes after the data of the last input.
        """
        left = len(self._tail) - self._at
        if left:
            raise RequestError(f"{left} bytes are left over behind the binary data of the inputs")

    def missing(self, place: str) -> RequestError:
        """Return the error for an input without data."""
        return RequestError(
            f"{place}: there is no data: give it as data, or as binary data behind the JSON with"
            " the parameter binary_data_size"
        )
