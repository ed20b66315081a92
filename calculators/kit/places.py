"""`Places`: nodes whose heavy work is done elsewhere, such as in replicas on a cluster.

A family whose nodes can be placed elsewhere has a `Work`, the part of a node's resource that is
heavy: the engine of a language model, the process of an encoder. Where a node has a `Place`, its
resource sends its requests there, and does all else itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from graph_runtime import LoadProgress


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """The work of a node as data. Nodes with equal orders may share one place.

    Attributes:
        maker: ``module:name`` of a function that takes ``arguments``, a name for messages and
            `NodeMetrics`, and returns the `Work`.
        arguments: MessagePack of the family's own.
        name: the name of the model, for people.
        paths: the files and directories that are read.
    """

    maker: str
    arguments: bytes
    name: str
    paths: tuple[str, ...]


class Question(Protocol):
    """One request to a `Work`.

    Attributes:
        body: its content.
        emit: sends a part of the answer. Must be called on the event loop.
        on_note: called with each note that the asker sends meanwhile.
    """

    body: bytes
    emit: Callable[[bytes], object]
    on_note: Callable[[bytes], object]


class Work(Protocol):
    """The heavy part of a node's resource. Belongs to one event loop."""

    async def start(self, progress: LoadProgress) -> bytes:
        """Load; return the message for the askers.

        Raises:
            GraphError: it cannot be loaded; the text says why.
        """

    async def answer(self, question: Question) -> None:
        """Answer one question. If the asker leaves, it is cancelled.

        Raises:
            RequestError: for the client.
        """

    async def close(self) -> None:
        """Release everything."""


#: The type of the function that `WorkOrder.maker` names.
WorkMaker = Callable[..., Work]


class Asked(Protocol):
    """A question on its way to a place."""

    async def answer(self, take: Callable[[bytes], None]) -> None:
        """Take the parts of the answer until it has ended. Cancelling it cancels the work.

        Raises:
            RequestError: as the `Work` has raised it, or the process that had the question is gone
                (UNAVAILABLE).
        """

    def note(self, note: bytes) -> None:
        """Send a note; it is lost if the answer has ended."""


class Place(Protocol):
    """The place where the work of one node is done."""

    async def start(self, order: WorkOrder, progress: LoadProgress) -> bytes:
        """Wait until the work can be asked; return its first message.

        Raises:
            GraphError: it cannot be loaded; the text says why.
        """

    def ask(self, body: bytes, *, beginning: str, tokens: float) -> Asked:
        """Begin a question.

        Args:
            beginning: the first characters of the prompt: a process that has seen them answers
                sooner.
            tokens: of prompt and answer, about.
        """

    async def close(self) -> None:
        """End the use of the place; others may go on using it."""


class PlacedModel:
    """The asker's side of a model whose work is in a place. Belongs to one event loop."""

    def __init__(self, order: WorkOrder, place: Place) -> None:
        self._order = order
        self._place = place

    async def _started(self, progress: LoadProgress | None) -> bytes:
        """Wait until the place has loaded the model; return the work's first message.

        Raises:
            GraphError: it cannot be loaded.
        """
        return await self._place.start(self._order, progress or LoadProgress())

    @property
    def pid(self) -> int | None:
        """None: the process is elsewhere."""
        return None

    @property
    def unavailable_reason(self) -> str:
        """Always "": a question waits for a process, or fails."""
        return ""

    async def close(self) -> None:
        """End the use of the place."""
        await self._place.close()


async def ask_once(place: Place, body: bytes, *, tokens: float = 1.0) -> bytes:
    """Ask a question whose answer has one part, and which is answered equally well everywhere.

    Raises:
        RequestError: see `Asked.answer`.
    """
    parts: list[bytes] = []
    await place.ask(body, beginning="", tokens=tokens).answer(parts.append)
    return parts[0]


def _nowhere(name: str) -> Place | None:
    return None


class Places:
    """The nodes of a graph with a place of their own; none, unless a server names some."""

    def __init__(self, find: Callable[[str], Place | None] = _nowhere) -> None:
        """``find``: returns the place of a node by its name."""
        self._find = find

    def of_node(self, name: str) -> Place | None:
        """Return the place of a node; None: its work is done in a child process of this one."""
        return self._find(name)
