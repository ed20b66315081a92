"""Traces: valid Chrome trace JSON with a lane per node and arrows along packets."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from graph_runtime import CalculatorGraph, Registry, RunError, StateError, Tracer
from tests.graph_runtime.small_calculators import one_node
from tests.support.patience import PATIENCE

GRAPH = """
    input_stream: "in"
    node { name: "first" calculator: "Double" input_stream: "in" output_stream: "middle" }
    node { calculator: "SlowDouble" input_stream: "middle" output_stream: "out" }
    node { name: "join" calculator: "Join" input_stream: "LEFT:in" input_stream: "RIGHT:out"
           output_stream: "end" executor: "pool" }
    executor { name: "pool" type: "ThreadPoolExecutor"
               options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }
"""


def traced(registry: Registry, tracer: Tracer, runs: int = 1) -> list[dict[str, Any]]:
    graph = CalculatorGraph(text_config=GRAPH, registry=registry)
    graph.trace(tracer)
    for _ in range(runs):
        graph.start_run()
        for time in range(3):
            graph.add_packet_to_input_stream("in", time, time)
        graph.close()
    events: list[dict[str, Any]] = json.loads(json.dumps(tracer.to_json()))["traceEvents"]
    return events


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == kind]


def test_each_node_has_a_lane(registry: Registry) -> None:
    events = traced(registry, Tracer())
    lanes = {
        event["tid"]: event["args"]["name"]
        for event in of_kind(events, "M")
        if event["name"] == "thread_name"
    }

    assert sorted(lanes.values()) == ["SlowDouble", "first (Double)", "join (Join)"]
    assert {event["tid"] for event in events if event["ph"] in "Xsf"} == set(lanes)
    assert len({event["pid"] for event in events}) == 1


def test_every_call_is_a_complete_event(registry: Registry) -> None:
    calls = of_kind(traced(registry, Tracer()), "X")
    names = [event["name"] for event in calls]

    for node in ("first", "SlowDouble", "join"):
        assert names.count(f"{node}.open") == 1
        assert names.count(f"{node}.process") >= 3
        assert names.count(f"{node}.close") == 1
    for event in calls:
        assert event["dur"] >= 0
        assert event["ts"] >= 0
    second = next(e for e in calls if e["name"] == "first.process" and e["args"]["timestamp"] == 1)
    assert (second["args"]["received"], second["args"]["sent"]) == (["in @ 1"], ["middle @ 1"])
    assert next(e for e in calls if e["name"] == "join.open")["args"]["timestamp"] == "UNSTARTED"


def test_arrows_lead_from_the_sending_to_the_receiving_call(registry: Registry) -> None:
    events = traced(registry, Tracer())
    calls = of_kind(events, "X")
    starts = {event["id"]: event for event in of_kind(events, "s")}
    ends = of_kind(events, "f")

    assert len(starts) == len(of_kind(events, "s"))
    # "end" has no receiver, and no node's call sent "in".
    assert {event["name"] for event in starts.values()} == {"middle", "out"}
    assert len(ends) == 6
    for end in ends:
        start = starts[end["id"]]
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert start["ts"] <= end["ts"]
        assert end["bp"] == "e"
    for flow in (*starts.values(), *ends):
        assert any(
            call["tid"] == flow["tid"] and call["ts"] <= flow["ts"] <= call["ts"] + call["dur"]
            for call in calls
        )


def test_a_trace_is_written_to_a_file(registry: Registry, tmp_path: Path) -> None:
    tracer = Tracer()
    traced(registry, tracer)
    tracer.save(tmp_path / "run.json")

    assert json.loads((tmp_path / "run.json").read_text()) == tracer.to_json()


def test_the_newest_calls_are_kept(registry: Registry) -> None:
    tracer = Tracer(capacity=5)
    calls = of_kind(traced(registry, tracer, runs=3), "X")

    assert len(calls) == 5
    assert "join.close" in [event["name"] for event in calls]


def test_several_runs_follow_one_another(registry: Registry) -> None:
    events = traced(registry, Tracer(), runs=2)
    opens = [event["ts"] for event in of_kind(events, "X") if event["name"] == "first.open"]

    assert len(opens) == 2
    assert opens[0] < opens[1]
    assert len(of_kind(events, "f")) == 12


def test_a_call_that_fails_is_traced(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("FailAt"), registry=registry)
    tracer = Tracer()
    graph.trace(tracer)
    graph.start_run()
    with pytest.raises(StateError, match="while no run is going on"):
        graph.trace(Tracer())
    graph.add_packet_to_input_stream("in", 1, 0)
    with pytest.raises(RunError):
        graph.close()

    calls = of_kind(tracer.to_json()["traceEvents"], "X")
    assert [event["name"] for event in calls] == ["FailAt.open", "FailAt.process"]


def test_overlapping_calls_of_a_node_get_lanes_of_their_own(registry: Registry) -> None:
    both_run = threading.Barrier(2)

    def meet(value: int) -> int:
        both_run.wait(timeout=PATIENCE)
        return value

    registry.register_calculator(meet, "Meet")
    tracer = Tracer()
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in"
            num_threads: 2
            node { calculator: "Meet" input_stream: "in" output_stream: "out" max_in_flight: 2 }
        """,
        registry=registry,
    )
    graph.trace(tracer)
    graph.start_run()
    for time in range(2):
        graph.add_packet_to_input_stream("in", time, time)
    graph.close()

    events = tracer.to_json()["traceEvents"]
    calls = [event for event in of_kind(events, "X") if event["cat"] == "process"]
    names = {
        event["tid"]: event["args"]["name"]
        for event in of_kind(events, "M")
        if event["name"] == "thread_name"
    }
    assert sorted(names[event["tid"]] for event in calls) == ["Meet", "Meet #2"]
