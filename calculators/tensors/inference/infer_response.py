"""The answer to a request for an inference; in a stream, one of the answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from calculators.tensors.inference.parameter import Parameters
from calculators.tensors.inference.tensor import CustomTensor, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class InferResponse:
    """A model's answer.

    Attributes:
        version: the version that has answered.
        id: the request's id.
    """

    model: str
    version: str = ""
    id: str = ""
    parameters: Parameters = field(default_factory=dict)
    outputs: tuple[Tensor | CustomTensor, ...] = ()
