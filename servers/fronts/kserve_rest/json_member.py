"""Members of a JSON object of a request, each of the type that the protocol says."""

from __future__ import annotations

import math
from typing import Any

from calculators.inference.parameter import MAX_INT, MIN_INT, Parameter
from calculators.inference.place import quoted
from calculators.requests.http_payload import RequestError


def kind_of(value: object) -> str:
    """What a JSON value is, for an error's text."""
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
    """A string; empty when it is missing or null.

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
    """An array of objects; empty when it is missing or null and not ``required``.

    Raises:
        RequestError: it is something else, or has something else.
    """
    found = value.get(key)
    if found is None and not required:
        return []
    if not isinstance(found, list):
        told = "is missing" if found is None else f"is {kind_of(found)}"
        raise RequestError(f"{key} {told}; it must be an array of objects", param=key)
    for index, element in enumerate(found):
        if not isinstance(element, dict):
            raise RequestError(
                f"{key}[{index}] is {kind_of(element)}; it must be an object",
                param=f"{key}[{index}]",
            )
    return found


def shape_member(value: dict[str, Any], place: str) -> list[int]:
    """The shape of a tensor; its numbers are not checked yet.

    Raises:
        RequestError: it is no array of integers.
    """
    found = value.get("shape")
    if not isinstance(found, list):
        told = "is missing" if found is None else f"is {kind_of(found)}"
        raise RequestError(f"{place}: the shape {told}; it must be an array of integers")
    for dimension in found:
        if type(dimension) is not int:
            raise RequestError(
                f"{place}: the shape has {kind_of(dimension)} in it; it must be an array of"
                " integers"
            )
    return found


def parameters_member(value: dict[str, Any], place: str) -> dict[str, Parameter]:
    """The parameters; none when the member is missing or null. The dictionary is the caller's own.

    Raises:
        RequestError: it is no object, or one value is no string, number or boolean of 64 bits.
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
    """Take a boolean out of ``parameters``; None when it is not there.

    Raises:
        RequestError: it is something else.
    """
    found = parameters.pop(name, None)
    if found is not None and not isinstance(found, bool):
        raise RequestError(f"{place}: {name} must be true or false, not {kind_of(found)}")
    return found
