"""The items of an answer as JSON, for ``graphrt run --deltas``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from msgspec import Struct, structs

from calculators.language import Delta, RequestError

#: Members that programs use and people cannot read.
_HIDDEN: Final = frozenset({"request", "stop", "prompt_ids"})
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def delta_fields(item: Delta) -> dict[str, Any]:
    """Return an item of `Deltas` as a JSON object: ``kind``, and its members.

    Members with their usual value are left out, and so is the request, which has the prompt.
    """
    return {"kind": _kind(item), **_members(item)}


def _kind(item: object) -> str:
    return _WORDS.sub("_", type(item).__name__).lower()


def _members(item: Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for member in structs.fields(item):
        name, value = member.name, getattr(item, member.name)
        if name in _HIDDEN or value == member.default:
            continue
        if name == "events":
            found[name] = [{"kind": _kind(event), **_members(event)} for event in value]
        else:
            found[name] = _value(value)
    return found


def _value(value: Any) -> Any:
    if isinstance(value, RequestError):
        return {"message": str(value), "code": value.code.name, "param": value.param}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct):
        return _members(value)
    if isinstance(value, (list, tuple)):
        return [_value(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): _value(each) for name, each in value.items()}
    if is_dataclass(value):
        members = ((each.name, getattr(value, each.name)) for each in fields(value))
        return {name: _value(member) for name, member in members if member is not None}
    return value
