"""`TemplateEnvironment`: the one Jinja environment of the project.

Jinja's sandbox keeps a template away from Python's internals, but does not stop it from running
for ever or filling the memory. This environment limits both, step by step, by `limits`:

- loops, macros and includes count their turns and check the clock (`GuardedCodeGenerator`);
- operators, methods and filters whose result may be far larger than their arguments check its size
  first;
- operations that walk through a whole value weigh it first, because a small value may contain
  itself many times over;
- every result is charged to the rendering's `Budget`.

Untrusted templates are rendered in a process that can be killed all the same.

The functions and filters that Hugging Face's templates rely on are here too. ``raise_exception``,
``strftime_now`` and ``tojson`` come from `transformers` (``utils/chat_template_utils.py``),
``from_json`` from OpenVINO Model Server.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from jinja2 import BaseLoader, Environment, Template, TemplateNotFound, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame, MacroRef, optimizeconst
from jinja2.ext import Extension
from jinja2.filters import make_attrgetter
from jinja2.loaders import split_template_path
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from calculators.llm.prompt.chat_template import limits
from calculators.llm.prompt.chat_template.limits import (
    LONGEST_TEMPLATE,
    Budget,
    ChatTemplateError,
    RenderLimits,
    clean,
)
from graphrt_base.regular_file import read_regular_file


class NotGiven(Undefined):
    """Undefined, as in OpenVINO Model Server, and equal to none, as in Hugging Face's renderer.

    Templates are written for either: ``tools is defined``, ``tools is not none``,
    ``tools != none`` and a loop over no tools all do what their authors meant.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, NotGiven)

    __hash__ = Undefined.__hash__


#: The variables that Hugging Face's renderer always sets.
NOT_GIVEN = {name: NotGiven(name=name) for name in ("tools", "documents")}


def is_none(value: object) -> bool:
    """Evaluate the test ``none``."""
    return value is None or isinstance(value, NotGiven)


#: Callables that neither print nor compare their arguments.
_LIGHT_CALLABLES = (Macro, LoopContext)
_LIGHT_CLASSES = (Cycler, Joiner, Namespace)


class _RunningBudget(threading.local):
    """The budget of the rendering in this thread."""

    budget: Budget


class BudgetedEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a budget for each rendering and each compilation.

    The code that `GuardedCodeGenerator` writes calls `tick`, `compared`, `key`, `made` and
    `joined`; Jinja's own code calls the rest. Each raises `ChatTemplateError` when the budget of
    the thread's rendering is used up.
    """

    intercepted_binops = frozenset(limits.OPERATORS)

    def __init__(self, render_limits: RenderLimits, **options: Any) -> None:
        """Make an environment with Jinja's ``options``, in which all output is weighed."""
        self._running = _RunningBudget()
        self._limits = render_limits
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
        """Evaluate ``first < second <= third``; see `limits.compare`."""
        return limits.compare(self._running.budget, first, *rest)

    def key(self, value: T) -> T:
        """Return ``value`` once its hash is known to be cheap enough."""
        limits.check_key(self._running.budget, value)
        return value

    def getitem(self, obj: Any, argument: Any) -> Any:
        limits.check_key(self._running.budget, argument)
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow a template to append to its own lists too, and to take from them.

        Kimi K2's keep the ids of calls so. What the request holds stays as it is.
        """
        if type(obj) is list and attr in ("append", "pop"):
            return self._running.budget.may_change(obj)
        return super().is_safe_attribute(obj, attr, value)

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
        return limits.OPERATORS[operator](self._running.budget, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        budget = __self._running.budget
        budget.check_time()
        owner = getattr(__obj, "__self__", None)
        if not isinstance(__obj, _LIGHT_CALLABLES) and __obj not in _LIGHT_CLASSES:
            for value in (*args, *kwargs.values()):
                limits.check_key(budget, value)
        if owner is not None:
            if isinstance(owner, (list, tuple)) and args:
                limits.check_search(budget, owner, args[0])  # index, count
            if __obj.__name__ == "append":
                budget.create(limits.ELEMENT)
            args = limits.checked_arguments(budget, owner, __obj.__name__, args, kwargs)
        return budget.made(super().call(__context, __obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def checked(*args: Any, **kwargs: Any) -> str:
            limits.check_format(self._running.budget, value.__self__, args, kwargs)
            return wrapped(*args, **kwargs)

        return checked

    def get_template(
        self, name: str | Template, parent: str | None = None, globals: Any = None
    ) -> Template:
        self.tick()
        return super().get_template(name, parent, globals)


#: The attribute of the environment that generated code calls instead of reading.
TICK = "tick"


class GuardedCodeGenerator(CodeGenerator):
    """Jinja's code generator with a tick in each loop and macro.

    ``~``, slices, comparisons and keys of dictionaries become calls of the environment. Compiling
    raises `ChatTemplateError` when its budget is used up.
    """

    environment: BudgetedEnvironment

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        self.environment.check_time()
        return super().visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        node.body.insert(0, _tick(node.lineno))
        if node.test is not None:
            # `tick` returns None, so `or` leaves the decision to the test.
            tick = nodes.EnvironmentAttribute(TICK, lineno=node.lineno)
            node.test = nodes.Or(tick, node.test, lineno=node.lineno)
        super().visit_For(node, frame)

    def macro_body(
        self, node: nodes.Macro | nodes.CallBlock, frame: Frame
    ) -> tuple[Frame, MacroRef]:
        node.body.insert(0, _tick(node.lineno))
        return super().macro_body(node, frame)

    def visit_EnvironmentAttribute(  # noqa: N802
        self, node: nodes.EnvironmentAttribute, frame: Frame
    ) -> None:
        super().visit_EnvironmentAttribute(node, frame)
        if node.name == TICK:
            self.write("()")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        # Jinja compiles slices to Python's own, which copy unseen.
        if isinstance(node.arg, nodes.Slice):
            self.write("environment.made(")
            super().visit_Getitem(node, frame)
            self.write(")")
        else:
            super().visit_Getitem(node, frame)

    @optimizeconst
    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        if _is_quick(node):
            super().visit_Compare(node, frame)
            return
        self.write("environment.compared(")
        self.visit(node.expr, frame)
        for operand in node.ops:
            self.write(f", ({operand.op!r}, ")
            self.visit(operand.expr, frame)
            self.write(")")
        self.write(")")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self.write("{")
        for pair in node.items:
            if isinstance(pair.key, nodes.Const):
                self.visit(pair.key, frame)
            else:
                self.write("environment.key(")
                self.visit(pair.key, frame)
                self.write(")")
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("}")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.joined((")
        for operand in node.nodes:
            self.visit(operand, frame)
            self.write(", ")
        self.write("))")


def _is_quick(node: nodes.Compare) -> bool:
    """True for one comparison with a constant that is not a list, such as ``role == 'user'``."""
    if len(node.ops) != 1 or node.ops[0].op in ("in", "notin"):
        return False
    return isinstance(node.expr, nodes.Const) or isinstance(node.ops[0].expr, nodes.Const)


def _tick(lineno: int) -> nodes.ExprStmt:
    return nodes.ExprStmt(nodes.EnvironmentAttribute(TICK, lineno=lineno), lineno=lineno)


_LONGEST_TIME_FORMAT = 256
_WIDEST_INDENT = 32


def raise_exception(message: object = "") -> NoReturn:
    """Refuse the request, in the template's own words."""
    raise ChatTemplateError(clean(str(message)) or "the chat template refuses this request")


def strftime_now(format: str) -> str:
    """Format the local time."""
    if len(format) > _LONGEST_TIME_FORMAT:
        raise ChatTemplateError("the chat template formats the time with an overlong format")
    return datetime.now().strftime(format)


def from_json(text: str) -> Any:
    """Parse a JSON text."""
    return json.loads(text)


