"""JSON schemas as documents: their keywords, their references, and the check before rules are made.

`check_schema` refuses what is not a JSON schema, and what is too large or too deep to make rules
of; it runs in the grammar process. `References` finds the schemas that others refer to: by places,
anchors and identifiers of the same document.

Source: JSON Schema 2020-12 core and validation, and the drafts before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from calculators.kit.requests import fields
from calculators.llm.grammars.regular_expression import RegexError, UnsupportedRegex, parse_search


class SchemaError(ValueError):
    """A schema that no grammar can be made of; the text says what is wrong.

    Attributes:
        place: the position in the schema, ``.properties.a``; "" is the schema itself.
    """

    def __init__(self, place: str, why: str) -> None:
        super().__init__(why)
        self.place = place


class NoValueError(SchemaError):
    """No value is valid by a schema."""


#: A schema and its place.
Located = tuple[object, str]


class Derived(dict[str, Any]):
    """A schema that is made here, of others. It alone may have the keywords in `OWN`."""


#: Keywords of `Derived` schemas: what a value must not be.
NOT_PATTERN: Final = "\0notPattern"
NOT_ENUM: Final = "\0notEnum"
NOT_MULTIPLE: Final = "\0notMultipleOf"
NOT_INTEGER: Final = "\0notInteger"
OWN: Final = frozenset({NOT_PATTERN, NOT_ENUM, NOT_MULTIPLE, NOT_INTEGER})
TYPES: Final = ("object", "array", "string", "number", "boolean", "null")
_NUMBERS: Final = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", NOT_MULTIPLE,
    NOT_INTEGER,
})  # fmt: skip
#: The keywords that constrain values of each type.
OF_TYPE: Final[dict[str, frozenset[str]]] = {
    "object": frozenset({
        "properties", "required", "additionalProperties", "unevaluatedProperties",
        "patternProperties", "propertyNames", "minProperties", "maxProperties",
    }),
    "array": frozenset({
        "items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems",
        "uniqueItems", "contains", "minContains", "maxContains",
    }),
    "string": frozenset({"minLength", "maxLength", "pattern", "format", NOT_PATTERN}),
    "number": _NUMBERS,
    "integer": _NUMBERS,
    "boolean": frozenset(),
    "null": frozenset(),
}  # fmt: skip
#: Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE: Final = (
    "items",
    "additionalItems",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "if",
    "then",
    "else",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LIST: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = (
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
)
#: Keywords that are known: those with schemas in them, and those that constrain.
KEYWORDS: Final = frozenset({
    "type", "const", "enum", "$ref", "$dynamicRef", "$recursiveRef", "dependentRequired",
    *_ONE, *_LIST, *_NAMED,
}.union(*OF_TYPE.values()) - OWN)  # fmt: skip


def inner_schemas(schema: Mapping[str, Any]) -> Iterator[tuple[object, tuple[str | int, ...]]]:
    """Yield the schemas in a schema, each with the steps to it.

    Raises:
        SchemaError: a keyword has no schemas where it must.
    """
    for name in _ONE:
        value = schema.get(name)
        # Old drafts have a list here, one schema per position.
        if isinstance(value, list):
            yield from ((item, (name, i)) for i, item in enumerate(value))
        elif name in schema:
            yield value, (name,)
    for name in _LIST:
        items = schema.get(name)
        if isinstance(items, list):
            yield from ((item, (name, i)) for i, item in enumerate(items))
        elif items is not None:
            raise wrong_type(f".{name}", "an array of JSON schemas", items)
    for name in _NAMED:
        members = schema.get(name)
        if isinstance(members, dict):
            # A dependency may be a list of names.
            yield from (
                (item, (name, key)) for key, item in members.items()
                if not (name == "dependencies" and isinstance(item, list))
            )  # fmt: skip
        elif members is not None:
            raise wrong_type(f".{name}", "an object of JSON schemas", members)


def wrong_type(place: str, expected: str, value: object) -> SchemaError:
    """Return the error about a value of another type than a keyword's."""
    return SchemaError(place, f"expected {expected}, got {fields.describe(value)}")


