"""`RoutingTable`: the requests of a front by replica, and the beginnings that replicas have seen.

A replica has the beginning of a conversation in its cache if it has answered an earlier turn. So a
request costs a replica the tokens in flight there, and the tokens of the request that it has not
seen; the cheapest replica gets it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

#: Characters of a prompt that are compared at once.
BLOCK_CHARS: Final = 64
#: Characters per token, about.
CHARS_PER_TOKEN: Final = 4
#: Blocks of one prompt that are compared; the rest is taken as not seen.
MOST_BLOCKS: Final = 1024
#: Blocks that the table remembers of one replica, some 32 million characters of prompts.
MOST_KNOWN: Final = 1 << 19
#: Tokens of an answer whose length nobody knows.
EXPECTED_TOKENS: Final = 128
#: A token that is in flight weighs less than one that has to be computed once more: the tokens of
#: all answers in flight are generated together.
_LOAD_WEIGHT: Final = 0.5
#: Replicas that are offered for one request, the best first.
_MOST_OFFERED: Final = 8


def blocks_of(prompt: str) -> tuple[int, ...]:
    """Return a hash for each whole block of a prompt and all before it."""
    found: list[int] = []
    before = 0
    for start in range(0, min(len(prompt), MOST_BLOCKS * BLOCK_CHARS), BLOCK_CHARS):
        block = prompt[start : start + BLOCK_CHARS]
        if len(block) < BLOCK_CHARS:
            break
        before = hash((before, block))
        found.append(before)
    return tuple(found)


@dataclass(slots=True, eq=False)
class RoutedCall:
    """One request of this front.

    Attributes:
        blocks: see `blocks_of`.
        tokens: of its prompt and of its answer, about.
        replica: the replica that has it; "" while it waits for one.
        avoided: replicas that have failed it.
    """

    blocks: tuple[int, ...] = ()
    tokens: float = EXPECTED_TOKENS
    replica: str = ""
    avoided: set[str] = field(default_factory=set)
    _load: float = 0.0


@dataclass(slots=True)
class _Replica:
    """Load and contents of one replica."""

    calls: int = 0
    load: float = 0.0
    seen: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def seen_of(self, blocks: Sequence[int]) -> int:
        """Return the number of blocks, from the first, that the replica has seen."""
        low, high = 0, len(blocks)
        while low < high:  # a replica that has seen a block has seen the blocks before it
            middle = (low + high) // 2
            if blocks[middle] in self.seen:
                low = middle + 1
            else:
                high = middle
        return low

    def see(self, blocks: Sequence[int]) -> None:
        # The first block last, so that the end of a prompt is forgotten before its beginning.
        for block in reversed(blocks):
            self.seen[block] = None
            self.seen.move_to_end(block)
        while len(self.seen) > MOST_KNOWN:
            self.seen.popitem(last=False)


class RoutingTable:
    """The table of one deployment in one front. Belongs to one event loop.

    Attributes:
        limit: the most requests that one replica gets from this front at a time.
        is_random: choose any replica, for comparison.
    """

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._replicas: dict[str, _Replica] = {}
        self._calls: dict[str, RoutedCall] = {}
        self._turn = 0

    @property
    def waiting(self) -> int:
        """The number of requests that no replica has yet."""
        return sum(not call.replica for call in self._calls.values())

    def begin(self, key: str, call: RoutedCall) -> None:
        """Take a request, until `end`."""
        self._calls[key] = call

    def call(self, key: str) -> RoutedCall | None:
        """Return a request in flight."""
        return self._calls.get(key)

    def end(self, key: str) -> None:
        """Forget a request: it is over."""
        call = self._calls.pop(key, None)
        if call is not None:
            self._leave(call)

    def offers(self, key: str, replicas: Collection[str], *, pinned: bool) -> list[str]:
        """Return the replicas for a call, the best first.

        Args:
            replicas: those that are running.
            pinned: the call belongs to a request that a replica has; only that one is offered.

        Returns:
            At most `_MOST_OFFERED`; empty if all are full, so that the call has to wait.
        """
        self._forget_others(replicas)
        call = self._calls.get(key)
        if call is None:
            return list(replicas)[:1]  # about the replicas themselves, or a request that is over
        if pinned:
            # If the replica is gone, another one answers that it has no such request.
            return [call.replica] if call.replica in replicas else list(replicas)[:1]
        self._leave(call)
        allowed = [each for each in replicas if each not in call.avoided] or list(replicas)
        free = [each for each in allowed if self._of(each).calls < self.limit]
        ordered = sorted(self._in_turn(free), key=lambda each: self._cost(each, call))
        if ordered:
            self._place(call, ordered[0])
        return ordered[:_MOST_OFFERED]

    def note_sent(self, key: str, replica: str) -> None:
        """Note the replica that has taken a request: a full one may have been passed over."""
        call = self._calls.get(key)
        if call is not None and call.replica != replica:
            self._leave(call)
            self._place(call, replica)

    # Costs ----------------------------------------------------------------------------------------

    def _cost(self, replica: str, call: RoutedCall) -> tuple[float, int]:
        known = self._of(replica)
        return known.load * _LOAD_WEIGHT + self._unseen(known, call), known.calls

    def _unseen(self, replica: _Replica, call: RoutedCall) -> float:
        seen = replica.seen_of(call.blocks) * BLOCK_CHARS / CHARS_PER_TOKEN
        return max(call.tokens - seen, 0.0)

    def _place(self, call: RoutedCall, replica: str) -> None:
        known = self._of(replica)
        call.replica = replica
        call._load = self._unseen(known, call)
        known.load += call._load
        known.calls += 1
        known.see(call.blocks)

    def _leave(self, call: RoutedCall) -> None:
        known = self._replicas.get(call.replica)
        if known is not None:
            known.calls -= 1
            known.load -= call._load
        call.replica = ""

    # Replicas -------------------------------------------------------------------------------------

    def _of(self, replica: str) -> _Replica:
        return self._replicas.setdefault(replica, _Replica())

    def _in_turn(self, replicas: list[str]) -> Iterable[str]:
        """Return the replicas, beginning with another one each time: equal ones take turns."""
        self._turn += 1
        first = self._turn % len(replicas) if replicas else 0
        return (*replicas[first:], *replicas[:first])

    def _forget_others(self, replicas: Collection[str]) -> None:
        if len(self._replicas) > len(replicas):
            for gone in self._replicas.keys() - set(replicas):
                if not self._replicas[gone].calls:
                    del self._replicas[gone]


_TABLES: Final[dict[str, RoutingTable]] = {}


def table_of(application: str) -> RoutingTable:
    """Return the table of an application in this process."""
    return _TABLES.setdefault(application, RoutingTable())


def drop_table(application: str) -> None:
    """Forget the table of an application that is gone."""
    _TABLES.pop(application, None)
