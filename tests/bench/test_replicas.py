"""The model of what replicas cost, and the balancer of the benchmark."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from bench.replicas import Costs, Run, balance, between


def run_of(engine: float, fronts: float, tokens: float, at_once: float) -> Run:
    cpu = {"engine": engine, "server": fronts, "prompts": 0.0}
    return Run(1000.0, 10.0, cpu, 2.0, tokens, at_once, 1.0)


def test_two_lengths_of_answers_give_the_costs_of_a_request_and_of_a_token() -> None:
    def fronts(tokens: float) -> float:
        return 1000 / tokens + 20

    curve = {each: run_of(400.0, fronts(200), 200.0, each) for each in (1, 16, 64)}
    short, two = run_of(900.0, fronts(8), 8.0, 15.0), run_of(500.0, fronts(200) + 3, 200.0, 30.0)
    costs = Costs.of(curve, short, two)
    assert costs.per_request == pytest.approx(1000)
    assert costs.per_token == pytest.approx(20)
    assert costs.fronts[64] == pytest.approx(25)
    # A step costs 3,000 us more where cores are shared.
    assert costs.said(1, 40) == pytest.approx((400, 25))
    assert costs.said(2, 30) == pytest.approx((500, 28))
    assert costs.said(4, 16) == pytest.approx((400 + 3000 / 16, 25 + 90 / 16))


def test_the_engine_costs_less_per_token_the_more_requests_it_has() -> None:
    engine = {1.0: 1000.0, 16.0: 600.0, 64.0: 400.0}
    assert between(engine, 1) == 1000
    assert between(engine, 4) == pytest.approx(800)  # half of the way, by ratios
    assert between(engine, 32) == pytest.approx(500)
    assert (between(engine, 0.5), between(engine, 128)) == (1000, 400)


def test_connections_go_to_the_replicas_in_turn_with_all_their_bytes() -> None:
    async def scenario() -> list[bytes]:
        servers = []
        for name in (b"a:", b"b:"):

            async def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: bytes = name
            ) -> None:
                writer.write(name + await reader.readline())
                writer.close()

            servers.append(await asyncio.start_server(accept, "127.0.0.1", 0))
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        balancing = asyncio.create_task(balance(ports, port.set_result))
        found = []
        for number in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", await port)
            writer.write(b"%d\n" % number)
            found.append(await reader.read())
            writer.close()
        balancing.cancel()
        with suppress(asyncio.CancelledError):
            await balancing
        for server in servers:
            server.close()
        return found

    assert asyncio.run(scenario()) == [b"a:0\n", b"b:1\n", b"a:2\n", b"b:3\n"]
