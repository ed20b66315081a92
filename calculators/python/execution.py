"""`Execution`: one call of a handler's ``execute``, and the generator it may return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calculators.python.python_node import PythonNode, Worker
from calculators.python.turn import Outputs, Turn


class Execution:
    """What ``execute`` makes of one set of inputs: outputs at once, or some at a time.

    Attributes:
        is_generating: there is a generator that has not come to its end.
    """

    def __init__(self, node: PythonNode) -> None:
        self.is_generating = False
        self._node = node
        self._key = node.new_key()
        self._worker: Worker | None = None

    async def start(self, inputs: Sequence[Any]) -> Outputs:
        """Call ``execute``; what it returns, or the first that its generator yields.

        Raises:
            RequestError: the handler failed, or returned what is no output; UNAVAILABLE when its
                process has ended.
        """
        turn, self._worker = await self._node.execute(self._key, inputs)
        return self._taken(turn)

    async def next(self) -> Outputs:
        """What the generator yields next; nothing when it has come to its end.

        Raises:
            RequestError: as `start`.
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