def to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: int | str | None = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as `json.dumps` does: no HTML escapes, text outside ASCII as it is.

    A number in the second place is the indentation, as in OpenVINO Model Server. A truth value
    is ``ensure_ascii``, as in `transformers`.
    """
    budget.weigh(value)
    if not isinstance(ensure_ascii, bool):
        ensure_ascii, indent = False, ensure_ascii if indent is None else indent
    if ensure_ascii is False and indent is None and separators is None and not sort_keys:
        return _encode(value)
    width = indent if isinstance(indent, int) else len(indent or "")
    if width > _WIDEST_INDENT or (separators and max(map(len, separators)) > _WIDEST_INDENT):
        raise ChatTemplateError("the chat template writes JSON with an absurd indentation")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    pieces = []
    size = 0
    for piece in encoder.iterencode(value):
        size += len(piece)
        budget.allow(size)
        pieces.append(piece)
    return "".join(pieces)


# Made once: `json.dumps` would make an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False).encode


class ModelDirectoryLoader(BaseLoader):
    """Loads small text files of one directory; a link must not lead out of it."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = None if directory is None else directory.resolve()

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str, Callable[[], bool] | None]:
        if self._directory is None:
            raise TemplateNotFound(template)
        try:
            # Refuses "..", and other systems' separators.
            path = self._directory.joinpath(*split_template_path(template)).resolve()
            if not path.is_relative_to(self._directory):
                raise TemplateNotFound(template)
            text = read_regular_file(path, LONGEST_TEMPLATE).decode()
        except (OSError, ValueError, RuntimeError) as error:  # links in a circle, no UTF-8, ...
            raise TemplateNotFound(template) from error
        # The name replaces the path, which must not appear in errors.
        return text, template, None


class GenerationBlock(Extension):
    """Renders the block's content. Names set inside are local, as in Hugging Face's renderer."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it as a set of the instance

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


T = TypeVar("T")

#: Filters and functions that are useless in a prompt, and slow on hostile input.
_LEFT_OUT_FILTERS = ("pprint", "urlize")
_LEFT_OUT_GLOBALS = ("lipsum",)


class TemplateEnvironment(BudgetedEnvironment):
    """Compiles and runs templates of one model directory, each run within `RenderLimits`."""

    code_generator_class = GuardedCodeGenerator

    def __init__(self, directory: Path | None, render_limits: RenderLimits) -> None:
        super().__init__(
            render_limits,
            # As transformers has them: templates are written for these.
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", GenerationBlock],
            loader=ModelDirectoryLoader(directory),
            # Else the loader asks the disk at each rendering if a file has changed.
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
        for name in self.tests.keys() - limits.LIGHT_TESTS:
            test: Any = self.tests[name]
            self.tests[name] = self._guarded_test(test)
        for name, comparison in limits.TESTS.items():
            self.tests[name] = self._comparing_test(comparison)

    def _guarded_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # Filters that take the context or environment get it before the filtered value.
        first = 1 if hasattr(function, "jinja_pass_arg") else 0
        check = limits.FILTERS.get(name)
        is_light = name in limits.LIGHT_FILTERS
        attribute_place = limits.COMPARING_FILTERS.get(name)

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
        attribute = limits.argument(args, kwargs, first + 1 + place, "attribute")
        for each in attribute.split(",") if isinstance(attribute, str) else (attribute,):
            self._running.budget.weigh(list(self._attributes(values, each)))
        return (*args[:first], values, *args[first + 1 :])

    def _to_json(self, value: Any, *args: Any, **kwargs: Any) -> str:
        budget = self._running.budget
        budget.check_time()
        if isinstance(value, Iterator):  # of a filter, which Python cannot write as JSON
            value = list(value)
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
            total = limits.add(budget, total, value)
        return total

    def _attributes(self, values: Iterable[Any], attribute: str | int | None) -> Iterable[Any]:
        return values if attribute is None else map(make_attrgetter(self, attribute), values)


def _timed(budget: Budget, values: Iterator[T]) -> Iterator[T]:
    """Yield the values; check the time before each."""
    for value in values:
        budget.check_time()
        yield value
