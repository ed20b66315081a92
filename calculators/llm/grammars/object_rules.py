"""The rules of objects, from all schemas that look at them.

Named properties come in the schema's order. Others come after them, and only where a schema says
something about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.requests import fields
from calculators.llm.grammars import json_text
from calculators.llm.grammars.array_rules import unevaluated
from calculators.llm.grammars.automaton import (
    Automaton,
    NoTextError,
    TooComplex,
    complement,
    intersection,
    smallest,
)
from calculators.llm.grammars.notation import JSON, Notation
from calculators.llm.grammars.regular_expression import RegexError
from calculators.llm.grammars.rules import Rules, literal
from calculators.llm.grammars.schema_document import Located, NoValueError, SchemaError
from calculators.llm.grammars.schema_parts import SchemaPart
from calculators.llm.grammars.schema_scalars import (
    counts,
    matches,
    refused_automaton,
    search_automaton,
)

if TYPE_CHECKING:
    from calculators.llm.grammars.schema_rules import SchemaRules

#: The largest ``minProperties`` where names are free. A larger ``maxProperties`` is none.
MAX_MEMBERS: Final = 1000
#: Rules that count the members of an object with named properties.
MAX_COUNTING: Final = 20_000
#: Patterns of names whose common names have schemas of their own.
_MAX_COMMON: Final = 3
#: Names of members that no schema names, where no quotes are around names.
_FREE_NAMES: Final = "^[A-Za-z_][A-Za-z0-9_]*$"
_SPEAKING: Final = (
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
)


@dataclass(frozen=True, slots=True)
class _Member:
    """The rule of a named property, with its name."""

    rule: str
    is_required: bool


class _Names:
    """The names of an object's properties, and what the parts say of each."""

    def __init__(self, parts: Sequence[SchemaPart]) -> None:
        self.parts = parts
        self.named: dict[str, str] = {}
        self.required: dict[str, str] = {}
        self.patterns: dict[str, str] = {}
        for schema, place, _ in parts:
            for name in _mapping(schema, "properties", place):
                self.named.setdefault(name, f"{place}.properties.{name}")
            required = schema.get("required", [])
            if not isinstance(required, list) or not all(
                isinstance(each, str) for each in required
            ):
                raise SchemaError(f"{place}.required", "expected an array of names")
            self.required.update((name, f"{place}.required") for name in required)
            for pattern in _mapping(schema, "patternProperties", place):
                self.patterns.setdefault(pattern, f"{place}.patternProperties.{pattern}")
        for name, place in self.required.items():
            self.named.setdefault(name, place)

    def schemas(self, name: str | None, patterns: Sequence[str]) -> list[Located]:
        """Return the schemas of a property.

        Args:
            name: None is any name that is not among the named ones.
            patterns: those that match it.
        """
        found: list[Located] = []
        evaluated: list[frozenset[int]] = []
        for part in self.parts:
            schema, place, scopes = part
            own = [
                (inner, f"{place}.patternProperties.{pattern}")
                for pattern, inner in _mapping(schema, "patternProperties", place).items()
                if pattern in patterns
            ]
            properties = _mapping(schema, "properties", place)
            if name is not None and name in properties:
                own.append((properties[name], f"{place}.properties.{name}"))
            if not own and "additionalProperties" in schema:
                own.append((schema["additionalProperties"], f"{place}.additionalProperties"))
            if own:
                evaluated.append(scopes)
            found += own
        return found + unevaluated(self.parts, "unevaluatedProperties", evaluated)


def _mapping(schema: Mapping[str, Any], keyword: str, place: str) -> Mapping[str, Any]:
    value = schema.get(keyword)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SchemaError(f"{place}.{keyword}", "expected an object of schemas")
    return value


def object_rule(
    builder: SchemaRules, parts: Sequence[SchemaPart], notation: Notation = JSON
) -> str:
    """Add the rule of the objects that some parts allow; return its name.

    Raises:
        NoValueError: there are none.
    """
    names = _Names(parts)
    if notation.tag and notation.frame is not None and not names.named:
        # The mark at the end of an element has its name, so no name is free.
        notation = JSON
    low, high, where = counts(parts, "Properties")
    if high is not None and high > MAX_MEMBERS:
        high = None
    limits = [
        (part.schema["propertyNames"], f"{part.place}.propertyNames")
        for part in parts
        if part.schema.get("propertyNames", True) is not True
    ]
    listed = builder.listed_names(limits) if limits else None
    if listed is not None and not names.named:
        # Names that the schema lists are as good as named ones.
        names.named.update(dict.fromkeys(listed, limits[0][1]))
    members = _members(builder, names, limits, notation)
    others = None
    says_none = any("properties" in part.schema for part in parts)
    is_open = any(key in part.schema for part in parts for key in _SPEAKING) or not (
        names.named or says_none
    )
    # More properties than it names have to be others.
    is_open = is_open or low > len(members)
    if is_open and listed is None and not notation.tag and (high is None or high > 0):
        others = _others(builder, names, limits, notation)
    required = sum(member.is_required for member in members)
    if (others is None and low > len(members)) or (high is not None and high < required):
        raise NoValueError(where or parts[0].place, "no object has so many properties")
    if low > MAX_MEMBERS:
        raise SchemaError(where, f"{low} is above the maximum {MAX_MEMBERS}")
    if not members:
        return _map_rule(builder.rules, others, low, high, notation)
    is_counted = low > required or (
        high is not None and (high < len(members) or others is not None)
    )
    if not is_counted:
        return _members_rule(builder.rules, members[::-1], others, notation)
    most = high if high is not None else low
    if len(members) * (most + 1) > MAX_COUNTING:
        builder.leave_out(where, "with so many properties it cannot be counted")
        return _members_rule(builder.rules, members[::-1], others, notation)
    return _counted_rule(builder.rules, members, others, low, high, notation)


