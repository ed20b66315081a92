"""The names of Google's JSON.

Google's services take protobuf messages as JSON: a member has its name in camel case, and its name
in the message's definition, ``max_output_tokens``, is taken too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import check_object

_LETTER: Final = re.compile(r"_([a-z])")


def camel_name(name: str) -> str:
    """Return the name in Google's JSON of a member of a protobuf message."""
    return _LETTER.sub(lambda found: found[1].upper(), name)


def camel_case(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with the names of Google's JSON."""
    if not any("_" in name for name in value):
        return value
    return {camel_name(name): each for name, each in value.items()}


def read_object(value: object, path: str, known: Iterable[str]) -> Mapping[str, Any]:
    """Return an object with the names of Google's JSON.

    Raises:
        RequestError: it is not an object, or has a misspelt member.
    """
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    found = camel_case(value)
    check_object(found, path, known)
    return found
