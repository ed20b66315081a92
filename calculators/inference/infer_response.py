"""The answer to a request for an inference; in a stream, one of the answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from calculators.inference.parameter import Parameters
from calculators.inference.tensor import CustomTensor, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class InferResponse:
    """What a model answers.

    Attributes:
        version: the one that has answered.
        id: that of the request.
    """

    model: str
    version: str = ""
    id: str = ""
    parameters: Parameters = field(default_factory=dict)
    outputs: tuple[Tensor | CustomTensor, ...] = ()
