"""Memory of finished runs: servers run a graph for every request."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    GraphError,
    In,
    Out,
    Registry,
    SideIn,
    SideOut,
)
from tests.graph_runtime.every_driver import make_graph, run_graph
from tests.graph_runtime.small_calculators import Forward

TEXT = """
    input_stream: "in"
    node { calculator: "Keeps" input_stream: "in" output_stream: "kept" max_in_flight: 2 }
    node { calculator: "Keeps" input_stream: "kept" output_stream: "out" }
    node { calculator: "Makes" input_stream: "out" output_side_packet: "SIDE:side" }
    node { calculator: "Takes" input_stream: "in" input_side_packet: "SIDE:side" }
"""


class Value:
    """A packet's value that can be watched."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("driver", ["default", "application thread", "event loop"])
def test_a_finished_run_is_freed_without_the_garbage_collector(
    registry: Registry, driver: str
) -> None:
    class Keeps(Forward):
        def open(self, cc: CalculatorContext) -> None:
            calculators.append(weakref.ref(self))

        def process(self, cc: CalculatorContext) -> None:
            self.packet = cc.packet(self.value)
            cc.forward(self.same, self.packet)

    class Makes(Calculator):
        value = In[Any]()
        made = SideOut[str]("SIDE")

        def open(self, cc: CalculatorContext) -> None:
            calculators.append(weakref.ref(self))
            cc.set_side(self.made, "made")

        def process(self, cc: CalculatorContext) -> None:
            pass

    class Takes(Makes):
        made = SideIn[str]("SIDE")  # type: ignore[assignment]
        last = Out[Any](optional=True)

        def open(self, cc: CalculatorContext) -> None:
            calculators.append(weakref.ref(self))

    calculators: list[weakref.ref[Any]] = []
    for kind in (Keeps, Makes, Takes):
        registry.register_calculator(kind)
    graph = make_graph(TEXT, registry, driver)
    for _ in range(2):
        value = Value()
        watched = weakref.ref(value)
        run_graph(graph, driver, [("in", value, 0)])
        del value

        assert watched() is None
        assert len(calculators) == 4
        assert [calculator() for calculator in calculators] == [None] * 4
        assert graph.get_output_side_packet("side").value == "made"
        calculators.clear()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("driver", ["default", "application thread"])
def test_a_run_whose_coroutine_failed_is_freed_with_its_error(
    registry: Registry, driver: str
) -> None:
    class Fails(Forward):
        async def process(self, cc: CalculatorContext) -> None:  # type: ignore[override]
            value = cc.get(self.value)
            await asyncio.sleep(0)
            raise ValueError(f"not {type(value)}")

    registry.register_calculator(Fails)
    graph = make_graph(
        'input_stream: "in" node { calculator: "Fails" input_stream: "in" output_stream: "out" }',
        registry,
        driver,
    )
    value = Value()
    watched = weakref.ref(value)
    with pytest.raises(GraphError) as raised:
        run_graph(graph, driver, [("in", value, 0)])
    del value, graph, raised

    assert watched() is None
