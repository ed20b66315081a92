"""`StructuredOutput`: the form that an answer must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """The form that an answer must have.

    Attributes:
        format: see `calculators.llm.grammars.formats`.
        param: the member of the request with the form.
    """

    format: dict[str, Any]
    param: str
