"""A cluster of replicas as a simulation of discrete events (simpy).

Time is in seconds, work in output tokens: a token of a prompt that no cache has costs
`Engine.prompt_cost` of one. A replica runs ``slots`` requests at a time and queues the others in
order; it remembers the conversations that it answered last. One step of its engine has a token of
each answer and many tokens of a prompt, so a prompt gets as much of it as `Engine.prompt_share`
answers. One request needs two events, at its first token and at its last one, however long it is.

Seeds are fixed: the same arguments give the same figures.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import simpy

#: The load of a replica that gets no requests.
_AWAY: Final = math.inf

Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True)
class Engine:
    """Speed of one replica.

    Attributes:
        peak: output tokens per second with many requests at a time.
        spread: requests at which 63 % of the peak are reached; 0: every request runs as fast as one
            alone, at ``peak`` tokens per second each (``slots`` servers beside each other; then
            prompts must cost nothing).
        slots: requests at a time.
        prompt_cost: work of a prompt's token, in output tokens.
        prompt_share: answers that get as much of a step as a prompt does.
        cache: tokens of prompts that a replica remembers.
    """

    peak: float
    spread: float = 6.5
    slots: int = 32
    prompt_cost: float = 0.24
    prompt_share: float = 32.0
    cache: float = 200_000

    def rate(self, shares: float) -> float:
        """Return the work per second of all running requests together, by the sum of shares."""
        if self.spread == 0:
            return self.peak * shares
        return self.peak * (1 - math.exp(-shares / self.spread))


@dataclass(slots=True, eq=False)
class Request:
    """One turn of a conversation; times are in seconds, NaN before they are known."""

    conversation: int
    prompt: float
    output: float
    arrived: float
    done: simpy.Event
    cached: float = 0.0
    started: float = math.nan
    first: float = math.nan
    ended: float = math.nan


class Replica:
    """Processor sharing with a bound, a queue before it, and a cache of conversations."""

    def __init__(self, env: simpy.Environment, engine: Engine) -> None:
        self._env = env
        self._engine = engine
        self._queue: deque[Request] = deque()
        #: Work that an answer would have got that had run since the start.
        self._shared = 0.0
        #: Sum of the shares of running requests.
        self._shares = 0.0
        self._since = env.now
        #: (value of `_shared` at the end of a phase, order, request, whether it is the prompt's)
        self._phases: list[tuple[float, int, Request, bool]] = []
        self._order = 0
        self._alarm = 0
        self._cache: OrderedDict[int, float] = OrderedDict()
        self._cached = 0.0
        self._busy_since = math.nan
        self._busy = 0.0

    @property
    def requests(self) -> int:
        """The requests here, running and waiting."""
        return len(self._phases) + len(self._queue)

    def busy_seconds(self) -> float:
        """Return the time in which it has computed: an engine on CPUs then uses all of them."""
        return self._busy + (self._env.now - self._busy_since if self._phases else 0.0)

    def add(self, request: Request) -> None:
        """Run or queue a request."""
        self._advance()
        self._queue.append(request)
        self._fill()
        self._set_alarm()

    def _advance(self) -> None:
        """Give every running request its share of the time since the last change."""
        if self._phases:
            rate = self._engine.rate(self._shares)
            self._shared += (self._env.now - self._since) * rate / self._shares
        self._since = self._env.now

    def _fill(self) -> None:
        while self._queue and len(self._phases) < self._engine.slots:
            request = self._queue.popleft()
            if not self._phases:
                self._busy_since = self._env.now
            request.started = self._env.now
            request.cached = min(request.prompt, self._cache.get(request.conversation, 0.0))
            work = (request.prompt - request.cached) * self._engine.prompt_cost
            self._push(request, work, is_prompt=True)

    def _push(self, request: Request, work: float, *, is_prompt: bool) -> None:
        share = self._engine.prompt_share if is_prompt else 1.0
        self._order += 1
        self._shares += share
        heapq.heappush(self._phases, (self._shared + work / share, self._order, request, is_prompt))

    def _set_alarm(self) -> None:
        """Wake at the end of the next phase. Alarms that were set before do nothing any more."""
        self._alarm += 1
        if self._phases:
            left = max(0.0, self._phases[0][0] - self._shared)
            seconds = left * self._shares / self._engine.rate(self._shares)
            alarm = self._alarm
            self._env.timeout(seconds).callbacks.append(lambda _: self._wake(alarm))

    def _wake(self, alarm: int) -> None:
        if alarm != self._alarm:
            return
        self._advance()
        end, _, request, is_prompt = heapq.heappop(self._phases)
        self._shared = max(self._shared, end)
        self._shares -= self._engine.prompt_share if is_prompt else 1.0
        if is_prompt:
            request.first = self._env.now
            self._push(request, request.output, is_prompt=False)
        else:
            self._end(request)
        self._set_alarm()

    def _end(self, request: Request) -> None:
        request.ended = self._env.now
        if not self._phases:
            self._busy += self._env.now - self._busy_since
        self._cached -= self._cache.pop(request.conversation, 0.0)
        self._cache[request.conversation] = request.prompt + request.output
        self._cached += request.prompt + request.output
        while self._cached > self._engine.cache and self._cache:
            self._cached -= self._cache.popitem(last=False)[1]
        self._fill()
        request.done.succeed()


class Fleet:
    """All replicas that there are or were, and the load of each."""

    def __init__(self, env: simpy.Environment, engine: Engine, count: int) -> None:
        self._env = env
        self._engine = engine
        self.replicas: list[Replica] = []
        #: Requests of each replica; infinite for one that gets none.
        self.loads: list[float] = []
        self._seconds = 0.0
        self._since = env.now
        self._alive = 0
        for _ in range(count):
            self.start()

    @property
    def ready(self) -> list[int]:
        """The replicas that get requests."""
        return [number for number, load in enumerate(self.loads) if load != _AWAY]

    @property
    def replica_seconds(self) -> float:
        """Seconds of all replicas, starting and draining ones included."""
        return self._seconds + self._alive * (self._env.now - self._since)

    def _count(self, change: int) -> None:
        self._seconds, self._since = self.replica_seconds, self._env.now
        self._alive += change

    def start(self) -> None:
        """Add a replica at once."""
        self._count(+1)
        self._open()

    def start_after(self, seconds: float) -> Process:
        """Add a replica that needs a time to start, during which it costs."""
        self._count(+1)
        yield self._env.timeout(seconds)
        self._open()

    def _open(self) -> None:
        self.replicas.append(Replica(self._env, self._engine))
        self.loads.append(0.0)

    def drain(self, number: int) -> Process:
        """Send a replica nothing more, and remove it when it has answered everything."""
        self.loads[number] = _AWAY
        while self.replicas[number].requests:
            yield self._env.timeout(1.0)
        self._count(-1)

    def send(self, number: int, request: Request) -> None:
        self.loads[number] += 1
        self.replicas[number].add(request)

    def has_ended(self, number: int) -> None:
        self.loads[number] -= 1


# Routing ------------------------------------------------------------------------------------------

Chosen = Callable[["Front", Request], int]


class Front:
    """Chooses a replica for each request, by what it knows.

    Attributes:
        loads: requests of each replica: those of now, or those of the last look at all replicas and
            what this front has sent since.
        homes: conversation -> the replica that answered it last, as far as this front knows.
    """

    def __init__(
        self, fleet: Fleet, choose: Chosen, seed: int, homes: dict[int, int] | None = None
    ) -> None:
        self._fleet = fleet
        self._choose = choose
        self.chance = random.Random(seed)
        self.loads = fleet.loads
        self.homes = {} if homes is None else homes

    def look_every(self, env: simpy.Environment, seconds: float) -> Process:
        """Know loads only from time to time."""
        self.loads = []
        yield env.timeout(self.chance.random() * seconds)
        while True:
            self.loads = list(self._fleet.loads)
            yield env.timeout(seconds)

    def send(self, request: Request) -> int:
        """Send a request, and return the replica's number."""
        if len(self.loads) < len(self._fleet.loads):
            self.loads = list(self._fleet.loads)
        number = self._choose(self, request)
        if self._fleet.loads[number] == _AWAY:
            # The balancer knows of pods that go, whatever it knows of their load.
            self.loads[number] = _AWAY
            return self.send(request)
        if self.loads is not self._fleet.loads:
            self.loads[number] += 1
        self.homes[request.conversation] = number
        self._fleet.send(number, request)
        return number


