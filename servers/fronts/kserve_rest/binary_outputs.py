"""Which outputs a client wants as binary data instead of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BinaryOutputs:
    """A client's wish.

    Attributes:
        default: the request's ``binary_data_output``.
        by_name: ``binary_data`` of the requested outputs that have it; it goes before ``default``.
    """

    default: bool = False
    by_name: Mapping[str, bool] = field(default_factory=dict)

    def wants(self, name: str) -> bool:
        """Should the output ``name`` be binary?"""
        return self.by_name.get(name, self.default)
