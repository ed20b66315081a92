"""`BudgetedEnvironment`: the operations of compiled templates, each within a budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from jinja2 import Template
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from calculators.llm.prompt.chat_template import comparing, size_guards
from calculators.llm.prompt.chat_template.limits import Budget, RenderLimits

T = TypeVar("T")

#: Callables that neither print nor compare their arguments.
_LIGHT_CALLABLES = (Macro, LoopContext)
_LIGHT_CLASSES = (Cycler, Joiner, Namespace)


class _Running(threading.local):
    """The budget of the rendering in this thread."""

    budget: Budget


class BudgetedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a budget for each rendering and each compilation.

    The code that `GuardedCodeGenerator` writes calls `tick`, `compared`, `key`, `made` and
    `joined`; Jinja's own code calls the rest. Each raises `ChatTemplateError` when the budget of
    the thread's rendering is used up.
    """

    intercepted_binops = frozenset(size_guards.OPERATORS)

    def __init__(self, limits: RenderLimits, **options: Any) -> None:
        """Make an environment with Jinja's ``options``, in which all output is weighed."""
        self._running = _Running()
        self._limits = limits
        super().__init__(finalize=self.printed, **options)

    @contextmanager
    def budget(self, *, compiles: bool = False) -> Iterator[Budget]:
        """Give one budget to everything that the block renders, or compiles, in this thread."""
        before = getattr(self._running, "budget", None)
        self._running.budget = budget = Budget(self._limits, compiles=compiles)
        try:
            yield budget
        finally:
            if before is None:
                del self._running.budget
            else:
                self._running.budget = before

    def tick(self) -> None:
        """Count one turn of a loop, or one call of a macro."""
        self._running.budget.tick()

    def check_time(self) -> None:
        """Raise when the time of this rendering, or compilation, is over."""
        self._running.budget.check_time()

    def compared(self, first: Any, *rest: tuple[str, Any]) -> Any:
        """Evaluate ``first < second <= third``; see `comparing.compare`."""
        return comparing.compare(self._running.budget, first, *rest)

    def key(self, value: T) -> T:
        """Return ``value`` once its hash is known to be cheap enough."""
        comparing.check_key(self._running.budget, value)
        return value

    def getitem(self, obj: Any, argument: Any) -> Any:
        comparing.check_key(self._running.budget, argument)
        return super().getitem(obj, argument)

    def made(self, value: T) -> T:
        """Charge a new value to the budget, and return it."""
        return self._running.budget.made(value)

    def printed(self, value: T) -> T:
        """Return the value of ``{{ value }}`` once its text is known not to be too long."""
        if type(value) is not str:
            self._running.budget.weigh(value)
        return value

    def joined(self, values: Iterable[Any]) -> str:
        """Evaluate ``a ~ b ~ c``."""
        return self.concat([str(self.printed(value)) for value in values])

    def concat(self, pieces: Iterable[str]) -> str:
        """Join the output of a macro, or of a block that is assigned or filtered."""
        budget = self._running.budget
        pieces = list(pieces)
        budget.create(sum(map(len, pieces)))
        return "".join(pieces)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return size_guards.OPERATORS[operator](self._running.budget, left, right)

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
            args = size_guards.checked_arguments(budget, owner, __obj.__name__, args, kwargs)
        return budget.made(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            size_guards.check_format(self._running.budget, value.__self__, args, kwargs)
            return wrapped(*args, **kwargs)

        return checked

    def get_template(
        self, name: str | Template, parent: str | None = None, globals: Any = None
    ) -> Template:
        self.tick()
        return super().get_template(name, parent, globals)
