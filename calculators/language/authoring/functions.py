"""Functions of authors: their options, and the calculators that are made of them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

from graph_runtime import Calculator, Code, GraphError, Options, calculator
from graph_runtime.annotations import resolved
from graph_runtime.options.options import is_options_type


class AuthorError(GraphError):
    """A decorated function cannot become a calculator. Raised when its module is imported."""

    code = Code.INVALID_ARGUMENT


def options_of(target: Callable[..., Any], *, skip: int = 1) -> dict[str, Options[Any]]:
    """Return the options of a function by the names of its parameters.

    ``skip``: the number of first parameters, which are no options.

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
        what = "returns once" if inspect.iscoroutinefunction(function) else "is no async function"
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
