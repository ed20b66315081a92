"""`Turn`: one call of a handler, done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

#: (stream's name, value) of each packet.
Outputs: TypeAlias = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Turn:
    """What the handler gave, and whether it has more to give.

    Attributes:
        is_generating: there is a generator that has not come to its end.
    """

    outputs: Outputs
    is_generating: bool = False
