"""`Handler`: one ``OvmsPythonModel``, from loading to ``finalize``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.handler_error import HandlerError
from calculators.tensors.python.handler_file import (
    HandlerFileError,
    class_of,
    failure,
    first_line,
    forget,
    load_module,
)
from calculators.tensors.python.handler_settings import HandlerSettings
from calculators.tensors.python.instance import Turn
from calculators.tensors.python.outputs import OutputForm

T = TypeVar("T")
log = logging.getLogger("graphrt.python")


class Handler:
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

    def execute(self, key: int, inputs: Sequence[Any]) -> Turn:
        """Call ``execute``; returns its result, or the first value that its generator yields.

        ``key`` identifies a generator that it may return, for `next` and `end`.
        """
        return self._guarded(lambda: self._execute(key, list(inputs)))

    def next(self, key: int) -> Turn:
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

    def _execute(self, key: int, inputs: list[Any]) -> Turn:
        result = self.model.execute(inputs)
        if not isinstance(result, Iterator):
            return Turn(self._form.returned(result))
        if not self._may_generate:
            raise HandlerError(
                f'the handler of node "{self._node_name}" failed: execute returned a '
                f"generator, and the node has no LOOPBACK, which calls it again for each output"
            )
        self._generators[key] = result
        return self._next(key)

    def _next(self, key: int) -> Turn:
        # A generator that raises or yields nonsense is not resumed.
        generator = self._generators.pop(key, None)
        if generator is None:
            return Turn(())
        try:
            value = next(generator)
        except StopIteration:
            return Turn(())
        outputs = self._form.yielded(value)
        self._generators[key] = generator
        return Turn(outputs, is_generating=True)

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
