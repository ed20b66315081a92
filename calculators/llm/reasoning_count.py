"""`ReasoningCount`: how many tokens of a choice were reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.llm.output.events import OutputEvent, Reasoning


class ReasoningCount:
    """Told what each token has made, it counts those that made reasoning.

    A token that makes nothing of its own (half a character, a tag) belongs to what the next ones
    make: the tag that begins the reasoning is part of it, the one that ends it is not. So the count
    does not depend on how many tokens come at a time.
    """

    __slots__ = ("_waiting", "count")

    def __init__(self) -> None:
        self.count = 0
        #: Tokens that have made nothing yet.
        self._waiting = 0

    def add(self, events: Sequence[OutputEvent]) -> None:
        """What one more token has made."""
        self._waiting += 1
        if events:
            self.finish(events)

    def finish(self, events: Sequence[OutputEvent]) -> None:
        """What has been made without a token, at the end."""
        if any(type(event) is Reasoning for event in events):
            self.count += self._waiting
        self._waiting = 0
