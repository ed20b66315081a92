"""`ReasoningCount`: how many tokens of a choice were reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from calculators.llm.output.events import OutputEvent, Reasoning


class ReasoningCount:
    """Told what tokens have made, it counts those that made reasoning.

    A token that makes nothing of its own (half a character, a tag) belongs to what the next ones
    make: the tag that begins the reasoning is part of it, the one that ends it is not. So the count
    does not depend on how many tokens come at a time.
    """

    __slots__ = ("_is_turning", "_turning", "_waiting", "count")

    def __init__(self, turning: frozenset[int] | None = None) -> None:
        """``turning``: tokens in which a tag may begin; None is any."""
        self._turning = turning
        self.count = 0
        #: Tokens that have made nothing yet.
        self._waiting = 0
        self._is_turning = False

    def is_steady(self, ids: Sequence[int]) -> bool:
        """Will these tokens all make the same, so that they can be told of at once?"""
        return (
            self._turning is not None
            and not self._waiting
            and not self._is_turning
            and self._turning.isdisjoint(ids)
        )

    def add(self, ids: Sequence[int], events: Sequence[OutputEvent]) -> None:
        """What one more token has made, or several that are steady."""
        self._waiting += len(ids)
        self._is_turning = self._turning is None or ids[-1] in self._turning
        if events:
            self.finish(events)

    def finish(self, events: Sequence[OutputEvent]) -> None:
        """What has been made without a token, at the end."""
        if any(type(event) is Reasoning for event in events):
            self.count += self._waiting
        self._waiting = 0
