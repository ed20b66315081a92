"""The simulation of clusters agrees with queueing theory, and does what its parts promise."""

from __future__ import annotations

import math
import random
import re
from itertools import pairwise
from statistics import mean

import pytest

pytest.importorskip("simpy", reason="the extra `dev` has it")

import simpy

from bench.cluster_model import (
    BURSTS,
    ROUTES,
    Cluster,
    Engine,
    Fleet,
    Front,
    Process,
    Replica,
    Request,
    Scaling,
    Traffic,
    at_random,
    by_prefix,
    least_loaded,
    least_of_two,
    scale,
)
from bench.cluster_simulation import STEADY, report, simulate
from tests.support.checkout import ROOT


def served(engine: Engine, rate: float, count: int, seed: int = 1) -> list[Request]:
    """Return requests of exponential work 1 that came to one replica as a Poisson process."""
    env = simpy.Environment()
    replica = Replica(env, engine)
    chance = random.Random(seed)
    requests: list[Request] = []

    def arrivals() -> Process:
        for number in range(count):
            yield env.timeout(chance.expovariate(rate))
            request = Request(number, 0.0, chance.expovariate(1.0), env.now, env.event())
            requests.append(request)
            replica.add(request)

    env.process(arrivals())
    env.run()
    return requests


def erlang_c(servers: int, load: float) -> float:
    """Return the probability of a wait in M/M/c, ``load`` being arrivals times the mean service."""
    terms = [load**n / math.factorial(n) for n in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("servers", "use"), [(1, 0.6), (2, 0.6), (4, 0.6)])
def test_waits_are_those_of_m_m_c(servers: int, use: float) -> None:
    engine = Engine(1.0, spread=0, slots=servers, prompt_cost=0)
    requests = served(engine, servers * use, 60_000)
    waits = [each.started - each.arrived for each in requests]
    # With the load that chance has made, the formula is met closer.
    service = mean(each.output for each in requests)
    load = len(requests) / requests[-1].arrived * service
    probability = erlang_c(servers, load)
    assert mean(wait > 0 for wait in waits) == pytest.approx(probability, rel=0.02)
    assert mean(waits) == pytest.approx(probability * service / (servers - load), rel=0.05)


@pytest.mark.parametrize("use", [0.5, 0.7])
def test_times_of_a_shared_processor_are_those_of_m_m_1_ps(use: float) -> None:
    # A rate that does not depend on the number of requests.
    engine = Engine(1.0, spread=1e-9, slots=10**9, prompt_cost=0)
    requests = served(engine, use, 60_000)
    times = [each.ended - each.arrived for each in requests]
    assert mean(times) == pytest.approx(1 / (1 - use), rel=0.05)
    # A request that is twice as long takes twice as long: the share is fair.
    long = [each for each in requests if each.output > 2]
    slowness = mean((each.ended - each.arrived) / each.output for each in long)
    assert slowness == pytest.approx(1 / (1 - use), rel=0.05)


def test_a_prompt_gets_its_share_of_a_step() -> None:
    env = simpy.Environment()
    engine = Engine(100.0, spread=1e-9, prompt_cost=0.5, prompt_share=4)
    replica = Replica(env, engine)
    answer = Request(1, 0.0, 1000.0, 0.0, env.event())
    prompt = Request(2, 80.0, 1.0, 0.0, env.event())
    replica.add(answer)
    replica.add(prompt)
    env.run(until=prompt.done)
    # 40 of work at four fifths of 100 per second.
    assert prompt.first == pytest.approx(0.5)


def test_a_replica_forgets_the_conversation_that_it_answered_longest_ago() -> None:
    env = simpy.Environment()
    replica = Replica(env, Engine(100.0, cache=250))

    def ask(conversation: int, prompt: float) -> Request:
        request = Request(conversation, prompt, 10.0, env.now, env.event())
        replica.add(request)
        env.run(until=request.done)
        return request

    assert ask(1, 100).cached == 0
    assert ask(1, 150).cached == 110
    assert ask(2, 200).cached == 0
    assert ask(1, 200).cached == 0
    assert ask(1, 100).cached == 100


def test_bursts_have_the_mean_rate() -> None:
    chance = random.Random(3)
    times = []
    for moment in Traffic(2.0, BURSTS).arrivals(chance):
        if moment > 30_000:
            break
        times.append(moment)
    assert len(times) / 30_000 == pytest.approx(2.0, rel=0.03)
    in_bursts = [moment for moment in times if moment % 300 >= 240]
    assert len(in_bursts) / len(times) == pytest.approx(0.6, rel=0.03)


def fleet_with(loads: list[float]) -> tuple[Front, Fleet, Request]:
    env = simpy.Environment()
    fleet = Fleet(env, Engine(100.0), len(loads))
    fleet.loads[:] = loads
    request = Request(1, 10.0, 10.0, 0.0, env.event())
    return Front(fleet, at_random, 1), fleet, request


