"""Inferences overlap each other and the event loop, up to the number of infer requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from calculators.tensors.openvino.directory_models import MODELS
from calculators.tensors.openvino.model import Model
from graph_runtime import CalculatorGraph, GraphError
from graph_runtime.testing import Sink
from tests.calculators.tensors.openvino.graphs import registry, session_and_inference
from tests.calculators.tensors.openvino.tiny_models import add_model, calling_model, compiled

#: Seconds until a test that hangs fails.
PATIENCE = 20


class OneModel:
    def __init__(self, model: Model) -> None:
        self._model = model

    async def get(self, name: str, version: int | None = None) -> Model:
        return self._model

    def file_of(self, name: str) -> None:
        return None


def pair(first: float, second: float) -> Any:
    return np.array([first, second], np.float32)


def within(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on an event loop of its own."""
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


def test_as_many_inferences_run_at_once_as_there_are_requests() -> None:
    # Neither inference can end before both have begun.
    both = threading.Barrier(2, timeout=PATIENCE)
    model = Model.of(compiled(calling_model(both.wait), NUM_STREAMS=2), "m")
    assert model.nireq == 2

    async def two() -> Any:
        return await asyncio.gather(model.infer({"X": pair(1, 2)}), model.infer({"X": pair(3, 4)}))

    assert [each["Y"].tolist() for each in within(two())] == [[1, 2], [3, 4]]


def test_two_runs_of_a_graph_overlap() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    model = Model.of(compiled(calling_model(both.wait), NUM_STREAMS=2), "m")
    text = session_and_inference("m", ["X:in"], ["Y:out"])

    async def one(value: Any) -> Any:
        graph = CalculatorGraph(text_config=text, registry=registry())
        graph.set_service_object(MODELS, OneModel(model))
        out = Sink(graph, "out")
        await graph.start_run_async()
        graph.add_packet_to_input_stream("in", value, 0)
        graph.close_all_packet_sources()
        await graph.wait_until_done_async()
        return out.values[0].tolist()

    async def two() -> Any:
        return await asyncio.gather(one(pair(1, 2)), one(pair(3, 4)))

    assert within(two()) == [[1, 2], [3, 4]]


def test_a_node_with_max_in_flight_overlaps_with_itself_and_keeps_the_order() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    model = Model.of(compiled(calling_model(both.wait), NUM_STREAMS=2), "m")
    text = session_and_inference("m", ["X:in"], ["Y:out"])
    text = text.replace(
        'calculator: "OpenVINOInferenceCalculator"',
        'calculator: "OpenVINOInferenceCalculator" max_in_flight: 2',
    )
    graph = CalculatorGraph(text_config=text, registry=registry())
    graph.set_service_object(MODELS, OneModel(model))
    out = Sink(graph, "out")
    graph.start_run()
    for time in range(4):
        graph.add_packet_to_input_stream("in", pair(time, time), time)
    graph.close_all_packet_sources()
    graph.wait_until_done()
    assert [value.tolist() for value in out.values] == [[time, time] for time in range(4)]


def test_the_event_loop_goes_on_while_a_model_computes() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def on_run() -> None:
        begun.set()
        assert may_end.wait(PATIENCE)

    model = Model.of(compiled(calling_model(on_run)), "m")

    async def both() -> Any:
        inference = asyncio.ensure_future(model.infer({"X": pair(1, 2)}))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        # The inference is in OpenVINO now; only this loop can let it end.
        asyncio.get_running_loop().call_soon(may_end.set)
        return (await inference)["Y"].tolist()

    assert within(both()) == [1, 2]


def test_more_inferences_than_infer_requests_take_turns() -> None:
    running = 0
    most = 0
    lock = threading.Lock()

    def on_run() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1

    model = Model.of(compiled(calling_model(on_run), NUM_STREAMS=2), "m", nireq=1)

    async def many() -> Any:
        return await asyncio.gather(*(model.infer({"X": pair(i, i)}) for i in range(50)))

    assert [each["Y"].tolist() for each in within(many())] == [[i, i] for i in range(50)]
    assert most == 1


def test_a_cancelled_inference_returns_its_infer_request() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def on_run() -> None:
        begun.set()
        assert may_end.wait(PATIENCE)

    model = Model.of(compiled(calling_model(on_run)), "m", nireq=1)

    async def leave() -> Any:
        inside = asyncio.ensure_future(model.infer({"X": pair(1, 1)}))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        waiting = asyncio.ensure_future(model.infer({"X": pair(2, 2)}))
        staying = asyncio.ensure_future(model.infer({"X": pair(3, 3)}))
        await asyncio.sleep(0)
        inside.cancel()
        waiting.cancel()
        may_end.set()
        left = await asyncio.gather(inside, waiting, return_exceptions=True)
        assert [type(each) for each in left] == [asyncio.CancelledError] * 2
        return (await staying)["Y"].tolist()

    assert within(leave()) == [3, 3]


def test_a_failed_inference_disturbs_no_other() -> None:
    model = Model.of(compiled(add_model()), "add", nireq=1)
    one, two = np.ones(1, np.float32), pair(1, 2)

    async def fail_and_go_on() -> None:
        for _ in range(3):
            with pytest.raises(GraphError, match='the model "add" failed'):
                await model.infer({"A": two, "B": np.ones(3, np.float32)})
            found = await model.infer({"A": two, "B": one})
            assert found["SUM"].tolist() == [2, 3]

    within(fail_and_go_on())


def test_an_output_does_not_change_when_the_model_runs_again() -> None:
    model = Model.of(compiled(add_model()), "add", nireq=1)

    async def twice() -> None:
        first = await model.infer({"A": pair(1, 2), "B": pair(1, 1)})
        second = await model.infer({"A": pair(5, 6), "B": pair(1, 1)})
        assert first["SUM"].tolist() == [2, 3]
        assert second["SUM"].tolist() == [6, 7]
        first["SUM"][0] = 9
        assert second["SUM"].tolist() == [6, 7]

    within(twice())


def test_a_model_serves_one_event_loop_after_another() -> None:
    model = Model.of(compiled(add_model()), "add", nireq=1)
    for _ in range(3):
        found = within(model.infer({"A": pair(1, 2), "B": pair(1, 1)}))
        assert found["SUM"].tolist() == [2, 3]
