"""Tensors, answers and errors of tritonclient's four clients."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tests.process.kserve.asked import ANSWERED, Asked, told

#: Arguments of the clients that a server may ignore.
OWN: Final[dict[str, Any]] = {
    "priority": 1,
    "timeout": 1_000_000,
    "sequence_id": 7,
    "sequence_start": True,
    "sequence_end": True,
}

#: 10 MB.
_BIG: Final = np.arange(2_500_000, dtype=np.float32)
BIG: Final = Asked("passing", {"in": _BIG})


def is_big(result: Any) -> bool:
    """Return True for the answer to `BIG`."""
    return np.array_equal(result.as_numpy("out"), _BIG)


def inputs(library: Any, asked: Asked, **how: Any) -> list[Any]:
    """Return the tensors of a request; ``library``: tritonclient.grpc or tritonclient.http."""
    tensors = []
    for name, array in asked.inputs.items():
        tensor = library.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, **how)
        tensors.append(tensor)
    return tensors


def options(library: Any, asked: Asked, **how: Any) -> dict[str, Any]:
    """Return the members of a request beside its tensors."""
    return {
        "model_version": asked.version,
        "request_id": asked.id,
        "parameters": asked.all_parameters,
        "outputs": [library.InferRequestedOutput(name, **how) for name in asked.outputs] or None,
    }


def mixed(library: Any) -> dict[str, Any]:
    """Return a REST request with a binary tensor, one in JSON, and an output of each kind."""
    asked = ANSWERED["two outputs"]
    binary, json = inputs(library, asked)
    json.set_data_from_numpy(asked.inputs[json.name()], binary_data=False)
    outputs = [
        library.InferRequestedOutput("sum", binary_data=True),
        library.InferRequestedOutput("largest", binary_data=False),
    ]
    return {
        **options(library, asked),
        "model_name": asked.model,
        "inputs": [binary, json],
        "outputs": outputs,
    }


def encodings(result: Any) -> dict[str, str]:
    """Return the encoding of each output over REST."""
    outputs = result.get_response()["outputs"]
    return {each["name"]: "json" if "data" in each else "binary" for each in outputs}


def answer(result: Any) -> dict[str, Any]:
    """Return the facts of an `InferResult` of either library."""
    response = result.get_response(as_json=True) if _is_grpc(result) else result.get_response()
    outputs = response.get("outputs", [])
    return {
        "model": response["model_name"],
        "version": response["model_version"],
        "id": response.get("id", ""),
        "outputs": {
            each["name"]: [each["datatype"], list(map(int, each.get("shape", ()))), values]
            for each in outputs
            for values in [told(result.as_numpy(each["name"]))]
        },
    }


def streamed(result: Any) -> dict[str, Any]:
    """Return the facts of an answer in a stream of tritonclient.grpc, with its parameters."""
    parameters = result.get_response().parameters
    return {
        "id": result.get_response().id,
        "parameters": {
            name: getattr(parameters[name], parameters[name].WhichOneof("parameter_choice"))
            for name in parameters
        },
        "outputs": {name: values for name, (_, _, values) in answer(result)["outputs"].items()},
    }


def error(raised: InferenceServerException) -> list[str | None]:
    """Return status and text."""
    return [raised.status(), raised.message()]


def metadata(known: dict[str, Any]) -> dict[str, Any]:
    """Return a model's metadata as JSON, from either library."""
    return {
        "versions": known["versions"],
        "platform": known["platform"],
        "tensors": [
            [each["name"], each["datatype"], list(map(int, each.get("shape", ())))]
            for each in known["inputs"] + known["outputs"]
        ],
    }


def index(models: list[dict[str, Any]]) -> dict[str, list[list[str]]]:
    """Return the repository's index: version, state and reason by name."""
    found: dict[str, list[list[str]]] = {}
    for each in models:
        entry = [each["version"], each["state"], each.get("reason", "")]
        found.setdefault(each["name"], []).append(entry)
    return found


def _is_grpc(result: Any) -> bool:
    return type(result).__module__.startswith("tritonclient.grpc")
