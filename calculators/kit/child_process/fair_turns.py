"""`FairTurns`: the order in which a child gets the clients' work."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

from calculators.kit.child_process.client_order import REMEMBERED, ClientOrder
from calculators.kit.requests.client_identity import UNKNOWN_CLIENT, ClientIdentity
from calculators.kit.requests.request_record import current_record

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
        """The number of waiting pieces of work."""
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
