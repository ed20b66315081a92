"""Metrics of nodes, and metrics that authors' calculators define."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import METRICS, CalculatorGraph, NodeMetrics, Packet, RunTotals
from servers.operations.metrics.families import CounterFamily, Families
from servers.operations.metrics.server_metrics import (
    SERIES_LIMIT,
    GraphNodeMetrics,
    Served,
    ServerMetrics,
)
from tests.servers.operations.metrics.metered_server import Metered, registry, serving
from tests.servers.serving.served_graphs import Wait, http_graph
from tests.support.checkout import ROOT

DOCUMENT = ROOT / "docs" / "metrics.md"
CHAT = "/v3/chat/completions"


def metrics(*kept: str) -> NodeMetrics:
    return GraphNodeMetrics(Families(), "g", frozenset(kept)).of_node("n")


def test_calls_and_times_of_nodes_are_counted(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        node = {"graph": "echo", "node": "node"}
        assert await server.value("graphrt_node_calls_total", **node) == 0
        for _ in range(3):
            await server.ask("POST", CHAT, {"model": "echo"})
        # Open, process and close of each run.
        assert await server.value("graphrt_node_calls_total", **node) == 9
        assert 0 < await server.value("graphrt_node_seconds_total", **node) < 60

    serving(tmp_path, scenario)


def test_a_running_run_counts_and_no_counter_falls_when_it_ends() -> None:
    graph = CalculatorGraph(text_config=http_graph("Wait"), registry=registry())
    server = ServerMetrics()
    runs = server.begin_graph("g", graph.plan)
    graph.count_into(runs.totals)

    def calls() -> float:
        lines = server.text().body.decode().splitlines()
        (line,) = (line for line in lines if line.startswith("graphrt_node_calls_total{"))
        return float(line.rpartition(" ")[2])

    async def run() -> None:
        Wait.began, Wait.go_on, Wait.closed = asyncio.Event(), asyncio.Event(), 0
        server.served = lambda: [Served("g", True)]
        assert calls() == 0
        await graph.start_run_async()
        graph.add_packet_to_input_stream("input", HttpPayload("/", {}), 0)
        await Wait.began.wait()
        assert calls() == 1  # open; process has not returned
        Wait.go_on.set()
        await graph.wait_until_idle_async()
        assert calls() == 2
        assert runs.totals.nodes[0].calls == 0
        graph.close_all_packet_sources()
        await graph.wait_until_done_async()
        assert calls() == 3
        server.end_graph(runs)
        assert calls() == 3
        again = server.begin_graph("g", graph.plan)  # a reload
        assert calls() == 3
        server.end_graph(again)

    asyncio.run(run())


def test_packets_that_wait_for_a_node_are_counted() -> None:
    graph = CalculatorGraph(
        text_config=http_graph("Wait") + 'input_stream: "extra"', registry=registry()
    )
    totals = RunTotals(graph.plan)
    graph.count_into(totals)

    async def run() -> None:
        Wait.began, Wait.go_on, Wait.closed = asyncio.Event(), asyncio.Event(), 0
        await graph.start_run_async()
        for time in range(4):
            graph.add_packet_to_input_stream("input", HttpPayload("/", {}), time)
        await Wait.began.wait()
        assert totals.queued() == [3]
        Wait.go_on.set()
        graph.close_all_packet_sources()
        await graph.wait_until_done_async()
        assert totals.queued() == [0]
        assert totals.nodes[0].calls == 6

    asyncio.run(run())


def test_packets_dropped_by_limiters_are_counted() -> None:
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in" input_stream: "finished" output_stream: "out"
            node {
              name: "limiter" calculator: "FlowLimiterCalculator"
              input_stream: "in" input_stream: "FINISHED:finished"
              input_stream_info { tag_index: "FINISHED" back_edge: true }
              output_stream: "out"
            }"""
    )
    totals = RunTotals(graph.plan)
    graph.count_into(totals)
    graph.start_run()
    for time in range(5):
        graph.add_packet_to_input_stream("in", Packet(time), time)
    graph.close()
    assert totals.counters == {"limiter-dropped": 4}


def test_packets_dropped_by_a_queue_of_fixed_size_are_counted() -> None:
    graph = CalculatorGraph(
        text_config="""
            input_stream: "a" input_stream: "b" output_stream: "x"
            node {
              name: "pass" calculator: "PassThroughCalculator"
              input_stream: "a" input_stream: "b" output_stream: "x" output_stream: "y"
              input_stream_handler { input_stream_handler: "FixedSizeInputStreamHandler" }
            }"""
    )
    totals = RunTotals(graph.plan)
    graph.count_into(totals)
    graph.start_run()
    for time in range(6):
        graph.add_packet_to_input_stream("a", Packet(time), time)
    graph.wait_until_idle()
    graph.close()
    assert totals.nodes[0].dropped == 5


