"""`Handler`: one ``OvmsPythonModel``, from loading to ``finalize``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from calculators.python.handler_error import HandlerError
from calculators.python.handler_file import (
    HandlerFileError,
    class_of,
    failure,
    first_line,
    forget,
    load_module,
)
from calculators.python.handler_settings import HandlerSettings
from calculators.python.outputs import OutputForm
from calculators.python.turn import Turn
from calculators.requests.http_payload import RequestError

T = TypeVar("T")
log = logging.getLogger("graphrt.python")


class Handler:
    """The handler's object and its generators. Used by one thread, the one that loaded it.

    What a call raises is a `RequestError`: the handler's own stays what it is; everything else
    becomes a `HandlerError` with the first line of its text, and the log has the rest.
    """

    def __init__(self, settings: HandlerSettings) -> None:
        """Run the file, make the model, initialize it.

        Raises:
            HandlerFileError: one of these fails; the log has the traceback.
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
        """Call ``execute``; what it returns, or the first that its generator yields.

        ``key``: of a generator that it may return, for `next` and `end`.
        """
        return self._guarded(lambda: self._execute(key, list(inputs)))

    def next(self, key: int) -> Turn:
        """What the generator yields next; nothing when it has come to its end."""
        return self._guarded(lambda: self._next(key))

    def end(self, key: int) -> None:
        """Close the generator, if there is one."""
        close = getattr(self._generators.pop(key, None), "close", None)
        if close is not None:
            self._guarded(close)

    def finalize(self) -> None:
        """Call ``finalize``; this is the last call."""
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
        # One that raises or yields nonsense is not called again.
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
