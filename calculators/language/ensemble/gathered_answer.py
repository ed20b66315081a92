"""`GatheredAnswer`: one answer, kept until it is whole."""

from __future__ import annotations

from calculators.language import (
    Arguments,
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Event,
    Failed,
    Gained,
    Refused,
    Submitted,
    ToolCall,
    Usage,
)


class GatheredAnswer:
    """The items of one answer so far.

    Attributes:
        begun: None until it has begun.
        failed: the end of an answer that failed.
        usage: of an answer that has ended; None before, and of one that failed.
    """

    def __init__(self) -> None:
        self.begun: Begun | None = None
        self.failed: Failed | None = None
        self.usage: Usage | None = None
        self._items: list[Delta] = []

    @property
    def is_over(self) -> bool:
        return self.usage is not None or self.failed is not None

    def feed(self, packet: Deltas) -> list[Submitted]:
        """Keep the items of a packet. Returns those that go on at once."""
        submitted: list[Submitted] = []
        for item in packet:
            match item:
                case Submitted():
                    submitted.append(item)
                case Begun():
                    self.begun = item
                case Failed():
                    self.failed = item
                case Ended(usage):
                    self.usage = usage
                case _:
                    self._items.append(item)
        return submitted

    def content(self, choice: int = 0) -> str:
        """Return the text of a choice for people: calls of tools stand in brackets."""
        pieces: list[str] = []
        for item in self._items:
            if isinstance(item, Gained) and item.choice == choice:
                pieces += map(_shown, item.events)
        return "".join(pieces)

    def whole(self, usage: Usage) -> Deltas:
        """Return the answer in one packet, with other counts at its end."""
        assert self.begun is not None, "it has ended"
        return Deltas((self.begun, *self._items, Ended(usage)))


def _shown(event: Event) -> str:
    match event:
        case Content(text) | Arguments(text):
            return text
        case Refused(text):
            return f"[refused] {text}"
        case ToolCall(name):
            return f"[calls {name}] "
        case _:
            return ""
