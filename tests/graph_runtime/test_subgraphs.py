"""Subgraphs from a program's point of view: functions, options, nesting, names, services.

The rules of expansion itself are conformance cases.
"""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    GraphConfigError,
    In,
    Options,
    Out,
    Registry,
    SubgraphContext,
    ValidationError,
    graph_to_text,
    options,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.language.graph_config import new_graph_config
from graph_runtime.testing import CalculatorRunner, Sink
from tests.graph_runtime.small_calculators import one_node


@options("enginetest.ChainOptions")
class ChainOptions:
    length: int = 1
    calculator: str = "Double"


@options("enginetest.AddOptions")
class AddOptions:
    amount: int = 0


class Add(Calculator):
    value = In[int]()
    total = Out[int]()
    add = Options(AddOptions)

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.total, cc.get(self.value) + self.add.amount)


def chain(context: SubgraphContext) -> Any:
    """A graph whose length is in its options."""
    given = context.options(ChainOptions)
    config = new_graph_config(type="Chain", input_stream=["s0"])
    for place in range(given.length):
        config.node.add(
            calculator=given.calculator,
            input_stream=[f"s{place}"],
            output_stream=[f"s{place + 1}"],
        )
    config.output_stream.append(f"s{given.length}")
    return config


def names_and_streams(config: Any) -> list[str]:
    return [
        f"{node.name}: {', '.join(node.input_stream)} -> {', '.join(node.output_stream)}"
        for node in config.node
    ]


def expanded(text: str, registry: Registry, **services: Any) -> Any:
    return validate_graph(parse_graph_text(text), registry=registry, services=services).config


def test_a_function_makes_the_graph_from_the_nodes_options(registry: Registry) -> None:
    registry.register_subgraph(chain, "Chain")
    runner = CalculatorRunner(
        "Chain", options=ChainOptions(length=3), outputs=[0], registry=registry
    )
    runner.push(0, 1, at=0)

    assert runner.run().outputs[0].values == [8]


def test_the_function_is_called_for_each_node(registry: Registry) -> None:
    registry.register_subgraph(chain, "Chain")
    config = expanded(
        """
        input_stream: "in"
        node { name: "One" calculator: "Chain" input_stream: "in" output_stream: "a" }
        node { name: "Two" calculator: "Chain" input_stream: "a" output_stream: "b"
               node_options { [x/enginetest.ChainOptions] { length: 2 calculator: "Forward" } } }
        """,
        registry,
    )
    assert names_and_streams(config) == [
        "one__Double: in -> a",
        "two__Forward_1: a -> two__s1",
        "two__Forward_2: two__s1 -> b",
    ]


def test_a_function_may_return_text(registry: Registry) -> None:
    registry.register_subgraph(
        lambda context: (
            'input_stream: "x" output_stream: "y" '
            'node { calculator: "Double" input_stream: "x" output_stream: "y" }'
        ),
        "FromText",
    )
    assert names_and_streams(expanded(one_node("FromText"), registry)) == [
        "fromtext__Double: in -> out"
    ]


def test_services_are_passed_to_the_functions(registry: Registry) -> None:
    seen = []

    def makes(context: SubgraphContext) -> Any:
        seen.append(context.services["enginetest.Resources"])
        return chain(context)

    registry.register_subgraph(makes, "Asks")
    expanded(one_node("Asks"), registry, **{"enginetest.Resources": "here"})

    assert seen == ["here"]


def test_options_of_the_graph_are_copied_into_nodes(registry: Registry) -> None:
    registry.register_calculator(Add)
    registry.register_subgraph("""
        type: "Offset" input_stream: "x" output_stream: "y"
        graph_options { [x/enginetest.AddOptions] { amount: 5 } }
        node { calculator: "Add" input_stream: "x" output_stream: "y"
               node_options { [x/enginetest.AddOptions] { } }
               option_value: "amount:options/amount" }
    """)
    for given, total in ((None, 15), (AddOptions(amount=7), 17)):
        runner = CalculatorRunner("Offset", options=given or (), outputs=[0], registry=registry)
        runner.push(0, 10, at=0)
        assert runner.run().outputs[0].values == [total]


def test_nesting_prefixes_every_level(registry: Registry) -> None:
    registry.register_subgraph("""
        type: "Inner" input_stream: "IN:x" output_stream: "OUT:y"
        node { calculator: "Double" input_stream: "x" output_stream: "inside" }
        node { calculator: "Double" input_stream: "inside" output_stream: "y" }
    """)
    registry.register_subgraph("""
        type: "Outer" input_stream: "IN:x" output_stream: "OUT:y"
        node { calculator: "Inner" input_stream: "IN:x" output_stream: "OUT:half" }
        node { name: "Last" calculator: "Inner" input_stream: "IN:half" output_stream: "OUT:y" }
    """)
    config = expanded(
        'input_stream: "in" '
        'node { name: "Top.1" calculator: "Outer" input_stream: "IN:in" output_stream: "OUT:out" }',
        registry,
    )
    assert names_and_streams(config) == [
        "top_1__inner__Double_1: in -> top_1__inner__inside",
        "top_1__inner__Double_2: top_1__inner__inside -> top_1__half",
        "top_1__last__Double_1: top_1__half -> top_1__last__inside",
        "top_1__last__Double_2: top_1__last__inside -> out",
    ]


