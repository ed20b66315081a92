"""Bodies as clients send them, decoded as a front decodes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from calculators.tensors.inference import InferRequest, Tensor
from servers.fronts.http.body import parse_json
from servers.fronts.kserve_rest.inference_codec import read_layout, split_body
from servers.fronts.kserve_rest.json_tensors import BinaryOutputs


@dataclass(frozen=True)
class RestRequest:
    """A request, and the form in which the client wants the outputs."""

    request: InferRequest
    binary: BinaryOutputs


def read(body: bytes, length_header: str | None = None) -> RestRequest:
    head, tail = split_body(body, length_header)
    value = parse_json(head, max_depth=100, max_elements=100_000)
    layout = read_layout(value)
    return RestRequest(layout.fill(tail, model="m", version="1"), layout.binary)


def read_value(value: object, tail: bytes = b"") -> RestRequest:
    head = json.dumps(value).encode()
    return read(head + tail, str(len(head)))


def tensors_of(read_back: RestRequest) -> tuple[Tensor, ...]:
    """Strategy for the inputs, none of which has a custom datatype."""
    tensors = tuple(each for each in read_back.request.inputs if isinstance(each, Tensor))
    assert len(tensors) == len(read_back.request.inputs)
    return tensors


def one_input(datatype: str, shape: object, **members: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": shape, **members}
