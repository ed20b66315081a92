"""Waiting in streams: clients that do not read, graphs that are full, cancelling."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import NoClient
from graph_runtime import Calculator, CalculatorContext, In, Out, RunError
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    asking,
    one_node,
    passing,
    served,
    session,
    tensor,
    values,
)


class SlowClient(NoClient):
    """A client that reads nothing until `read`."""

    def __init__(self) -> None:
        self._can = asyncio.Event()
        self.asked = asyncio.Event()

    @property
    def is_writable(self) -> bool:  # type: ignore[override]
        return self._can.is_set()

    async def writable(self) -> None:
        self.asked.set()
        await self._can.wait()

    def read(self) -> None:
        self._can.set()

    def stall(self) -> None:
        self._can.clear()


class Gate(Calculator):
    """Passes a packet on when the test allows it."""

    packet = In[Any]()
    passed = Out[Any]()
    began: asyncio.Event
    free: asyncio.Semaphore
    closed: int

    @classmethod
    def prepare(cls) -> None:
        cls.began, cls.free, cls.closed = asyncio.Event(), asyncio.Semaphore(0), 0

    async def process(self, cc: CalculatorContext) -> None:
        self.began.set()
        await self.free.acquire()
        cc.emit(self.passed, cc.get(self.packet))

    def close(self, cc: CalculatorContext) -> None:
        type(self).closed += 1


class Endless(Calculator):
    """Sends numbers for ever after the first packet, in cycles."""

    packet = In[Any]()
    again = In[bool]("LOOPBACK")
    number = Out[int]()
    next_turn = Out[bool]("LOOPBACK")
    timestamp_offset = None
    sent: int

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.number, self.sent, at=self.sent)
        cc.emit(self.next_turn, True, at=self.sent)
        type(self).sent += 1


ENDLESS = """
input_stream: "in" output_stream: "out"
node {
  calculator: "Endless" input_stream: "in" input_stream: "LOOPBACK:loop"
  output_stream: "out" output_stream: "LOOPBACK:loop"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }
}
"""


def one(value: int = 1) -> Any:
    return tensor("in", [value])


async def turns(count: int = 100) -> None:
    """Give all tasks several turns."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_no_request_is_accepted_while_the_client_does_not_read(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        client = SlowClient()
        async with session(graph, client) as stream:
            sending = asyncio.create_task(stream.send(one()))
            await client.asked.wait()
            await turns()
            assert not sending.done()
            client.read()
            await sending
            assert values(await stream.finish()) == [("out", [1])]

    served(tmp_path, passing(), scenario)


def test_a_graph_pauses_while_the_client_does_not_read(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        Endless.sent = 0
        client = SlowClient()
        client.read()
        async with session(graph, client) as stream:
            await stream.send(one())
            client.stall()
            await client.asked.wait()
            await turns()
            sent = Endless.sent
            await turns()
            assert Endless.sent == sent == len(stream.answers)
            client.read()
            await turns()
            assert Endless.sent > sent

    served(tmp_path, ENDLESS, scenario, Endless)


def test_send_waits_while_the_queues_are_full_without_blocking_the_loop(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        Gate.prepare()

        async def send_all(stream: Any) -> None:
            for each in range(10):
                await stream.send(one(each))
                sent.append(each)

        sent: list[int] = []
        async with session(graph) as stream:
            sending = asyncio.create_task(send_all(stream))
            await Gate.began.wait()
            await turns()
            # One in the node, two in its queue.
            assert (len(sent), sending.done()) == (3, False)
            Gate.free.release()
            await turns()
            assert len(sent) == 4
            for _ in range(9):
                Gate.free.release()
            await sending
            answers = await stream.finish()
        assert values(answers) == [("out", [each]) for each in range(10)]

    served(tmp_path, "max_queue_size: 2 " + one_node("Gate"), scenario, Gate)


def test_queues_that_wait_for_another_input_grow(tmp_path: Path) -> None:
    def add(left: Any, right: Any) -> Any:
        return left + right

    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph) as stream:
            for each in range(10):
                await stream.send(tensor("left", [each]), OVMS_MP_TIMESTAMP=each)
            for each in range(10):
                await stream.send(tensor("right", [each]), OVMS_MP_TIMESTAMP=each)
            answers = await stream.finish()
        assert values(answers) == [("sum", [2 * each]) for each in range(10)]

    text = "max_queue_size: 2 " + one_node("add", "left right", "sum")
    served(tmp_path, text, scenario, add)


def test_a_failing_run_ends_a_send_that_waits_for_the_client(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def fail(packet: Any) -> Any:
        await go_on.wait()
        raise ValueError("broken")

    async def scenario(graph: LoadedGraph) -> None:
        client = SlowClient()
        client.read()
        async with session(graph, client) as stream:
            await stream.send(one())
            client.stall()
            sending = asyncio.create_task(stream.send(one()))
            await client.asked.wait()
            go_on.set()
            with pytest.raises(RunError, match="broken"):
                await sending

    served(tmp_path, one_node("fail"), scenario, fail)


def test_leaving_the_stream_cancels_the_run(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        Gate.prepare()
        async with session(graph) as stream:
            await stream.send(one())
            await Gate.began.wait()
        assert (Gate.closed, graph.users.requests) == (1, 0)

    served(tmp_path, one_node("Gate"), scenario, Gate)


def test_leaving_a_paused_stream_cancels_the_run(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        Endless.sent = 0
        client = SlowClient()
        client.read()
        async with session(graph, client) as stream:
            await stream.send(one())
            client.stall()
            await client.asked.wait()
        assert graph.users.requests == 0

    served(tmp_path, ENDLESS, scenario, Endless)


@pytest.mark.parametrize("call", ["send", "wait"])
def test_cancelling_a_waiting_send_ends_the_run(tmp_path: Path, call: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        Gate.prepare()

        async def use() -> None:
            async with graph.open_stream(asking(), NoClient(), print) as stream:
                await stream.send(asking(one()))
                while call == "send":
                    await stream.send(asking(one()))
                stream.close_inputs()
                await stream.wait()

        using = asyncio.create_task(use())
        await Gate.began.wait()
        await turns()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert (Gate.closed, graph.users.requests) == (1, 0)

    served(tmp_path, "max_queue_size: 2 " + one_node("Gate"), scenario, Gate)
