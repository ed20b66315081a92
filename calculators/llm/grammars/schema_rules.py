"""From a JSON schema to rules: every text that they allow is valid by the schema.

Where a schema leaves the choice, the rules may allow less than it does: properties come in the
schema's order, and others than the named ones only where ``additionalProperties`` says so. What
they cannot say is refused by the name of the keyword.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.grammars import json_text, schema_scalars
from calculators.llm.grammars.array_rules import array_rule
from calculators.llm.grammars.automaton import TooComplex
from calculators.llm.grammars.object_rules import object_rule
from calculators.llm.grammars.regular_expression import Node
from calculators.llm.grammars.rules import GrammarTooLarge, Rules, UnboundedGrammarError, literal
from calculators.llm.grammars.schema_combining import branches_of, merged, target_of
from calculators.llm.grammars.schema_error import SchemaError
from calculators.llm.grammars.schema_keywords import COMBINING, OF_TYPE, assertions

Schema = Mapping[str, Any] | bool

#: How deep schemas nest, references included where they are put in place.
MAX_DEPTH: Final = 64


def schema_grammar(schema: Schema) -> str:
    """The rules (EBNF) of the JSON texts that are valid by a schema.

    Raises:
        SchemaError: there are none, or it says what rules cannot.
    """
    builder = SchemaRules(schema)
    try:
        return builder.rules.text(builder.value(schema, ""))
    except UnboundedGrammarError as error:
        raise SchemaError("", str(error)) from None
    except (GrammarTooLarge, RecursionError):
        raise SchemaError("", "the schema is too large") from None


class SchemaRules:
    """The rules of one schema and all that it refers to."""

    def __init__(self, root: Schema) -> None:
        self.rules = Rules()
        self._root = root
        self._referred: dict[str, str] = {}
        self._any: str | None = None
        self._depth = 0

    def value(self, schema: object, place: str) -> str:
        """The rule of the values that a schema allows."""
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
        """The rule of an expression."""
        try:
            return self.rules.add_expression(node)
        except TooComplex as error:
            raise SchemaError(place, str(error)) from None

    def space(self) -> str:
        return self.rules.add_expression(json_text.SPACE)

    def anything(self) -> str:
        """Any JSON value."""
        if self._any is None:
            self._any = name = self.rules.reserve()
            shapes = [
                object_rule(self, {}, "", is_open=True),
                array_rule(self, {}, ""),
                *(schema_scalars.rule(self, kind, {}, "") for kind in ("string", "number")),
            ]
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
        """Exactly this value, as a part of a rule."""
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
                return object_rule(self, schema, place)
            case "array":
                return array_rule(self, schema, place)
            case _:
                return schema_scalars.rule(self, kind, schema, place)


def types_of(schema: Mapping[str, Any], place: str) -> tuple[str, ...] | None:
    """The types that a schema names; None: it names none."""
    if "type" not in schema:
        return None
    value = schema["type"]
    kinds = tuple(value) if isinstance(value, list) else (value,)
    if not kinds or any(not isinstance(kind, str) or kind not in OF_TYPE for kind in kinds):
        raise SchemaError(f"{place}.type", f"expected one of {', '.join(OF_TYPE)}")
    return kinds
