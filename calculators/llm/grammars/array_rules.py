"""The rules of arrays, from all schemas that look at them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

from calculators.llm.grammars.notation import JSON, Notation
from calculators.llm.grammars.rules import Rules
from calculators.llm.grammars.schema_document import Located, NoValueError, SchemaError
from calculators.llm.grammars.schema_parts import SchemaPart
from calculators.llm.grammars.schema_scalars import count, counts
from calculators.llm.grammars.schema_values import item_schemas

if TYPE_CHECKING:
    from calculators.llm.grammars.schema_rules import SchemaRules

#: The largest ``minItems``. A larger ``maxItems`` is none: no answer has so many.
MAX_ITEMS: Final = 100_000
#: Different values whose items may come in any order when none may come twice. More come in the
#: order of the schema.
MAX_IN_ANY_ORDER: Final = 7
MAX_DIFFERENT: Final = 256
#: Rules that count such items.
_MAX_COUNTING: Final = 4_000


def array_rule(builder: SchemaRules, parts: Sequence[SchemaPart], notation: Notation = JSON) -> str:
    """Add the rule of the arrays that some parts allow; return its name.

    Raises:
        NoValueError: there are none.
    """
    low, high, where = counts(parts, "Items")
    if low > MAX_ITEMS:
        raise SchemaError(where, f"{low} is above the maximum {MAX_ITEMS}")
    if high is not None and high > MAX_ITEMS:
        high = None
    first, further = _items(parts)
    if notation.tag and first:
        # What elements are at some place no parser looks up.
        notation = JSON
    least, held, most, refused = _contained(builder, parts)
    for number in range(least if most is None else max(least, most)):
        if number == len(first):
            first.append(list(further))
        if number < least:
            first[number] = [*first[number], *held]
    if most is not None:
        first[most:] = [[*each, *refused] for each in first[most:]]
        further = [*further, *refused]
        if least > most:
            raise NoValueError(parts[0].place, "minContains is above maxContains")
    low = max(low, least)
    if high is not None and low > high:
        raise NoValueError(where or parts[0].place, "its items are more than maxItems")
    if high is not None:
        first = first[:high]
    if any(part.schema.get("uniqueItems") is True for part in parts) and (high is None or high > 1):
        made = _different(builder, first, further, low, high, notation)
        if made is not None:
            return made
        place = next(part.place for part in parts if part.schema.get("uniqueItems") is True)
        builder.leave_out(f"{place}.uniqueItems", "only values that the schema lists can differ")
    rules: list[str] = []
    for number, schemas in enumerate(first):
        try:
            rules.append(builder.value(schemas, notation.of_item()))
        except NoValueError:
            # The array ends before.
            if low > number:
                raise
            high = number
            break
    rest = None
    if high is None or high > len(rules):
        try:
            rest = builder.value(further, notation.of_item())
        except NoValueError:
            high = len(rules)
            if low > high:
                raise
    return _array(builder.rules, rules, rest, low, high, notation)


def _items(parts: Sequence[SchemaPart]) -> tuple[list[list[Located]], list[Located]]:
    """Return the schemas of each of the first items, and the schemas of all further items."""
    read = [(part, *item_schemas(part.schema)) for part in parts]
    for part, first, _ in read:
        if not isinstance(first, list):
            raise SchemaError(f"{part.place}.prefixItems", "expected an array of schemas")
    length = max((len(first) for _, first, _ in read), default=0)
    rows: list[list[Located]] = []
    for number in range(length + 1):
        row: list[Located] = []
        evaluated: list[frozenset[int]] = []
        for part, first, others in read:
            if number < len(first):
                name = "items" if isinstance(part.schema.get("items"), list) else "prefixItems"
                row.append((first[number], f"{part.place}.{name}[{number}]"))
                evaluated.append(part.scopes)
            elif others is not None:
                name = "items"
                if isinstance(part.schema.get("items"), list):
                    name = "additionalItems"
                row.append((others, f"{part.place}.{name}"))
                evaluated.append(part.scopes)
        row += unevaluated(parts, "unevaluatedItems", evaluated)
        rows.append(row)
    return rows[:-1], rows[-1]


def unevaluated(
    parts: Sequence[SchemaPart], keyword: str, evaluated: Sequence[frozenset[int]]
) -> list[Located]:
    """Return what ``keyword`` says of an item or property.

    Args:
        evaluated: the scopes of the parts that have looked at it.
    """
    found: list[Located] = []
    # Inner schemas first: what they evaluate, those around them need not.
    for part in sorted(parts, key=lambda part: -len(part.scopes)):
        if keyword not in part.schema:
            continue
        number = id(part.schema)
        if not any(number in scopes for scopes in evaluated):
            found.append((part.schema[keyword], f"{part.place}.{keyword}"))
            evaluated = [*evaluated, part.scopes]
    return found


def _contained(
    builder: SchemaRules, parts: Sequence[SchemaPart]
) -> tuple[int, list[Located], int | None, list[Located]]:
    """Return what ``contains`` says of items.

    Returns: how many of the first items must be valid by its schemas, these, how many at most may
        be, and the schemas of those that may not. None is any number.
    """
    least, most = 0, None
    held, refused = list[Located](), list[Located]()
    for part in parts:
        if "contains" not in part.schema:
            continue
        place = f"{part.place}.contains"
        own = count(part.schema, "minContains", part.place)
        least = max(least, 1 if own is None else own)
        if own != 0:
            held.append((part.schema["contains"], place))
        limit = count(part.schema, "maxContains", part.place)
        if limit is not None:
            most = limit if most is None else min(most, limit)
            refused.append((builder.negation_of(part.schema["contains"]), place))
    return least, held, most, refused


def _different(
    builder: SchemaRules,
    first: Sequence[Sequence[Located]],
    further: Sequence[Located],
    low: int,
    high: int | None,
    notation: Notation,
) -> str | None:
    """Add the rule of arrays in which no value comes twice; None: the values are not listed."""
    if first:
        return None
    texts = builder.listed_values(further, notation.of_item())
    if texts is None or len(texts) > MAX_DIFFERENT:
        return None
    most = len(texts) if high is None else min(high, len(texts))
    if low > most:
        raise NoValueError(further[0][1] if further else "", "it has fewer values than minItems")
    rules = builder.rules
    comma, end = notation.next(rules), notation.end(rules, "array")
    branches = [notation.empty("array")] if low == 0 else []
    if most == 0:
        return rules.add(notation.empty("array"))
    if (low > 1 or most < len(texts)) and len(texts) * most > _MAX_COUNTING:
        return None
    if len(texts) <= MAX_IN_ANY_ORDER:
        rest = _any_order(rules, texts, end, comma, low, most)
    else:
        rest = _in_order(rules, texts, end, comma, low, most)
    branches.append(f"{notation.begin(rules, 'array')} {rest}")
    return rules.add(" | ".join(branches))


def _any_order(
    rules: Rules, texts: Sequence[str], end: str, comma: str, low: int, most: int
) -> str:
    """Add the rule of the items after the first bracket: one rule for each set of those left."""
    after: dict[frozenset[int], str] = {}
    every = frozenset(range(len(texts)))

    def items(left: frozenset[int]) -> str:
        return " | ".join(f"{texts[each]} {after[left - {each}]}" for each in sorted(left))

    for size in range(most, 0, -1):
        for chosen in combinations(sorted(every), size):
            left = every - set(chosen)
            branches = [end] if size >= low else []
            if size < most:
                branches.append(f"{comma} {rules.add(items(left))}")
            after[left] = rules.add(" | ".join(branches))
    return rules.add(items(every))


def _in_order(rules: Rules, texts: Sequence[str], end: str, comma: str, low: int, most: int) -> str:
    """Add the rule of the items after the first bracket, in the order of the list."""
    bounded = low > 1 or most < len(texts)
    known: dict[tuple[int, int], str] = {}

    def after(place: int, size: int) -> str:
        key = (place, size if bounded else min(size, 1))
        if key not in known:
            known[key] = name = rules.reserve()
            branches = [end] if size >= low else []
            if size < most and place < len(texts):
                branches.append(f"{comma} {items(place, size)}")
            rules.define(name, " | ".join(branches) or name)
        return known[key]

    def items(place: int, size: int) -> str:
        key = (-1 - place, size if bounded else min(size, 1))
        if key not in known:
            known[key] = name = rules.reserve()
            branches = [f"{texts[place]} {after(place + 1, size + 1)}"]
            if place + 1 < len(texts):
                branches.append(items(place + 1, size))
            rules.define(name, " | ".join(branches))
        return known[key]

    for place in range(len(texts) - 1, -1, -1):
        # The last ones first: each refers to the ones after it.
        if not bounded:
            items(place, 1)
    return items(0, 0)


def _array(
    rules: Rules,
    first: Sequence[str],
    further: str | None,
    low: int,
    high: int | None,
    notation: Notation,
) -> str:
    """Add the rule of arrays of ``low`` to ``high`` items; return its name.

    Args:
        first: the rules of the first items, at most ``high``; all of them are written.
        further: the rule of every item after these; None: there are none.
        high: None is without end.
    """
    comma, end = notation.next(rules), notation.end(rules, "array")
    head = list(first)
    if further is not None and not head and high != 0:
        head = [further]
    rest = end
    if further is not None and high != len(head):
        step = rules.add(f"{comma} {further}")
        if high is None:
            rest = rules.reserve()
            rules.define(rest, f"{end} | {step} {rest}")
            rest = rules.counted(step, max(low - len(head), 0), max(low - len(head), 0), rest)
        else:
            rest = rules.counted(step, max(low - len(head), 0), high - len(head), end)
    for item in reversed(head[1:]):
        rest = rules.add(f"{comma} {item} {rest}")
    branches = [notation.empty("array")] if not head or (low == 0 and not first) else []
    branches += [f"{notation.begin(rules, 'array')} {head[0]} {rest}"] if head else []
    return rules.add(" | ".join(branches))
