"""The rules of arrays, from the rules of their items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculators.llm.grammars import json_text
from calculators.llm.grammars.rules import Rules

#: The largest ``minItems`` and ``maxItems``: each item that is counted takes a rule.
MAX_ITEMS: Final = 1000


def array_rule(
    rules: Rules, first: Sequence[str], further: str | None, low: int, high: int | None
) -> str:
    """Add the rule of arrays of ``low`` to ``high`` items; return its name.

    Args:
        first: the rules of the first items, at most ``high``; all of them are written.
        further: the rule of every item after these; None: there are none.
        high: None is without end.
    """
    space = rules.add_expression(json_text.SPACE)
    end = rules.add(f'{space} "]"')
    if further is None or high == len(first):
        rest = end
    elif high is None:
        rest = rules.reserve()
        rules.define(rest, f'{end} | "," {space} {further} {rest}')
    else:
        rest = end
        for number in range(high - 1, max(len(first), 1) - 1, -1):
            more = f'"," {space} {further} {rest}'
            rest = rules.add(f"{end} | {more}" if number >= low else more)
    if high is None and further is not None:
        for _ in range(max(low, 1) - max(len(first), 1)):
            rest = rules.add(f'"," {space} {further} {rest}')
    may_be_empty = not first and low == 0
    if not first and further is not None and high != 0:
        first = [further]
    for item in reversed(first[1:]):
        rest = rules.add(f'"," {space} {item} {rest}')
    branches = ['"[" "]"'] if may_be_empty or not first else []
    branches += [f'"[" {space} {first[0]} {rest}'] if first else []
    return rules.add(" | ".join(branches))
