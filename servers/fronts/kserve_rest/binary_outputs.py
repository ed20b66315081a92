"""The form of outputs, JSON or binary data, as a client chooses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BinaryOutputs:
    """The outputs that a client requests as binary data.

    Attributes:
        default: the request's ``binary_data_output``.
        by_name: ``binary_data`` of the requested outputs that have it; overrides ``default``.
    """

    default: bool = False
    by_name: Mapping[str, bool] = field(default_factory=dict)

    def wants(self, name: str) -> bool:
        """Return whether the output ``name`` should be binary."""
        return self.by_name.get(name, self.default)
