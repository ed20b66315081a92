"""Short constructors of JSON schemas, as in OpenAPI 3.1 (draft 2020-12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
#: The members of an object by name.
Members: TypeAlias = Mapping[str, Schema]


def ref(name: str) -> Schema:
    """Refer to the schema of that name."""
    return {"$ref": f"#/components/schemas/{name}"}


def string(about: str = "", **keywords: Any) -> Schema:
    """A text. Keywords are JSON schema's, as everywhere here."""
    return _schema("string", about, keywords)


def integer(about: str = "", **keywords: Any) -> Schema:
    """A whole number."""
    return _schema("integer", about, keywords)


def number(about: str = "", **keywords: Any) -> Schema:
    """Any number."""
    return _schema("number", about, keywords)


def flag(about: str = "", **keywords: Any) -> Schema:
    """True or false."""
    return _schema("boolean", about, keywords)


def word(words: Iterable[str], about: str = "") -> Schema:
    """One of a few words.

    Words that differ in case alone get names, which generators of clients need for constants.
    """
    several = list(words)
    keywords: Schema = {"enum": several}
    if len({each.upper() for each in several}) < len(several):
        keywords["x-enum-varnames"] = [f"{each}_{place}" for place, each in enumerate(several)]
    return _schema("string", about, keywords)


def array(items: Schema, about: str = "", **keywords: Any) -> Schema:
    """Any number of values of one kind."""
    return _schema("array", about, {"items": items, **keywords})


def anything(about: str = "", **keywords: Any) -> Schema:
    """An object of any members."""
    return _schema("object", about, keywords)


def record(
    members: Members, about: str = "", *, required: Sequence[str] = (), **keywords: Any
) -> Schema:
    """An object with named members; others may stand beside them unless a keyword says no."""
    wanted = {"required": list(required)} if required else {}
    return _schema("object", about, {"properties": dict(members), **wanted, **keywords})


def one_of(*schemas: Schema, about: str = "") -> Schema:
    """One of several forms."""
    made: Schema = {"anyOf": list(schemas)}
    return {"description": about, **made} if about else made


def union(name: str, about: str = "", **forms: Schema) -> dict[str, Schema]:
    """Several forms, each under a name of its own, which generators of clients need.

    The result has all of them, and ``name`` for any of them.
    """
    return {name: one_of(*map(ref, forms), about=about), **forms}


def tagged(name: str, members: Members, about: str = "", **keywords: Any) -> Schema:
    """An object whose ``type`` is ``name``, and that has all of ``members``."""
    required = ("type", *members)
    return record({"type": const(name), **members}, about, required=required, **keywords)


def const(value: str | bool | None) -> Schema:
    """Exactly this value; with its type, which generators of clients look for."""
    kind = "null" if value is None else "boolean" if isinstance(value, bool) else "string"
    return {"type": kind, "const": value}


def values(allowed: Iterable[int]) -> Schema:
    """One of a few integers, without their type."""
    several = list(allowed)
    return {"const": several[0]} if len(several) == 1 else {"enum": several}


def nullable(schema: Schema) -> Schema:
    """Return the values of a schema, or null."""
    kind = schema.get("type")
    if kind == "null" or schema.keys() <= {"description"}:
        return schema
    if not isinstance(kind, str) or "const" in schema:
        made = {name: value for name, value in schema.items() if name == "description"}
        inner = {name: value for name, value in schema.items() if name != "description"}
        forms = inner["anyOf"] if set(inner) == {"anyOf"} else [inner]
        return {**made, "anyOf": [*forms, {"type": "null"}]}
    made = {**schema, "type": [kind, "null"]}
    if "enum" in schema:
        made["enum"] = [*schema["enum"], None]
    return made


def nullable_members(members: Members, *, required: Sequence[str] = ()) -> dict[str, Schema]:
    """Return the members; all but the required ones may be null, which counts as absent."""
    return {
        name: schema if name in required else nullable(schema) for name, schema in members.items()
    }


def request(
    members: Members, about: str = "", *, required: Sequence[str] = (), **keywords: Any
) -> Schema:
    """An object that a client sends: what is not required may be left out or null."""
    optional = nullable_members(members, required=required)
    return record(optional, about, required=required, **keywords)


def _schema(kind: str, about: str, keywords: Mapping[str, Any]) -> Schema:
    described = {"description": about} if about else {}
    return {"type": kind, **described, **keywords}
