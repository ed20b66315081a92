"""The parts of schemas that look at the same value, alternative by alternative.

``$ref`` and ``allOf`` add parts; ``anyOf``, ``oneOf``, ``if``, ``not`` and dependencies make
alternatives. A part knows in which schemas it is, because ``unevaluated*`` looks at these only and
not at its cousins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, Union

from calculators.llm.grammars.schema_document import (
    NOT_ENUM,
    NOT_INTEGER,
    NOT_MULTIPLE,
    NOT_PATTERN,
    OWN,
    TYPES,
    Derived,
    Located,
    References,
    SchemaError,
)
from calculators.llm.grammars.schema_values import item_schemas, kinds_of

_MAX_DEPTH: Final = 8
_NUMBERS: Final = {
    "minimum": "exclusiveMaximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum",
    "exclusiveMaximum": "minimum",
}
#: Keywords that count, with the keyword of all smaller or larger counts and the step to it.
_COUNTS: Final = {
    "minLength": ("string", "maxLength", -1),
    "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1),
    "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1),
    "maxProperties": ("object", "minProperties", 1),
}


class Negations:
    """The negations of one document's schemas.

    A negation may be narrower than the logic says: every value that it allows is one that the
    schema refuses, but not every such value may be allowed.
    """

    def __init__(self, references: References) -> None:
        self._references = references
        #: Also keeps the schemas alive: they are known by their identity.
        self._known: dict[int, list[object] | None] = {}
        self._kept: list[object] = []

    def of(self, schema: object, place: str) -> list[Located] | None:
        """Return schemas of which each refuses what ``schema`` allows; None: there are none."""
        if id(schema) not in self._known:
            self._known[id(schema)] = self._negated(schema, place, 0)
            self._kept.append(schema)
        found = self._known[id(schema)]
        return None if found is None else [(each, place) for each in found]

    def _negated(self, schema: object, place: str, depth: int) -> list[object] | None:
        if isinstance(schema, bool):
            return [] if schema else [Derived()]
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        schema = self._references.plain(schema)
        found: list[object] = []
        unknown = False
        for name, value in schema.items():
            if name in OWN and not isinstance(schema, Derived):
                continue
            made = self._keyword(name, value, schema, place, depth)
            if made is None:
                unknown = True
            else:
                found += made
        # A schema that says nothing allows everything.
        return None if unknown and not found else found

    def _keyword(
        self, name: str, value: Any, schema: Mapping[str, Any], place: str, depth: int
    ) -> list[object] | None:
        match name:
            case "type":
                return _other_types(value)
            case "const":
                return _not_values([value])
            case "enum":
                return _not_values(value) if isinstance(value, list) else None
            case "$ref":
                target = self._references.target(schema, value, f"{place}.$ref")
                return self._negated(target, place, depth + 1)
            case "not":
                return [value]
            case "anyOf":
                return self._none(value, place, depth)
            case "oneOf":
                return self._none(value, place, depth)
            case "allOf":
                return self._any(value, place, depth)
            case "required":
                return [Derived(type="object", properties={each: False}) for each in value]
            case "properties":
                return self._properties(value, place, depth)
            case "items" | "prefixItems":
                return self._items(schema, place, depth) if name == "items" or (
                    "items" not in schema) else []  # fmt: skip
            case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
                if isinstance(value, bool):
                    return None
                return [Derived({"type": "number", _NUMBERS[name]: value})]
            case "multipleOf":
                return [Derived({"type": "number", NOT_MULTIPLE: value})]
            case "pattern":
                return [Derived({"type": "string", NOT_PATTERN: [value]})]
            case _ if name in _COUNTS:
                return _other_count(name, value)
            case ("additionalProperties" | "unevaluatedProperties" | "patternProperties"
                  | "propertyNames" | "uniqueItems" | "contains" | "if" | "dependentRequired"
                  | "dependentSchemas" | "dependencies" | "unevaluatedItems" | "$dynamicRef"
                  | "$recursiveRef" | "format"):  # fmt: skip
                return None
            case _ if name in OWN:
                return None
            case _:
                return []

    def _none(self, schemas: Any, place: str, depth: int) -> list[object] | None:
        """Return the schemas of values that are valid by none of ``schemas``."""
        if not isinstance(schemas, list):
            return None
        every: list[object] = []
        for each in schemas:
            negated = self._negated(each, place, depth + 1)
            if negated is None:
                return None
            every.append({"anyOf": negated} if negated else False)
        return [Derived(allOf=every)]

    def _any(self, schemas: Any, place: str, depth: int) -> list[object] | None:
        if not isinstance(schemas, list):
            return None
        made = [self._negated(each, place, depth + 1) for each in schemas]
        if schemas and all(each is None for each in made):
            return None
        return [each for negated in made for each in negated or ()]

    def _properties(self, value: Any, place: str, depth: int) -> list[object] | None:
        if not isinstance(value, dict):
            return None
        found: list[object] = []
        unknown = False
        for name, inner in value.items():
            negated = self._negated(inner, place, depth + 1)
            unknown = unknown or negated is None
            found += [
                Derived(type="object", properties={name: each}, required=[name])
                for each in negated or ()
            ]
        return None if unknown and not found else found

    def _items(self, schema: Mapping[str, Any], place: str, depth: int) -> list[object] | None:
        first, others = item_schemas(schema)
        found: list[object] = []
        unknown = False
        for number, inner in enumerate([*first, *([] if others is None else [others])]):
            negated = self._negated(inner, place, depth + 1)
            unknown = unknown or negated is None
            found += [
                Derived(type="array", prefixItems=[*[True] * number, each], minItems=number + 1)
                for each in negated or ()
            ]
        return None if unknown and not found else found


def _other_types(value: Any) -> list[object] | None:
    kinds = value if isinstance(value, list) else [value]
    if not all(isinstance(kind, str) for kind in kinds):
        return None
    others = [kind for kind in TYPES if kind not in kinds]
    found: list[object] = []
    if "integer" in kinds and "number" in others:
        others.remove("number")
        found.append(Derived({"type": "number", NOT_INTEGER: True}))
    return ([Derived(type=others)] if others else []) + found


def _not_values(values: list[Any]) -> list[object]:
    """Return the schema of all values but these; of objects and arrays only where none is named."""
    kinds = {kind for each in values for kind in kinds_of(each)}
    plain = [kind for kind in TYPES if kind not in kinds or kind not in ("object", "array")]
    return [Derived({"type": plain, NOT_ENUM: list(values)})]


def _other_count(name: str, value: Any) -> list[object] | None:
    kind, other, step = _COUNTS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise SchemaError(f".{name}", "expected a number that is not negative")
    count = int(value) + step
    return [Derived({"type": kind, other: count})] if count >= 0 else []


#: Parts of one value, and alternatives of one value.
MAX_PARTS: Final = 256
MAX_ALTERNATIVES: Final = 1000


class SchemaPart(NamedTuple):
    """A schema that looks at a value.

    Attributes:
        scopes: the identities of the schemas that it is in, its own among them.
    """

    schema: Mapping[str, Any]
    place: str
    scopes: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Look:
    """A schema that has to be looked at, inside of others."""

    schema: object
    place: str
    scopes: frozenset[int]


#: What must hold: a schema, or one of several lists of such.
_Demand: TypeAlias = Union[_Look, "_OneOf"]


@dataclass(frozen=True, slots=True)
class _OneOf:
    options: tuple[tuple[_Demand, ...], ...]


class SchemaParts:
    """Makes the parts of a document's schemas."""

    def __init__(self, references: References, leave_out: Callable[[str, str], None]) -> None:
        """``leave_out`` receives the place of a keyword that is not enforced, and the reason."""
        self._references = references
        self._negations = Negations(references)
        self._leave_out = leave_out
        self._derived: dict[tuple[int, str, str], Derived] = {}

    def alternatives(self, schemas: Iterable[Located]) -> Iterator[tuple[SchemaPart, ...]]:
        """Yield the parts of each alternative of values that are valid by all schemas.

        Raises:
            SchemaError: a schema refers to itself, or has too many parts or alternatives.
        """
        looks = [_Look(schema, place, frozenset()) for schema, place in schemas]
        for count, parts in enumerate(self._expanded([*looks], {}, ())):
            if count == MAX_ALTERNATIVES:
                why = f"of its combinations only {MAX_ALTERNATIVES} are written"
                self._leave_out(looks[0].place, why)
                return
            yield parts

    def _expanded(
        self, demands: list[_Demand], parts: dict[int, SchemaPart], choices: tuple[_OneOf, ...]
    ) -> Iterator[tuple[SchemaPart, ...]]:
        parts = dict(parts)
        waiting = demands[::-1]
        while waiting:
            demand = waiting.pop()
            if isinstance(demand, _OneOf):
                choices = (*choices, demand)
                continue
            schema, place = demand.schema, demand.place
            if schema is True:
                continue
            if schema is False:
                return
            if not isinstance(schema, dict):
                raise SchemaError(place, "expected a schema (an object)")
            number = id(schema)
            if number in demand.scopes:
                raise SchemaError(
                    place, "no finite answer fits it: it refers to itself without a way out"
                )
            scopes = demand.scopes | {number}
            if (plain := self._references.plain(schema)) is not schema:
                forms = [(_Look(each, place, scopes),) for each in plain["anyOf"]]
                choices = (*choices, _OneOf(tuple(forms)))
                continue
            known = parts.get(number)
            if known is not None:
                parts[number] = known._replace(scopes=known.scopes | scopes)
                continue
            parts[number] = SchemaPart(schema, place, scopes)
            if len(parts) > MAX_PARTS:
                raise SchemaError(place, f"more than {MAX_PARTS} schemas are combined")
            waiting += [*self._inner(schema, place, scopes)][::-1]
        if not choices:
            yield tuple(parts.values())
            return
        for option in choices[0].options:
            yield from self._expanded(list(option), parts, choices[1:])

    def _inner(
        self, schema: Mapping[str, Any], place: str, scopes: frozenset[int]
    ) -> Iterator[_Demand]:
        for name in ("$ref", "$dynamicRef", "$recursiveRef"):
            if name in schema:
                where, reference = f"{place}.{name}", schema[name]
                anchor = str(reference).rpartition("#")[2]
                if name != "$ref" and self._references.is_ambiguous(anchor):
                    self._leave_out(where, "a reference to one of several places is not followed")
                    continue
                target = self._references.target(schema, reference, where)
                yield _Look(target, where, scopes)
        for each, where in _listed(schema, "allOf", place):
            yield _Look(each, where, scopes)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                yield self._choice(name, schema, place, scopes)
        if "not" in schema:
            negated = self._negated(schema["not"], f"{place}.not", scopes)
            if negated is None:
                self._leave_out(f"{place}.not", "a form cannot exclude what it allows")
            else:
                yield negated
        if "if" in schema and ("then" in schema or "else" in schema):
            yield from self._condition(schema, place, scopes)
        yield from self._dependencies(schema, place, scopes)

    def _negated(self, schema: object, place: str, scopes: frozenset[int]) -> _OneOf | None:
        negated = self._negations.of(schema, place)
        if negated is None:
            return None
        # What a negation looks at is not evaluated by the schemas around it.
        return _OneOf(tuple((_Look(each, where, frozenset()),) for each, where in negated))

    def _choice(
        self, name: str, schema: Mapping[str, Any], place: str, scopes: frozenset[int]
    ) -> _OneOf:
        branches = _listed(schema, name, place)
        if not branches:
            raise SchemaError(f"{place}.{name}", "expected an array with schemas")
        options: list[tuple[_Demand, ...]] = []
        facts = [self._facts(each, where) for each, where in branches] if name == "oneOf" else []
        for i, (each, where) in enumerate(branches):
            option: list[_Demand] = [_Look(each, where, scopes)]
            for j, (other, there) in enumerate(branches) if facts else ():
                if i == j or each is False or other is False or _are_apart(facts[i], facts[j]):
                    continue
                negated = self._negated(other, there, scopes)
                if negated is not None:
                    option.append(negated)
                else:
                    self._leave_out(
                        f"{place}.oneOf",
                        "two of the schemas may allow the same value; it is read as anyOf",
                    )
            options.append(tuple(option))
        return _OneOf(tuple(options))

    def _condition(
        self, schema: Mapping[str, Any], place: str, scopes: frozenset[int]
    ) -> Iterator[_Demand]:
        condition = _Look(schema["if"], f"{place}.if", scopes)
        negated = self._negated(schema["if"], f"{place}.if", scopes)
        if negated is None:
            self._leave_out(f"{place}.if", "a form cannot exclude what the condition allows")
            return
        then = (_Look(schema["then"], f"{place}.then", scopes),) if "then" in schema else ()
        other = (_Look(schema["else"], f"{place}.else", scopes),) if "else" in schema else ()
        yield _OneOf(((condition, *then), (negated, *other)))

    def _dependencies(
        self, schema: Mapping[str, Any], place: str, scopes: frozenset[int]
    ) -> Iterator[_Demand]:
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
            needed = schema.get(keyword)
            if needed is None:
                continue
            if not isinstance(needed, dict):
                raise SchemaError(f"{place}.{keyword}", "expected an object")
            for name, inner in needed.items():
                where = f"{place}.{keyword}.{name}"
                names = inner if isinstance(inner, list) else []
                having = self._derive(schema, keyword, name, type="object", required=[name, *names])
                # Values of other types have no properties, and are valid.
                without = self._derive(schema, keyword, f"-{name}", properties={name: False})
                with_it: list[_Demand] = [_Look(having, where, frozenset())]
                if not isinstance(inner, list):
                    with_it.append(_Look(inner, where, scopes))
                yield _OneOf((tuple(with_it), (_Look(without, where, frozenset()),)))

    def _derive(self, schema: object, keyword: str, name: str, **keywords: Any) -> Derived:
        """Return a schema of our own, the same one each time: schemas are known by identity."""
        return self._derived.setdefault((id(schema), keyword, name), Derived(keywords))

    def _facts(self, schema: object, place: str) -> _Facts:
        """Return what distinguishes a schema's values: types, required constants, values."""
        # Not for ever: references may form a circle.
        for _ in range(8):
            if isinstance(schema, dict) and "$ref" in schema:
                schema = self._references.target(schema, schema["$ref"], f"{place}.$ref")
        if not isinstance(schema, dict):
            return None, {}, None
        schema = self._references.plain(schema)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        types = frozenset(map(str, kinds)) if isinstance(kinds, list) else None
        if types is not None and "number" in types:
            # An integer is a number too.
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


def _listed(schema: Mapping[str, Any], name: str, place: str) -> list[Located]:
    every = schema.get(name, [])
    if not isinstance(every, list):
        raise SchemaError(f"{place}.{name}", "expected an array of schemas")
    return [(each, f"{place}.{name}[{i}]") for i, each in enumerate(every)]


_Facts = tuple[frozenset[str] | None, dict[str, frozenset[str]], frozenset[str] | None]


def _values(schema: object) -> frozenset[str] | None:
    if not isinstance(schema, dict):
        return None
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return None
    # 1 and 1.0 are one value.
    return frozenset(
        repr(float(each)) if type(each) in (int, float) and abs(each) < 2**53 else repr(each)
        for each in values
    )


def _are_apart(one: _Facts, other: _Facts) -> bool:
    """Return True if no value is valid by both schemas."""
    if one[0] is not None and other[0] is not None and one[0].isdisjoint(other[0]):
        return True
    if one[2] is not None and other[2] is not None and one[2].isdisjoint(other[2]):
        return True
    # Two objects with the same required property, whose values differ.
    both_objects = one[0] == other[0] == frozenset({"object"})
    return both_objects and any(
        name in other[1] and values.isdisjoint(other[1][name]) for name, values in one[1].items()
    )
