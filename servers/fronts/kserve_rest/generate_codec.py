"""Triton's generate extension: inputs and parameters as members of one JSON object.

The model's metadata gives the shape and datatype of a tensor. If it has none, the JSON does: true
and false are BOOL, integers INT64, other numbers FP32, strings BYTES.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import rapidjson

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    Datatype,
    InferRequest,
    InferResponse,
    Parameter,
    Tensor,
    checked_shape,
    quoted,
    shown_shape,
)
from servers.contract.data_plane import TensorMetadata
from servers.fronts.kserve_rest.json_tensors import (
    from_json,
    kind_of,
    parameters_member,
    text_member,
    to_json,
)

_UNKNOWN = "INVALID"
_BY_KINDS = {
    frozenset({bool}): Datatype.BOOL,
    frozenset({int}): Datatype.INT64,
    frozenset({float}): Datatype.FP32,
    frozenset({int, float}): Datatype.FP32,
    frozenset({str}): Datatype.BYTES,
}


def decode_generate(
    value: object, inputs: Sequence[TensorMetadata], *, model: str, version: str = ""
) -> InferRequest:
    """Return the inference request of a body.

    A member with the name of one of ``inputs`` is that tensor: a single value, or arrays; ``id``
    and ``parameters`` have the same meaning as in an inference; all other members are parameters
    too. A member that is null counts as missing.

    Raises:
        RequestError: it is no such request; the text names the member and the reason.
    """
    if not isinstance(value, dict):
        raise RequestError(f"the body must be a JSON object, not {kind_of(value)}")
    known = {tensor.name: tensor for tensor in inputs}
    tensors: list[Tensor] = []
    others: dict[str, Any] = {}
    for name, member in value.items():
        if member is None:
            continue
        if name in known:
            tensors.append(_tensor(known[name], member))
        elif name not in ("id", "parameters"):
            others[name] = member
    _check_complete(inputs, {tensor.name for tensor in tensors})
    return InferRequest(
        model=model,
        version=version,
        # A model may have an input with this name.
        id="" if "id" in known else text_member(value, "id", "the request"),
        parameters=_parameters({} if "parameters" in known else value, others),
        inputs=tuple(tensors),
    )


def encode_generated(response: InferResponse) -> bytes:
    """Return the JSON of an answer.

    An output of one element is a value, another one an array of all its elements, row by row.
    Parameters are members too.

    Raises:
        RequestError: JSON cannot express an output.
    """
    body: dict[str, Any] = {"model_name": response.model}
    if response.version:
        body["model_version"] = response.version
    if response.id:
        body["id"] = response.id
    body.update(response.parameters)
    for tensor in response.outputs:
        elements = to_json(tensor)
        body[tensor.name] = elements[0] if len(elements) == 1 else elements
    return rapidjson.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def _check_complete(inputs: Sequence[TensorMetadata], given: set[str]) -> None:
    for tensor in inputs:
        if tensor.name not in given and not tensor.is_optional:
            raise RequestError(f"the input {quoted(tensor.name)} is missing", param=tensor.name)


def _parameters(value: dict[str, Any], others: dict[str, Any]) -> dict[str, Parameter]:
    parameters = parameters_member({"parameters": others}, "the request")
    for name, parameter in parameters_member(value, "the request").items():
        if name in parameters:
            raise RequestError(
                f"the request: the parameter {quoted(name)} is there twice, inside and outside of"
                " parameters",
                param=f"parameters.{name}",
            )
        parameters[name] = parameter
    return parameters


def _tensor(metadata: TensorMetadata, value: object) -> Tensor:
    place = f"the input {quoted(metadata.name)}"
    own_shape = _shape_of(value)
    elements = _elements(value, len(own_shape))
    datatype = _datatype(metadata, elements, place)
    shape = checked_shape(_fitted(own_shape, metadata.shape, place), place)
    # Nested arrays must match the shape level by level; a flat array has all elements.
    data = value if own_shape == shape else elements
    return Tensor(metadata.name, datatype, from_json(datatype, shape, data, place))


def _shape_of(value: object) -> tuple[int, ...]:
    """Return the lengths of nested arrays, by their first elements; [] for one value."""
    shape: list[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def _elements(value: object, depth: int) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    for _ in range(depth - 1):
        value = list(chain.from_iterable(each if type(each) is list else [each] for each in value))
    return value


def _datatype(metadata: TensorMetadata, elements: list[Any], place: str) -> Datatype:
    if metadata.datatype != _UNKNOWN:
        return Datatype.named(metadata.datatype, place)
    kinds = frozenset(map(type, elements))
    found = _BY_KINDS.get(kinds)
    if found is None:
        present = " and ".join(sorted({kind_of(each) for each in elements})) or "no element"
        raise RequestError(
            f"{place} has {present}; it must be all true or false, all numbers, or all strings"
        )
    return found


def _fitted(own: tuple[int, ...], known: tuple[int, ...], place: str) -> tuple[int, ...]:
    """Return the shape of a tensor whose JSON may leave out dimensions, as in Triton.

    The elements are in the last dimension of variable length; other such dimensions are 1.
    """
    if not known:
        return own or (1,)
    if len(own) == len(known) or len(own) > 1:
        return own
    count = own[0] if own else 1
    wanted = math.prod(size for size in known if size != -1)
    shape = [1 if size == -1 else size for size in known]
    if -1 in known:
        if not wanted or count % wanted:
            raise RequestError(
                f"{place} has {count} elements, which do not fill the shape {shown_shape(known)}"
            )
        last = len(known) - 1 - known[::-1].index(-1)
        shape[last] = count // wanted
    return tuple(shape)
