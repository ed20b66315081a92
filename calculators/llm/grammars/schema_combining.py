"""Schemas composed of others: ``$ref``, ``anyOf``, ``oneOf`` and ``allOf``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from calculators.llm.grammars.schema_keywords import SchemaError, assertions

#: References that are followed one after the other, and schemas that are merged into one.
_MAX_STEPS: Final = 32
_MAX_PARTS: Final = 128
#: An array index in a JSON pointer (RFC 6901): no leading zeros. No schema has a million items.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,5}")


def target_of(root: object, reference: object, place: str) -> object:
    """Return the target of a reference inside the schema.

    Raises:
        SchemaError: the target is not in this schema; nothing is ever fetched.
    """
    if not isinstance(reference, str):
        raise SchemaError(place, "expected a reference")
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        raise SchemaError(place, 'only references inside the schema ("#/...") are followed')
    here = root
    for part in reference[2:].split("/"):
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and key in here:
            here = here[key]
        elif isinstance(here, list) and _INDEX.fullmatch(key) and int(key) < len(here):
            here = here[int(key)]
        else:
            raise SchemaError(place, "the reference leads nowhere")
    if not isinstance(here, dict | bool):
        raise SchemaError(place, "the reference leads to what is no schema")
    return here


def merged(root: object, schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Merge a schema with its ``allOf`` and ``$ref`` into one schema without these keywords.

    Raises:
        SchemaError: the parts cannot be merged.
    """
    result: dict[str, Any] = {}
    parts = list(islice(_parts(root, schema, place, 0), _MAX_PARTS + 1))
    if len(parts) > _MAX_PARTS:
        raise SchemaError(place, f"more than {_MAX_PARTS} schemas are combined")
    for part, where in parts:
        for name, value in part.items():
            if name not in result or result[name] == value:
                result[name] = value
            else:
                result[name] = _both(name, result[name], value, f"{where}.{name}")
    _check_closed([part for part, _ in parts], place)
    return result


def _both(name: str, one: object, other: object, place: str) -> object:
    """Merge two values of a keyword."""
    if name == "required" and isinstance(one, list) and isinstance(other, list):
        return [*one, *(each for each in other if each not in one)]
    if (
        name == "properties"
        and isinstance(one, dict)
        and isinstance(other, dict)
        and all(one.get(key, inner) == inner for key, inner in other.items())
    ):
        return {**one, **other}
    raise SchemaError(place, "it cannot be combined with what is beside it")


def _parts(
    root: object, schema: Mapping[str, Any], place: str, step: int
) -> Iterator[tuple[dict[str, Any], str]]:
    if step > _MAX_STEPS:
        raise SchemaError(place, "the references lead in a circle")
    own = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
    yield own, place
    inner: list[tuple[object, str]] = []
    if "$ref" in schema:
        where = f"{place}.$ref"
        inner.append((target_of(root, schema["$ref"], where), where))
    every = schema.get("allOf", [])
    if not isinstance(every, list):
        raise SchemaError(f"{place}.allOf", "expected an array of schemas")
    inner += [(each, f"{place}.allOf[{i}]") for i, each in enumerate(every)]
    for each, where in inner:
        if each is True:
            continue
        if not isinstance(each, dict):
            raise SchemaError(where, "expected a schema (an object)")
        yield from _parts(root, assertions(each, where), where, step + 1)


def _check_closed(parts: list[dict[str, Any]], place: str) -> None:
    """Refuse a part that allows only its own properties where others have further ones."""
    names = {name for part in parts for name in part.get("properties", ())}
    for part in parts:
        is_closed = part.get("additionalProperties") not in (None, True)
        if is_closed and names - set(part.get("properties", ())):
            raise SchemaError(
                place, "parts with additionalProperties cannot be combined with more properties"
            )


def branches_of(
    root: object, how: str, schema: Mapping[str, Any], place: str
) -> list[tuple[Any, str]]:
    """Return the alternatives of ``anyOf`` or ``oneOf`` with their places.

    Keywords beside them are added to each.

    Raises:
        SchemaError: there are none, or a value may match two of ``oneOf``.
    """
    inner = schema[how]
    if not isinstance(inner, list) or not inner:
        raise SchemaError(f"{place}.{how}", "expected an array with schemas")
    if how == "oneOf":
        _check_apart(root, inner, f"{place}.oneOf")
    beside = {name: value for name, value in schema.items() if name != how}
    branches: list[tuple[Any, str]] = []
    for i, each in enumerate(inner):
        where = f"{place}.{how}[{i}]"
        if each is False:
            continue
        branches.append(({**beside, "allOf": [each]} if beside else each, where))
    if not branches:
        raise SchemaError(f"{place}.{how}", "no value is valid by false")
    return branches


def _check_apart(root: object, branches: list[Any], place: str) -> None:
    """Refuse ``oneOf`` where a value may match two of the schemas."""
    facts = [_facts(root, branch, place) for branch in branches]
    for i, one in enumerate(facts):
        for other in facts[i + 1 :]:
            if not _are_apart(one, other):
                raise SchemaError(
                    place, "two of the schemas may allow the same value; use anyOf if they may"
                )


_Facts = tuple[frozenset[str] | None, dict[str, frozenset[str]], frozenset[str] | None]


def _facts(root: object, schema: object, place: str) -> _Facts:
    """Return what distinguishes a schema's values: types, required constants, values."""
    for _ in range(_MAX_STEPS):
        if isinstance(schema, dict) and "$ref" in schema:
            schema = target_of(root, schema["$ref"], place)
    if not isinstance(schema, dict):
        return None, {}, None
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    types = frozenset(map(str, kinds)) if isinstance(kinds, list) else None
    if types is not None and "number" in types:
        types |= {"integer"}
    required = schema.get("required")
    properties = schema.get("properties")
    constants: dict[str, frozenset[str]] = {}
    if isinstance(required, list) and isinstance(properties, dict):
        for name in required:
            values = _values(properties.get(name)) if isinstance(name, str) else None
            if values is not None:
                constants[name] = values
    return types, constants, _values(schema)


def _values(schema: object) -> frozenset[str] | None:
    if not isinstance(schema, dict):
        return None
    if "const" in schema:
        return frozenset((repr(schema["const"]),))
    values = schema.get("enum")
    return frozenset(map(repr, values)) if isinstance(values, list) else None


def _are_apart(one: _Facts, other: _Facts) -> bool:
    if one[0] is not None and other[0] is not None and one[0].isdisjoint(other[0]):
        return True
    if one[2] is not None and other[2] is not None and one[2].isdisjoint(other[2]):
        return True
    # Two objects with the same required property, whose values differ.
    both_objects = one[0] == other[0] == frozenset({"object"})
    return both_objects and any(
        name in other[1] and values.isdisjoint(other[1][name]) for name, values in one[1].items()
    )
