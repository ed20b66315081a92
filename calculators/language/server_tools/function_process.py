"""``python -m calculators.language.server_tools.function_process``: calls an author's Python
functions.

One call at a time: the server has several processes for parallel calls, and kills the process whose
call takes too long.

A tool is a Python function. The annotations of its parameters make the JSON schema, and the
arguments of a call are checked against them. ``Annotated[str, "the city's name"]`` describes a
parameter; the docstring describes the tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import faulthandler
import importlib
import inspect
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild, plain
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.language.server_tools.messages import (
    MAX_MESSAGE,
    CallTool,
    LoadFunctions,
    Result,
    ToolSpec,
    ToolsReady,
    cut_error,
    cut_output,
    decode_question,
    encode,
)
from calculators.language.server_tools.path_rules import PathRefused, PathRules
from graphrt_base.annotations import resolved

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
        # Also ``sys.exit()`` at the top of the author's module (decision 0092).
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
    """Return the text of a function's result for the model: text as it is, everything else as JSON.

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
                    f"{module.__name__}.{name}: __all__ names it, but it is not a function"
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
    """Return the JSON schema of the arguments, which is an object with its members at the top."""
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


_LOGGER: Final = "graphrt.tools"
#: Characters that one call may print into the log; the rest up to `MAX_MESSAGE` is dropped.
_LOGGED: Final = 16 * 1024


class PrintedTooMuch(BaseException):
    """A call prints without end. No ``Exception``: the function must not go on."""


class FunctionProcess:
    """Loads the modules, then makes the calls that the server requests, one after the other."""

    def __init__(self, connection: ParentConnection) -> None:
        self._connection = connection
        self._tools: Mapping[str, FunctionTool] = {}
        self._max_output_bytes = 0

    def run(self) -> None:
        """Answer until the server sends `StopChild`.

        Raises:
            ParentGone: the server is gone.
        """
        while True:
            for frame in self._connection.receive(wait=True):
                match decode_question(frame):
                    case LoadFunctions() as load:
                        if not self._load(load):
                            return
                    case CallTool() as call:
                        self._send(self._answer(call))
                    case StopChild():
                        return
                    case _:
                        pass  # a call that is made cannot be interrupted

    def _load(self, load: LoadFunctions) -> bool:
        self._send(LoadingPhase("importing tools", 0.0, 1.0))
        sys.path.insert(0, load.directory)
        os.chdir(load.directory)
        self._max_output_bytes = load.max_output_bytes
        rules = PathRules(load.directory, load.allow_paths)
        try:
            with self._prints():
                found = load_functions(load.modules, rules)
        except (FunctionError, PrintedTooMuch) as error:
            if isinstance(error.__cause__, BaseException):
                self._log(logging.ERROR, "".join(traceback.format_exception(error.__cause__)))
            reason = str(error) or "importing the tools printed more than 1 MiB"
            self._send(LoadFailed(plain(reason)))
            return False
        self._tools = {tool.spec.name: tool for tool in found}
        self._send(ToolsReady([tool.spec for tool in found]))
        return True

    def _answer(self, call: CallTool) -> Result:
        try:
            tool = self._tools.get(call.tool)
            if tool is None:
                raise FunctionError(f'there is no tool "{call.tool[:64]}"')
            with self._prints():
                text = result_text(tool.call(call.arguments))
            return Result(call.number, cut_output(text, self._max_output_bytes), None)
        except ParentGone:
            raise
        except PrintedTooMuch:
            error = "the tool printed more than 1 MiB"
        except msgspec.MsgspecError as refused:
            error = f"the arguments are wrong: {refused}"
        except (FunctionError, PathRefused) as refused:
            error = str(refused)
        except BaseException as raised:
            self._log(logging.WARNING, "".join(traceback.format_exception(raised)))
            error = (
                f"{type(raised).__name__}: {library_reason(raised)}"
                if str(raised)
                else (f"the tool raised {type(raised).__name__}")
            )
        return Result(call.number, "", cut_error(error))

    @contextlib.contextmanager
    def _prints(self) -> Iterator[None]:
        printed = PrintedText()
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                yield
        finally:
            if text := printed.text.strip():
                self._log(logging.INFO, text)

    def _log(self, level: int, text: str) -> None:
        self._send(Log(level, _LOGGER, plain(text[:_LOGGED])))

    def _send(self, message: msgspec.Struct) -> None:
        self._connection.send(encode(message))


class PrintedText(io.TextIOBase):
    """Output of a function: the beginning is kept for the log, and too much ends the call."""

    def __init__(self) -> None:
        self.text = ""
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._length += len(text)
        if self._length > MAX_MESSAGE:
            raise PrintedTooMuch
        if len(self.text) < _LOGGED:
            self.text += text[: _LOGGED - len(self.text)]
        return len(text)


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:3])
    connection = ParentConnection(descriptor)
    faulthandler.enable(os.fdopen(os.dup(2), "w"))
    # Output of libraries and programs past Python cannot be bounded, so nobody reads it.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    with contextlib.suppress(ParentGone):
        die_with_parent(parent)
        FunctionProcess(connection).run()


if __name__ == "__main__":
    main()
