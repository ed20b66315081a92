"""Conversion between ``map<string, InferParameter>`` and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference.parameter import MAX_INT, MIN_INT, Parameter, Parameters
from calculators.tensors.inference.place import quoted

MAX_PARAMETERS = 1024

_MAX_INT64 = 2**63 - 1


def decode_parameters(fields: Mapping[str, Any], place: str) -> dict[str, Parameter]:
    """Return the parameters in a map of ``InferParameter`` messages.

    Raises:
        RequestError: one has no value, or there are more than `MAX_PARAMETERS`; the text begins
            with ``place``.
    """
    parameters: dict[str, Parameter] = {}
    if not fields:
        return parameters
    if len(fields) > MAX_PARAMETERS:
        raise RequestError(f"{place}: there can be {MAX_PARAMETERS} parameters, not {len(fields)}")
    for name, value in fields.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is None:
            raise RequestError(f"{place}: the parameter {quoted(name)} has no value")
        parameters[name] = getattr(value, choice)
    return parameters


def encode_parameters(parameters: Parameters, fields: Any) -> None:
    """Put ``parameters`` into a map of ``InferParameter`` messages.

    Raises:
        ValueError: an integer needs more than 64 bits.
    """
    for name, value in parameters.items():
        setattr(fields[name], _choice(name, value), value)


def _choice(name: str, value: Parameter) -> str:
    if isinstance(value, bool):
        return "bool_param"
    if isinstance(value, str):
        return "string_param"
    if isinstance(value, float):
        return "double_param"
    if not MIN_INT <= value <= MAX_INT:
        raise ValueError(f'the parameter "{name}" needs more than 64 bits')
    return "int64_param" if value <= _MAX_INT64 else "uint64_param"
