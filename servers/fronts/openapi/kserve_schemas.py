"""KServe's protocol, version 2, with Triton's extensions: bodies of requests and of answers."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Members,
    Schema,
    anything,
    array,
    flag,
    integer,
    nullable,
    one_of,
    record,
    ref,
    request,
    string,
    word,
)
from calculators.tensors.inference import Datatype
from calculators.tensors.inference.parameter import MAX_INT, MIN_INT
from calculators.tensors.inference.shape import MAX_DIMENSIONS, MAX_ELEMENTS

_WORDS: Final = ", ".join(Datatype)
_DATA: Final = array({}, "The elements in one array, row by row, or in nested ones.")
_ID: Final[Members] = {
    "model_name": string(),
    "model_version": string(),
    "id": string("The id of the request, if it has one."),
}
#: Inputs of ``generate``: values, and arrays of them.
_VALUE: Final = one_of(
    string(), {"type": "number"}, flag(), {"type": "null"}, array({}), about="A value, or arrays."
)

KSERVE_SCHEMAS: Final[dict[str, Schema]] = {
    "Parameters": anything(
        additionalProperties=one_of(
            string(), flag(), integer(minimum=MIN_INT, maximum=MAX_INT), {"type": "number"}
        ),
    ),
    "InferInput": record(
        {
            "name": string(),
            "datatype": string(f"{_WORDS}; or a name that the graph knows, with binary data."),
            "shape": array(integer(minimum=0, maximum=MAX_ELEMENTS), maxItems=MAX_DIMENSIONS),
            "parameters": nullable(ref("Parameters")),
            "data": nullable(_DATA),
        },
        "Has `data`, or the parameter `binary_data_size` and data behind the JSON.",
        required=("name", "datatype", "shape"),
    ),
    "InferRequest": request(
        {
            "id": string("The answer repeats it."),
            "parameters": ref("Parameters"),
            "inputs": array(ref("InferInput")),
            "outputs": array(
                request({"name": string(), "parameters": ref("Parameters")}, required=("name",)),
                "The requested outputs; all if it is missing.",
            ),
        },
        required=("inputs",),
    ),
    "InferResponse": record(
        {
            **_ID,
            "parameters": ref("Parameters"),
            "outputs": array(
                record(
                    {
                        "name": string(),
                        "datatype": string(),
                        "shape": array(integer(minimum=0)),
                        "parameters": ref("Parameters"),
                        "data": array({}, "The elements in one array, row by row."),
                    },
                    required=("name", "datatype", "shape"),
                )
            ),
        },
        required=("model_name", "outputs"),
    ),
    "GenerateRequest": request(
        {"parameters": ref("Parameters"), "text_input": _VALUE},
        "A member with the name of an input of the model is that tensor: a value, or arrays;"
        " the others are parameters.",
        additionalProperties=_VALUE,
    ),
    "GenerateResponse": record(
        _ID,
        "The outputs by name: a value, or an array of all elements; and parameters.",
        required=("model_name",),
        additionalProperties=True,
    ),
    "TensorMetadata": record(
        {
            "name": string(),
            "datatype": word([*Datatype, "INVALID"], "INVALID if it is not known."),
            "shape": array(integer(minimum=-1), "-1 is any length."),
            "optional": flag("A request may leave it out."),
        },
        required=("name", "datatype", "shape"),
    ),
    "ModelMetadata": record(
        {
            "name": string(),
            "versions": array(string()),
            "platform": string(),
            "inputs": array(ref("TensorMetadata")),
            "outputs": array(ref("TensorMetadata")),
            "rt_info": anything("Metadata in the model's file."),
        },
        required=("name", "versions", "platform", "inputs", "outputs"),
    ),
    "ServerMetadata": record(
        {"name": string(), "version": string(), "extensions": array(string())},
        required=("name", "version", "extensions"),
    ),
    "Live": record({"live": flag()}, required=("live",)),
    "Ready": record({"ready": flag()}, required=("ready",)),
    "IndexRequest": request({"ready": flag("List only what is ready.")}),
    "Index": array(
        record(
            {
                "name": string(),
                "version": string(),
                "state": word(("READY", "LOADING", "UNAVAILABLE")),
                "reason": string("Why it is not ready."),
            },
            required=("name", "version", "state", "reason"),
        )
    ),
    "LoadRequest": request(
        {"parameters": anything("No parameters are supported.", maxProperties=0)}
    ),
    "UnloadRequest": request(
        {
            "parameters": record(
                {"unload_dependents": flag("Has no effect.")}, additionalProperties=False
            )
        }
    ),
}
