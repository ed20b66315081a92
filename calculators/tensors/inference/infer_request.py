"""A request for an inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.parameter import Parameters
from calculators.tensors.inference.place import quoted
from calculators.tensors.inference.tensor import CustomTensor, Tensor


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that the client requests."""

    name: str
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class InferRequest:
    """A client's request to a model.

    Attributes:
        model: the name; not looked up yet.
        version: as the client writes it; if empty, the server chooses.
        id: repeated in the response; may be empty.
        requested_outputs: if empty, all outputs.

    Raises:
        RequestError: an input or a requested output has no name, or two have the same.
    """

    model: str
    version: str = ""
    id: str = ""
    parameters: Parameters = field(default_factory=dict)
    inputs: tuple[Tensor | CustomTensor, ...] = ()
    requested_outputs: tuple[RequestedOutput, ...] = ()

    def __post_init__(self) -> None:
        # Most requests have one input and name no output, which need no look at the others.
        if len(self.inputs) > 1 or (self.inputs and not self.inputs[0].name):
            _check_names(self.inputs, "inputs")
        if self.requested_outputs:
            _check_names(self.requested_outputs, "outputs")


def _check_names(named: Sequence[Tensor | CustomTensor | RequestedOutput], kind: str) -> None:
    names = [each.name for each in named]
    if len(set(names)) == len(names) and "" not in names:
        return
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name:
            raise RequestError(f"{kind}[{index}] has no name", param=f"{kind}[{index}].name")
        if name in first:
            raise RequestError(
                f"{kind}[{first[name]}] and {kind}[{index}] have the same name, {quoted(name)}",
                param=f"{kind}[{index}].name",
            )
        first[name] = index
