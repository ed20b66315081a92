"""The rules of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from calculators.llm.grammars.schema_error import SchemaError
from calculators.llm.grammars.schema_scalars import counts

if TYPE_CHECKING:
    from calculators.llm.grammars.schema_rules import SchemaRules

#: Items that can be counted: every one is a rule.
MAX_ITEMS: Final = 1000


def array_rule(builder: SchemaRules, schema: Mapping[str, Any], place: str) -> str:
    """All of ``prefixItems`` that may be there are; then any number of ``items``."""
    low, high = counts(schema, "Items", place, MAX_ITEMS)
    first = schema.get("prefixItems", [])
    if not isinstance(first, list):
        raise SchemaError(f"{place}.prefixItems", "expected an array of schemas")
    if high is not None:
        first = first[:high]
    items = [builder.value(each, f"{place}.prefixItems[{i}]") for i, each in enumerate(first)]
    further = _further(builder, schema, place, has_first=bool(first))
    if further is None and len(items) < low:
        raise SchemaError(f"{place}.minItems", "no further items are allowed")
    space, rules = builder.space(), builder.rules
    end = rules.add(f'{space} "]"')
    if further is None or high == len(items):
        rest = end
    elif high is None:
        rest = rules.reserve()
        rules.define(rest, f'{end} | "," {space} {further} {rest}')
    else:
        rest = end
        for number in range(high - 1, max(len(items), 1) - 1, -1):
            more = f'"," {space} {further} {rest}'
            rest = rules.add(f"{end} | {more}" if number >= low else more)
    if high is None and further is not None:
        for _ in range(max(low, 1) - max(len(items), 1)):
            rest = rules.add(f'"," {space} {further} {rest}')
    may_be_empty = not items and low == 0
    if not items and further is not None and high != 0:
        items = [further]
    for item in reversed(items[1:]):
        rest = rules.add(f'"," {space} {item} {rest}')
    branches = ['"[" "]"'] if may_be_empty or not items else []
    branches += [f'"[" {space} {items[0]} {rest}'] if items else []
    return rules.add(" | ".join(branches))


def _further(
    builder: SchemaRules, schema: Mapping[str, Any], place: str, *, has_first: bool
) -> str | None:
    """The rule of the items after the first ones; None: there are none."""
    name = "items" if "items" in schema else "unevaluatedItems"
    items = schema.get(name, not has_first)
    if isinstance(items, list):
        raise SchemaError(f"{place}.{name}", "expected one schema; prefixItems takes several")
    return None if items is False else builder.value(items, f"{place}.{name}")
