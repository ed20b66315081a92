"""`TemplateEnvironment`: the one Jinja environment of the project.

Jinja's sandbox keeps a template away from Python's internals, but does not stop it from running
for ever or filling the memory. This environment limits both, step by step:

- loops, macros and includes count their turns and check the clock (`GuardedCodeGenerator`);
- operators, methods and filters whose result may be far larger than their arguments check its size
  first (`size_guards`);
- operations that walk through a whole value weigh it first, because a small value may contain
  itself many times over (`comparing`);
- every result is charged to the rendering's `Budget`.

Untrusted templates are rendered in a process that can be killed all the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from jinja2.filters import make_attrgetter

from calculators.llm.prompt.chat_template import comparing, size_guards
from calculators.llm.prompt.chat_template.budgeted_environment import BudgetedEnvironment
from calculators.llm.prompt.chat_template.code_generator import GuardedCodeGenerator
from calculators.llm.prompt.chat_template.functions import (
    from_json,
    raise_exception,
    strftime_now,
    to_json,
)
from calculators.llm.prompt.chat_template.generation_block import GenerationBlock
from calculators.llm.prompt.chat_template.limits import Budget, RenderLimits
from calculators.llm.prompt.chat_template.model_directory import ModelDirectoryLoader
from calculators.llm.prompt.chat_template.not_given import is_none

T = TypeVar("T")

#: Filters and functions that are useless in a prompt, and slow on hostile input.
_LEFT_OUT_FILTERS = ("pprint", "urlize")
_LEFT_OUT_GLOBALS = ("lipsum",)


class TemplateEnvironment(BudgetedEnvironment):
    """Compiles and runs templates of one model directory, each run within `RenderLimits`."""

    code_generator_class = GuardedCodeGenerator

    def __init__(self, directory: Path | None, limits: RenderLimits) -> None:
        super().__init__(
            limits,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationBlock],
            loader=ModelDirectoryLoader(directory),
            auto_reload=False,
        )
        for name in _LEFT_OUT_FILTERS:
            del self.filters[name]
        for name in _LEFT_OUT_GLOBALS:
            del self.globals[name]
        self.globals["raise_exception"] = raise_exception
        self.globals["strftime_now"] = strftime_now
        self.filters["from_json"] = from_json
        for name, function in self.filters.items():
            self.filters[name] = self._guarded_filter(name, function)
        self.filters["tojson"] = self._to_json
        self.filters["join"] = self._join
        self.filters["sum"] = self._sum
        self.tests["none"] = is_none
        for name in self.tests.keys() - size_guards.LIGHT_TESTS:
            test: Any = self.tests[name]
            self.tests[name] = self._guarded_test(test)
        for name, comparison in comparing.TESTS.items():
            self.tests[name] = self._comparing_test(comparison)

    def _guarded_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # Filters that take the context or environment get it before the filtered value.
        first = 1 if hasattr(function, "jinja_pass_arg") else 0
        check = size_guards.FILTERS.get(name)
        is_light = name in size_guards.LIGHT_FILTERS
        attribute_place = size_guards.COMPARING_FILTERS.get(name)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            budget = self._running.budget
            budget.check_time()
            if attribute_place is not None:
                args = self._weighed_attributes(args, first, kwargs, attribute_place)
            if not is_light:
                for value in (*args[first:], *kwargs.values()):
                    budget.weigh(value)
            if check is not None:
                check(budget, *args[first:], **kwargs)
            made = function(*args, **kwargs)
            if isinstance(made, Iterator):
                return _timed(budget, made)
            return budget.made(made)

        return guarded

    def _guarded_test(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            budget = self._running.budget
            budget.check_time()
            for value in args:
                if not isinstance(value, TemplateEnvironment):
                    budget.weigh(value)
            return function(*args, **kwargs)

        return guarded

    def _comparing_test(
        self, comparison: Callable[[Budget, Any, Any], Any]
    ) -> Callable[[Any, Any], Any]:
        return lambda left, right: comparison(self._running.budget, left, right)

    def _weighed_attributes(
        self, args: tuple[Any, ...], first: int, kwargs: Mapping[str, Any], place: int
    ) -> tuple[Any, ...]:
        """Weigh the values that a filter compares; return its arguments, the values as a list."""
        if len(args) <= first:
            return args
        values = args[first]
        if not isinstance(values, (str, Mapping)):
            values = list(values)
        attribute = size_guards.argument(args, kwargs, first + 1 + place, "attribute")
        for each in attribute.split(",") if isinstance(attribute, str) else (attribute,):
            self._running.budget.weigh(list(self._attributes(values, each)))
        return (*args[:first], values, *args[first + 1 :])

    def _to_json(self, value: Any, *args: Any, **kwargs: Any) -> str:
        budget = self._running.budget
        budget.check_time()
        return budget.made(to_json(budget, value, *args, **kwargs))

    def _join(self, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
        budget = self._running.budget
        budget.check_time()
        parts = list(self._attributes(value, attribute))
        budget.allow(budget.weigh(parts) + len(parts) * budget.weigh(d))
        return budget.made(str(d).join(map(str, parts)))

    def _sum(
        self, iterable: Iterable[Any], attribute: str | int | None = None, start: Any = 0
    ) -> Any:
        budget = self._running.budget
        total = start
        for value in self._attributes(iterable, attribute):
            budget.check_time()
            total = size_guards.add(budget, total, value)
        return total

    def _attributes(self, values: Iterable[Any], attribute: str | int | None) -> Iterable[Any]:
        return values if attribute is None else map(make_attrgetter(self, attribute), values)


def _timed(budget: Budget, values: Iterator[T]) -> Iterator[T]:
    """Yield the values; check the time before each."""
    for value in values:
        budget.check_time()
        yield value
