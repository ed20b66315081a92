"""A run of requests: so many at once, or so many per second."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

from servers.load.client import StreamClient
from servers.load.outcome import Outcome
from servers.load.prompts import Prompt


async def run_load(
    client: StreamClient,
    prompts: Sequence[Prompt],
    *,
    concurrency: int | None = None,
    rate: float | None = None,
    burstiness: float = 1.0,
    seed: int = 0,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[list[Outcome], float]:
    """Send all requests.

    Args:
        concurrency: the most requests in flight; None is no bound.
        rate: requests per second; None sends them as soon as ``concurrency`` allows.
        burstiness: 1 is a Poisson process, less comes in bursts, more evenly (shape of the gamma
            distribution, as vLLM has it).

    Returns:
        The outcomes in order of the requests, and the seconds that it took.
    """
    bodies = [client.body(prompt) for prompt in prompts]
    outcomes: list[Outcome | None] = [None] * len(bodies)
    room = asyncio.Semaphore(concurrency or max(1, len(bodies)))

    async def ask(number: int) -> None:
        try:
            outcomes[number] = outcome = await client.ask(bodies[number])
            on_outcome(outcome)
        finally:
            room.release()

    started = perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, moment in enumerate(arrivals(len(bodies), rate, burstiness, seed)):
            await asyncio.sleep(max(0.0, started + moment - perf_counter()))
            await room.acquire()
            group.create_task(ask(number))
    duration = perf_counter() - started
    return [outcome for outcome in outcomes if outcome is not None], duration


def arrivals(count: int, rate: float | None, burstiness: float, seed: int) -> Iterator[float]:
    """Yield the seconds from the start at which requests are sent."""
    chance = random.Random(seed)
    moment = 0.0
    for _ in range(count):
        yield moment
        if rate is not None:
            moment += chance.gammavariate(burstiness, 1.0 / (rate * burstiness))
