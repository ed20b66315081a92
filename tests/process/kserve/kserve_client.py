"""Requests and answers of kserve's two clients."""

from __future__ import annotations

from typing import Any

from kserve import InferInput, InferRequest
from kserve.protocol.infer_type import RequestedOutput

from tests.process.kserve.asked import Asked, told

_NAMES = {
    "float32": "FP32",
    "float64": "FP64",
    "float16": "FP16",
    "bool": "BOOL",
    "object": "BYTES",
}


def request(asked: Asked, *, is_binary: bool, **parameters: Any) -> InferRequest:
    """Return a request with tensors as raw bytes or by element, and with more parameters."""
    inputs = []
    for name, array in asked.inputs.items():
        datatype = _NAMES.get(str(array.dtype), str(array.dtype).upper())
        tensor = InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array, binary_data=is_binary)
        inputs.append(tensor)
    return InferRequest(
        asked.model,
        inputs,
        request_id=asked.id,
        parameters={**asked.parameters, **parameters},
        request_outputs=[RequestedOutput(name) for name in asked.outputs],
        model_version=asked.version or None,
    )


def answer(response: Any) -> dict[str, Any]:
    """Return the facts of an `InferResponse`; over REST it does not know the version."""
    return {
        "model": response.model_name,
        "version": response.model_version,
        "id": response.id,
        "outputs": {
            each.name: [each.datatype, list(each.shape), told(each.as_numpy())]
            for each in response.outputs
        },
    }