def at_random(front: Front, request: Request) -> int:
    """Choose any replica."""
    while True:
        number = front.chance.randrange(len(front.loads))
        if front.loads[number] != _AWAY:
            return number


def least_of_two(front: Front, request: Request) -> int:
    """Choose the less loaded one of two that are chosen at random."""
    one, other = at_random(front, request), at_random(front, request)
    return one if front.loads[one] <= front.loads[other] else other


def least_loaded(front: Front, request: Request) -> int:
    """Choose the replica with the fewest requests; among several, any."""
    loads = front.loads
    least = min(loads)
    start = front.chance.randrange(len(loads))
    try:
        return loads.index(least, start)
    except ValueError:
        return loads.index(least)


def by_prefix(front: Front, request: Request, *, slack: float = 8) -> int:
    """Choose the replica that has the conversation, unless it has ``slack`` requests more."""
    home = front.homes.get(request.conversation)
    if home is None:
        return least_loaded(front, request)
    loads = front.loads
    return home if loads[home] <= min(loads) + slack else least_loaded(front, request)


ROUTES: Final[dict[str, Chosen]] = {
    "random": at_random,
    "least of two": least_of_two,
    "least loaded": least_loaded,
    "prefix": by_prefix,
}


# Load ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traffic:
    """Conversations that come and go.

    Attributes:
        rate: new conversations per second, in the mean.
        phases: (seconds, share of the rate), in turns; constant for a Poisson process.
        turns: mean number of turns (geometric).
        think: mean seconds between an answer and the next turn (exponential).
        prompt, output: mean tokens of a turn (log-normal).
    """

    rate: float
    phases: Sequence[tuple[float, float]] = ((math.inf, 1.0),)
    turns: float = 5.0
    think: float = 20.0
    prompt: float = 215.0
    output: float = 200.0

    def arrivals(self, chance: random.Random) -> Iterator[float]:
        """Yield the times at which conversations begin."""
        now = begin = 0.0
        while True:
            for seconds, share in self.phases:
                end = begin + seconds
                while share and (now := now + chance.expovariate(self.rate * share)) < end:
                    yield now
                # The process has no memory: what would come after the phase is drawn anew.
                now = begin = end

    def length(self, chance: random.Random, mean: float) -> float:
        spread = 0.6
        return max(1.0, chance.lognormvariate(math.log(mean) - spread**2 / 2, spread))


