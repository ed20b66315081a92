"""Fair turns: they decide whose work comes next where several clients wait for one resource.

Clients, by key or by address, have turns in the order of start-time fair queueing (Goyal, Vin and
Cheng, 1996). The work of a client that has nothing waiting starts at the start of the work that was
taken last, and at the end of its own last work if that is later; each piece of work ends at its
start and its cost, divided by the client's priority. The earliest start comes first. So a client
that arrives comes before the second piece of everybody else; over time clients that always have
work get shares in proportion to their priorities, whatever number of requests each of them sends;
and one that was silent has saved nothing up.

Of one client's work the lowest rank comes first: users of one proxy may share an address.
Every eighth turn of a client goes to its oldest work, so that none waits for ever.

`ClientOrder` is that order; it knows neither time nor tasks. `FairTurns` has the turns of the
server's tasks by it, `calculators.llm.engine.admission` the places of an engine.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from heapq import heapify, heappop, heappush
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from calculators.kit.requests.client_identity import NORMAL_PRIORITY, UNKNOWN_CLIENT, ClientIdentity
from calculators.kit.requests.request_record import current_record

#: Every n-th turn of a client goes to its oldest work.
_OLDEST_EVERY: Final = 8
#: Number of clients whose last work is remembered.
REMEMBERED: Final = 1024
#: Work that may have left a line before the line is ranked again.
_GONE: Final = 64


class ClientWork(Protocol):
    """Work that waits. Compared by identity.

    Attributes:
        number: work is numbered as it is asked for.
        client: its owner.
    """

    @property
    def number(self) -> int: ...

    @property
    def client(self) -> ClientIdentity: ...


WorkT = TypeVar("WorkT", bound=ClientWork)


class _ClientLine(Generic[WorkT]):
    """The waiting work of one client.

    Attributes:
        work: the work, the oldest first.
        start: of its next turn.
        turns: the number of turns that it has had.
    """

    __slots__ = ("_heap", "start", "turns", "work")

    def __init__(self, start: float) -> None:
        self.work: dict[WorkT, None] = {}
        self.start = start
        self.turns = 0
        #: Work by its rank, with some that waits no longer; None: not ranked by what is known now.
        self._heap: list[tuple[float, int, WorkT]] | None = None

    def add(self, work: WorkT, rank: Callable[[WorkT], float]) -> None:
        self.work[work] = None
        if self._heap is not None:
            heappush(self._heap, (rank(work), work.number, work))

    def remove(self, work: WorkT) -> None:
        del self.work[work]
        if self._heap is not None and len(self._heap) > 2 * len(self.work) + _GONE:
            self._heap = None

    def rank_anew(self) -> None:
        """Note that ranks have changed."""
        self._heap = None

    def next(self, rank: Callable[[WorkT], float]) -> WorkT:
        """Return the work of the client's next turn."""
        return self.oldest if self.is_oldests_turn else self.lowest(rank)

    @property
    def is_oldests_turn(self) -> bool:
        return (self.turns + 1) % _OLDEST_EVERY == 0

    @property
    def oldest(self) -> WorkT:
        return next(iter(self.work))

    def lowest(self, rank: Callable[[WorkT], float]) -> WorkT:
        """Return the work of the lowest rank, of equals the oldest."""
        if self._heap is None:
            self._heap = [(rank(work), work.number, work) for work in self.work]
            # Ranked only when asked. A turn computed the rank of all that waited before: 92 us with
            # 1,024 connections, 19 since (decision 0048).
            heapify(self._heap)
        while self._heap[0][2] not in self.work:
            heappop(self._heap)
        return self._heap[0][2]


class ClientOrder(Generic[WorkT]):
    """The waiting work of all clients.

    ``rank``: the order among one client's work; of equal ranks the oldest comes first.
    """

    def __init__(self, rank: Callable[[WorkT], float]) -> None:
        self._rank = rank
        #: By client; no line is empty.
        self._lines: dict[str, _ClientLine[WorkT]] = {}
        self._count = 0
        #: The start of the work that was taken last.
        self._now = 0.0
        #: The end of each client's last work.
        self._ends: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of waiting pieces of work."""
        return self._count

    def put(self, work: WorkT) -> None:
        """Add work that waits."""
        line = self._lines.get(work.client.name)
        if line is None:
            line = self._lines[work.client.name] = _ClientLine(self._start(work.client))
        line.add(work, self._rank)
        self._count += 1

    def remove(self, work: WorkT) -> None:
        """Forget work, if it waits."""
        line = self._lines.get(work.client.name)
        if line is not None and work in line.work:
            self._take_out(line, work)

    def next(self) -> WorkT:
        """Return the work whose turn it is. Some must wait."""
        # By the start, not round and round by arrival: there a client with work waiting kept its
        # place in front of one that had just arrived (decision 0091).
        return min(self._lines.values(), key=_start_of).next(self._rank)

    def in_turn(self) -> Iterator[WorkT]:
        """Yield the next work of each client, in the order of the clients' turns.

        If that is the client's oldest work, its work of the lowest rank follows: there may be room
        for it.
        """
        for line in sorted(self._lines.values(), key=_start_of):
            if line.is_oldests_turn:
                yield line.oldest
            yield line.lowest(self._rank)

    def take(self, work: WorkT, cost: float = 1.0) -> None:
        """Begin work that waits; the client pays its cost."""
        line = self._lines[work.client.name]
        line.turns += 1
        line.start = self._charge(work.client, line.start, cost)
        self._take_out(line, work)

    def begin(self, client: ClientIdentity, cost: float = 1.0) -> None:
        """Note work that begins without having waited; the client pays its cost."""
        self._charge(client, self._start(client), cost)

    def rank_anew(self, client: ClientIdentity | None = None) -> None:
        """Note that the ranks of one client's work, or of all work, have changed."""
        if client is None:
            for line in self._lines.values():
                line.rank_anew()
        elif client.name in self._lines:
            self._lines[client.name].rank_anew()

    def last(self, among: Callable[[WorkT], bool] = lambda work: True) -> WorkT:
        """Return the work of the highest rank of the client that has most; of equals the newest.

        ``among``: tells which work is considered; there must be some.
        """
        lines = [[work for work in line.work if among(work)] for line in self._lines.values()]
        longest = max(lines, key=lambda line: len(line))
        return max(longest, key=lambda work: (self._rank(work), work.number))

    def __iter__(self) -> Iterator[WorkT]:
        for line in self._lines.values():
            yield from line.work

    def _take_out(self, line: _ClientLine[WorkT], work: WorkT) -> None:
        line.remove(work)
        self._count -= 1
        if not line.work:
            del self._lines[work.client.name]

    def _start(self, client: ClientIdentity) -> float:
        return max(self._now, self._ends.get(client.name, 0.0))

    def _charge(self, client: ClientIdentity, start: float, cost: float) -> float:
        """Note that work has begun; return where it ends."""
        self._now = max(self._now, start)
        # `priority=` of the key file: twice the number, twice the turns (decision 0091).
        end = start + cost * NORMAL_PRIORITY / client.priority
        self._ends[client.name] = end
        # Bounded, as anybody can send from new addresses; a forgotten client is one that was
        # silent, and has saved nothing up.
        self._ends.move_to_end(client.name)
        if len(self._ends) > REMEMBERED:
            self._ends.popitem(last=False)
        return end


def _start_of(line: _ClientLine[WorkT]) -> float:
    return line.start


#: The weight of the last cost in a connection's mean.
_NEWEST: Final = 0.5


class TooManyWaiting(Exception):
    """The limit of waiting work is reached, and this work would come last."""


class FairTurn(Struct, eq=False):
    """One client's turn with a child.

    Attributes:
        number: turns are numbered as they are asked for.
        expected: seconds of processor time, estimated from the size of the work.
        cost: seconds of processor time that the work took, to be set by the user of the turn.
        started: done when the turn begins; None if it began at once.
        on_wanted: called when work begins to wait during this turn.
        goes_on: it is a further part of work that has had a turn; the limit does not concern it.
    """

    number: int
    client: ClientIdentity
    expected: float
    cost: float | None = None
    started: asyncio.Future[None] | None = None
    on_wanted: Callable[[], None] | None = None
    goes_on: bool = False


