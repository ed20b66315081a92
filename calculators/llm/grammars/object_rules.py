"""Objects: the members that a schema names, and the rule made of the members' rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.llm.grammars import json_text
from calculators.llm.grammars.rules import Rules
from calculators.llm.grammars.schema_keywords import SchemaError
from calculators.llm.grammars.schema_scalars import counts, pattern_node

#: The largest ``minProperties`` and ``maxProperties`` of a map: each member that is counted takes
#: a rule.
MAX_MEMBERS: Final = 256

#: A schema and its place.
Located = tuple[object, str]


def named_properties(
    schema: Mapping[str, Any], place: str
) -> tuple[dict[str, Located], frozenset[str]]:
    """Return the schemas of the named properties in the schema's order, and the required names.

    Raises:
        SchemaError: a required name is not allowed.
    """
    named = schema.get("properties", {})
    if not isinstance(named, dict):
        raise SchemaError(f"{place}.properties", "expected an object of schemas")
    properties = {name: (inner, f"{place}.properties.{name}") for name, inner in named.items()}
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaError(f"{place}.required", "expected an array of names")
    for name in required:
        if name not in properties:
            properties[name] = _unnamed(schema, name, place)
    return properties, frozenset(required)


def _unnamed(schema: Mapping[str, Any], name: str, place: str) -> Located:
    others, where = other_properties(schema, place)
    if "patternProperties" in schema:
        raise SchemaError(f"{place}.required", f'"{name[:40]}" is not among the properties')
    if others is False:
        raise SchemaError(f"{place}.required", f'"{name[:40]}" is not allowed')
    return (True if others is None else others), where


def other_properties(schema: Mapping[str, Any], place: str) -> Located:
    """Return the schema of properties without a name; None: the schema does not say."""
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            return schema[keyword], f"{place}.{keyword}"
    return None, f"{place}.additionalProperties"


def check_named(
    schema: Mapping[str, Any],
    place: str,
    properties: Mapping[str, Located],
    required: frozenset[str],
) -> None:
    """Refuse the keywords that cannot be honoured beside named properties.

    Raises:
        SchemaError: one of them is there.
    """
    low, high = counts(schema, "Properties", place, 2**31)
    others, _ = other_properties(schema, place)
    if low > len(required):
        raise SchemaError(
            f"{place}.minProperties", "with properties it can only be what is required of them"
        )
    if high is not None and (high < len(properties) or others not in (None, False)):
        raise SchemaError(
            f"{place}.maxProperties", "with properties it cannot be less than they are"
        )
    if "propertyNames" in schema:
        raise SchemaError(f"{place}.propertyNames", "the keyword is not supported with properties")
    for pattern in schema.get("patternProperties", ()):
        where = f"{place}.patternProperties.{pattern}"
        pattern_node(pattern, where)
        if any(re.search(pattern, name) for name in properties):
            raise SchemaError(where, "it also matches one of the properties")


def only_pattern(schema: Mapping[str, Any], place: str) -> tuple[str, Located] | None:
    """Return the pattern of ``patternProperties`` and its schema; None: there is no such keyword.

    Raises:
        SchemaError: there is more than one pattern, or ``propertyNames`` beside it.
    """
    patterns = schema.get("patternProperties")
    if patterns is None:
        return None
    if schema.get("propertyNames") is not None:
        raise SchemaError(
            f"{place}.propertyNames", "the keyword is not supported with patternProperties"
        )
    if not isinstance(patterns, dict):
        raise SchemaError(f"{place}.patternProperties", "expected an object of schemas")
    if len(patterns) != 1:
        raise SchemaError(f"{place}.patternProperties", "only one pattern is supported")
    [(pattern, inner)] = patterns.items()
    return pattern, (inner, f"{place}.patternProperties.{pattern}")


def member_rule(rules: Rules, key: str, value: str) -> str:
    """Add the rule of one member from those of its key and value; return its name."""
    return rules.add(f'{key} ":" {rules.add_expression(json_text.AFTER_COLON)} {value}')


def map_rule(rules: Rules, member: str | None, low: int, high: int | None) -> str:
    """Add the rule of objects of ``low`` to ``high`` equal members; return its name.

    Args:
        member: the rule of each; None: there are none, and ``low`` is 0.
        high: None is without end.
    """
    if member is None:
        return rules.add('"{" "}"')
    space = rules.add_expression(json_text.SPACE)
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


def members_rule(rules: Rules, members: Sequence[tuple[str, bool]], other: str | None) -> str:
    """Add the rule of objects with named members; return its name.

    Args:
        members: the rule of each, and True if it is required; the object's last member first.
        other: the rule of any number of further members behind them; None: there are none.
    """
    space = rules.add_expression(json_text.SPACE)
    end = rules.add(f'{space} "}}"')
    # The rules of what follows after some member, and before the first one.
    after, before = end, ""
    if other is not None:
        after = rules.reserve()
        rules.define(after, f'{end} | "," {space} {other} {after}')
        before = f"{other} {after}"
    for member, is_required in members:
        begun = f"{member} {after}"
        before = begun if is_required or not before else f"{begun} | {before}"
        follows = f'"," {space} {member} {after}'
        after = rules.add(follows if is_required else f"{after} | {follows}")
        if len(before) > 200:
            before = rules.add(before)
    may_be_empty = not any(is_required for _, is_required in members)
    branches = ['"{" "}"'] if may_be_empty else []
    if before:
        branches.append(f'"{{" {space} {rules.add(before)}')
    return rules.add(" | ".join(branches))
