"""Parameters: further values of a request, a tensor or a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from calculators.kit.requests.http_payload import RequestError

Parameter: TypeAlias = bool | int | float | str
"""One value. An ``int`` fits 64 bits, signed or not."""

Parameters: TypeAlias = Mapping[str, Parameter]

MIN_INT, MAX_INT = -(2**63), 2**64 - 1

_SHARED_MEMORY = "shared_memory_region"


def refuse_shared_memory(parameters: Parameters, place: str) -> None:
    """Refuse a tensor whose data is elsewhere.

    Raises:
        RequestError: the parameters name a region of shared memory.
    """
    if _SHARED_MEMORY in parameters:
        raise RequestError(f"{place}: shared memory is not supported; send the data itself")
