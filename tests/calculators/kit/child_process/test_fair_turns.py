"""Fair turns of work that waits for a child."""

import asyncio
from itertools import count
from random import Random

import pytest

from calculators.kit.child_process.fair_turns import FairTurns, TooManyWaiting
from calculators.kit.requests.client_identity import UNKNOWN_CLIENT, ClientIdentity
from calculators.kit.requests.request_record import RequestRecord, set_current_record

ANN = ClientIdentity("ann", "1")
BOB = ClientIdentity("bob", "1")


class Work:
    """Pieces of work that end on command, and the order in which they began."""

    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.began: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ends: dict[str, asyncio.Event] = {}

    async def ask(
        self,
        name: str,
        client: ClientIdentity | None = None,
        expected: float = 0.0,
        cost: float | None = None,
    ) -> None:
        end = self.ends[name] = asyncio.Event()

        async def work() -> None:
            async with self.turns.turn(expected, client) as turn:
                self.began.append(name)
                await end.wait()
                turn.cost = cost

        self.tasks[name] = asyncio.create_task(work())
        await settled()

    async def finish(self) -> list[str]:
        """End running work until nothing is left; return the order in which all of it began."""
        ended = 0
        while ended < len(self.began):
            self.ends[self.began[ended]].set()
            ended += 1
            await settled()
        return self.began


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_clients_take_turns_however_many_requests_one_of_them_sends() -> None:
    async def run() -> None:
        work = Work(FairTurns())
        for number in range(4):
            await work.ask(f"ann {number}", ANN)
        for number in range(2):
            await work.ask(f"bob {number}", BOB)
        assert await work.finish() == ["ann 0", "bob 0", "ann 1", "bob 1", "ann 2", "ann 3"]

    asyncio.run(run())


def test_the_number_of_pieces_that_run_at_once_is_bounded() -> None:
    async def run() -> None:
        work = Work(FairTurns(at_once=2))
        for number in range(5):
            await work.ask(str(number), ANN)
        assert work.began == ["0", "1"]
        assert len(work.turns) == 3
        assert await work.finish() == ["0", "1", "2", "3", "4"]

    asyncio.run(run())


def test_a_clients_small_work_goes_before_its_large_work() -> None:
    async def run() -> None:
        work = Work(FairTurns())
        for number in range(5):
            await work.ask(f"much {number}", ClientIdentity("ann", str(number)), expected=1.0)
        await work.ask("little", ClientIdentity("ann", "x"), expected=0.01)
        assert (await work.finish())[:2] == ["much 0", "little"]

    asyncio.run(run())


def test_a_new_connections_small_work_goes_before_large_work_of_unknown_cost() -> None:
    async def run() -> None:
        work = Work(FairTurns())
        for number in range(4):
            client = ClientIdentity("ann", str(number))
            await work.ask(f"much {number}", client, expected=0.02, cost=0.5)
        work.ends["much 0"].set()
        await settled()
        await work.ask("little", ClientIdentity("ann", "x"), expected=0.005)
        assert (await work.finish())[:3] == ["much 0", "much 1", "little"]

    asyncio.run(run())


def test_large_work_is_not_postponed_for_ever() -> None:
    async def run() -> None:
        work = Work(FairTurns())
        await work.ask("first", ANN)
        await work.ask("much", ANN, expected=1.0)
        for number in range(20):
            await work.ask(f"little {number}", ANN)
        assert "much" in (await work.finish())[:9]

    asyncio.run(run())


def test_a_connection_with_expensive_work_waits_for_others_of_the_same_address() -> None:
    async def run() -> None:
        dear, cheap = ClientIdentity("ann", "1"), ClientIdentity("ann", "2")
        work = Work(FairTurns())
        await work.ask("dear", dear, cost=5.0)
        await work.ask("cheap", cheap, cost=0.1)
        await work.finish()
        await work.ask("running", BOB)
        await work.ask("dear again", dear)
        await work.ask("cheap again", cheap)
        assert (await work.finish())[2:] == ["running", "cheap again", "dear again"]

    asyncio.run(run())


def test_work_of_a_client_that_left_is_never_begun() -> None:
    async def run() -> None:
        work = Work(FairTurns())
        await work.ask("running", ANN)
        for number in range(20):
            await work.ask(f"left {number}", ANN)
        await work.ask("stays", ANN)
        for number in range(20):
            work.tasks[f"left {number}"].cancel()
        await settled()
        assert len(work.turns) == 1
        assert await work.finish() == ["running", "stays"]

    asyncio.run(run())


def test_a_turn_that_arrives_as_its_client_leaves_goes_to_the_next() -> None:
    async def run() -> None:
        work = Work(FairTurns())
        await work.ask("running", ANN)
        await work.ask("leaving", ANN)
        await work.ask("next", ANN)
        work.ends["running"].set()
        await asyncio.sleep(0)  # its turn has come, but it has not run yet
        assert len(work.turns) == 1
        work.tasks["leaving"].cancel()
        await settled()
        assert (await work.finish())[-1] == "next"

    asyncio.run(run())


def test_when_the_queue_is_full_the_costliest_work_of_the_busiest_client_is_refused() -> None:
    async def run() -> None:
        work = Work(FairTurns(most_waiting=2))
        await work.ask("running", ANN)
        await work.ask("dear", ANN, expected=3.0)
        await work.ask("cheap", ANN, expected=1.0)
        await work.ask("other", BOB, expected=9.0)
        with pytest.raises(TooManyWaiting):
            await work.tasks["dear"]
        assert await work.finish() == ["running", "other", "cheap"]

    asyncio.run(run())


def test_the_client_is_that_of_the_current_request() -> None:
    async def run() -> None:
        work = Work(FairTurns())
        for name, client in (("a", ANN), ("a2", ANN), ("a3", ANN), ("b", BOB), ("?", None)):
            set_current_record(RequestRecord("id", client=client or UNKNOWN_CLIENT))
            await work.ask(name)
        assert await work.finish() == ["a", "b", "?", "a2", "a3"]

    asyncio.run(run())


def test_the_next_work_is_the_cheapest_by_what_is_known_then() -> None:
    """A search through all work is the oracle; every eighth turn is the oldest work's."""

    async def scenario() -> None:
        random = Random(1)
        work = Work(FairTurns())
        costs: dict[ClientIdentity, float] = {}
        new_cost = 0.0
        #: Expected cost, connection and cost of all work that waits, by name.
        waiting: dict[str, tuple[float, ClientIdentity, float]] = {}
        names = count()

        async def ask() -> str:
            name = str(next(names))
            client = ClientIdentity("ann", str(random.randrange(12)))
            expected, cost = random.random(), random.random()
            await work.ask(name, client, expected, cost)
            waiting[name] = expected, client, cost
            return name

        def rank(name: str) -> float:
            expected, client, _ = waiting[name]
            return expected + costs.get(client, new_cost)

        running = await ask()
        _, client, cost = waiting.pop(running)
        for _ in range(20):
            await ask()
        for turn in range(1, 300):
            for _ in range(random.randrange(3)):
                await ask()
            if len(waiting) > 20:
                left = random.choice(list(waiting))
                del waiting[left]
                work.tasks[left].cancel()
                await settled()
            before = costs.get(client)
            new_cost += (cost - new_cost) / 2 if before is None else 0
            costs[client] = cost if before is None else (before + cost) / 2
            work.ends[running].set()
            await settled()
            running = work.began[-1]
            assert running == (min(waiting, key=int) if turn % 8 == 0 else min(waiting, key=rank))
            _, client, cost = waiting.pop(running)
        await work.finish()

    asyncio.run(scenario())