#: A minute of three times the mean load every five minutes, and half of it in between.
BURSTS: Final = ((240.0, 0.5), (60.0, 3.0))


@dataclass(slots=True)
class Cluster:
    """A simulation: a fleet, its fronts and its traffic.

    Attributes:
        requests: those that have ended, in order of their ends.
    """

    env: simpy.Environment
    fleet: Fleet
    fronts: Sequence[Front]
    traffic: Traffic
    seed: int
    requests: list[Request] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.env.process(self._arrivals())
        self.env.run(until=seconds)

    def _arrivals(self) -> Process:
        chance = random.Random(self.seed)
        for number, moment in enumerate(self.traffic.arrivals(chance)):
            yield self.env.timeout(moment - self.env.now)
            self.env.process(self._conversation(number))

    def _conversation(self, number: int) -> Process:
        # Every conversation has a generator of its own: routing does not change what is asked.
        chance = random.Random(self.seed * 1_000_003 + number)
        traffic = self.traffic
        context = 0.0
        while True:
            context += traffic.length(chance, traffic.prompt)
            output = traffic.length(chance, traffic.output)
            request = Request(number, context, output, self.env.now, self.env.event())
            front = chance.choice(self.fronts) if len(self.fronts) > 1 else self.fronts[0]
            replica = front.send(request)
            yield request.done
            self.fleet.has_ended(replica)
            self.requests.append(request)
            context += output
            if chance.random() < 1 / traffic.turns:
                return
            yield self.env.timeout(chance.expovariate(1 / traffic.think))


# Scaling ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scaling:
    """The autoscaler of Kubernetes, with the behaviour of the chart.

    Attributes:
        requests: requests per replica that it aims at; 0: it looks at the processor.
        cpu: busy share of a replica's time that it aims at.
        start: seconds until a new replica answers.
        least, most: replicas.
        every: seconds between two looks; they see the load of the look before.
        calm: seconds for which the wanted number must have been lower before one replica goes.
    """

    requests: float = 0.0
    cpu: float = 0.7
    start: float = 60.0
    least: int = 2
    most: int = 100
    every: float = 15.0
    calm: float = 300.0


def scale(env: simpy.Environment, fleet: Fleet, scaling: Scaling) -> Process:
    """Start and drain replicas."""
    wanted: deque[tuple[float, int]] = deque()
    busy: dict[int, float] = {}
    seen = 0.0
    starting: list[float] = []
    removed = -math.inf
    while True:
        yield env.timeout(scaling.every)
        ready = fleet.ready
        starting = [moment for moment in starting if moment > env.now]
        count = len(ready) + len(starting)
        # Metrics are scraped and averaged: what is known is a look old.
        if scaling.requests:
            known, seen = seen, sum(fleet.loads[each] for each in ready) / scaling.requests
        else:
            now = {each: fleet.replicas[each].busy_seconds() for each in ready}
            share = sum(now[each] - busy.get(each, 0.0) for each in ready) / scaling.every
            known, seen, busy = seen, share / scaling.cpu, now
        desired = count if abs(known / count - 1) <= 0.1 else math.ceil(known)
        desired = min(max(desired, scaling.least), scaling.most)
        wanted.append((env.now, desired))
        while wanted[0][0] < env.now - scaling.calm:
            wanted.popleft()
        if desired > count:
            for _ in range(min(desired - count, max(count, 4))):
                starting.append(env.now + scaling.start)
                env.process(fleet.start_after(scaling.start))
        elif max(number for _, number in wanted) < count and env.now - removed >= 60.0:
            removed = env.now
            env.process(fleet.drain(min(ready, key=fleet.loads.__getitem__)))
