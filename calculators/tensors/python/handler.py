"""`PythonHandler`: one ``OvmsPythonModel``, from loading to ``finalize``.

Each node loads the handler's file as a module of its own, so a reloaded graph sees the current
file; the modules that it imports are ordinary ones, which all handlers in the process share.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn, TypeVar

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python import pyovms
from calculators.tensors.python.instance import HandlerError, HandlerSettings, HandlerTurn, Outputs
from calculators.tensors.python.pyovms import Tensor
from graphrt_base.errors import did_you_mean

CLASS_NAME: Final = "OvmsPythonModel"
_numbers = itertools.count(1)


class HandlerFileError(Exception):
    """The file has no usable handler. The text names the problem and, if known, the line."""


def offer() -> None:
    """Make ``import pyovms`` find `calculators.tensors.python.pyovms`."""
    sys.modules["pyovms"] = pyovms


def load_module(path: Path) -> ModuleType:
    """Run the file as a module of its own, whose neighbours it may import.

    Each node has its own module: files of the same name in two directories are two modules, and a
    reloaded graph sees the current file. Neighbours are ordinary modules, shared by name by all
    handlers in this process.

    Raises:
        HandlerFileError: the file does not exist, or cannot be run.
    """
    if not path.is_file():
        raise HandlerFileError("no such file")
    offer()
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"handler_{next(_numbers)}_{path.stem}"
    loader = _FreshLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None, "a loader is given"
    module = module_from_spec(spec)
    # Dataclasses, among others, look for the module of a class there.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        forget(module)
        raise HandlerFileError(failure(error, path)) from error
    return module


class _FreshLoader(SourceFileLoader):
    """Ignores and writes no bytecode caches.

    They are valid for a time in whole seconds and a length, and would hide a quick change.
    """

    def path_stats(self, path: str) -> Any:
        raise OSError(path)


def forget(module: ModuleType) -> None:
    """Remove a module that is no longer used."""
    sys.modules.pop(module.__name__, None)


def class_of(module: ModuleType) -> Any:
    """Return the class that the module defines.

    Raises:
        HandlerFileError: the module has no such class, or the class has no ``execute``.
    """
    found = getattr(module, CLASS_NAME, None)
    if found is None:
        raise HandlerFileError(f"it defines no class {CLASS_NAME}")
    if not callable(getattr(found, "execute", None)):
        raise HandlerFileError(f"{CLASS_NAME} has no method execute(self, inputs)")
    return found


def failure(error: BaseException, path: Path) -> str:
    """A text such as ``line 3: ValueError: text``; the line is the innermost one of this file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    where = f"line {lines[-1]}: " if lines else ""
    return where + first_line(error)


def first_line(error: BaseException) -> str:
    """Return the exception's type and the first line of its text."""
    text = str(error).strip().partition("\n")[0].rstrip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class OutputForm:
    """The outputs of a node, and the forms that a handler's result may have.

    A list of `Tensor` goes to the streams that the tensors are named after; some may be left out.
    A node with an ``HTTP_RESPONSE_PAYLOAD`` output may give the answer itself instead: ``str``,
    ``bytes`` or an `HttpAnswer`, sent unchanged, or an object that becomes JSON: the body when it
    is returned, an event ``data: ...`` of the stream when it is yielded.
    """

    def __init__(self, node_name: str, streams: Sequence[str], response: str | None) -> None:
        """``streams``: names of the outputs; ``response``: the output that takes an HTTP answer."""
        self._node_name = node_name
        self._streams = tuple(streams)
        self._response = response

    def returned(self, value: object) -> Outputs:
        """Convert the return value of ``execute`` to packets.

        Raises:
            HandlerError: the value is not an output.
        """
        return self._packets(value, is_event=False)

    def yielded(self, value: object) -> Outputs:
        """Convert a value that the generator yielded to packets.

        Raises:
            HandlerError: the value is not an output.
        """
        return self._packets(value, is_event=True)

    def _packets(self, value: object, *, is_event: bool) -> Outputs:
        if isinstance(value, list | tuple) and (value or self._response is None):
            odd = next((item for item in value if not isinstance(item, Tensor)), None)
            if odd is None:
                return self._by_name(value)
            if self._response is None:
                self._refuse(
                    f"a list that holds {type(odd).__name__}; it must hold pyovms.Tensor only"
                )
        if self._response is None or value is None or isinstance(value, Tensor):
            self._refuse(f"{type(value).__name__}; a list of pyovms.Tensor is needed")
        return ((self._response, self._answer(value, is_event=is_event)),)

    def _by_name(self, tensors: Sequence[Tensor]) -> Outputs:
        found: dict[str, Tensor] = {}
        for tensor in tensors:
            if tensor.name not in self._streams:
                known = ", ".join(f'"{name}"' for name in self._streams)
                self._refuse(
                    f'a tensor named "{tensor.name}"; the outputs of the node are {known}'
                    f"{did_you_mean(tensor.name, self._streams)}"
                )
            if tensor.name in found:
                self._refuse(f'two tensors named "{tensor.name}" at once')
            found[tensor.name] = tensor
        return tuple(found.items())

    def _answer(self, value: object, *, is_event: bool) -> ResponsePacket:
        if isinstance(value, str | bytes | HttpAnswer):
            return value
        plain: object = dict(value) if isinstance(value, Mapping) else value
        try:
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            self._refuse(f"{type(value).__name__}, which cannot become JSON: {error}")
        return f"data: {text}\n\n" if is_event else text

    def _refuse(self, what: str) -> NoReturn:
        raise HandlerError(f'the handler of node "{self._node_name}" failed: it gave {what}')


