"""Members of a JSON object of a request, checked for the types of the protocol."""

from __future__ import annotations

import math
from typing import Any

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.parameter import MAX_INT, MIN_INT, Parameter
from calculators.tensors.inference.place import quoted


def kind_of(value: object) -> str:
    """Return the kind of a JSON value, for an error's text."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "an integer"
        case float():
            return "a number with a fraction or an exponent"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def text_member(value: dict[str, Any], key: str, place: str) -> str:
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


def objects_member(value: dict[str, Any], key: str, *, required: bool) -> list[dict[str, Any]]:
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


def shape_member(value: dict[str, Any], place: str) -> list[int]:
    """Return the shape of a tensor. The numbers are not checked yet.

    Raises:
        RequestError: it is not an array of integers.
    """
    found = value.get("shape")
    if not isinstance(found, list):
        problem = "is missing" if found is None else f"is {kind_of(found)}"
        raise RequestError(f"{place}: the shape {problem}; it must be an array of integers")
    for dimension in found:
        if type(dimension) is not int:
            raise RequestError(
                f"{place}: the shape has {kind_of(dimension)} in it; it must be an array of"
                " integers"
            )
    return found


def parameters_member(value: dict[str, Any], place: str) -> dict[str, Parameter]:
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
