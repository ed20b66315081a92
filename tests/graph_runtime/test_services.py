"""Graph services: objects that nodes request in their contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    CalculatorGraph,
    GraphService,
    In,
    Out,
    Registry,
    RunError,
    StateError,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.small_calculators import one_node

NAME: GraphService[str] = GraphService("enginetest.Name")
COUNTER: GraphService[list[int]] = GraphService("enginetest.Counter", list)
UNASKED: GraphService[str] = GraphService("enginetest.Unasked")


def asks_for(service: GraphService[Any], *, optional: bool = False) -> type[Calculator]:
    class Asks(Calculator):
        value = In[Any]()
        seen = Out[Any]()

        @classmethod
        def update_contract(cls, contract: CalculatorContract) -> None:
            contract.use_service(service, optional=optional)

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.seen, cc.service(service))

    return Asks


@pytest.fixture
def graph_of(registry: Registry) -> Callable[..., CalculatorGraph]:
    def make(calculator: type[Calculator]) -> CalculatorGraph:
        registry.register_calculator(calculator, "Asks")
        return CalculatorGraph(text_config=one_node("Asks"), registry=registry)

    return make


def seen(graph: CalculatorGraph) -> list[Any]:
    sink = Sink(graph, "out")
    graph.start_run()
    graph.add_packet_to_input_stream("in", 0, 0)
    graph.close()
    return sink.values


def test_a_provided_object_reaches_the_node(graph_of: Callable[..., CalculatorGraph]) -> None:
    graph = graph_of(asks_for(NAME))
    graph.set_service_object(NAME, "ours")

    assert seen(graph) == ["ours"]


def test_a_service_with_a_factory_makes_its_default_once_per_graph(
    registry: Registry,
) -> None:
    registry.register_calculator(asks_for(COUNTER), "Asks")
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in"
            node { calculator: "Asks" input_stream: "in" output_stream: "a" }
            node { calculator: "Asks" input_stream: "in" output_stream: "b" }
        """,
        registry=registry,
    )
    first, second = Sink(graph, "a"), Sink(graph, "b")
    for _ in range(2):
        graph.start_run()
        graph.add_packet_to_input_stream("in", 0, 0)
        graph.close()

    assert first.values[0] is second.values[0]
    assert first.values[1] is second.values[1]
    assert first.values[0] is first.values[1]


def test_a_provided_object_replaces_the_default(graph_of: Callable[..., CalculatorGraph]) -> None:
    graph = graph_of(asks_for(COUNTER))
    graph.set_service_object(COUNTER, [7])

    assert seen(graph) == [[7]]


def test_a_missing_service_fails_the_start(
    graph_of: Callable[..., CalculatorGraph],
) -> None:
    graph = graph_of(asks_for(NAME))

    with pytest.raises(RunError, match="required by node Asks, was not provided"):
        graph.start_run()
    graph.set_service_object(NAME, "now")
    assert seen(graph) == ["now"]


def test_defaults_can_be_disallowed(graph_of: Callable[..., CalculatorGraph]) -> None:
    graph = graph_of(asks_for(COUNTER))
    graph.disallow_service_default_initialization()

    with pytest.raises(RunError, match="Service default initialization is disallowed"):
        graph.start_run()


def test_a_factory_that_fails_is_an_error(graph_of: Callable[..., CalculatorGraph]) -> None:
    broken: GraphService[int] = GraphService("enginetest.Broken", lambda: 1 // 0)

    with pytest.raises(RunError, match="cannot be created: ZeroDivisionError"):
        graph_of(asks_for(broken)).start_run()


def test_an_optional_service_may_be_missing(graph_of: Callable[..., CalculatorGraph]) -> None:
    assert seen(graph_of(asks_for(NAME, optional=True))) == [None]


def test_a_service_that_the_contract_does_not_name_is_refused(
    graph_of: Callable[..., CalculatorGraph],
) -> None:
    class Careless(asks_for(NAME, optional=True)):  # type: ignore[misc]
        def process(self, cc: CalculatorContext) -> None:
            cc.service(UNASKED)

    with pytest.raises(RunError, match="was not asked for in the contract"):
        seen(graph_of(Careless))


def test_services_cannot_be_provided_during_a_run(graph_of: Callable[..., CalculatorGraph]) -> None:
    graph = graph_of(asks_for(NAME, optional=True))
    graph.start_run()

    with pytest.raises(StateError, match="while no run is going on"):
        graph.set_service_object(NAME, "late")
    graph.close()


def test_the_repr_of_a_service_has_its_key() -> None:
    assert repr(NAME) == "GraphService('enginetest.Name')"
