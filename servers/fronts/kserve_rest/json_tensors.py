"""Members of the JSON of a request, checked for the types of the protocol; tensors among them.

The member ``data`` is a tensor, its elements in one array or in nested ones. Elements are checked
before numpy gets them: it would accept "1.5" as a float and true as 1, and would turn 300 into 44
in 8 bits. Each check handles a whole array at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calculators.kit.requests.fields import whole
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    MAX_INT,
    MIN_INT,
    CustomTensor,
    Datatype,
    Parameter,
    Tensor,
    check_string_count,
    quoted,
    shown_shape,
    strings,
)


@dataclass(frozen=True, slots=True)
class BinaryOutputs:
    """The outputs that a client requests as binary data.

    Attributes:
        default: the request's ``binary_data_output``.
        by_name: ``binary_data`` of the requested outputs that have it; overrides ``default``.
    """

    default: bool = False
    by_name: Mapping[str, bool] = field(default_factory=dict)

    def wants(self, name: str) -> bool:
        """Return whether the output ``name`` should be binary."""
        return self.by_name.get(name, self.default)


def kind_of(value: object) -> str:
    """Return the kind of a JSON value, for an error's text."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case float() if not value.is_integer():
            return "a number with a fraction"
        case int() | float():
            return "an integer"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def text_member(value: Mapping[str, object], key: str, place: str) -> str:
    """Return a string; "" if it is missing or null.

    Raises:
        RequestError: it is something else.
    """
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise RequestError(f"{place}: {key} must be a string, not {kind_of(found)}")
    return found


def objects_member(
    value: Mapping[str, object], key: str, *, required: bool
) -> list[dict[str, object]]:
    """Return an array of objects; [] if it is missing or null and not ``required``.

    Raises:
        RequestError: it is something else, or contains something else.
    """
    found = value.get(key)
    if found is None and not required:
        return []
    if not isinstance(found, list):
        problem = "is missing" if found is None else f"is {kind_of(found)}"
        raise RequestError(f"{key} {problem}; it must be an array of objects", param=key)
    for index, element in enumerate(found):
        if not isinstance(element, dict):
            raise RequestError(
                f"{key}[{index}] is {kind_of(element)}; it must be an object",
                param=f"{key}[{index}]",
            )
    return found


def shape_member(value: Mapping[str, object], place: str) -> list[int]:
    """Return the shape of a tensor. The numbers are not checked yet.

    Raises:
        RequestError: it is not an array of integers.
    """
    found = value.get("shape")
    if not isinstance(found, list):
        problem = "is missing" if found is None else f"is {kind_of(found)}"
        raise RequestError(f"{place}: the shape {problem}; it must be an array of integers")
    shape = list(map(whole, found))
    for dimension in shape:
        if type(dimension) is not int:
            raise RequestError(
                f"{place}: the shape has {kind_of(dimension)} in it; it must be an array of"
                " integers"
            )
    return shape


def parameters_member(value: Mapping[str, object], place: str) -> dict[str, Parameter]:
    """Return the parameters in a new dictionary; {} if the member is missing or null.

    Raises:
        RequestError: it is not an object, or a value is not a string, a boolean or a number of at
            most 64 bits.
    """
    found = value.get("parameters")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise RequestError(f"{place}: parameters must be an object, not {kind_of(found)}")
    for name, parameter in found.items():
        if not isinstance(parameter, bool | int | float | str):
            raise RequestError(
                f"{place}: the parameter {quoted(name)} is {kind_of(parameter)}; it must be a"
                " string, a number, true or false"
            )
        if isinstance(parameter, int) and not MIN_INT <= parameter <= MAX_INT:
            raise RequestError(f"{place}: the parameter {quoted(name)} needs more than 64 bits")
        if isinstance(parameter, float) and not math.isfinite(parameter):
            raise RequestError(f"{place}: the parameter {quoted(name)} is not finite")
    return dict(found)


def take_flag(parameters: dict[str, Parameter], name: str, place: str) -> bool | None:
    """Remove a boolean from ``parameters`` and return it; None if it is not there.

    Raises:
        RequestError: it is something else.
    """
    found = parameters.pop(name, None)
    if found is not None and not isinstance(found, bool):
        raise RequestError(f"{place}: {name} must be true or false, not {kind_of(found)}")
    return found


_SHOWN = 64  # characters of a datatype's name
# By kind of numpy type: the types of elements in JSON, and their name in errors.
_ELEMENTS: Mapping[str, tuple[frozenset[type], str]] = MappingProxyType(
    {
        "b": (frozenset({bool}), "true and false"),
        "i": (frozenset({int}), "integers"),
        "u": (frozenset({int}), "integers"),
        "f": (frozenset({int, float}), "numbers"),
        "O": (frozenset({str}), "strings"),
    }
)


def from_json(datatype: Datatype, shape: tuple[int, ...], data: object, place: str) -> NDArray[Any]:
    """Return the array of a ``data`` member, read-only.

    ``data`` is nested as ``shape`` says, or one array of all elements, row by row.

    Raises:
        RequestError: it is neither, or has an element that ``datatype`` cannot hold; the text
            begins with ``place``, and names the element as ``data[1][0]``.
    """
    if not isinstance(data, list):
        raise RequestError(f"{place}: data must be an array, not {kind_of(data)}")
    if datatype == Datatype.BF16:
        raise RequestError(f"{place}: BF16 has no form in JSON; send it as binary data")
    is_nested = bool(data) and isinstance(data[0], list)
    elements = _flattened(data, shape, place) if is_nested else data
    count = math.prod(shape)
    if len(elements) != count:
        raise RequestError(
            f"{place}: the shape {shown_shape(shape)} has {count} elements, data has"
            f" {len(elements)}"
        )
    where = _Where(place, shape if is_nested else (count,))
    array = _array_of(datatype, elements, where).reshape(shape)
    array.flags.writeable = False
    return array


