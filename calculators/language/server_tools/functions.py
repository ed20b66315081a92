"""Tools that are Python functions: their schemas and their calls.

The parameters' annotations make the JSON schema, and the arguments of a call are checked against
them. ``Annotated[str, "the city's name"]`` describes a parameter; the docstring describes the tool.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from calculators.language.server_tools.messages import ToolSpec
from calculators.language.server_tools.path_rules import PathRules
from graph_runtime.annotations import resolved

#: Defaults that the schema shows. Each call gets a copy of any other.
_SHOWN: Final = (bool, int, float, str, Enum, type(None))


class FunctionError(Exception):
    """A module or function cannot be a tool; the text says which, why, and what would be right."""


class FunctionTool:
    """One function that models may call."""

    def __init__(self, label: str, function: Callable[..., Any], rules: PathRules) -> None:
        """
        Raises:
            FunctionError: a parameter has no type, or one that JSON cannot have.
        """
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        name = function.__name__
        place = f"{function.__module__}.{name}"
        fields = list(_fields(function, place))
        arguments = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        self._names = [field[0] for field in fields]

        def read(kind: Any, value: Any) -> Any:
            if isinstance(kind, type) and issubclass(kind, Path) and isinstance(value, str):
                return rules.resolve(value, "")
            raise NotImplementedError(f"{kind} is not a type of JSON")

        try:
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
                arguments, dec_hook=read
            )
            parameters = _schema(arguments)
        except (TypeError, NotImplementedError, RuntimeError) as error:
            raise FunctionError(
                f"{place}: a parameter has a type that JSON has not; tools take str, int, float, "
                f"bool, lists, dicts, Literal, Enum, Path, dataclasses and TypedDict"
            ) from error
        self.spec = ToolSpec(label, name, inspect.cleandoc(function.__doc__ or ""), parameters)

    def call(self, arguments: str) -> Any:
        """Call the function with a JSON object of arguments; coroutines run to their end.

        Raises:
            msgspec.MsgspecError: the arguments are not what the schema says.
            PathRefused: an argument is a path that is not allowed.
        """
        read = self._decoder.decode(arguments or "{}")
        values = {name: getattr(read, name) for name in self._names}
        if self._is_async:
            return asyncio.run(self._function(**values))
        return self._function(**values)


def load_functions(module_names: Sequence[str], rules: PathRules) -> list[FunctionTool]:
    """Import the modules and make tools of their public functions, in the order of the modules.

    Raises:
        FunctionError: a module cannot be imported, has no functions, or has one that cannot be a
            tool.
    """
    tools: list[FunctionTool] = []
    for module_name in module_names:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            raise FunctionError(
                f'python: "{module_name}": there is no module "{error.name}" beside the graph or '
                f"where Python imports"
            ) from error
        except BaseException as error:
            raise FunctionError(
                f'python: "{module_name}": importing it raised {type(error).__name__}: {error}'
            ) from error
        label = module_name.rpartition(".")[2]
        found = [FunctionTool(label, function, rules) for function in _public(module)]
        if not found:
            raise FunctionError(
                f'python: "{module_name}": it defines no public functions; list those that are '
                f"tools in __all__, or define them there"
            )
        tools += found
    return tools


def result_text(value: Any) -> str:
    """The text of a function's result for the model: text as it is, everything else as JSON.

    Raises:
        TypeError: the result has no JSON form.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, enc_hook=_written).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError):
        raise TypeError(f"the tool returned a {type(value).__name__}, which is not JSON") from None


def _public(module: ModuleType) -> Iterable[Callable[..., Any]]:
    """Yield the functions of a module that are tools."""
    names = getattr(module, "__all__", None)
    for name in vars(module) if names is None else names:
        value = getattr(module, name, None)
        if not inspect.isfunction(value):
            if names is not None:
                raise FunctionError(
                    f"{module.__name__}.{name}: __all__ names it, but it is no function"
                )
            continue
        if names is None and (name.startswith("_") or value.__module__ != module.__name__):
            continue
        yield value


def _fields(function: Callable[..., Any], place: str) -> Iterable[tuple[Any, ...]]:
    """Yield (name, type) or (name, type, default) of each parameter, for `msgspec.defstruct`."""
    try:
        found = get_type_hints(function, include_extras=True)
        hints = {name: resolved(hint, keeps_notes=True) for name, hint in found.items()}
    except BaseException as error:
        raise FunctionError(f"{place}: its annotations cannot be read: {error}") from error
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            raise FunctionError(
                f'{place}: parameter "{parameter.name}" has no name of its own in a call; tools '
                f"take named parameters only"
            )
        if parameter.name not in hints:
            raise FunctionError(
                f'{place}: parameter "{parameter.name}" has no type; write one, for example '
                f"{parameter.name}: str"
            )
        kind = _described(hints[parameter.name])
        default = parameter.default
        if default is parameter.empty:
            yield parameter.name, kind
        elif isinstance(default, _SHOWN):
            yield parameter.name, kind, default
        else:
            yield parameter.name, kind, msgspec.field(default_factory=_copies(default))


def _copies(default: Any) -> Callable[[], Any]:
    return lambda: copy.deepcopy(default)


def _described(kind: Any) -> Any:
    """Turn the text in ``Annotated[str, "text"]`` into a description of the schema."""
    if get_origin(kind) is not Annotated:
        return kind
    inner, *notes = get_args(kind)
    read = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
    made = inner
    for note in read:
        made = Annotated[made, note]
    return made


def _schema(arguments: type) -> dict[str, Any]:
    """The JSON schema of the arguments, which is an object with its members at the top."""
    (reference,), components = msgspec.json.schema_components(
        [arguments], schema_hook=_schema_of, ref_template="#/$defs/{name}"
    )
    schema: dict[str, Any] = components.pop(reference["$ref"].removeprefix("#/$defs/"))
    schema.pop("title", None)
    if components:
        schema["$defs"] = components
    return schema


def _schema_of(kind: type) -> dict[str, Any]:
    if issubclass(kind, Path):
        return {"type": "string", "format": "path"}
    raise NotImplementedError(f"{kind.__name__} is not a type of JSON")


def _written(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError
