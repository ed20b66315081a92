"""Ends of runs: closing, cancelling, pausing, errors and their callback, context managers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from graph_runtime import (
    CalculatorContext,
    CalculatorGraph,
    Cancelled,
    Code,
    GraphError,
    Registry,
    RunError,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.small_calculators import Forward, one_node
from tests.support.patience import PATIENCE


@pytest.fixture
def graph(registry: Registry) -> CalculatorGraph:
    return CalculatorGraph(text_config=one_node("Forward"), registry=registry)


def run_once(graph: CalculatorGraph, value: Any = "x") -> None:
    graph.start_run()
    graph.add_packet_to_input_stream("in", value, 0)
    graph.close()


def test_a_restarted_graph_begins_anew(graph: CalculatorGraph) -> None:
    sink = Sink(graph, "out")
    for value in "ab":
        run_once(graph, value)
    assert sink.pairs == [(0, "a"), (0, "b")]


def test_cancel_ends_with_an_error_of_its_own(graph: CalculatorGraph) -> None:
    graph.start_run()
    graph.cancel()
    graph.cancel()
    text = "CalculatorGraph::Run() failed: \nthe run was cancelled"
    assert graph.get_combined_error_message() == text
    with pytest.raises(RunError) as caught:
        graph.wait_until_done()
    assert [type(error) for error in caught.value.errors] == [Cancelled]
    assert caught.value.code is Code.CANCELLED
    assert graph.get_combined_error_message() == ""
    run_once(graph)


def test_an_endless_source_is_cancelled_or_closed(registry: Registry) -> None:
    graph = CalculatorGraph(
        text_config='node { calculator: "Endless" output_stream: "out" }', registry=registry
    )
    sink = Sink(graph, "out")
    graph.start_run()
    graph.wait_for_observed_output()
    graph.cancel()
    with pytest.raises(RunError):
        graph.wait_until_done()
    count = len(sink)
    graph.start_run()
    graph.wait_for_observed_output()
    graph.close()
    assert len(sink) > count > 0


def test_errors_stay_until_the_run_is_done(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("FailAt"), registry=registry)
    graph.start_run()
    graph.add_packet_to_input_stream("in", "x", 0)
    for _ in range(2):
        with pytest.raises(RunError, match="as told"):
            graph.wait_until_idle()
    assert "as told" in graph.get_combined_error_message()
    with pytest.raises(RunError, match="as told"):
        graph.wait_until_done()
    graph.wait_until_done()


def test_pausing_starts_nothing_new(graph: CalculatorGraph) -> None:
    sink = Sink(graph, "out")
    graph.start_run()
    graph.add_packet_to_input_stream("in", "before", 0)
    graph.pause()
    graph.add_packet_to_input_stream("in", "while", 1)
    assert sink.values == ["before"]
    graph.resume()
    assert sink.values == ["before", "while"]
    graph.pause()
    graph.close_all_packet_sources()
    graph.resume()
    graph.wait_until_done()


def test_a_paused_run_can_be_cancelled(graph: CalculatorGraph) -> None:
    graph.start_run()
    graph.pause()
    graph.add_packet_to_input_stream("in", "x", 0)
    graph.cancel()
    with pytest.raises(RunError):
        graph.wait_until_done()


def test_a_graph_is_a_context_manager(graph: CalculatorGraph) -> None:
    sink = Sink(graph, "out")
    with graph:
        graph.start_run()
        graph.add_packet_to_input_stream("in", 1, 0)
    graph.start_run()
    with pytest.raises(ZeroDivisionError), graph:
        raise ZeroDivisionError
    with graph:
        pass
    run_once(graph)
    assert sink.values == [1, "x"]


def test_a_graph_is_an_async_context_manager(graph: CalculatorGraph) -> None:
    async def use() -> None:
        async with graph:
            await graph.start_run_async()
            await graph.add_packet_to_input_stream_async("in", 1, 0)
        async with graph:
            await graph.start_run_async()
            raise ZeroDivisionError

    sink = Sink(graph, "out")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(use())
    run_once(graph)
    assert sink.values == [1, "x"]


def test_every_waiter_returns_at_the_end_and_one_raises_the_error(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("FailAt"), registry=registry)
    outcomes: list[str] = []

    def wait() -> None:
        try:
            graph.wait_until_done()
            outcomes.append("done")
        except RunError:
            outcomes.append("error")

    graph.start_run()
    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    graph.add_packet_to_input_stream("in", "x", 0)
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(outcomes) == ["done", "done", "error"]


# Error callback -----------------------------------------------------------------------------------


def test_the_error_callback_is_called_once_per_error(registry: Registry) -> None:
    class FailsTwice(Forward):
        def process(self, cc: CalculatorContext) -> None:
            raise ValueError("process")

        def close(self, cc: CalculatorContext) -> None:
            raise ValueError("close, after the run: no error any more")

    registry.register_calculator(FailsTwice)
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in"
            node { calculator: "FailsTwice" input_stream: "in" output_stream: "a" }
            node { calculator: "FailsTwice" input_stream: "in" output_stream: "b" }
        """,
        registry=registry,
    )
    errors: list[GraphError] = []
    graph.set_error_callback(errors.append)
    for _ in range(2):
        errors.clear()
        graph.start_run()
        graph.add_packet_to_input_stream("in", 1, 0)
        with pytest.raises(RunError) as caught:
            graph.wait_until_done()
        assert errors == list(caught.value.errors)
        assert {type(error.__cause__) for error in errors} == {ValueError}


def test_an_error_of_the_error_callback_is_reported(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("FailAt"), registry=registry)
    graph.set_error_callback(lambda error: 1 / 0)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    with pytest.raises(RunError) as caught:
        graph.wait_until_done()
    assert [str(error).partition(" ")[0] for error in caught.value.errors] == [
        "Calculator::Process()", "The",
    ]  # fmt: skip
    assert "The error callback failed: ZeroDivisionError" in str(caught.value)
