"""`ReasoningCount`: counts the tokens of a choice that were reasoning."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from calculators.language.events import OutputEvent, Reasoning


class ReasoningCount(Struct, eq=False):
    """Counts the tokens that made reasoning, from the events that tokens made.

    A token without an event of its own (half a character, a tag) counts with the next event. So the
    tag that begins the reasoning is part of it, and the tag that ends it is not, and the count does
    not depend on how many tokens are added at a time.

    Attributes:
        turning: ids of tokens that may begin a tag; None: any.
        hidden: ids of tokens without text.
        count: of the tokens that made reasoning.
        waiting: the number of tokens without an event yet.
        is_turning: a tag may have begun that is incomplete, or that no event has followed yet.
    """

    turning: frozenset[int] | None = None
    hidden: Collection[int] = frozenset()
    count: int = 0
    waiting: int = 0
    is_turning: bool = False

    def steady(self, ids: Sequence[int]) -> int:
        """Return how many tokens, from the first on, can be added at once; at least one.

        They all make reasoning, or all do not.
        """
        turning = self.turning
        if turning is None or self.is_turning:
            return 1
        for place, token_id in enumerate(ids):
            if token_id in turning:
                return place or 1
        return len(ids)

    def add(self, ids: Sequence[int], events: Sequence[OutputEvent]) -> None:
        """Count one more token, or several that are `steady`, with the events that they made."""
        self.waiting += len(ids)
        if self.turning is None or ids[-1] in self.turning:
            self.is_turning = True
        elif events:
            self.is_turning = False
        if events:
            hidden = 0
            while hidden < len(ids) and ids[-1 - hidden] in self.hidden:
                hidden += 1
            if Reasoning in map(type, events):
                self.count += self.waiting - hidden
            self.waiting = hidden

    def finish(self, events: Sequence[OutputEvent]) -> None:
        """Count the waiting tokens with the events of the end."""
        if Reasoning in map(type, events):
            self.count += self.waiting
        self.waiting = 0


def turning_tokens(tags: Collection[str], pieces: Sequence[bytes]) -> frozenset[int]:
    """Return the ids of the tokens whose text has the first letter of one of the tags.

    These include tokens in which no tag begins: parsers of calls, whose tags mostly begin with the
    same letter, hold text back too.
    """
    turning: set[int] = set()
    for letter in {tag[:1].encode() for tag in tags if tag}:
        turning.update(token_id for token_id, piece in enumerate(pieces) if letter in piece)
    return frozenset(turning)
