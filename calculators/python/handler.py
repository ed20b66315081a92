"""`PythonHandler`: one node's ``OvmsPythonModel``, from loading to ``finalize``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from calculators.http_payload import RequestError
from calculators.python.handler_file import (
    HandlerFileError,
    class_of,
    failure,
    first_line,
    forget,
    load_module,
)
from calculators.python.handler_thread import HandlerThread
from graph_runtime import Code

T = TypeVar("T")
log = logging.getLogger("graphrt.python")

#: How long ``finalize`` may hold up the unloading of a graph; what hangs is left to itself.
FINALIZE_SECONDS: Final = 5.0


class HandlerError(RequestError):
    """The handler failed, or gave what cannot be sent. The text is for the client."""

    code = Code.INTERNAL


class PythonHandler:
    """The handler of a node, shared by all runs of its graph.

    Everything of the handler runs in one thread, so that its calls never overlap and the event
    loop never waits for them. Made by `load_handler`.
    """

    #: A handler that is loaded can work; a call that hangs holds up its own node only.
    unavailable_reason = ""

    def __init__(
        self, node_name: str, model: Any, module: ModuleType, thread: HandlerThread
    ) -> None:
        self.node_name = node_name
        self.model = model
        self._module = module
        self._thread = thread

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Make a call in the handler's thread.

        A `RequestError` stays what it is. The future has a `HandlerError` for everything else that
        is raised, with the first line of its text; the log has the rest.
        """
        return self._thread.submit(lambda: self._guarded(call))

    async def run(self, call: Callable[[], T]) -> T:
        """`submit` and wait, from any event loop. When cancelled, a call that waits is dropped.

        Raises:
            RequestError: the call's own; `HandlerError` for any other error of it.
        """
        return await asyncio.wrap_future(self.submit(call))

    async def close(self) -> None:
        """``finalize``; an error of it goes to the log."""
        finalize = getattr(self.model, "finalize", None)
        if callable(finalize):
            done = asyncio.wrap_future(self.submit(finalize))
            finished, _ = await asyncio.wait((done,), timeout=FINALIZE_SECONDS)
            if not finished:
                log.warning('node "%s": finalize takes too long; left behind', self.node_name)
                done.cancel()
            else:
                done.exception()  # logged where it was raised
        self._thread.end()
        forget(self._module)

    def _guarded(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except RequestError:
            raise
        except BaseException as error:  # SystemExit too: a handler does not end the server
            log.exception('node "%s": the handler failed', self.node_name)
            raise HandlerError(
                f'the handler of node "{self.node_name}" failed: {first_line(error)}'
            ) from error


async def load_handler(node_name: str, path: Path, kwargs: Mapping[str, Any]) -> PythonHandler:
    """Run the file, make the model, initialize it: all in the thread that it will live in.

    ``kwargs``: what ``initialize`` gets: node_name, input_names, output_names, base_path.

    Raises:
        HandlerFileError: one of these fails; the log has the traceback.
    """
    thread = HandlerThread(f"graphrt-python-{node_name}")

    def load() -> PythonHandler:
        module = load_module(path)
        try:
            model_class = class_of(module)
            try:
                model = model_class()
                initialize = getattr(model, "initialize", None)
                if callable(initialize):
                    initialize(dict(kwargs))
            except BaseException as error:
                raise HandlerFileError(failure(error, path)) from error
        except BaseException:
            forget(module)
            raise
        return PythonHandler(node_name, model, module, thread)

    try:
        return await asyncio.wrap_future(thread.submit(load))
    except BaseException as error:
        thread.end()
        if error.__cause__ is not None:
            log.error('node "%s": its handler cannot be loaded', node_name, exc_info=error)
        raise
