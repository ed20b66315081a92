"""Rules of JSON schemas: every text that they allow is valid by the schema.

The rules may allow less than the schema: properties come in the schema's order, and unnamed
properties only where ``additionalProperties`` is given. A keyword that rules cannot express is
refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.grammars import json_text, schema_scalars
from calculators.llm.grammars.array_rules import MAX_ITEMS, array_rule
from calculators.llm.grammars.automaton import TooComplex
from calculators.llm.grammars.object_rules import (
    MAX_MEMBERS,
    check_named,
    map_rule,
    member_rule,
    members_rule,
    named_properties,
    only_pattern,
    other_properties,
)
from calculators.llm.grammars.regular_expression import Node
from calculators.llm.grammars.rules import GrammarTooLarge, Rules, UnboundedGrammarError, literal
from calculators.llm.grammars.schema_combining import branches_of, merged, target_of
from calculators.llm.grammars.schema_keywords import (
    COMBINING,
    OF_TYPE,
    SchemaError,
    assertions,
)
from calculators.llm.grammars.schema_scalars import counts, pattern_node

Schema = Mapping[str, Any] | bool

#: Depth of nested schemas, with references that are merged in place.
MAX_DEPTH: Final = 64


def schema_grammar(schema: Schema) -> str:
    """Return the rules (EBNF) of JSON texts that are valid by a schema.

    Raises:
        SchemaError: no text is valid, or the schema cannot be honoured in full.
    """
    builder = SchemaRules(schema)
    try:
        return builder.rules.text(builder.value(schema, ""))
    except UnboundedGrammarError as error:
        raise SchemaError("", str(error)) from None
    except (GrammarTooLarge, RecursionError):
        raise SchemaError("", "the schema is too large") from None


class SchemaRules:
    """Makes the rules of one schema and of all schemas that it refers to."""

    def __init__(self, root: Schema) -> None:
        self.rules = Rules()
        self._root = root
        self._referred: dict[str, str] = {}
        self._any: str | None = None
        self._depth = 0

    def value(self, schema: object, place: str) -> str:
        """Add the rule of a schema's values; return its name."""
        if schema is True:
            return self.anything()
        if schema is False:
            raise SchemaError(place, "no value is valid by false")
        if not isinstance(schema, dict):
            raise SchemaError(place, "expected a schema (an object)")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaError(place, f"the schema is nested deeper than {MAX_DEPTH}")
        rule = self._value(assertions(schema, place), place)
        self._depth -= 1
        return rule

    def expression(self, node: Node, place: str) -> str:
        """Add the rule of an expression; return its name."""
        try:
            return self.rules.add_expression(node)
        except TooComplex as error:
            raise SchemaError(place, str(error)) from None

    def anything(self) -> str:
        """Return the rule of any JSON value."""
        if self._any is None:
            self._any = name = self.rules.reserve()
            kinds = ("object", "array", "string", "number")
            shapes = [self._of_type(kind, {}, "") for kind in kinds]
            self.rules.define(name, " | ".join([*shapes, '"true"', '"false"', '"null"']))
        return self._any

    def _value(self, schema: dict[str, Any], place: str) -> str:
        how = next((name for name in COMBINING if name in schema), None)
        match how:
            case None:
                return self._by_type(schema, place)
            case "$ref":
                return self._reference(schema, place)
            case "const" | "enum":
                return self._one_of(how, schema, place)
            case "allOf":
                return self.value(merged(self._root, schema, place), place)
            case _:
                inner = branches_of(self._root, how, schema, place)
                rules = [self.value(each, where) for each, where in inner]
                return self.rules.add(" | ".join(dict.fromkeys(rules)))

    def _reference(self, schema: dict[str, Any], place: str) -> str:
        where = schema["$ref"]
        if len(schema) > 1:
            return self.value(merged(self._root, schema, place), place)
        target = target_of(self._root, where, f"{place}.$ref")
        known = self._referred.get(where)
        if known is not None:
            return known
        self._referred[where] = name = self.rules.reserve()
        depth, self._depth = self._depth, 0
        self.rules.define(name, self.value(target, place))
        self._depth = depth
        return name

    def _one_of(self, how: str, schema: dict[str, Any], place: str) -> str:
        values = [schema["const"]] if how == "const" else schema["enum"]
        if not isinstance(values, list) or not values:
            raise SchemaError(f"{place}.enum", "expected an array with values")
        others = schema.keys() - {how, "type"}
        if others:
            raise SchemaError(f"{place}.{min(others)}", f"the keyword is not supported with {how}")
        kinds = types_of(schema, place)
        if kinds is not None:
            values = [each for each in values if schema_scalars.is_of(each, kinds)]
            if not values:
                raise SchemaError(f"{place}.{how}", "no value has the type")
        branches = [self.literal(each, f"{place}.{how}") for each in values]
        return self.rules.add(" | ".join(dict.fromkeys(branches)))

    def literal(self, value: object, place: str) -> str:
        """Write exactly this value, as a part of a rule."""
        try:
            return literal(json_text.value_text(value))
        except (ValueError, UnicodeEncodeError):
            raise SchemaError(place, "the value cannot be written as JSON") from None

    def _by_type(self, schema: dict[str, Any], place: str) -> str:
        kinds = types_of(schema, place)
        if kinds is None:
            kinds = tuple(
                kind
                for kind, names in OF_TYPE.items()
                if kind != "integer" and not names.isdisjoint(schema)
            )
            if not kinds:
                return self.anything()
        rules = [self._of_type(kind, schema, place) for kind in kinds]
        return rules[0] if len(rules) == 1 else self.rules.add(" | ".join(dict.fromkeys(rules)))

    def _of_type(self, kind: str, schema: dict[str, Any], place: str) -> str:
        match kind:
            case "object":
                return self._object(schema, place)
            case "array":
                return self._array(schema, place)
            case "string":
                return self.expression(schema_scalars.string_node(schema, place), place)
            case "boolean":
                return self.rules.add('"true" | "false"')
            case "null":
                return self.rules.add('"null"')
            case _:
                return self.expression(schema_scalars.number_node(kind, schema, place), place)

    def _array(self, schema: dict[str, Any], place: str) -> str:
        low, high = counts(schema, "Items", place, MAX_ITEMS)
        first = schema.get("prefixItems", [])
        if not isinstance(first, list):
            raise SchemaError(f"{place}.prefixItems", "expected an array of schemas")
        if high is not None:
            first = first[:high]
        items = [self.value(each, f"{place}.prefixItems[{i}]") for i, each in enumerate(first)]
        name = "items" if "items" in schema else "unevaluatedItems"
        others = schema.get(name, not first)
        if isinstance(others, list):
            raise SchemaError(f"{place}.{name}", "expected one schema; prefixItems takes several")
        further = None if others is False else self.value(others, f"{place}.{name}")
        if further is None and len(items) < low:
            raise SchemaError(f"{place}.minItems", "no further items are allowed")
        return array_rule(self.rules, items, further, low, high)

    def _object(self, schema: dict[str, Any], place: str) -> str:
        properties, required = named_properties(schema, place)
        if not properties and "properties" not in schema:
            return self._map(schema, place)
        check_named(schema, place, properties, required)
        others, where = other_properties(schema, place)
        other = None
        if others not in (None, False) and "patternProperties" not in schema:
            key = self.expression(json_text.other_keys(properties), where)
            other = member_rule(self.rules, key, self.value(others, where))
        last_to_first = []
        for name, (inner, where) in reversed(properties.items()):
            key, value = self.literal(name, where), self.value(inner, where)
            last_to_first.append((member_rule(self.rules, key, value), name in required))
        return members_rule(self.rules, last_to_first, other)

    def _map(self, schema: dict[str, Any], place: str) -> str:
        """The rule of objects whose properties have no names."""
        low, high = counts(schema, "Properties", place, MAX_MEMBERS)
        member = self._map_member(schema, place)
        if member is None and low:
            raise SchemaError(f"{place}.minProperties", "no properties are allowed")
        return map_rule(self.rules, member, low, high)

    def _map_member(self, schema: dict[str, Any], place: str) -> str | None:
        """The rule of one property; None: none is allowed."""
        only = only_pattern(schema, place)
        if only is not None:
            pattern, (inner, where) = only
            key = self.expression(json_text.string_of(pattern_node(pattern, where)), where)
            return member_rule(self.rules, key, self.value(inner, where))
        others, where = other_properties(schema, place)
        if others is False:
            return None
        names = schema.get("propertyNames")
        if names is None:
            key = self.expression(json_text.STRING, place)
        elif isinstance(names, dict):
            key = self.value({"type": "string", **names}, f"{place}.propertyNames")
        else:
            raise SchemaError(f"{place}.propertyNames", "expected a schema (an object)")
        return member_rule(self.rules, key, self.value(True if others is None else others, where))


def types_of(schema: Mapping[str, Any], place: str) -> tuple[str, ...] | None:
    """Return the types that a schema names; None: it names none."""
    if "type" not in schema:
        return None
    value = schema["type"]
    kinds = tuple(value) if isinstance(value, list) else (value,)
    if not kinds or any(not isinstance(kind, str) or kind not in OF_TYPE for kind in kinds):
        raise SchemaError(f"{place}.type", f"expected one of {', '.join(OF_TYPE)}")
    return kinds
