"""`Execution`: one call of a handler's ``execute``, and the generator it may return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calculators.python.handler import HandlerError, PythonHandler
from calculators.python.outputs import OutputForm, Outputs


class Execution:
    """What ``execute`` makes of one set of inputs: outputs at once, or some at a time.

    Attributes:
        is_generating: there is a generator that has not come to its end.
    """

    def __init__(
        self, handler: PythonHandler, inputs: Sequence[Any], form: OutputForm, *, may_generate: bool
    ) -> None:
        """``may_generate``: the node has ``LOOPBACK``, so that it is called again."""
        self.is_generating = False
        self._handler = handler
        self._inputs = list(inputs)
        self._form = form
        self._may_generate = may_generate
        # Touched in the handler's thread only.
        self._generator: Iterator[Any] | None = None

    async def start(self) -> Outputs:
        """Call ``execute``; what it returns, or the first that its generator yields.

        Raises:
            RequestError: the handler failed, or returned what is no output.
        """
        return await self._handler.run(self._start)

    async def next(self) -> Outputs:
        """What the generator yields next; nothing when it has come to its end.

        Raises:
            RequestError: as `start`.
        """
        return await self._handler.run(self._next)

    def end(self) -> None:
        """Close the generator, if there is one, when the call under way has returned."""
        self._handler.submit(self._close)

    def _start(self) -> Outputs:
        result = self._handler.model.execute(self._inputs)
        self._inputs = []
        if not isinstance(result, Iterator):
            return self._form.returned(result)
        if not self._may_generate:
            raise HandlerError(
                f'the handler of node "{self._handler.node_name}" failed: execute returned a '
                f"generator, and the node has no LOOPBACK, which calls it again for each output"
            )
        self._generator = result
        self.is_generating = True
        return self._next()

    def _next(self) -> Outputs:
        generator, self._generator = self._generator, None
        if generator is None:
            return ()
        try:
            value = next(generator)
        except StopIteration:
            self.is_generating = False
            return ()
        self._generator = generator
        return self._form.yielded(value)

    def _close(self) -> None:
        generator, self._generator = self._generator, None
        self.is_generating = False
        close = getattr(generator, "close", None)
        if close is not None:
            close()
