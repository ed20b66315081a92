"""`HttpRole`: the part that a graph plays below ``/v3/``. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HttpRole:
    """The part that a graph plays below ``/v3/``.

    Attributes:
        task: the name of its task; "" for a graph of the author's own.
        facts: further members of the model in ``/v3/models``; empty before it is loaded.
    """

    task: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