#: An array index in a JSON pointer (RFC 6901): no leading zeros. No schema has a million items.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,5}")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class References:
    """The targets of references in one document. Nothing is ever fetched."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._has_identifiers: bool | None = None
        #: The identifier of the part of the document that has a schema, for each with another than
        #: the document's.
        self._bases: dict[int, str] = {}
        self._named: dict[str, object] = {}
        self._dynamic: dict[str, int] = {}
        #: By the identity of a schema; with that schema, so that it lives as long.
        self._nullable: dict[int, tuple[object, Derived]] = {}

    def plain(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a schema without OpenAPI 3.0's ``nullable``: ``anyOf`` says the same.

        The same object comes back each time, since schemas are known by their identity.
        """
        if schema.get("nullable") is not True:
            return schema
        if id(schema) not in self._nullable:
            rest = {name: value for name, value in schema.items() if name != "nullable"}
            made = Derived({"anyOf": [rest, {"type": "null"}]})
            self._nullable[id(schema)] = schema, made
        return self._nullable[id(schema)][1]

    def target(self, schema: Mapping[str, Any], reference: object, place: str) -> object:
        """Return the target of a reference in ``schema``.

        Raises:
            SchemaError: the target is not in this document.
        """
        if not isinstance(reference, str):
            raise SchemaError(place, "expected a reference")
        if self._has_identifiers is None:
            self._index()
        if not self._has_identifiers and reference.startswith("#"):
            address, fragment = "", reference[1:]
        else:
            try:
                address, fragment = urldefrag(_joined(self._bases.get(id(schema), ""), reference))
            except ValueError:
                raise SchemaError(place, "expected a reference") from None
        known = self._named if address or self._has_identifiers else {"": self._root}
        if address not in known:
            raise SchemaError(place, 'only references inside the schema ("#/...") are followed')
        if not fragment or fragment.startswith("/"):
            found = _at(known[address], unquote(fragment), place)
        else:
            found = self._named.get(f"{address}#{unquote(fragment)}")
            if found is None:
                raise SchemaError(place, "the reference leads nowhere")
        if not isinstance(found, dict | bool):
            raise SchemaError(place, "the reference leads to what is not a schema")
        return found

    def is_ambiguous(self, anchor: str) -> bool:
        """Return True if a dynamic reference to the anchor may lead to several places."""
        if self._has_identifiers is None:
            self._index()
        return self._dynamic.get(anchor, 0) > 1

    def _index(self) -> None:
        self._has_identifiers = False
        self._named[""] = self._root
        is_draft_4 = isinstance(self._root, dict) and "draft-04" in str(self._root.get("$schema"))
        waiting: list[tuple[object, str]] = [(self._root, "")]
        seen: set[int] = set()
        while waiting:
            here, base = waiting.pop()
            if not isinstance(here, dict) or id(here) in seen:
                continue
            seen.add(id(here))
            own = here.get("$id", here.get("id"))
            if isinstance(own, str) and not own.startswith("#") and ("$id" in here or is_draft_4):
                self._has_identifiers = True
                try:
                    base = urldefrag(_joined(base, own))[0]
                except ValueError:
                    base = ""
                self._named[base] = here
            elif isinstance(own, str) and own.startswith("#"):
                self._named.setdefault(base + own, here)  # an anchor, up to draft 7
            self._bases[id(here)] = base
            for name in _ANCHORS:
                if isinstance(here.get(name), str):
                    self._named.setdefault(f"{base}#{here[name]}", here)
            if isinstance(here.get("$dynamicAnchor"), str):
                anchor = here["$dynamicAnchor"]
                self._dynamic[anchor] = self._dynamic.get(anchor, 0) + 1
            waiting += ((each, base) for each, _ in inner_schemas(here))


def _joined(base: str, reference: str) -> str:
    """Return a reference seen from a base. A fragment follows bases of any scheme, as "urn:"."""
    if reference.startswith("#"):
        return urldefrag(base)[0] + reference
    return urljoin(base, reference)


