"""`Execution`: one call of a handler's ``execute``, and the generator it may return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calculators.tensors.python.instance import Outputs, Turn
from calculators.tensors.python.python_node import PythonNode, Worker


class Execution:
    """The result of ``execute`` for one set of inputs: outputs at once, or step by step.

    Attributes:
        is_generating: there is a generator that has not ended.
    """

    def __init__(self, node: PythonNode) -> None:
        self.is_generating = False
        self._node = node
        self._key = node.new_key()
        self._worker: Worker | None = None

    async def start(self, inputs: Sequence[Any]) -> Outputs:
        """Call ``execute``; returns its result, or the first value that its generator yields.

        Raises:
            RequestError: the handler failed, or returned something that is not an output;
                UNAVAILABLE if its process has ended.
        """
        turn, self._worker = await self._node.execute(self._key, inputs)
        return self._taken(turn)

    async def next(self) -> Outputs:
        """Resume the generator; returns the next outputs, empty at its end.

        Raises:
            RequestError: like `start`.
        """
        assert self._worker is not None, "it was started"
        return self._taken(await self._node.next(self._key, self._worker))

    def end(self) -> None:
        """Close the generator, if there is one, when the call under way has returned."""
        if self._worker is not None:
            self._node.end(self._key, self._worker)

    def _taken(self, turn: Turn) -> Outputs:
        self.is_generating = turn.is_generating
        return turn.outputs
