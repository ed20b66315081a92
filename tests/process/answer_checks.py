"""Checks of answers in the form of the shared cases: a path, an operation, a value.

Paths are dotted, with ``[i]`` and ``[*]``; ``|len`` is a length, ``@keys`` the members, ``@body``
the whole. The format is described beside the cases (``LLM_CASES_README.md``).
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "int": (int,),
    "number": (int, float),
    "double": (int, float),
    "null": (type(None),),
    "bool": (bool,),
    "valid_json": (dict, list),
}

_OPERATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "is": lambda found, kind: isinstance(found, _TYPES[kind]),
    "has": operator.contains,
    "contains": operator.contains,
    "startswith": lambda found, start: str(found).startswith(start),
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "empty": lambda found, is_empty: (not found) is is_empty,
}


def fails(document: Any, check: Mapping[str, Any]) -> bool:
    """Return True if an answer fails a check."""
    found = _values(document, check["path"])
    if "value_path" in check:
        wanted = _values(document, check["value_path"])[0]
    else:
        wanted = check["value"]
    is_met = _OPERATIONS[check["op"]]
    return not found or any(is_met(each, wanted) is bool(check.get("not")) for each in found)


def _values(document: Any, path: str) -> list[Any]:
    path, _, suffix = path.removeprefix("@body").partition("|")
    path, _, keys = path.partition("@")
    found = [document]
    for step in re.findall(r"[^.\[\]]+|\[\d+\]|\[\*\]", path):
        found = [value for each in found for value in _step(each, step)]
    if suffix == "len":
        return [len(each) for each in found]
    return [list(each) for each in found] if keys == "keys" else found


def _step(value: Any, step: str) -> list[Any]:
    if step == "[*]":
        return list(value)
    if isinstance(value, str):
        value = json.loads(value)  # the model's text may itself be JSON
    return [value[int(step[1:-1])]] if step.startswith("[") else [value.get(step)]