def to_json(tensor: Tensor | CustomTensor) -> list[Any]:
    """Return the ``data`` member of a tensor: one array of all elements, row by row.

    Raises:
        RequestError: JSON cannot express it: BF16 and datatypes that KServe does not know,
            infinite numbers and NaN, texts that are not UTF-8. The client must request binary data.
    """
    if isinstance(tensor, CustomTensor) or tensor.datatype == Datatype.BF16:
        raise _needs_binary(tensor, f"{tensor.datatype[:_SHOWN]} has no form in JSON")
    if tensor.datatype == Datatype.BYTES:
        try:
            return [element.decode() for element in tensor.data.ravel().tolist()]
        except UnicodeDecodeError:
            raise _needs_binary(tensor, "an element is not UTF-8") from None
    if tensor.data.dtype.kind == "f" and not np.isfinite(tensor.data).all():
        raise _needs_binary(tensor, "an element is infinite or not a number")
    elements: list[Any] = tensor.data.ravel().tolist()
    return elements


def _needs_binary(tensor: Tensor | CustomTensor, reason: str) -> RequestError:
    return RequestError(
        f"the output {quoted(tensor.name)} cannot be expressed in JSON: {reason}; infer it with the"
        " parameter binary_data"
    )


def _flattened(data: list[Any], shape: tuple[int, ...], place: str) -> list[Any]:
    """Return the elements of nested arrays, whose lengths must be ``shape``."""
    _check_lengths([data], shape, 0, place)
    for depth in range(1, len(shape)):
        _check_lengths(data, shape, depth, place)
        data = list(chain.from_iterable(data))
    return data


def _check_lengths(arrays: list[Any], shape: tuple[int, ...], depth: int, place: str) -> None:
    expected = shape[depth] if shape else 1
    # Whole levels at once, in C: a tensor may have a million rows. The loop is for the message.
    if set(map(type, arrays)) <= {list} and set(map(len, arrays)) <= {expected}:
        return
    for index, array in enumerate(arrays):
        if not isinstance(array, list):
            what = f"is {kind_of(array)}"
        elif len(array) != expected:
            what = f"has {len(array)} elements"
        else:
            continue
        raise RequestError(
            f"{place}: {_path(index, shape[:depth])} {what}; the shape {shown_shape(shape)} wants"
            f" an array of {expected} there"
        )


def _path(index: int, shape: tuple[int, ...]) -> str:
    """Return the path of an array or an element: ``data[1][0]``."""
    steps = np.unravel_index(index, shape) if shape else ()
    return "data" + "".join(f"[{int(step)}]" for step in steps)


class _Where:
    """Names an element in an error."""

    def __init__(self, place: str, nesting: tuple[int, ...]) -> None:
        self.place = place
        self._nesting = nesting

    def refusal(self, index: int, reason: str) -> RequestError:
        return RequestError(f"{self.place}: {_path(index, self._nesting)} {reason}")


def _array_of(datatype: Datatype, elements: list[Any], where: _Where) -> NDArray[Any]:
    kind = datatype.dtype.kind
    allowed, wanted = _ELEMENTS[kind]
    if kind in "iu" and float in set(map(type, elements)):
        elements = list(map(whole, elements))
    if not set(map(type, elements)) <= allowed:
        index = next(at for at, element in enumerate(elements) if type(element) not in allowed)
        raise where.refusal(index, f"is {kind_of(elements[index])}; {datatype} is made of {wanted}")
    match kind:
        case "i" | "u":
            return _integers(datatype, elements, where)
        case "f":
            return _floats(datatype, elements, where)
        case "O":
            return _texts(elements, where)
        case _:
            return np.array(elements, datatype.dtype)


def _integers(datatype: Datatype, elements: list[int], where: _Where) -> NDArray[Any]:
    limits = np.iinfo(datatype.dtype)
    low, high = int(limits.min), int(limits.max)
    if elements and (min(elements) < low or max(elements) > high):
        index = next(at for at, element in enumerate(elements) if not low <= element <= high)
        raise where.refusal(index, f"is out of range: {datatype} goes from {low} to {high}")
    return np.array(elements, datatype.dtype)


def _floats(datatype: Datatype, elements: list[float], where: _Where) -> NDArray[Any]:
    try:
        wide = np.array(elements, np.float64)
    except OverflowError:  # an integer of hundreds of digits
        raise where.refusal(_huge(elements), f"is out of the range of {datatype}") from None
    with np.errstate(over="ignore"):
        array: NDArray[Any] = wide.astype(datatype.dtype)
    finite = np.isfinite(array)
    if not finite.all():
        index = int(np.flatnonzero(~finite)[0])
        raise where.refusal(index, f"is out of the range of {datatype}")
    return array


def _huge(elements: list[float]) -> int:
    bound = 2**1024
    return next(at for at, element in enumerate(elements) if not -bound < element < bound)


def _texts(elements: list[str], where: _Where) -> NDArray[Any]:
    check_string_count(len(elements), where.place)
    encoded: list[bytes] = []
    for index, element in enumerate(elements):
        try:
            encoded.append(element.encode())
        except UnicodeEncodeError:
            raise where.refusal(index, "has half of a surrogate pair") from None
    return strings(encoded, (len(encoded),))
