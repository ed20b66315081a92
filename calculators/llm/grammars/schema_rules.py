"""Rules of JSON schemas: every text that they allow is valid by the schema.

The rules may allow less than the schema: properties come in the schema's order, and unnamed
properties only where the schema speaks of them. A keyword that rules cannot express is left out and
named, or refused where the client wants the schema to be followed strictly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from calculators.llm.grammars.array_rules import array_rule
from calculators.llm.grammars.automaton import Automaton, TooComplex
from calculators.llm.grammars.grammar import NO_SPECIAL_LETTERS, SpecialLetters
from calculators.llm.grammars.notation import JSON, Notation
from calculators.llm.grammars.object_rules import object_rule
from calculators.llm.grammars.raw_text import RawStrings
from calculators.llm.grammars.rules import GrammarTooLarge, Rules, UnboundedGrammarError, literal
from calculators.llm.grammars.schema_document import (
    NOT_ENUM,
    OF_TYPE,
    TYPES,
    Derived,
    Located,
    NoValueError,
    References,
    SchemaError,
)
from calculators.llm.grammars.schema_parts import SchemaPart, SchemaParts
from calculators.llm.grammars.schema_scalars import (
    matches,
    number_rule,
    string_language,
    string_rule,
)
from calculators.llm.grammars.schema_values import ValueCheck
from calculators.llm.parsers.typed_value import ArgumentSchema, types_of

#: Depth of nested schemas, with references that are merged in place.
MAX_DEPTH: Final = 64
#: Places that are left out of one schema, to be named.
_MAX_NOTICES: Final = 8


def schema_grammar(schema: Mapping[str, Any] | bool, *, is_strict: bool = False) -> str:
    """Return the rules (EBNF) of JSON texts that are valid by a schema.

    Raises:
        SchemaError: no text is valid, or the schema cannot be honoured in full and is strict.
    """
    rules = Rules()
    try:
        return rules.text(SchemaRules(schema, rules, is_strict=is_strict).root())
    except UnboundedGrammarError as error:
        raise SchemaError("", str(error)) from None


# Not xgrammar's own conversion: it drops keywords silently (`multipleOf`, `not`, siblings of
# `$ref`), and takes up to a minute over harmless patterns (decision 0016).
class SchemaRules:
    """Makes the rules of one schema and of all schemas that it refers to.

    Attributes:
        notices: places of keywords that are not enforced, each with the reason.
        values: checks of values by the document's schemas.
    """

    def __init__(
        self,
        root: Mapping[str, Any] | bool,
        rules: Rules,
        *,
        is_strict: bool,
        special: SpecialLetters = NO_SPECIAL_LETTERS,
    ) -> None:
        self.rules = rules
        self._special = special
        self.notices: dict[str, str] = {}
        self._root = root
        self._is_strict = is_strict
        references = References(root)
        self.values = ValueCheck(references, matches)
        self._parts = SchemaParts(references, self.leave_out)
        #: The rules of schemas that look at the same value, by their identities; None: no value.
        self._known: dict[tuple[frozenset[int], Notation], str | NoValueError] = {}
        self._kept: list[object] = []
        self._negations: dict[int, Derived] = {}
        self._any: dict[Notation, str] = {}
        self._depth = 0

    def root(self, notation: Notation = JSON) -> str:
        """Add the rules of the schema; return the name of the first.

        Raises:
            SchemaError: see `schema_grammar`.
        """
        try:
            return self.value([(self._root, "")], notation)
        except (GrammarTooLarge, RecursionError):
            raise SchemaError("", "the schema is too large") from None

    def leave_out(self, place: str, why: str) -> None:
        """Note a keyword that is not enforced.

        Raises:
            SchemaError: the schema is strict.
        """
        if self._is_strict:
            raise SchemaError(place, why)
        if len(self.notices) < _MAX_NOTICES:
            self.notices.setdefault(place, why)

    def value(self, schemas: Iterable[Located], notation: Notation = JSON) -> str:
        """Add the rule of the values that are valid by all of some schemas; return its name.

        Raises:
            NoValueError: there are none.
        """
        every = [(schema, place) for schema, place in schemas if schema is not True]
        notation = self._as_read(every, notation)
        if not every:
            return self.anything(notation)
        for schema, place in every:
            if schema is False:
                raise NoValueError(place, "no value is valid by false")
        key = (frozenset(id(schema) for schema, _ in every), notation)
        known = self._known.get(key)
        if isinstance(known, NoValueError):
            raise known
        if known is not None:
            return known
        self._kept += (schema for schema, _ in every)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaError(every[0][1], f"the schema is nested deeper than {MAX_DEPTH}")
        self._known[key] = name = self.rules.reserve()
        try:
            body = self._alternatives(every, notation)
            self.rules.define(name, body)
        except NoValueError as error:
            self.rules.define(name, name)  # what refers to it has no text either
            self._known[key] = error
            raise
        self._depth -= 1
        if body[0] == "r" and " " not in body:
            self._known[key] = name = body
        return name

    def _as_read(self, schemas: Iterable[Located], notation: Notation) -> Notation:
        """Return the notation in which a parser reads the values of some schemas."""
        if notation.frame is None:
            return notation
        types = [types_of(ArgumentSchema(schema, self._root)) for schema, _ in schemas]
        return notation.of(frozenset().union(*types) if all(types) else ())

    def _alternatives(self, schemas: Sequence[Located], notation: Notation) -> str:
        branches: dict[str, None] = {}
        depth = self._depth
        error = NoValueError(schemas[0][1], "no value is valid by it")
        for parts in self._parts.alternatives(schemas):
            try:
                branches.update(dict.fromkeys(self._by_type(parts, notation)))
            except NoValueError as found:
                error = found
                self._depth = depth
        if not branches:
            raise error
        texts = [each for each in branches if each[0] == '"']
        if len(texts) > 1:
            others = (each for each in branches if each[0] != '"')
            return " | ".join((self.rules.one_of(texts), *others))
        return " | ".join(branches)

    def anything(self, notation: Notation = JSON) -> str:
        """Return the rule of any value."""
        if notation not in self._any:
            self._any[notation] = name = self.rules.reserve()
            kinds = ("object", "array", "string", "number", "boolean", "null")
            shapes = [self._of_type(kind, (), notation) for kind in kinds]
            self.rules.define(name, " | ".join(shapes))
        return self._any[notation]

    def literal(self, value: object, place: str, notation: Notation = JSON) -> str:
        """Write exactly this value, as a part of a rule."""
        try:
            return literal(notation.text(value))
        except ValueError as error:
            why = "the value cannot be written as JSON" if notation.frame is None else str(error)
            raise SchemaError(place, why) from None

    def listed_values(
        self, schemas: Sequence[Located], notation: Notation = JSON
    ) -> list[str] | None:
        """Return the texts of all values that are valid by some schemas; None: they are endless."""
        found: dict[str, None] = {}
        notation = self._as_read(schemas, notation)
        for parts in self._parts.alternatives(schemas):
            kinds = _kinds(parts)
            listed = _listed(parts)
            if listed is not None:
                found.update(dict.fromkeys(self._literals(parts, *listed, notation)))
            elif kinds is not None and kinds <= {"boolean", "null"}:
                for kind in sorted(kinds):
                    values = _plain_values(kind, parts)
                    found.update((self.literal(each, "", notation), None) for each in values)
            else:
                return None
        return list(found) or None

    def listed_names(self, schemas: Sequence[Located]) -> list[str] | None:
        """Return the names that some schemas list; None: they do not."""
        found: dict[str, None] = {}
        for parts in self._parts.alternatives(schemas):
            listed = _listed(parts)
            if listed is None:
                return None
            found.update(
                (value, None) for value in listed[0]
                if isinstance(value, str) and self._is_valid(value, parts)
            )  # fmt: skip
        return list(found)

    def name_language(self, schemas: Sequence[Located]) -> Automaton | None:
        """Return the automaton of the names that are valid by some schemas; None: any.

        Raises:
            NoValueError: there are none.
        """
        made: list[Automaton | None] = []
        for parts in self._parts.alternatives(schemas):
            kinds = _kinds(parts)
            if kinds is None or "string" in kinds:
                made.append(string_language(parts, self.leave_out))
        if not made:
            raise NoValueError(schemas[0][1], "no name is valid by it")
        if len(made) > 1:
            # Any of the alternatives does; they are few, and the first is as good as another.
            made = made[:1]
        return made[0]

    def negation_of(self, schema: object) -> Derived:
        """Return the schema of values that are not valid by ``schema``, the same one each time."""
        found = self._negations.get(id(schema))
        if found is None:
            found = self._negations[id(schema)] = Derived({"not": schema})
            self._kept.append(schema)
        return found

    def _by_type(self, parts: Sequence[SchemaPart], notation: Notation) -> list[str]:
        listed = _listed(parts)
        if listed is not None:
            return self._literals(parts, *listed, notation)
        kinds = _kinds(parts)
        if kinds is None:
            speaking = [
                kind for kind in TYPES
                if any(not OF_TYPE[kind].isdisjoint(part.schema) for part in parts)
            ]  # fmt: skip
            if not speaking:
                return [self.anything(notation)]
            ordered = speaking
        else:
            ordered = [kind for kind in (*TYPES, "integer") if kind in kinds]
        found: list[str] = []
        error = NoValueError(parts[0].place, "no type is allowed")
        for kind in ordered:
            try:
                found.append(self._of_type(kind, parts, notation))
            except NoValueError as each:
                error = each
        if not found:
            raise error
        return found

    def _literals(
        self, parts: Sequence[SchemaPart], values: Sequence[object], place: str, notation: Notation
    ) -> list[str]:
        """Write the values that all parts allow."""
        valid = [value for value in values if self._is_valid(value, parts)]
        found = [self.literal(value, place, notation) for value in valid]
        if not found:
            raise NoValueError(place, "none of the values is valid by what is beside it")
        return list(dict.fromkeys(found))

    def _is_valid(self, value: object, parts: Sequence[SchemaPart]) -> bool:
        return all(self.values.is_valid(value, part.schema) for part in parts)

    def _of_type(self, kind: str, parts: Sequence[SchemaPart], notation: Notation) -> str:
        """Add the rule of the values of a type, with what stands around them."""
        if kind == "string" and notation.stop:
            raw = RawStrings(self.rules, notation, self._special)
            return raw.rule(parts, self.leave_out)
        if kind in ("boolean", "null"):
            values = _plain_values(kind, parts)
            if not values:
                raise NoValueError(parts[0].place, "no value is left")
            literals = (self.literal(each, "", notation) for each in values)
            return self.rules.add(" | ".join(literals))
        try:
            match kind:
                case "object":
                    rule = object_rule(self, parts, notation)
                case "array":
                    rule = array_rule(self, parts, notation)
                case "string":
                    rule = string_rule(self.rules, parts, self.leave_out)
                case _:
                    rule = number_rule(self.rules, kind, parts, self.leave_out)
        except TooComplex as error:
            raise SchemaError(parts[0].place if parts else "", str(error)) from None
        if notation.frame is None:
            return rule
        before, after = notation.frame.before(kind), notation.frame.after
        return self.rules.add(f"{literal(before)} {rule} {literal(after)}")


def _plain_values(kind: str, parts: Sequence[SchemaPart]) -> list[bool | None]:
    """Return the booleans, or null, that no part excludes."""
    values: tuple[bool | None, ...] = (True, False) if kind == "boolean" else (None,)
    refused = [
        each for part in parts if isinstance(part.schema, Derived)
        for each in part.schema.get(NOT_ENUM, ())
    ]  # fmt: skip
    return [value for value in values if not any(value is each for each in refused)]


def _listed(parts: Sequence[SchemaPart]) -> tuple[list[object], str] | None:
    """Return the values that a part lists, and its place; None: none does."""
    for schema, place, _ in parts:
        if "const" in schema:
            return [schema["const"]], f"{place}.const"
        if "enum" in schema:
            values = schema["enum"]
            if not isinstance(values, list) or not values:
                raise SchemaError(f"{place}.enum", "expected an array with values")
            return values, f"{place}.enum"
    return None


def _kinds(parts: Sequence[SchemaPart]) -> frozenset[str] | None:
    """Return the types that all parts allow; None: no part names any."""
    allowed: frozenset[str] | None = None
    for schema, place, _ in parts:
        if "type" not in schema:
            continue
        value = schema["type"]
        kinds = value if isinstance(value, list) else [value]
        if not kinds or any(not isinstance(kind, str) or kind not in OF_TYPE for kind in kinds):
            raise SchemaError(f"{place}.type", f"expected one of {', '.join(OF_TYPE)}")
        own = frozenset(kinds)
        if "number" in own:
            own |= {"integer"}
        allowed = own if allowed is None else allowed & own
        if not allowed:
            raise NoValueError(f"{place}.type", "it excludes the types beside it")
    # A number may be an integer.
    return allowed - {"integer"} if allowed is not None and "number" in allowed else allowed