def test_streams_inside_can_be_observed_by_their_long_name(registry: Registry) -> None:
    registry.register_subgraph(chain, "Chain")
    graph = CalculatorGraph(
        text_config=one_node(
            "Chain", extra="node_options { [x/enginetest.ChainOptions] { length: 2 } }"
        ),
        registry=registry,
    )
    inside = Sink(graph, "chain__s1")
    graph.start_run()
    graph.add_packet_to_input_stream("in", 3, 0)
    graph.close()

    assert inside.values == [6]


def test_nodes_inside_keep_their_executor_and_the_subgraphs_own_are_ignored(
    registry: Registry,
) -> None:
    registry.register_subgraph("""
        type: "Pooled" input_stream: "x" output_stream: "y"
        executor { name: "ignored" type: "ThreadPoolExecutor" }
        num_threads: 9
        node { calculator: "Double" input_stream: "x" output_stream: "y" executor: "pool" }
    """)
    pool = 'executor { name: "pool" type: "ApplicationThreadExecutor" }'
    config = expanded(one_node("Pooled", graph=pool), registry)

    assert [node.executor for node in config.node] == ["pool"]
    assert [executor.name for executor in config.executor] == ["pool", ""]


def test_an_input_that_the_outer_node_omits_is_omitted_inside(registry: Registry) -> None:
    class MaybeBoth(Calculator):
        left = In[int]("LEFT")
        right = In[int]("RIGHT", optional=True)
        out = Out[str]()

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.out, f"{cc.get(self.left)} {cc.is_connected(self.right)}")

    registry.register_calculator(MaybeBoth)
    registry.register_subgraph("""
        type: "Wrapper" input_stream: "LEFT:l" input_stream: "RIGHT:r" output_stream: "o"
        node { calculator: "MaybeBoth" input_stream: "LEFT:l" input_stream: "RIGHT:r"
               output_stream: "o" }
    """)
    for inputs, seen in ((["LEFT"], "1 False"), (["LEFT", "RIGHT"], "1 True")):
        runner = CalculatorRunner("Wrapper", inputs=inputs, outputs=[0], registry=registry)
        runner.push("LEFT", 1, at=0)
        assert runner.run().outputs[0].values == [seen]


def test_side_packets_pass_into_and_out_of_subgraphs(registry: Registry) -> None:
    registry.register_subgraph("""
        type: "PlusTwo" input_side_packet: "a" output_side_packet: "c"
        node { calculator: "PlusOneSide" input_side_packet: "a" output_side_packet: "b" }
        node { calculator: "PlusOneSide" input_side_packet: "b" output_side_packet: "c" }
    """)
    runner = CalculatorRunner(
        "PlusTwo", side_packets={0: 5}, side_outputs=[0], registry=registry
    ).run()

    assert runner.side_outputs[0].value == 7


def test_expanding_an_expanded_graph_changes_nothing(registry: Registry) -> None:
    registry.register_subgraph(chain, "Chain")
    once = expanded(one_node("Chain"), registry)

    assert graph_to_text(validate_graph(once, registry=registry).config) == graph_to_text(once)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda context: 1 / 0, "could not be made: ZeroDivisionError"),
        (lambda context: "node {", "parse error"),
        (lambda context: None, r"neither text nor a mediapipe\.CalculatorGraphConfig but NoneType"),
    ],
)
def test_a_function_that_fails_is_an_error_of_its_node(
    registry: Registry, given: Any, message: str
) -> None:
    registry.register_subgraph(given, "Broken")

    with pytest.raises(ValidationError, match=message):
        expanded(one_node("Broken"), registry)


def test_a_subgraph_needs_a_name(registry: Registry) -> None:
    with pytest.raises(GraphConfigError, match='set its "type"'):
        registry.register_subgraph('node { calculator: "Double" }')
    with pytest.raises(GraphConfigError, match="needs a name"):
        registry.register_subgraph(chain)


def test_a_registered_subgraph_is_not_changed_by_its_use(registry: Registry) -> None:
    config = chain(SubgraphContext(new_graph_config().node.add()))
    before = graph_to_text(config)
    registry.register_subgraph(config, "Kept")
    expanded(one_node("Kept"), registry)

    assert graph_to_text(config) == before
    assert "Kept" in registry.subgraphs()
