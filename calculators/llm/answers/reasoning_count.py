"""`ReasoningCount`: counts the tokens of a choice that were reasoning."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from calculators.language.events import OutputEvent, Reasoning


class ReasoningCount:
    """Counts the tokens that made reasoning, from the events that tokens made.

    A token without an event of its own (half a character, a tag) counts with the next event. So the
    tag that begins the reasoning is part of it, and the tag that ends it is not, and the count does
    not depend on how many tokens are added at a time.
    """

    __slots__ = ("_hidden", "_is_turning", "_turning", "_waiting", "count")

    def __init__(
        self, turning: frozenset[int] | None = None, hidden: Collection[int] = frozenset()
    ) -> None:
        """``turning``: ids of tokens that may begin a tag; None: any. ``hidden``: without text."""
        self._turning = turning
        self._hidden = hidden
        self.count = 0
        #: Tokens without an event yet.
        self._waiting = 0
        #: Has a tag perhaps begun that is incomplete, or that no event has followed yet?
        self._is_turning = False

    def steady(self, ids: Sequence[int]) -> int:
        """Return how many tokens, from the first on, can be added at once; at least one.

        They all make reasoning, or all do not.
        """
        turning = self._turning
        if turning is None or self._is_turning:
            return 1
        for place, token_id in enumerate(ids):
            if token_id in turning:
                return place or 1
        return len(ids)

    def add(self, ids: Sequence[int], events: Sequence[OutputEvent]) -> None:
        """Count one more token, or several that are `steady`, with the events that they made."""
        self._waiting += len(ids)
        if self._turning is None or ids[-1] in self._turning:
            self._is_turning = True
        elif events:
            self._is_turning = False
        if events:
            hidden = 0
            while hidden < len(ids) and ids[-1 - hidden] in self._hidden:
                hidden += 1
            self._waiting -= hidden
            self.finish(events)
            self._waiting = hidden

    def finish(self, events: Sequence[OutputEvent]) -> None:
        """Count the waiting tokens with the events of the end."""
        for event in events:
            if type(event) is Reasoning:
                self.count += self._waiting
                break
        self._waiting = 0


def turning_tokens(tags: Collection[str], pieces: Sequence[bytes]) -> frozenset[int]:
    """Return the ids of the tokens whose text has the first letter of one of the tags.

    These include tokens in which no tag begins: parsers of calls, whose tags mostly begin with the
    same letter, hold text back too.
    """
    turning: set[int] = set()
    for letter in {tag[:1].encode() for tag in tags if tag}:
        turning.update(token_id for token_id, piece in enumerate(pieces) if letter in piece)
    return frozenset(turning)
