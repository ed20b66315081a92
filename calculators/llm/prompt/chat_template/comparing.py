"""Operations that walk through values: comparisons, look-ups, hashes.

A list that contains itself many times over is small, but takes for ever to compare. Each function
weighs its arguments before the operation runs, as in `size_guards`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from calculators.llm.prompt.chat_template.size_guards import Budget

#: Types whose values compare in no time with a value of any type.
_ATOMS = frozenset({bool, float, int, str, type(None)})

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}


def compare(budget: Budget, first: Any, *rest: tuple[str, Any]) -> Any:
    """Evaluate ``first < second <= third``; ``rest`` has Jinja's names of operators, and values."""
    result: Any = True
    left = first
    for name, right in rest:
        budget.check_time()
        if name == "in":
            result = contains(budget, right, left)
        elif name == "notin":
            result = not contains(budget, right, left)
        else:
            _check_pair(budget, left, right)
            result = _ORDERS[name](left, right)
        if not result:
            break
        left = right
    return result


def contains(budget: Budget, container: Any, item: Any) -> bool:
    """Evaluate ``item in container``."""
    if isinstance(container, (list, tuple)):
        check_search(budget, container, item)
    elif hasattr(type(container), "__contains__"):
        check_key(budget, item)
    elif isinstance(container, Iterable):
        return any(compare(budget, item, ("eq", each)) for each in container)
    return item in container


def check_search(budget: Budget, values: Sequence[Any], item: Any) -> None:
    """Check that ``item`` may be searched among ``values``."""
    if not budget.is_within(item, budget.longest // (len(values) + 1)):
        budget.weigh(values)


def check_key(budget: Budget, key: Any) -> None:
    """Check that ``key`` may be hashed, or shown in an error."""
    if type(key) not in _ATOMS:
        budget.weigh(key)


def _check_pair(budget: Budget, left: Any, right: Any) -> None:
    """Check that two values may be compared; the lighter one bounds the work."""
    if type(left) in _ATOMS or type(right) in _ATOMS:
        return
    if not budget.is_within(left, budget.longest):
        budget.weigh(right)


def _test_of(name: str) -> Callable[[Budget, Any, Any], Any]:
    return lambda budget, left, right: compare(budget, left, (name, right))


#: Jinja's tests that compare.
TESTS: Mapping[str, Callable[[Budget, Any, Any], Any]] = {
    test: _test_of(name)
    for name, tests in (
        ("in", ("in",)),
        ("eq", ("==", "eq", "equalto")),
        ("ne", ("!=", "ne")),
        ("lt", ("<", "lt", "lessthan")),
        ("lteq", ("<=", "le")),
        ("gt", (">", "gt", "greaterthan")),
        ("gteq", (">=", "ge")),
    )
    for test in tests
}