def test_routing_sends_nothing_to_replicas_that_go() -> None:
    front, _, request = fleet_with([math.inf, 5, math.inf, 1, math.inf])
    for choose in (*ROUTES.values(), least_of_two):
        assert {choose(front, request) for _ in range(50)} <= {1, 3}
    assert {least_loaded(front, request) for _ in range(50)} == {3}


def test_a_conversation_goes_home_unless_its_replica_is_busier_by_the_slack() -> None:
    front, fleet, request = fleet_with([8, 0])
    front.homes[1] = 0
    assert by_prefix(front, request) == 0
    fleet.loads[0] = 9
    assert by_prefix(front, request) == 1
    fleet.loads[0] = math.inf
    assert by_prefix(front, request) == 1


def test_a_front_that_looks_rarely_knows_what_it_sent_itself() -> None:
    env = simpy.Environment()
    fleet = Fleet(env, Engine(100.0), 2)
    mine, other = (Front(fleet, least_loaded, seed) for seed in (1, 2))
    for front in (mine, other):
        env.process(front.look_every(env, 10))
    env.run(until=10)
    for number in range(4):
        mine.send(Request(number, 10.0, 10.0, 10.0, env.event()))
    assert fleet.loads == [2, 2]
    for number in range(2):
        other.send(Request(number, 10.0, 10.0, 0.0, env.event()))
    assert mine.loads == [2, 2]
    assert fleet.loads == [3, 3]


def test_routing_does_not_change_what_is_asked() -> None:
    def asked(route: str) -> set[tuple[int, float, float]]:
        env = simpy.Environment()
        fleet = Fleet(env, Engine(450.0), 4)
        cluster = Cluster(env, fleet, [Front(fleet, ROUTES[route], 1)], Traffic(0.4), seed=5)
        cluster.run(300)
        return {
            (each.conversation, each.prompt, each.output)
            for each in cluster.requests
            if each.conversation < 50
        }

    assert len(asked("random") ^ asked("prefix")) < 10


def test_the_same_seed_gives_the_same_figures() -> None:
    one, two = (simulate(4, ROUTES["prefix"], BURSTS, 200) for _ in range(2))
    assert one == two


def test_a_fixed_fleet_costs_its_replicas_for_the_whole_time() -> None:
    assert simulate(4, at_random, STEADY, 180).hours == pytest.approx(4 * 180 / 3600)


def scaled(start: float) -> tuple[Cluster, list[tuple[float, int]]]:
    env = simpy.Environment()
    fleet = Fleet(env, Engine(450.0), 2)
    scaling = Scaling(requests=4, start=start, most=12, calm=60.0)
    env.process(scale(env, fleet, scaling))
    counts: list[tuple[float, int]] = []

    def watch() -> Process:
        while True:
            yield env.timeout(1.0)
            counts.append((env.now, len(fleet.ready)))

    env.process(watch())
    traffic = Traffic(4.0, ((120.0, 1.0), (2000.0, 0.0)))
    cluster = Cluster(env, fleet, [Front(fleet, by_prefix, 1)], traffic, seed=5)
    cluster.run(1200)
    return cluster, counts


def test_the_autoscaler_follows_the_load_after_its_lag_and_goes_back() -> None:
    cluster, counts = scaled(start=40.0)
    # A look every 15 seconds that sees the load of the one before, and the start.
    first = next(moment for moment, count in counts if count > 2)
    assert first >= 30 + 40
    assert max(count for _, count in counts) == 12
    assert counts[-1][1] == 2
    falls = [later for (_, many), (later, few) in pairwise(counts) if few < many]
    assert len(falls) == 10
    assert min(later - one for one, later in pairwise(falls)) >= 59
    # A replica that went answered what it had.
    assert all(replica.requests == 0 for replica in cluster.fleet.replicas)
    assert cluster.fleet.replica_seconds < 12 * 1200


def test_a_slow_start_makes_more_requests_late() -> None:
    quick, slow = (scaled(start=start)[0].requests for start in (5.0, 150.0))
    wait = [mean(each.first - each.arrived for each in requests) for requests in (quick, slow)]
    assert wait[0] < wait[1]


def test_the_committed_table_is_that_of_the_code() -> None:
    text = (ROOT / "bench/cluster_simulation.md").read_text("utf-8")
    figures = simulate(10, by_prefix, STEADY, 900)
    begin = f"| 10 | steady | prefix | {figures.requests:,} | {figures.median * 1e3:,.0f} |"
    assert begin in text
    short = report(is_short=True)
    titles = re.findall(r"^## ([^:\n]*)", short, re.M)
    assert titles == re.findall(r"^## ([^:\n]*)", text, re.M)
    heads = re.findall(r"^\|.*\n(?=\|---)", short, re.M)
    assert heads == re.findall(r"^\|.*\n(?=\|---)", text, re.M)
