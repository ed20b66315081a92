"""The rules of objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from calculators.llm.grammars import json_text
from calculators.llm.grammars.schema_error import SchemaError
from calculators.llm.grammars.schema_scalars import counts, pattern_node

if TYPE_CHECKING:
    from calculators.llm.grammars.schema_rules import SchemaRules

#: Members of a map that can be counted: every one is a rule.
MAX_MEMBERS: Final = 256


def object_rule(
    builder: SchemaRules, schema: Mapping[str, Any], place: str, *, is_open: bool = False
) -> str:
    """The named properties in the schema's order, or a map. ``is_open``: any object."""
    properties = _properties(builder, schema, place)
    required = _required(schema, place)
    for name in required:
        if name not in properties:
            properties[name] = _unnamed(schema, name, place)
    if not properties and "properties" not in schema:
        return _map(builder, schema, place, is_open=is_open)
    return _Members(builder, schema, place, properties, required).rule()


def _properties(
    builder: SchemaRules, schema: Mapping[str, Any], place: str
) -> dict[str, tuple[object, str]]:
    """Schema and place by name."""
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise SchemaError(f"{place}.properties", "expected an object of schemas")
    return {name: (inner, f"{place}.properties.{name}") for name, inner in properties.items()}


def _required(schema: Mapping[str, Any], place: str) -> frozenset[str]:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaError(f"{place}.required", "expected an array of names")
    return frozenset(required)


def _others(schema: Mapping[str, Any]) -> tuple[str, object]:
    """What is said of properties without a name, and by which keyword."""
    if "additionalProperties" in schema:
        return "additionalProperties", schema["additionalProperties"]
    if "unevaluatedProperties" in schema:
        return "unevaluatedProperties", schema["unevaluatedProperties"]
    return "additionalProperties", None


def _unnamed(schema: Mapping[str, Any], name: str, place: str) -> tuple[object, str]:
    keyword, others = _others(schema)
    if "patternProperties" in schema:
        raise SchemaError(f"{place}.required", f'"{name[:40]}" is not among the properties')
    if others is False:
        raise SchemaError(f"{place}.required", f'"{name[:40]}" is not allowed')
    return (True if others is None else others), f"{place}.{keyword}"


def _map(builder: SchemaRules, schema: Mapping[str, Any], place: str, *, is_open: bool) -> str:
    """An object whose keys have no names."""
    low, high = counts(schema, "Properties", place, MAX_MEMBERS)
    member = _map_member(builder, schema, place, is_open=is_open)
    space, rules = builder.space(), builder.rules
    if member is None:
        if low:
            raise SchemaError(f"{place}.minProperties", "no properties are allowed")
        return rules.add('"{" "}"')
    end = rules.add(f'{space} "}}"')
    more = f'"," {space} {member}'
    if high is None:
        rest = rules.reserve()
        rules.define(rest, f"{end} | {more} {rest}")
        for _ in range(low - 1):
            rest = rules.add(f"{more} {rest}")
    else:
        rest = end
        for number in range(high - 1, 0, -1):
            rest = rules.add(f"{end} | {more} {rest}" if number >= low else f"{more} {rest}")
    branches = [] if low else ['"{" "}"']
    branches += [] if high == 0 else [f'"{{" {space} {member} {rest}']
    return rules.add(" | ".join(branches))


def _map_member(
    builder: SchemaRules, schema: Mapping[str, Any], place: str, *, is_open: bool
) -> str | None:
    """The rule of one member; None: there is none."""
    keyword, others = _others(schema)
    patterns = schema.get("patternProperties")
    names = schema.get("propertyNames")
    if patterns is not None:
        if names is not None:
            raise SchemaError(
                f"{place}.propertyNames", "the keyword is not supported with patternProperties"
            )
        if not isinstance(patterns, dict):
            raise SchemaError(f"{place}.patternProperties", "expected an object of schemas")
        if len(patterns) != 1:
            raise SchemaError(f"{place}.patternProperties", "only one pattern is supported")
        [(pattern, inner)] = patterns.items()
        where = f"{place}.patternProperties.{pattern}"
        key = builder.expression(json_text.string_of(pattern_node(pattern, where)), where)
        return _member(builder, key, builder.value(inner, where))
    if others is False:
        return None
    if names is not None:
        if not isinstance(names, dict):
            raise SchemaError(f"{place}.propertyNames", "expected a schema (an object)")
        key = builder.value({"type": "string", **names}, f"{place}.propertyNames")
    else:
        key = builder.expression(json_text.STRING, place)
    value = True if is_open or others is None else others
    return _member(builder, key, builder.value(value, f"{place}.{keyword}"))


def _member(builder: SchemaRules, key: str, value: str) -> str:
    return builder.rules.add(f'{key} ":" {builder.expression(json_text.AFTER_COLON, "")} {value}')


class _Members:
    """An object with named properties."""

    def __init__(
        self,
        builder: SchemaRules,
        schema: Mapping[str, Any],
        place: str,
        properties: dict[str, tuple[object, str]],
        required: frozenset[str],
    ) -> None:
        self._builder = builder
        self._schema = schema
        self._place = place
        self._properties = properties
        self._required = required

    def rule(self) -> str:
        self._check()
        builder, rules = self._builder, self._builder.rules
        space = builder.space()
        end = rules.add(f'{space} "}}"')
        other = self._other()
        # What follows when something has been written, and when nothing has.
        after, before = end, ""
        if other is not None:
            after = rules.reserve()
            rules.define(after, f'{end} | "," {space} {other} {after}')
            before = f"{other} {after}"
        may_be_empty = True
        for name, (inner, where) in reversed(self._properties.items()):
            member = _member(builder, builder.literal(name, where), builder.value(inner, where))
            is_required = name in self._required
            begun = f"{member} {after}"
            before = begun if is_required or not before else f"{begun} | {before}"
            follows = f'"," {space} {member} {after}'
            after = rules.add(follows if is_required else f"{after} | {follows}")
            if len(before) > 200:
                before = rules.add(before)
            may_be_empty = may_be_empty and not is_required
        branches = ['"{" "}"'] if may_be_empty else []
        if before:
            branches.append(f'"{{" {space} {rules.add(before)}')
        return rules.add(" | ".join(branches))

    def _check(self) -> None:
        low, high = counts(self._schema, "Properties", self._place, 2**31)
        fewest, most = len(self._required), len(self._properties)
        _, others = _others(self._schema)
        if low > fewest:
            raise SchemaError(
                f"{self._place}.minProperties",
                "with properties it can only be what is required of them",
            )
        if high is not None and (high < most or others not in (None, False)):
            raise SchemaError(
                f"{self._place}.maxProperties", "with properties it cannot be less than they are"
            )
        if "propertyNames" in self._schema:
            raise SchemaError(
                f"{self._place}.propertyNames", "the keyword is not supported with properties"
            )
        for pattern in self._schema.get("patternProperties", ()):
            where = f"{self._place}.patternProperties.{pattern}"
            pattern_node(pattern, where)
            if any(re.search(pattern, name) for name in self._properties):
                raise SchemaError(where, "it also matches one of the properties")

    def _other(self) -> str | None:
        """The rule of members without a name; None: there are none."""
        keyword, others = _others(self._schema)
        if others in (None, False) or "patternProperties" in self._schema:
            return None
        builder, where = self._builder, f"{self._place}.{keyword}"
        key = builder.expression(json_text.other_keys(self._properties), where)
        return _member(builder, key, builder.value(others, where))