def _members(
    builder: SchemaRules, names: _Names, limits: Sequence[Located], notation: Notation
) -> list[_Member]:
    """Add the rules of the named properties, in their order."""
    found: list[_Member] = []
    for name, where in names.named.items():
        is_required = name in names.required
        if not notation.can_name(name):
            if is_required:
                raise SchemaError(where, f"{fields.describe(name)} cannot be written in a call")
            builder.leave_out(where, "the name cannot be written in a call")
            continue
        if any(not builder.values.is_valid(name, limit) for limit, _ in limits):
            if is_required:
                raise NoValueError(names.required[name], f'"{name[:40]}" is not allowed')
            continue
        matching = [pattern for pattern in names.patterns if matches(pattern, name)]
        schemas = names.schemas(name, matching)
        if any(schema is False for schema, _ in schemas):
            if is_required:
                raise NoValueError(names.required[name], f'"{name[:40]}" is not allowed')
            continue
        try:
            value = builder.value(schemas, notation.of_member(name))
        except NoValueError:
            if is_required or _contradicts_itself(schemas):
                raise
            continue
        key = literal(name) if notation.names else builder.literal(name, where)
        found.append(_Member(_member_rule(builder.rules, key, value, notation), is_required))
    return found


def _contradicts_itself(schemas: Sequence[Located]) -> bool:
    """Return True if a schema without values is a slip of its author, not a way to say none."""
    if len(schemas) != 1:
        return False
    [(schema, _)] = schemas
    return isinstance(schema, dict) and "type" in schema and "not" not in schema


def _others(
    builder: SchemaRules, names: _Names, limits: Sequence[Located], notation: Notation
) -> str | None:
    """Add the rule of a property that is not named; None: none is allowed."""
    languages: dict[str, Automaton] = {}
    for pattern, where in names.patterns.items():
        try:
            languages[pattern] = search_automaton(pattern)
        except (RegexError, TooComplex) as error:
            # Names that might match it are not written at all.
            builder.leave_out(where, f"regular expression: {error}")
            return None
    base = search_automaton(_FREE_NAMES) if notation.names else None
    try:
        if limits:
            limit = builder.name_language(limits)
            base = limit if limit is None or base is None else _common(base, limit)
        if names.named:
            base = _common(base, json_text.other_texts(names.named))
    except (NoValueError, NoTextError):
        return None  # no other name is allowed
    most = _MAX_COMMON if len(languages) <= _MAX_COMMON else 1
    branches: list[str] = []
    for size in range(most + 1):
        for chosen in combinations(languages, size):
            schemas = names.schemas(None, chosen)
            if any(schema is False for schema, _ in schemas):
                continue
            try:
                key = _key(builder, base, languages, chosen, notation)
                value = builder.value(schemas, notation.of_member(""))
                branches.append(_member_rule(builder.rules, key, value, notation))
            except (NoValueError, NoTextError):
                continue
            except TooComplex as error:
                where = names.patterns[chosen[0]] if chosen else names.parts[0].place
                raise SchemaError(where, str(error)) from None
    if not branches:
        return None
    return branches[0] if len(branches) == 1 else builder.rules.add(" | ".join(branches))


def _common(one: Automaton | None, other: Automaton) -> Automaton:
    return other if one is None else smallest(intersection(one, other))


def _key(
    builder: SchemaRules,
    base: Automaton | None,
    languages: Mapping[str, Automaton],
    chosen: Sequence[str],
    notation: Notation,
) -> str:
    """Add the rule of names that match the chosen patterns and no other."""
    made = base
    for pattern, language in languages.items():
        other = language if pattern in chosen else complement(refused_automaton(pattern))
        made = _common(made, other)
    if made is None:
        return builder.rules.any_string()
    return builder.rules.add_automaton(made) if notation.names else builder.rules.add_string(made)


def _member_rule(rules: Rules, key: str, value: str, notation: Notation) -> str:
    """Add the rule of one member from the rules of its key and value; return its name."""
    if not notation.names:
        return rules.add(f'{key} ":" {rules.add_expression(json_text.AFTER_COLON)} {value}')
    before, after = (literal(text) if text else "" for text in notation.key)
    return rules.add(f"{before} {key} {after} {value}".strip())


