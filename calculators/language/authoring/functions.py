"""Functions of authors: their options, and the calculators that are made of them.

The parameters of a function after its input become the options of its node. A function from request
to request (`on_request`) needs no more than that. A generator (`GeneratorRun`) runs in a task of
its own, beside the calls of its node.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, get_type_hints

from calculators.language.generation_request import GenerationRequest, Refusal, Setter
from calculators.language.mistakes import AuthorMistake, named, place_of
from graph_runtime import (
    Calculator,
    CalculatorContext,
    Code,
    GraphError,
    In,
    Options,
    Out,
    calculator,
)
from graph_runtime.options.options import is_options_type
from graphrt_base.annotations import resolved
from graphrt_base.interrupts import contained

T = TypeVar("T")
U = TypeVar("U", covariant=True)


class GeneratorRun(Generic[T, U]):
    """One generator, in a task of its own for its whole life.

    Stepping it inside the calls of a node would cost less, but breaks ``asyncio.timeout`` and
    libraries on anyio, which want to leave a block in the task that entered it.

    Attributes:
        is_done: the generator has returned or raised.
    """

    def __init__(
        self,
        function: Callable[[AsyncIterator[T]], AsyncIterator[U]],
        problem: Callable[[U], str],
    ) -> None:
        """Prepare the generator; the first `feed` starts it. Needs a running event loop.

        ``problem``: returns what is wrong with an output, "" if nothing is; it is raised in the
        generator, at the line of its ``yield``.
        """
        self._function = function
        self._problem = problem
        self._inputs: deque[T] = deque()
        self._has_ended = False
        self._outputs: list[U] = []
        #: The generator waits for an input.
        self._waits: asyncio.Future[None] | None = None
        #: `feed` waits for the generator.
        self._feeds: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_done = False
        self._error: Exception | None = None
        self._is_closing = False

    def take_error(self) -> Exception | None:
        """Return the exception that the generator has raised, once: it leads back here."""
        error, self._error = self._error, None
        return error

    async def feed(self, inputs: Iterable[T], *, ends: bool = False) -> list[U]:
        """Give inputs, and return what the generator yields until it asks for more.

        ``ends``: these are the last inputs.
        """
        self._inputs.extend(inputs)
        self._has_ended |= ends
        loop = asyncio.get_running_loop()
        if not self.is_done:
            self._feeds = loop.create_future()
            if self._task is None:
                # Decision 0057: ``asyncio.timeout`` and anyio need one task for the whole run.
                self._task = loop.create_task(self._run())
            elif self._waits is not None and not self._waits.done():
                self._waits.set_result(None)
            await self._feeds
        outputs, self._outputs = self._outputs, []
        return outputs

    async def close(self) -> None:
        """End the generator: its ``finally`` and ``async with`` blocks run before this returns."""
        task = self._task
        self._is_closing = True
        if task is not None and not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        try:
            async with contextlib.aclosing(closable(self._function(self._items()))) as outputs:
                async for output in outputs:
                    if problem := self._problem(output):
                        # Thrown in there, so that the traceback ends at the author's own ``yield``.
                        await outputs.athrow(AuthorMistake(problem))
                    self._outputs.append(output)
        except BaseException as error:
            if self._is_closing and isinstance(error, asyncio.CancelledError):
                raise
            self._error = contained(error)
        finally:
            self.is_done = True
            self._answer_feed()

    async def _items(self) -> AsyncIterator[T]:
        while True:
            while self._inputs:
                yield self._inputs.popleft()
            if self._has_ended:
                return
            self._answer_feed()
            self._waits = asyncio.get_running_loop().create_future()
            await self._waits

    def _answer_feed(self) -> None:
        if self._feeds is not None and not self._feeds.done():
            self._feeds.set_result(None)


class Closable(Protocol[U]):
    """An iterator that can be closed, as generators can."""

    def __aiter__(self) -> AsyncIterator[U]: ...

    async def aclose(self) -> None: ...

    async def athrow(self, error: BaseException, /) -> U: ...


def closable(iterator: AsyncIterator[U]) -> Closable[U]:
    """Return an async generator as what it is, for `contextlib.aclosing`."""
    return cast(Closable[U], iterator)


class AuthorError(GraphError):
    """A decorated function cannot become a calculator. Raised when its module is imported."""

    code = Code.INVALID_ARGUMENT


def options_of(target: Callable[..., Any], *, skip: int = 1) -> dict[str, Options[Any]]:
    """Return the options of a function by the names of its parameters.

    ``skip``: the number of first parameters, which are not options.

    Raises:
        AuthorError: a parameter is neither among the first ones nor annotated with an options type,
            or the function lacks one of the first.
    """
    name = target.__qualname__
    signature = inspect.signature(target)
    parameters = list(signature.parameters.values())
    if len(parameters) < skip:
        raise AuthorError(f"{name} takes no input: write async def {target.__name__}(input, ...)")
    function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
    found: dict[str, Options[Any]] = {}
    for parameter in parameters[skip:]:
        # Only this one: the others may be imported for type checkers only.
        stub = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            hints = get_type_hints(stub, getattr(function, "__globals__", {}))
        except Exception as error:
            raise AuthorError(
                f"{name}: the annotation of {parameter.name} cannot be read: {error}"
            ) from error
        hint = resolved(hints.get(parameter.name))
        if not is_options_type(hint):
            raise AuthorError(
                f"{name}: the parameter {parameter.name} is no options: annotate it with a class "
                f"that graph_runtime.options decorates"
            )
        found[parameter.name] = Options(hint)
    return found


def check_generator(function: Callable[..., Any], decorator: str) -> None:
    """Check that a function is an async generator.

    Raises:
        AuthorError: it is something else.
    """
    if not inspect.isasyncgenfunction(function):
        what = (
            "returns once" if inspect.iscoroutinefunction(function) else "is not an async function"
        )
        raise AuthorError(
            f"@{decorator}: {getattr(function, '__qualname__', function)} {what}; write async def "
            f"with yield"
        )


def make_calculator(
    target: Callable[..., Any],
    base: type[Calculator],
    options: Mapping[str, Options[Any]],
    **members: Any,
) -> type[Calculator]:
    """Make the calculator of a function or class, and register it under its name.

    The calculator has the attributes ``function`` (what was decorated) and ``option_names``.
    """
    namespace = {
        "__doc__": target.__doc__,
        "__module__": target.__module__,
        "__qualname__": target.__qualname__,
        "function": staticmethod(target),
        "option_names": tuple(options),
        **{f"options_{name}": option for name, option in options.items()},
        **members,
    }
    made = types.new_class(target.__name__, (base,), exec_body=lambda ns: ns.update(namespace))
    return calculator(made)


def option_values(node: Calculator) -> dict[str, Any]:
    """Return the options of a node as the keyword arguments of its function."""
    names: tuple[str, ...] = node.option_names  # type: ignore[attr-defined]
    return {name: getattr(node, f"options_{name}") for name in names}


P = ParamSpec("P")


def on_request(
    function: Callable[Concatenate[GenerationRequest, P], Awaitable[GenerationRequest]], /
) -> type[Calculator]:
    """Make a calculator of an async function that returns the request for the next node.

    ::

        @on_request
        async def polite(request: GenerationRequest) -> GenerationRequest:
            return request.with_system("Be polite.")

    The calculator has the function's name, and the ports ``REQUEST`` in and out. Raising `Refusal`
    refuses the request, which the next language model then answers with the refusal. Raising
    `RequestError` ends the run with that error. A request that another node has refused passes.

    Parameters beside the request are options, as in `on_text`.

    Raises:
        AuthorError: the function is not a coroutine function.
    """
    if not inspect.iscoroutinefunction(function):
        name = getattr(function, "__qualname__", function)
        raise AuthorError(f"@on_request: {name} must be an async def that returns a request")
    return make_calculator(function, RequestFunction, options_of(function))


class RequestFunction(Calculator):
    """Changes requests by an async function. Subclasses are made by `on_request`."""

    request = In[GenerationRequest]("REQUEST")
    changed = Out[GenerationRequest]("REQUEST")
    function: Callable[..., Awaitable[Any]]

    def open(self, cc: CalculatorContext) -> None:
        self._function = partial(self.function, **option_values(self))

    async def process(self, cc: CalculatorContext) -> None:
        request = cc.get(self.request)
        if request.refusal is None:
            try:
                made = await self._function(request)
            except Refusal as refusal:
                made = request.refused(refusal)
            if not isinstance(made, GenerationRequest):
                raise AuthorMistake(
                    f"{place_of(self.function)} returned {named(made)}, no request: it ends with "
                    f'`return request`, or with a changed one: `return request.with_system("...")`'
                )
            request = made.made_of(request, Setter(cc.node_name, place_of(self.function)))
        cc.emit(self.changed, request)
