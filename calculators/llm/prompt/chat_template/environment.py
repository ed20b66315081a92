"""`TemplateEnvironment`: the one Jinja environment of the project.

Jinja's sandbox keeps a template from Python's internals. It does not keep it from running for
ever, or from filling the memory; that is done here, in the small steps that a template is made of:

- loops, macros and includes count, and look at the clock (`GuardedCodeGenerator`);
- operators, methods and filters that make much out of little say how much first (`growth`);
- so do those that go through all of a value, which may hold itself many times over (`comparing`);
- what they make is accounted for (`Budget`).

Whoever loads templates of strangers still renders them in a process that can be killed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Template
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from calculators.llm.prompt.chat_template import comparing
from calculators.llm.prompt.chat_template import size_guards as growth
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

#: Of no use in a prompt, and slow for input that is made to be slow.
_LEFT_OUT_FILTERS = ("pprint", "urlize")
_LEFT_OUT_GLOBALS = ("lipsum",)
#: Called with anything, they neither print nor compare it.
_LIGHT_CALLABLES = (Macro, LoopContext)
_LIGHT_CLASSES = (Cycler, Joiner, Namespace)


class _Running(threading.local):
    """The budget of the rendering in this thread."""

    budget: Budget


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Compiles and runs templates of one model directory, each run within `RenderLimits`."""

    code_generator_class = GuardedCodeGenerator
    intercepted_binops = frozenset(growth.OPERATORS)

    def __init__(self, directory: Path | None, limits: RenderLimits) -> None:
        self._running = _Running()
        self._limits = limits
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationBlock],
            loader=ModelDirectoryLoader(directory),
            finalize=self.printed,
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
        for name in self.tests.keys() - growth.LIGHT_TESTS:
            test: Any = self.tests[name]
            self.tests[name] = self._guarded_test(test)
        for name, comparison in comparing.TESTS.items():
            self.tests[name] = self._comparing_test(comparison)

    @contextmanager
    def budget(self, *, compiles: bool = False) -> Iterator[Budget]:
        """Everything that the block renders, or compiles, shares one budget."""
        before = getattr(self._running, "budget", None)
        self._running.budget = budget = Budget(self._limits, compiles=compiles)
        try:
            yield budget
        finally:
            if before is None:
                del self._running.budget
            else:
                self._running.budget = before

    # --- called by the code of templates ---------------------------------------------------------

    def tick(self) -> None:
        self._running.budget.tick()

    def look_at_clock(self) -> None:
        self._running.budget.check_time()

    def compared(self, first: Any, *rest: tuple[str, Any]) -> Any:
        return comparing.compare(self._running.budget, first, *rest)

    def key(self, value: T) -> T:
        comparing.check_key(self._running.budget, value)
        return value

    def getitem(self, obj: Any, argument: Any) -> Any:
        comparing.check_key(self._running.budget, argument)
        return super().getitem(obj, argument)

    def made(self, value: T) -> T:
        return self._running.budget.made(value)

    def printed(self, value: T) -> T:
        """``{{ value }}``: what becomes text next."""
        if type(value) is not str:
            self._running.budget.weigh(value)
        return value

    def joined(self, values: Iterable[Any]) -> str:
        """``a ~ b ~ c``."""
        return self.concat([str(self.printed(value)) for value in values])

    def concat(self, pieces: Iterable[str]) -> str:
        """The output of a macro, or of a block that is assigned or filtered."""
        budget = self._running.budget
        pieces = list(pieces)
        budget.create(sum(map(len, pieces)))
        return "".join(pieces)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return growth.OPERATORS[operator](self._running.budget, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        budget = __self._running.budget
        budget.check_time()
        owner = getattr(__obj, "__self__", None)
        if not isinstance(__obj, _LIGHT_CALLABLES) and __obj not in _LIGHT_CLASSES:
            for value in (*args, *kwargs.values()):
                comparing.check_key(budget, value)
        if owner is not None:
            if isinstance(owner, (list, tuple)) and args:
                comparing.check_search(budget, owner, args[0])  # index, count
            args = growth.checked_arguments(budget, owner, __obj.__name__, args, kwargs)
        return budget.made(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            growth.check_format(self._running.budget, value.__self__, args, kwargs)
            return wrapped(*args, **kwargs)

        return checked

    def get_template(
        self, name: str | Template, parent: str | None = None, globals: Any = None
    ) -> Template:
        self.tick()
        return super().get_template(name, parent, globals)

    # --- filters and tests -----------------------------------------------------------------------

    def _guarded_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # Filters that ask for the context or environment get it before the filtered value.
        first = 1 if hasattr(function, "jinja_pass_arg") else 0
        check = growth.FILTERS.get(name)
        is_light = name in growth.LIGHT_FILTERS
        attribute_place = growth.COMPARING_FILTERS.get(name)

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
        """The arguments of a filter that compares values, which are a list then."""
        if len(args) <= first:
            return args
        values = args[first]
        if not isinstance(values, (str, Mapping)):
            values = list(values)
        attribute = growth.argument(args, kwargs, first + 1 + place, "attribute")
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
            total = growth.add(budget, total, value)
        return total

    def _attributes(self, values: Iterable[Any], attribute: str | int | None) -> Iterable[Any]:
        return values if attribute is None else map(make_attrgetter(self, attribute), values)


def _timed(budget: Budget, values: Iterator[T]) -> Iterator[T]:
    """The same, with a look at the clock before each."""
    for value in values:
        budget.check_time()
        yield value