def object_of(rules: Rules, name: str, value: str, notation: Notation) -> str:
    """Add the rule of objects with one member, from the rule of its value; return its name."""
    key = literal(name if notation.names else json_text.value_text(name))
    member = _Member(_member_rule(rules, key, value, notation), is_required=True)
    return _members_rule(rules, [member], None, notation)


def _map_rule(
    rules: Rules, member: str | None, low: int, high: int | None, notation: Notation
) -> str:
    """Add the rule of objects of ``low`` to ``high`` equal members; return its name.

    Args:
        member: the rule of each; None: there are none, and ``low`` is 0.
        high: None is without end.
    """
    if member is None or high == 0:
        return rules.add(notation.empty("object"))
    end = notation.end(rules, "object")
    step = rules.add(f"{notation.next(rules)} {member}")
    least = max(low - 1, 0)
    if high is None:
        rest = rules.reserve()
        rules.define(rest, f"{end} | {step} {rest}")
        rest = rules.counted(step, least, least, rest)
    else:
        rest = rules.counted(step, least, high - 1, end)
    branches = [] if low else [notation.empty("object")]
    branches.append(f"{notation.begin(rules, 'object')} {member} {rest}")
    return rules.add(" | ".join(branches))


def _members_rule(
    rules: Rules, members: Sequence[_Member], other: str | None, notation: Notation
) -> str:
    """Add the rule of objects with named members; return its name.

    Args:
        members: the object's last member first.
        other: the rule of any number of further members after them; None: there are none.
    """
    comma = notation.next(rules)
    end = notation.end(rules, "object")
    # The rules of what follows after some member, and before the first one.
    after, before = end, ""
    if other is not None:
        after = rules.reserve()
        rules.define(after, f"{end} | {comma} {other} {after}")
        before = f"{other} {after}"
    for member in members:
        begun = f"{member.rule} {after}"
        before = begun if member.is_required or not before else f"{begun} | {before}"
        follows = f"{comma} {member.rule} {after}"
        after = rules.add(follows if member.is_required else f"{after} | {follows}")
        if len(before) > 200:
            before = rules.add(before)
    may_be_empty = not any(member.is_required for member in members)
    branches = [notation.empty("object")] if may_be_empty else []
    if before:
        branches.append(f"{notation.begin(rules, 'object')} {rules.add(before)}")
    return rules.add(" | ".join(branches))


def _counted_rule(
    rules: Rules,
    members: Sequence[_Member],
    other: str | None,
    low: int,
    high: int | None,
    notation: Notation,
) -> str:
    """Add the rule of objects with ``low`` to ``high`` members; return its name."""
    comma = notation.next(rules)
    end = notation.end(rules, "object")
    enough = low if high is None else high
    # What may follow the members up to a place, by the number of members so far: from the end on,
    # so that each row refers to the one before.
    row: list[str | None] = [end if size >= low else None for size in range(enough + 1)]
    if other is not None:
        row = _free(rules, other, end, comma, low, high, enough)
    starts: list[str | None] = list(_first(row, other, low))
    for member in reversed(members):
        new: list[str | None] = []
        for size in range(enough + 1):
            following = size + 1 if size < enough else (size if high is None else None)
            with_it = row[following] if following is not None else None
            without = None if member.is_required else row[size]
            ways = [] if without is None else [without]
            if with_it is not None:
                ways.append(f"{comma} {member.rule} {with_it}")
            new.append(rules.add(" | ".join(ways)) if ways else None)
        following = 1 if enough >= 1 else (0 if high is None else None)
        with_it = row[following] if following is not None else None
        own = [f"{member.rule} {with_it}"] if with_it is not None else []
        if not member.is_required:
            own += [each for each in starts if each is not None]
        starts = [rules.add(" | ".join(own))] if own else []
        row = new
    branches = []
    if low == 0 and not any(member.is_required for member in members):
        branches.append(notation.empty("object"))
    begin = notation.begin(rules, "object")
    branches += [f"{begin} {each}" for each in starts if each is not None]
    if not branches:
        raise NoValueError("", "no object has so many properties")
    return rules.add(" | ".join(branches))


def _free(
    rules: Rules, other: str, end: str, comma: str, low: int, high: int | None, enough: int
) -> list[str | None]:
    """Return the rules of further members and the end, by the number of members so far."""
    step = rules.add(f"{comma} {other}")
    row: list[str | None] = [None] * (enough + 1)
    if high is None:
        loop = rules.reserve()
        rules.define(loop, f"{end} | {step} {loop}")
        row[enough] = loop
    else:
        row[enough] = end
    for size in range(enough - 1, -1, -1):
        more = f"{step} {row[size + 1]}"
        row[size] = rules.add(f"{end} | {more}" if size >= low else more)
    return row


def _first(row: Sequence[str | None], other: str | None, low: int) -> list[str | None]:
    """Return the rule of a first member that is not named."""
    if other is None:
        return []
    following = row[min(1, len(row) - 1)]
    return [f"{other} {following}"] if following is not None and (len(row) > 1 or not low) else []