def _at(root: object, pointer: str, place: str) -> object:
    here = root
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and key in here:
            here = here[key]
        elif isinstance(here, list) and _INDEX.fullmatch(key) and int(key) < len(here):
            here = here[int(key)]
        else:
            raise SchemaError(place, "the reference leads nowhere")
    return here


_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
MAX_DEPTH: Final = 64
MAX_PATTERN: Final = 4096
#: Properties of one schema, at any depth. The grammar of more takes too long to make.
MAX_PROPERTIES: Final = 1000


class _Place:
    """The place of a sub-schema. Its text is made for errors only, because keys may be long."""

    __slots__ = ("_key", "_outer", "depth")

    def __init__(self, outer: _Place | None, *key: str | int) -> None:
        """``key``: the steps from the outer schema to this one."""
        self._outer = outer
        self._key = key
        self.depth: int = 0 if outer is None else outer.depth + 1

    def __str__(self) -> str:
        steps: list[str] = []
        here: _Place | None = self
        while here is not None:
            steps += (_step(key) for key in reversed(here._key))
            here = here._outer
        return "".join(reversed(steps))


def _step(key: str | int) -> str:
    return f".{key}" if isinstance(key, str) else f"[{key}]"


def check_schema(schema: object) -> None:
    """Refuse what is not a JSON schema. Keywords that rules cannot express are found later.

    Raises:
        SchemaError: the schema is wrong; it has the place in the schema.
    """
    waiting: list[tuple[object, _Place]] = [(schema, _Place(None))]
    properties = 0
    references = References(schema)
    while waiting:
        here, place = waiting.pop()
        if isinstance(here, bool):
            continue
        if not isinstance(here, dict):
            raise wrong_type(str(place), "a JSON schema (an object)", here)
        if place.depth > MAX_DEPTH:
            raise SchemaError("", f"the schema is nested deeper than {MAX_DEPTH}")
        try:
            _check_keywords(here)
            if "$ref" in here:
                references.target(here, here["$ref"], ".$ref")
            waiting += ((inner, _Place(place, *steps)) for inner, steps in inner_schemas(here))
        except SchemaError as error:
            raise SchemaError(f"{place}{error.place}", str(error)) from None
        properties += len(here.get("properties") or ())
        if properties > MAX_PROPERTIES:
            raise SchemaError("", f"the schema has more than {MAX_PROPERTIES} properties")


def _check_keywords(schema: dict[str, Any]) -> None:
    """Refuse values of keywords that are of the wrong type; making the rules may find more."""
    _check_type(schema.get("type"))
    _check_pattern(schema.get("pattern"), ".pattern")
    if schema.get("enum") == []:
        raise SchemaError(".enum", "it has no values")
    names = schema.get("required")
    if names is not None and not _are_names(names):
        raise wrong_type(".required", "an array of names", names)
    for keyword in ("dependentRequired", "dependencies"):
        needed = schema.get(keyword)
        for key, names in needed.items() if isinstance(needed, dict) else ():
            is_list = keyword == "dependentRequired" or isinstance(names, list)
            if is_list and not _are_names(names):
                raise wrong_type(f".{keyword}.{key}", "an array of names", names)
    patterns = schema.get("patternProperties")
    for pattern in patterns if isinstance(patterns, dict) else ():
        _check_pattern(pattern, ".patternProperties")
    for keyword in ("properties", "patternProperties"):
        if schema.get(keyword) is not None and not isinstance(schema[keyword], dict):
            raise wrong_type(f".{keyword}", "an object of JSON schemas", schema[keyword])


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _check_type(value: object) -> None:
    if value is None:
        return
    for each in value if isinstance(value, list) else [value]:
        if each not in _TYPES:
            raise SchemaError(".type", f"{fields.describe(each)} is none of {', '.join(_TYPES)}")


def _check_pattern(value: object, place: str) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise wrong_type(place, "a regular expression", value)
    if len(value) > MAX_PATTERN:
        raise SchemaError(
            place, f"its {len(value)} characters are more than the maximum {MAX_PATTERN}"
        )
    try:
        parse_search(value)
    except UnsupportedRegex:
        pass  # making the rules leaves it out
    except RegexError as error:
        raise SchemaError(place, f"not a regular expression: {error}") from None
