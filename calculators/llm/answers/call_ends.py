"""`CallEnds`: adds the ends of calls of tools to the events of a choice."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    OutputEvent,
    Reasoning,
    ToolCall,
)
from calculators.language.json_object import is_object


class CallEnds:
    """Puts a `CallDone` after the last arguments of each call.

    A call ends before the next call, before text that is not only white space, and with its choice.
    White space alone ends none: models write it between the parts of a call.
    """

    __slots__ = ("_arguments",)

    def __init__(self) -> None:
        #: Pieces of the arguments of the call that has not ended.
        self._arguments: list[str] | None = None

    def add(self, events: Sequence[OutputEvent]) -> Sequence[Event]:
        """Return the events with the ends of calls between them."""
        ended: list[Event] = []
        for event in events:
            match event:
                case Arguments(text):
                    if self._arguments is not None:
                        self._arguments.append(text)
                case ToolCall():
                    ended += self.finish()
                    self._arguments = []
                case Content(text) | Reasoning(text):
                    if self._arguments is not None and not text.isspace():
                        ended += self.finish()
            ended.append(event)
        return ended

    def finish(self) -> Sequence[Event]:
        """Return the end of the open call, if there is one."""
        if self._arguments is None:
            return ()
        text = "".join(self._arguments)
        self._arguments = None
        return (CallDone(text, is_object(text)),)
