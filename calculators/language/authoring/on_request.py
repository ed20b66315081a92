"""`on_request`: a function from request to request becomes a calculator."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec

from calculators.language.authoring.functions import (
    AuthorError,
    make_calculator,
    option_values,
    options_of,
)
from calculators.language.generation_request import GenerationRequest
from calculators.language.mistakes import AuthorMistake, named, place_of
from calculators.language.refusal import Refusal
from graph_runtime import Calculator, CalculatorContext, In, Out

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
        AuthorError: the function is no coroutine function.
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
            request = made
        cc.emit(self.changed, request)
