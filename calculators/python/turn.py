"""`Turn`: the result of one call of a handler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

#: (stream's name, value) of each packet.
Outputs: TypeAlias = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Turn:
    """The outputs of one call of a handler.

    Attributes:
        is_generating: there is a generator that has not ended.
    """

    outputs: Outputs
    is_generating: bool = False
