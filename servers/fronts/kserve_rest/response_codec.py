"""`InferResponse` -> the body of a response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rapidjson

from calculators.tensors.inference import CustomTensor, InferResponse, Tensor
from calculators.tensors.inference.raw_data import to_raw
from servers.fronts.kserve_rest.binary_outputs import BinaryOutputs
from servers.fronts.kserve_rest.data_array import to_json
from servers.fronts.kserve_rest.split_body import LENGTH_HEADER


@dataclass(frozen=True, slots=True)
class RestResponse:
    """A body in pieces, so that large tensors need not be copied together.

    Attributes:
        head: the JSON.
        tensors: the binary data behind it, in order; None when no output is binary.
    """

    head: bytes
    tensors: tuple[bytes | memoryview, ...] | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that describe the body."""
        if self.tensors is None:
            return {"Content-Type": "application/json"}
        return {
            "Content-Type": "application/octet-stream",
            LENGTH_HEADER: str(len(self.head)),
        }

    @property
    def size(self) -> int:
        """The size of the body in bytes."""
        return len(self.head) + sum(map(len, self.tensors or ()))

    def joined(self) -> bytes:
        """The body in one piece."""
        return b"".join((self.head, *(self.tensors or ())))


def encode_response(response: InferResponse, binary: BinaryOutputs) -> RestResponse:
    """Encode a response, each output in the form that the client wants.

    Raises:
        RequestError: JSON cannot express an output that is wanted as JSON.
    """
    tensors: list[bytes | memoryview] = []
    outputs: list[dict[str, Any]] = []
    is_binary = False
    for tensor in response.outputs:
        output: dict[str, Any] = {
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": str(tensor.datatype),
        }
        parameters = dict(tensor.parameters)
        if binary.wants(tensor.name):
            is_binary = True
            raw = _raw(tensor)
            parameters["binary_data_size"] = len(raw)
            tensors.append(raw)
        else:
            output["data"] = to_json(tensor)
        if parameters:
            output["parameters"] = parameters
        outputs.append(output)
    body: dict[str, Any] = {"model_name": response.model}
    if response.version:
        body["model_version"] = response.version
    if response.id:
        body["id"] = response.id
    if response.parameters:
        body["parameters"] = dict(response.parameters)
    body["outputs"] = outputs
    head = rapidjson.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return RestResponse(head, tuple(tensors) if is_binary else None)


def _raw(tensor: Tensor | CustomTensor) -> bytes | memoryview:
    return tensor.data if isinstance(tensor, CustomTensor) else to_raw(tensor)