T = TypeVar("T")
log = logging.getLogger("graphrt.python")


class PythonHandler:
    """The handler's object and its generators. Used by one thread, the one that loaded it.

    A call raises only `RequestError`. One of the handler's own is passed on; any other exception
    becomes a `HandlerError` with the first line of its text, and is logged in full.
    """

    def __init__(self, settings: HandlerSettings) -> None:
        """Run the file, make the model, initialize it.

        Raises:
            HandlerFileError: one of these steps fails; the traceback is logged.
        """
        self._node_name = settings.node_name
        self._may_generate = settings.may_generate
        self._form = OutputForm(settings.node_name, settings.streams, settings.response)
        self._generators: dict[int, Iterator[Any]] = {}
        path = Path(settings.path)
        try:
            self._module: ModuleType = load_module(path)
            try:
                self.model = _initialized(self._module, settings)
            # Also ``sys.exit()`` in the author's code (decision 0092).
            except BaseException as error:
                forget(self._module)
                if isinstance(error, HandlerFileError):
                    raise
                raise HandlerFileError(failure(error, path)) from error
        except HandlerFileError as error:
            if error.__cause__ is not None:
                log.error(
                    'node "%s": its handler cannot be loaded', self._node_name, exc_info=error
                )
            raise

    def execute(self, key: int, inputs: Sequence[Any]) -> HandlerTurn:
        """Call ``execute``; returns its result, or the first value that its generator yields.

        ``key`` identifies a generator that it may return, for `next` and `end`.
        """
        return self._guarded(lambda: self._execute(key, list(inputs)))

    def next(self, key: int) -> HandlerTurn:
        """Resume a generator; returns the next outputs, empty at its end."""
        return self._guarded(lambda: self._next(key))

    def end(self, key: int) -> None:
        """Close the generator, if there is one."""
        close = getattr(self._generators.pop(key, None), "close", None)
        if close is not None:
            self._guarded(close)

    def finalize(self) -> None:
        """Call ``finalize``. No call may follow."""
        try:
            finalize = getattr(self.model, "finalize", None)
            if callable(finalize):
                self._guarded(finalize)
        finally:
            forget(self._module)

    def _execute(self, key: int, inputs: list[Any]) -> HandlerTurn:
        result = self.model.execute(inputs)
        if not isinstance(result, Iterator):
            return HandlerTurn(self._form.returned(result))
        if not self._may_generate:
            raise HandlerError(
                f'the handler of node "{self._node_name}" failed: execute returned a '
                f"generator, and the node has no LOOPBACK, which calls it again for each output"
            )
        self._generators[key] = result
        return self._next(key)

    def _next(self, key: int) -> HandlerTurn:
        # A generator that raises or yields nonsense is not resumed.
        generator = self._generators.pop(key, None)
        if generator is None:
            return HandlerTurn(())
        try:
            value = next(generator)
        except StopIteration:
            return HandlerTurn(())
        outputs = self._form.yielded(value)
        self._generators[key] = generator
        return HandlerTurn(outputs, is_generating=True)

    def _guarded(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except RequestError:
            raise
        except BaseException as error:  # SystemExit too: a handler does not end the server
            log.exception('node "%s": the handler failed', self._node_name)
            raise HandlerError(
                f'the handler of node "{self._node_name}" failed: {first_line(error)}'
            ) from error


def _initialized(module: ModuleType, settings: HandlerSettings) -> Any:
    model = class_of(module)()
    initialize = getattr(model, "initialize", None)
    if callable(initialize):
        initialize(settings.kwargs)
    return model
