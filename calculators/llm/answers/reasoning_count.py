"""`ReasoningCount`: how many tokens of a choice were reasoning."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from calculators.llm.parsers.events import OutputEvent, Reasoning


class ReasoningCount:
    """Told what tokens have made, it counts those that made reasoning.

    A token that makes nothing of its own (half a character, a tag) belongs to what the next ones
    make: the tag that begins the reasoning is part of it, the one that ends it is not. So the count
    does not depend on how many tokens come at a time.
    """

    __slots__ = ("_hidden", "_is_turning", "_turning", "_waiting", "count")

    def __init__(
        self, turning: frozenset[int] | None = None, hidden: Collection[int] = frozenset()
    ) -> None:
        """``turning``: tokens in which a tag may begin; None is any. ``hidden``: without text."""
        self._turning = turning
        self._hidden = hidden
        self.count = 0
        #: Tokens that have made nothing yet.
        self._waiting = 0
        #: May a tag have begun that is not complete, or after which nothing has been made?
        self._is_turning = False

    def steady(self, ids: Sequence[int]) -> int:
        """How many of these tokens will all make the same, so that they can be told of at once.

        From the first on, and at least one.
        """
        turning = self._turning
        if turning is None or self._is_turning:
            return 1
        for place, token_id in enumerate(ids):
            if token_id in turning:
                return place or 1
        return len(ids)

    def add(self, ids: Sequence[int], events: Sequence[OutputEvent]) -> None:
        """What one more token has made, or several that are `steady`."""
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
        """What has been made without a token, at the end."""
        for event in events:
            if type(event) is Reasoning:
                self.count += self._waiting
                break
        self._waiting = 0


def turning_tokens(tags: Collection[str], pieces: Sequence[bytes]) -> frozenset[int]:
    """The ids of the tokens whose text has a letter with which one of the tags begins.

    More than those in which a tag may begin: parsers of calls, whose tags mostly begin with the
    same letter, hold text back too.
    """
    turning: set[int] = set()
    for letter in {tag[:1].encode() for tag in tags if tag}:
        turning.update(token_id for token_id, piece in enumerate(pieces) if letter in piece)
    return frozenset(turning)