class FairTurns:
    """Work waits here, in the server; a child gets a few pieces at a time.

    Clients take turns (`ClientOrder`). Among one client's work the cheapest comes first: small
    requests must not wait for all large ones. The expected cost is the sum of the caller's
    estimate, from the work's size, and the mean cost of the connection's last work; a connection
    without any is rated like other new ones.

    Work whose task is cancelled while it waits is never begun.
    """

    def __init__(self, at_once: int = 1, most_waiting: int | None = None) -> None:
        """``at_once`` limits the work that a child has, ``most_waiting`` the work that waits."""
        self._free = at_once
        self._most_waiting = most_waiting
        # In the server and not in the child: what the child has queued cannot be withdrawn, and a
        # crash could not be attributed (decision 0019).
        self._waiting: ClientOrder[FairTurn] = ClientOrder(self._rank)
        #: The number of waiting pieces by connection.
        self._waits_of: Counter[ClientIdentity] = Counter()
        #: The number of waiting pieces that go on.
        self._going_on = 0
        self._number = 0
        #: Turns that last.
        self._lasting: set[FairTurn] = set()
        self._costs: OrderedDict[ClientIdentity, float] = OrderedDict()
        self._new_cost = 0.0

    def __len__(self) -> int:
        """Return the number of waiting pieces of work."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(
        self,
        expected: float = 0.0,
        client: ClientIdentity | None = None,
        *,
        goes_on: bool = False,
    ) -> AsyncIterator[FairTurn]:
        """Wait for a turn as `begin` does, and have it until the end of the ``async with``."""
        turn = await self.begin(expected, client, goes_on=goes_on)
        try:
            yield turn
        finally:
            self.end(turn)

    async def begin(
        self,
        expected: float = 0.0,
        client: ClientIdentity | None = None,
        *,
        goes_on: bool = False,
    ) -> FairTurn:
        """Wait for a turn. It lasts until `end`.

        ``expected``: seconds of processor time, estimated from the size of the work.
        ``client``: the owner of the work; by default that of the task's current request.
        ``goes_on``: the work has had a turn, and this is a further part of it.

        Raises:
            TooManyWaiting: there is no room, or cheaper work has taken it during the wait.
        """
        if client is None:
            record = current_record()
            client = UNKNOWN_CLIENT if record is None else record.client
        self._number += 1
        turn = FairTurn(self._number, client, expected, goes_on=goes_on)
        if self._free:  # then nobody waits
            self._free -= 1
            self._waiting.begin(client)
        else:
            await self._wait(turn)
        self._lasting.add(turn)
        return turn

    def end(self, turn: FairTurn) -> None:
        """End a turn that has begun; the next one begins."""
        self._free += 1
        self._lasting.discard(turn)
        if turn.cost is not None:
            self._note_cost(turn.client, turn.cost)
        if len(self._waiting):
            self._begin_turns()

    async def _wait(self, turn: FairTurn) -> None:
        turn.started = started = asyncio.get_running_loop().create_future()
        self._waiting.put(turn)
        self._waits_of[turn.client] += 1
        self._going_on += turn.goes_on
        new = len(self._waiting) - self._going_on
        if self._most_waiting is not None and not turn.goes_on and new > self._most_waiting:
            # The most expensive work of the client that has most is refused, not the newest: a
            # flood must not shut others out (decision 0014).
            last = self._waiting.last(lambda work: not work.goes_on)
            self._remove(last)
            assert last.started is not None
            last.started.set_exception(TooManyWaiting())
        for lasting in self._lasting:
            if lasting.on_wanted is not None:
                # A long turn, such as a sound or an image, ends at its next border while others
                # wait (decisions 0091, 0093).
                lasting.on_wanted()
        try:
            await started
        except BaseException:
            if started.done() and not started.cancelled():
                if started.exception() is None:  # begun, and cancelled at the same moment
                    self.end(turn)
            else:
                self._remove(turn)
            raise

    def _remove(self, turn: FairTurn) -> None:
        before = len(self._waiting)
        self._waiting.remove(turn)
        if len(self._waiting) < before:
            self._count_down(turn)

    def _count_down(self, turn: FairTurn) -> None:
        self._going_on -= turn.goes_on
        self._waits_of[turn.client] -= 1
        if not self._waits_of[turn.client]:
            del self._waits_of[turn.client]

    def _begin_turns(self) -> None:
        while self._free and len(self._waiting):
            turn = self._waiting.next()
            assert turn.started is not None
            if turn.started.cancelled():
                self._remove(turn)
                continue
            self._waiting.take(turn)
            self._count_down(turn)
            self._free -= 1
            turn.started.set_result(None)

    def _note_cost(self, client: ClientIdentity, cost: float) -> None:
        before = self._costs.pop(client, None)
        if before is None:
            self._new_cost += _NEWEST * (cost - self._new_cost)
            self._costs[client] = cost
            self._waiting.rank_anew()  # new connections may wait in any line
        else:
            # Size alone underestimates hostile work: a regular expression of 1 kB took most of a
            # second (decision 0014).
            self._costs[client] = before + _NEWEST * (cost - before)
        changed = [client]
        if len(self._costs) > REMEMBERED:
            changed.append(self._costs.popitem(last=False)[0])
        for each in changed:
            if each in self._waits_of:
                self._waiting.rank_anew(each)

    def _rank(self, turn: FairTurn) -> float:
        # By what is known now: turns that began to wait before the first costs were noted would
        # pass for cheaper than a new one.
        if turn.goes_on:
            return -math.inf
        return turn.expected + self._costs.get(turn.client, self._new_cost)
