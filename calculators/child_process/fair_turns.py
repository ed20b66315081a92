"""`FairTurns`: the order in which a child gets the clients' work."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct

from calculators.requests.request_record import UNKNOWN_CLIENT, ClientIdentity, current_record

#: Every n-th turn of a client goes to its oldest work, so that no work waits forever.
_OLDEST_EVERY: Final = 8
#: Number of connections whose costs are remembered.
REMEMBERED: Final = 1024
#: The weight of the last cost in a connection's mean.
_NEWEST: Final = 0.5
#: Work that may have left a line before the line is ranked anew.
_GONE: Final = 64


class TooManyWaiting(Exception):
    """The limit of waiting work is reached, and this work would come last."""


class Turn(Struct, eq=False):
    """One client's turn with a child.

    Attributes:
        number: turns are numbered as they are asked for.
        expected: seconds of processor time, estimated from the size of the work.
        cost: seconds of processor time that the work took, to be set by the user of the turn.
        started: done when the turn begins; None if it began at once.
    """

    number: int
    client: ClientIdentity
    expected: float
    cost: float | None = None
    started: asyncio.Future[None] | None = None


class _Line:
    """The waiting work of one client.

    Attributes:
        turns: the work, the oldest first.
    """

    __slots__ = ("_heap", "turns")

    def __init__(self) -> None:
        self.turns: dict[Turn, None] = {}
        #: Work by its rank, with some that waits no longer; None: not ranked by what is known now.
        self._heap: list[tuple[float, int, Turn]] | None = None

    def add(self, turn: Turn, rank: Callable[[Turn], float]) -> None:
        self.turns[turn] = None
        if self._heap is not None:
            heappush(self._heap, (rank(turn), turn.number, turn))

    def remove(self, turn: Turn) -> None:
        del self.turns[turn]
        if self._heap is not None and len(self._heap) > 2 * len(self.turns) + _GONE:
            self._heap = None

    def rank_anew(self) -> None:
        """Note that ranks have changed."""
        self._heap = None

    def cheapest(self, rank: Callable[[Turn], float]) -> Turn:
        """Return the work of the lowest rank, of equals the oldest."""
        if self._heap is None:
            self._heap = [(rank(turn), turn.number, turn) for turn in self.turns]
            heapify(self._heap)
        while self._heap[0][2] not in self.turns:
            heappop(self._heap)
        return self._heap[0][2]


class FairTurns:
    """Work waits here, in the server; a child gets a few pieces at a time.

    Clients (by key, or by address) take turns. Among one client's work the cheapest comes first:
    many users may share an address behind a proxy, and small requests must not wait for all large
    ones. The expected cost is the sum of the caller's estimate, from the work's size, and the mean
    cost of the connection's last work; a connection without any is rated like other new ones.
    Every eighth turn of a client goes to its oldest work.

    Work whose task is cancelled while it waits is never begun.
    """

    def __init__(self, at_once: int = 1, most_waiting: int | None = None) -> None:
        """``at_once`` limits the work that a child has, ``most_waiting`` the work that waits."""
        self._free = at_once
        self._most_waiting = most_waiting
        #: Waiting work by client, in the order of their turns; no entry is empty.
        self._waiting: dict[str, _Line] = {}
        #: The same work by connection.
        self._waits_of: Counter[ClientIdentity] = Counter()
        self._count = 0
        self._turns_of: dict[str, int] = {}
        self._number = 0
        self._costs: OrderedDict[ClientIdentity, float] = OrderedDict()
        self._new_cost = 0.0

    def __len__(self) -> int:
        """The number of waiting pieces of work."""
        return self._count

    @asynccontextmanager
    async def turn(
        self, expected: float = 0.0, client: ClientIdentity | None = None
    ) -> AsyncIterator[Turn]:
        """Wait for a turn as `begin` does, and have it until the end of the ``async with``."""
        turn = await self.begin(expected, client)
        try:
            yield turn
        finally:
            self.end(turn)

    async def begin(self, expected: float = 0.0, client: ClientIdentity | None = None) -> Turn:
        """Wait for a turn. It lasts until `end`.

        ``expected``: seconds of processor time, estimated from the size of the work.
        ``client``: the owner of the work; by default that of the task's current request.

        Raises:
            TooManyWaiting: there is no room, or cheaper work has taken it during the wait.
        """
        if client is None:
            record = current_record()
            client = UNKNOWN_CLIENT if record is None else record.client
        self._number += 1
        turn = Turn(self._number, client, expected)
        if self._free:  # then nobody waits
            self._free -= 1
        else:
            await self._wait(turn)
        return turn

    def end(self, turn: Turn) -> None:
        """End a turn that has begun; the next one begins."""
        self._free += 1
        if turn.cost is not None:
            self._note_cost(turn.client, turn.cost)
        if self._waiting:
            self._begin_turns()

    async def _wait(self, turn: Turn) -> None:
        turn.started = started = asyncio.get_running_loop().create_future()
        line = self._waiting.get(turn.client.name)
        if line is None:
            line = self._waiting[turn.client.name] = _Line()
        line.add(turn, self._rank)
        self._waits_of[turn.client] += 1
        self._count += 1
        if self._most_waiting is not None and self._count > self._most_waiting:
            self._refuse_last()
        try:
            await started
        except BaseException:
            if started.done() and not started.cancelled():
                if started.exception() is None:  # begun, and cancelled at the same moment
                    self.end(turn)
            else:
                self._remove(turn)
            raise

    def _refuse_last(self) -> None:
        longest = max(self._waiting.values(), key=lambda line: len(line.turns))
        last = max(longest.turns, key=lambda turn: (self._rank(turn), turn.number))
        self._remove(last)
        assert last.started is not None
        last.started.set_exception(TooManyWaiting())

    def _remove(self, turn: Turn) -> None:
        line = self._waiting.get(turn.client.name)
        if line is not None and turn in line.turns:
            self._take_from(line, turn)

    def _take_from(self, line: _Line, turn: Turn) -> None:
        line.remove(turn)
        self._count -= 1
        self._waits_of[turn.client] -= 1
        if not self._waits_of[turn.client]:
            del self._waits_of[turn.client]
        if not line.turns:
            del self._waiting[turn.client.name]
            self._turns_of.pop(turn.client.name, None)

    def _begin_turns(self) -> None:
        while self._free and self._waiting:
            name = next(iter(self._waiting))
            line = self._waiting.pop(name)
            self._waiting[name] = line  # behind the others
            count = self._turns_of[name] = self._turns_of.get(name, 0) + 1
            oldest = count % _OLDEST_EVERY == 0
            turn = next(iter(line.turns)) if oldest else line.cheapest(self._rank)
            self._take_from(line, turn)
            assert turn.started is not None
            if turn.started.cancelled():
                continue
            self._free -= 1
            turn.started.set_result(None)

    def _note_cost(self, client: ClientIdentity, cost: float) -> None:
        before = self._costs.pop(client, None)
        if before is None:
            self._new_cost += _NEWEST * (cost - self._new_cost)
            self._costs[client] = cost
            for line in self._waiting.values():  # new connections may wait in any
                line.rank_anew()
        else:
            self._costs[client] = before + _NEWEST * (cost - before)
        changed = [client]
        if len(self._costs) > REMEMBERED:
            changed.append(self._costs.popitem(last=False)[0])
        for each in changed:
            if each in self._waits_of:
                self._waiting[each.name].rank_anew()

    def _rank(self, turn: Turn) -> float:
        # By what is known now: turns that began to wait before the first costs were noted would
        # pass for cheaper than a new one.
        return turn.expected + self._costs.get(turn.client, self._new_cost)
