"""Members that end a generation early: stop strings, stop tokens, ``ignore_eos``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Member, Members, honoured, table
from calculators.kit.requests.readers import BOOLEAN, TOKEN_ID, Array, Value
from calculators.kit.requests.schema import array, one_of, string
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits

_STOP_STRING: Final = string(minLength=1, maxLength=LIMITS.max_stop_length)


def stop_member(name: str) -> Member:
    """Declare the stop strings, under the name that the endpoint has for them."""
    strings = array(_STOP_STRING, maxItems=LIMITS.max_stop_strings)
    return honoured(name, Value(one_of(_STOP_STRING, strings)), "What ends an answer.")


STOP_MEMBERS: Final[Members] = table(
    honoured("ignore_eos", BOOLEAN, "Go on until the most tokens are reached."),
    honoured("stop_token_ids", Array(TOKEN_ID.schema(""), {"maxItems": LIMITS.max_stop_token_ids})),
    honoured("include_stop_str_in_output", BOOLEAN),
)


#: The members that `read_stop_strings` reads; a body has one of them at most.
STOP_NAMES: Final = frozenset({"stop", "stop_sequences"})


def read_stop_strings(
    body: Mapping[str, Any],
    defaults: ModelDefaults,
    limits: RequestLimits,
) -> tuple[str, ...]:
    """Read ``stop`` or ``stop_sequences``: a string or an array of strings, without duplicates.

    The strings of the request replace those of the model; an empty array does not.

    Raises:
        RequestError: too many strings, an empty one, or one that is too long.
    """
    name = "stop_sequences" if "stop_sequences" in body else "stop"
    value = body[name]
    if isinstance(value, str):
        _check_stop_string(name, value, limits)
        return (value,)
    if not isinstance(value, list):
        raise fields.wrong_type(name, "a string or an array of strings", value)
    if len(value) > limits.max_stop_strings:
        raise fields.invalid(
            name, f"{len(value)} strings are more than the maximum {limits.max_stop_strings}"
        )
    for i, text in enumerate(value):
        _check_stop_string(f"{name}[{i}]", text, limits)
    return tuple(dict.fromkeys(value)) or defaults.stop_strings


def _check_stop_string(path: str, text: object, limits: RequestLimits) -> None:
    if not isinstance(text, str):
        raise fields.wrong_type(path, "a string", text)
    if not text:
        raise fields.invalid(path, "an empty string would end every answer before it starts")
    if len(text) > limits.max_stop_length:
        raise fields.invalid(
            path, f"{len(text)} characters are more than the maximum {limits.max_stop_length}"
        )


def read_stop_token_ids(
    body: Mapping[str, Any], defaults: ModelDefaults, limits: RequestLimits
) -> tuple[int, ...] | None:
    """Return the request's stop tokens with the model's; None if the request has none."""
    ids = body.get("stop_token_ids")
    if not ids:
        return None
    if len(ids) > limits.max_stop_token_ids:
        raise fields.invalid(
            "stop_token_ids",
            f"{len(ids)} ids are more than the maximum {limits.max_stop_token_ids}",
        )
    ids = [read_token_id(f"stop_token_ids[{i}]", token) for i, token in enumerate(ids)]
    return tuple(dict.fromkeys((*defaults.eos_token_ids, *ids)))


def read_token_id(path: str, token: object) -> int:
    """Return a token id, of any vocabulary.

    Raises:
        RequestError: it is no integer, negative, or too large.
    """
    token = fields.whole(token)
    if type(token) is not int:
        raise fields.wrong_type(path, "a token id", token)
    if not 0 <= token <= fields.INT32_MAX:
        raise fields.invalid(path, f"{fields.describe(token)} is no token id")
    return token
