"""Graphs of which one branch answers: what the server knows of them, and what it says."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import Calculator, CalculatorContext, GraphConfigError, In, Out
from servers.config import find_graph
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph
from tests.servers.serving.served_graphs import Initializer, make_registry

ENDS = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
"""
BRANCHES = """
node { name: "choice" calculator: "CHOICE" input_stream: "input"
       output_stream: "A:a" output_stream: "B:b" }
node { name: "teller" calculator: "Tell" input_stream: "HTTP_REQUEST_PAYLOAD:a"
       output_stream: "HTTP_RESPONSE_PAYLOAD:from_a" input_side_packet: "TEST_RESOURCES:r" }
node { name: "other" calculator: "Tell" input_stream: "HTTP_REQUEST_PAYLOAD:b"
       output_stream: "HTTP_RESPONSE_PAYLOAD:from_b" input_side_packet: "TEST_RESOURCES:r" }
node { name: "join" calculator: "MergeCalculator" input_stream: "from_a" input_stream: "from_b"
       output_stream: "output" }
"""
#: Its last node waits for an answer of a node that nobody asks.
WAITING = """
node { name: "choice" calculator: "Left" input_stream: "input"
       output_stream: "A:a" output_stream: "B:b" }
node { name: "loop" calculator: "Looping" input_stream: "b" input_stream: "LOOPBACK:again"
       output_stream: "c" output_stream: "LOOPBACK:again" }
node { name: "tell" calculator: "PathOf" input_stream: "a" output_stream: "d" }
node { name: "join" calculator: "MergeCalculator" input_stream: "c" input_stream: "d"
       output_stream: "output" }
"""


class Left(Calculator):
    """Sends every request to A, and promises nothing."""

    request = In[HttpPayload]()
    a = Out[HttpPayload]("A")
    b = Out[HttpPayload]("B")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.a, cc.get(self.request))


class Chooser(Left):
    chooses_output = True


class Looping(Calculator):
    request = In[HttpPayload]()
    turn = In[bool]("LOOPBACK")
    text = Out[str]()
    next_turn = Out[bool]("LOOPBACK")
    timestamp_offset = None
    sync_sets = (("LOOPBACK",),)

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.text, "looped")


class PathOf(Calculator):
    """Answers with the request's path."""

    request = In[HttpPayload]()
    text = Out[str]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.text, cc.get(self.request).uri)


async def loaded(folder: Path, text: str, initializer: Initializer) -> LoadedGraph:
    (folder / "graph.pbtxt").write_text(ENDS + text)
    registry = make_registry(initializer)
    for calculator in (Left, Chooser, Looping, PathOf):
        registry.register_calculator(calculator)
    return await load_graph(find_graph(folder), registry, GraphSettings())


@pytest.mark.parametrize(("choice", "is_enough"), [("Chooser", True), ("Left", False)])
def test_a_graph_that_chooses_is_ready_while_one_branch_can_answer(
    tmp_path: Path, choice: str, is_enough: bool
) -> None:
    async def scenario() -> None:
        initializer = Initializer()
        graph = await loaded(tmp_path, BRANCHES.replace("CHOICE", choice), initializer)
        first, second = initializer.made
        assert graph.is_ready()
        first.unavailable_reason = "it is starting again"
        assert graph.is_ready() is is_enough
        second.unavailable_reason = "it is down"
        assert graph.unavailable_reason == "it is starting again"
        await graph.close()

    asyncio.run(scenario())


def test_a_missing_answer_names_what_waits_and_the_log_has_the_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        graph = await loaded(tmp_path, WAITING, Initializer())
        packets: list[ResponsePacket] = []
        with pytest.raises(RequestError) as caught:
            await graph.answer(HttpPayload("/v3/x", {}), packets.append)
        told = (
            'gave no answer: node "join" holds "d" and waits for "c", which node "loop" has not '
            'settled; node "loop" did not run: nothing came on "b"'
        )
        assert told in str(caught.value)
        assert packets == []
        await graph.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert 'node "join" holds "d" at 0 and waits for "c", which node "loop" has' in caplog.text
    assert "beyond Timestamp::PreStream()" in caplog.text


def test_a_join_that_certainly_waits_is_refused_at_load(tmp_path: Path) -> None:
    text = WAITING.replace('"Left"', '"Chooser"').replace(
        'calculator: "PathOf" input_stream: "a"',
        'calculator: "Looping" input_stream: "a" input_stream: "LOOPBACK:l" '
        'output_stream: "LOOPBACK:l"',
    )
    with pytest.raises(GraphConfigError, match='node "choice" sends each packet to one of these'):
        asyncio.run(loaded(tmp_path, text, Initializer()))
