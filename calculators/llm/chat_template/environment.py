"""`TemplateEnvironment`: the one Jinja environment of the project.

Jinja's sandbox keeps a template from Python's internals. It does not keep it from running for
ever, or from filling the memory; that is done here, in the small steps that a template is made of:

- loops, macros and includes count, and look at the clock (`GuardedCodeGenerator`);
- operators, methods and filters that make much out of little say how much first (`growth`);
- what they make is accounted for (`Budget`).

What is left: a comparison or a hash of a list that holds itself many times over is one step, and
can take long. Only a template that was written to do so has one, never a request. Whoever loads
templates of strangers renders them in a process that can be killed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Template
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from calculators.llm.chat_template import growth
from calculators.llm.chat_template.code_generator import GuardedCodeGenerator
from calculators.llm.chat_template.functions import (
    from_json,
    raise_exception,
    strftime_now,
    to_json,
)
from calculators.llm.chat_template.generation_block import GenerationBlock
from calculators.llm.chat_template.limits import Budget, RenderLimits
from calculators.llm.chat_template.model_directory import ModelDirectoryLoader
from calculators.llm.chat_template.not_given import is_none

T = TypeVar("T")

#: Of no use in a prompt, and slow for input that is made to be slow.
_LEFT_OUT_FILTERS = ("pprint", "urlize")
_LEFT_OUT_GLOBALS = ("lipsum",)


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
        for name in growth.SLOW_TESTS:
            test: Any = self.tests[name]
            self.tests[name] = self._guarded_test(test)

    @contextmanager
    def budget(self) -> Iterator[Budget]:
        """Everything that the block compiles or renders shares one budget."""
        before = getattr(self._running, "budget", None)
        self._running.budget = budget = Budget(self._limits)
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
        if owner is not None:
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

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            budget = self._running.budget
            budget.check_time()
            if not is_light:
                for value in args[first:]:
                    budget.weigh(value)
            if check is not None:
                check(budget, *args[first:], **kwargs)
            return budget.made(function(*args, **kwargs))

        return guarded

    def _guarded_test(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._running.budget.check_time()
            return function(*args, **kwargs)

        return guarded

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