def test_an_authors_calculator_has_metrics(tmp_path: Path) -> None:
    async def scenario(server: Metered) -> None:
        for text in ("aBc", "abcdefgh"):
            await server.ask("POST", CHAT, {"model": "letters", "text": text, "stream": True})
        place = {"graph": "letters", "node": "node"}
        assert await server.value("letters_total", **place) == 11
        assert await server.value("last_text_letters", **place) == 8
        assert await server.value("text_letters_bucket", le="5.0", **place) == 1
        assert await server.value("text_letters_bucket", le="10.0", **place) == 2
        assert await server.value("text_letters_sum", **place) == 11
        assert await server.value("letters_by_case_total", upper="True", **place) == 1

    serving(tmp_path, scenario)


def test_without_a_server_metrics_do_nothing() -> None:
    graph = CalculatorGraph(text_config=http_graph("Letters"), registry=registry())
    seen: list[str] = []
    graph.observe_output_stream("output", lambda stream, packet: seen.append(packet.value))
    graph.start_run()
    payload = HttpPayload("/", {}, parsed_json={"text": "ab"})
    graph.add_packet_to_input_stream("input", payload, 0)
    graph.close()
    assert seen == ["data: a\n\n", "data: b\n\n"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ovms_streams", "choose another name"),
        ("process_mine", "choose another name"),
        ("graphrt_kept", "choose another name"),
        ("a-b", "letters, digits"),
        ("", "letters, digits"),
    ],
)
def test_invalid_names_are_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        metrics("graphrt_kept").gauge(name, "What it is.")


def test_a_metric_has_one_kind_and_one_set_of_bounds() -> None:
    node = metrics()
    node.histogram("seconds", "Time.", bounds=(1, 2))
    with pytest.raises(ValueError, match="already a histogram"):
        node.gauge("seconds", "Time.")
    with pytest.raises(ValueError, match="already a histogram with other bounds"):
        node.histogram("seconds", "Time.", bounds=(1, 3))
    with pytest.raises(ValueError, match="must rise"):
        node.histogram("minutes", "Time.", bounds=(2, 1))
    with pytest.raises(ValueError, match='cannot have the label "graph"'):
        node.gauge("level", "Level.", {"graph": "other"})


def test_the_number_of_label_values_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    families = Families()
    node = GraphNodeMetrics(families, "g", frozenset()).of_node("n")
    with caplog.at_level(logging.WARNING):
        for number in range(SERIES_LIMIT + 50):
            node.counter("asked", "What was asked.", {"text": str(number)}).add()
    (family,) = families
    assert len(family) == SERIES_LIMIT
    assert len(caplog.records) == 1
    first = node.counter("asked", "What was asked.", {"text": "0"})
    first.add()
    assert isinstance(first, CounterFamily)
    assert first.value == 2


def test_followed_counters_are_kept_and_gauges_fall_to_zero() -> None:
    node = metrics()
    counter, gauge = node.counter("c", "C."), node.gauge("g", "G.")
    assert isinstance(counter, CounterFamily)
    first, second = [3.0], [4.0]
    end_first = counter.follow(lambda: first[0])
    end_second = counter.follow(lambda: second[0])
    counter.add(10)
    assert counter.value == 17
    first[0] = 5
    end_first()
    end_first()
    first[0] = 100
    assert counter.value == 19
    end_second()
    assert counter.value == 19
    end_old = gauge.follow(lambda: 1)
    end_new = gauge.follow(lambda: 2)
    end_old()
    assert gauge.value == 2  # type: ignore[attr-defined]
    end_new()
    assert gauge.value == 0  # type: ignore[attr-defined]


def test_the_example_of_the_document_works() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)
    made = registry()
    made.register_calculator(found["WordCounter"])
    families = Families()
    graph = CalculatorGraph(
        text_config="""
            input_stream: "text"
            node { name: "n" calculator: "WordCounter" input_stream: "TEXT:text" }""",
        registry=made,
        services={METRICS: GraphNodeMetrics(families, "g", frozenset())},
    )
    graph.start_run()
    graph.add_packet_to_input_stream("text", "three words here", 0)
    graph.close()
    lines: list[str] = []
    for family in families:
        for series in family:
            series.write(lines)
    assert lines == ['words_total{graph="g",node="n"} 3.0\n']
