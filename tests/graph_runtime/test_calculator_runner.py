"""`CalculatorRunner`: running one node in a test, as authors of calculators do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorContract,
    CalculatorGraph,
    GraphService,
    GraphSyntaxError,
    In,
    NotFoundError,
    Options,
    Out,
    Packet,
    Registry,
    RunError,
    SideIn,
    SideOut,
    Stop,
    Timestamp,
    ValidationError,
    options,
)
from graph_runtime.testing import CalculatorRunner, Sink
from tests.graph_runtime.small_calculators import (
    CountTo,
    Double,
    FailAt,
    FailOptions,
    SlowDouble,
    one_node,
)

CLOCK: GraphService[list[int]] = GraphService("enginetest.Clock")


@options("enginetest.RedactOptions")
class RedactOptions:
    words: tuple[str, ...] = ()
    mask: str = "*"


class Redact(Calculator):
    text = In[str]("TEXT")
    extra = In[str]("EXTRA", optional=True)
    clean = Out[str]("TEXT")
    hits = Out[int]("HITS", optional=True)
    seed = SideIn[int]("SEED", optional=True)
    summary = SideOut[int]("SUMMARY")
    redact = Options(RedactOptions)

    def open(self, cc: CalculatorContext) -> None:
        self.total = cc.side(self.seed, 0)

    def process(self, cc: CalculatorContext) -> None:
        text = cc.get(self.text, "") + cc.get(self.extra, "")
        hits = 0
        for word in self.redact.words:
            hits += text.count(word)
            text = text.replace(word, self.redact.mask * len(word))
        self.total += hits
        cc.get_counter("texts").increment()
        cc.emit(self.clean, text)
        cc.emit(self.hits, hits)

    def close(self, cc: CalculatorContext) -> None:
        cc.set_side(self.summary, self.total)


class Passing(Calculator):
    """Declares in its contract the ports that the graph connects."""

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        for key in contract.inputs:
            contract.outputs[key].set_same_as(contract.inputs[key].set_any())
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        for place in cc.inputs.places:
            if not cc.inputs[place].is_empty():
                cc.outputs[place].add_packet(cc.inputs[place].packet)


def test_typed_ports_options_side_packets_and_counters_work() -> None:
    runner = CalculatorRunner(
        Redact, options=RedactOptions(words=("secret", "key"), mask="#"), side_packets={"SEED": 3}
    )
    runner.push("TEXT", "a secret key", at=0)
    runner.push("TEXT", "nothing", at=5)

    assert runner.run() is runner
    assert runner.outputs["TEXT"].pairs == [(0, "a ###### ###"), (5, "nothing")]
    assert runner.outputs["HITS"].values == [2, 0]
    assert runner.side_outputs["SUMMARY"].value == 5
    assert runner.counters == {"texts": 2}


def test_an_optional_input_is_connected_when_it_is_pushed_to() -> None:
    runner = CalculatorRunner(Redact)
    runner.push("TEXT", "a", at=0)
    runner.push("EXTRA", "b", at=0)

    assert runner.run().outputs["TEXT"].values == ["ab"]


def test_each_run_sends_what_was_pushed_since_the_last() -> None:
    runner = CalculatorRunner(Double)
    runner.push(0, 1, at=0)
    assert runner.run().outputs[0].values == [2]
    runner.push(0, Packet(10, 7))
    assert runner.run().outputs[0].pairs == [(7, 20)]


def test_a_node_runs_on_an_event_loop() -> None:
    async def run() -> list[Any]:
        runner = CalculatorRunner(SlowDouble)
        runner.push(0, 4, at=0)
        await runner.run_async()
        return runner.outputs[0].values

    assert asyncio.run(run()) == [8]


def test_functions_registered_names_and_node_texts_can_be_run(registry: Registry) -> None:
    def add(left: int, right: int) -> int:
        return left + right

    runner = CalculatorRunner(add)
    runner.push(0, 1, at=0)
    runner.push(1, 2, at=0)
    assert runner.run().outputs[0].values == [3]

    runner = CalculatorRunner("Double", registry=registry)
    runner.push(0, 3, at=0)
    assert runner.run().outputs[0].values == [6]

    runner = CalculatorRunner(
        """
        calculator: "FailAt" input_stream: "x" output_stream: "y"
        node_options { [type.googleapis.com/enginetest.FailOptions] { at: 9 } }
        """,
        registry=registry,
    )
    runner.push(0, "fine", at=8)
    assert runner.run().outputs[0].values == ["fine"]


def test_nothing_is_registered_elsewhere(registry: Registry) -> None:
    def only_here(value: int) -> int:
        return value

    CalculatorRunner(only_here, registry=registry)
    assert "only_here" not in registry.calculators()
    assert REGISTRY.find_calculator("Redact") is None


def test_contract_style_ports_work() -> None:
    runner = CalculatorRunner(Passing, outputs=["A", "B:1", ("B", 0)])
    runner.push("A", 1, at=0)
    runner.push(("B", 1), 2, at=0)
    runner.push("B:0", 3, at=1)
    runner.run()

    assert runner.outputs["A"].values == [1]
    assert [sink.pairs for sink in runner.outputs.all_of("B")] == [[(1, 3)], [(0, 2)]]


def test_sources_run_until_they_stop() -> None:
    runner = CalculatorRunner(CountTo, side_packets={"N": 3})

    assert runner.run().outputs[0].pairs == [(1, 1), (2, 2), (3, 3)]


def test_bounds_headers_and_early_closes_are_recorded() -> None:
    class Shows(Calculator):
        left = In[int]("LEFT")
        right = In[int]("RIGHT")
        seen = Out[Any]()
        process_timestamp_bounds = True

        def open(self, cc: CalculatorContext) -> None:
            self.header = cc.inputs["LEFT"].header.value

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.seen, (self.header, cc.get(self.left, None), cc.inputs["RIGHT"].is_done))

    runner = CalculatorRunner(Shows)
    runner.set_header("LEFT", "head")
    runner.set_bound("RIGHT", 10)
    runner.push("LEFT", 1, at=3)
    runner.close_input("RIGHT")
    runner.push("LEFT", 2, at=4)
    runner.run()

    assert runner.outputs[0].pairs[:2] == [(3, ("head", 1, False)), (4, ("head", 2, True))]


def test_services_can_be_provided() -> None:
    class Asks(Calculator):
        value = In[int]()
        time = Out[int]()

        @classmethod
        def update_contract(cls, contract: CalculatorContract) -> None:
            contract.use_service(CLOCK)

        def process(self, cc: CalculatorContext) -> None:
            clock = cc.service(CLOCK)
            assert clock is not None
            cc.emit(self.time, clock.pop())

    runner = CalculatorRunner(Asks, services={CLOCK: [42]})
    runner.push(0, 0, at=0)
    assert runner.run().outputs[0].values == [42]


def test_a_subgraph_can_be_run(registry: Registry) -> None:
    registry.register_subgraph("""
        type: "Quadruple" input_stream: "x" output_stream: "y"
        node { calculator: "Double" input_stream: "x" output_stream: "m" }
        node { calculator: "Double" input_stream: "m" output_stream: "y" }
    """)
    runner = CalculatorRunner("Quadruple", outputs=[0], registry=registry)
    runner.push(0, 3, at=0)

    assert runner.run().outputs[0].values == [12]


def test_an_error_is_raised_and_earlier_packets_are_kept() -> None:
    runner = CalculatorRunner(FailAt, options=FailOptions(at=2, message="no twos"))
    for time in range(4):
        runner.push(0, "x", at=time)

    with pytest.raises(RunError, match=r'node "FailAt" failed: ValueError: no twos'):
        runner.run()
    assert runner.outputs[0].timestamps == [0, 1]


def test_packets_of_the_wrong_type_fail_the_run() -> None:
    runner = CalculatorRunner(Double)
    runner.push(0, "one", at=0)

    with pytest.raises(RunError, match='stores "string", but "int" was requested'):
        runner.run()


def test_missing_side_packets_are_reported() -> None:
    with pytest.raises(RunError, match='"side_in_n_0" is required but was not provided'):
        CalculatorRunner(CountTo).run()


@pytest.mark.parametrize("port", ["TEX", "TEXT:1", 0])
def test_unknown_inputs_are_refused(port: Any) -> None:
    with pytest.raises(NotFoundError, match=r"Redact has no input stream .* It has: TEXT, EXTRA"):
        CalculatorRunner(Redact).push(port, "x", at=0)


def test_inputs_that_were_not_listed_are_refused(registry: Registry) -> None:
    with pytest.raises(NotFoundError, match=r"no input stream :1\. It has: :0"):
        CalculatorRunner(Passing, inputs=[0], outputs=[0]).push(1, "x", at=0)
    text = 'calculator: "Double" input_stream: "x" output_stream: "y"'
    with pytest.raises(NotFoundError, match="no input stream NUMBER"):
        CalculatorRunner(text, registry=registry).push("NUMBER", 1, at=0)
    with pytest.raises(NotFoundError, match="no input side packet N"):
        CalculatorRunner(text, registry=registry, side_packets={"N": 1}).run()


def test_a_value_needs_a_timestamp() -> None:
    with pytest.raises(ValueError, match="as in at=0"):
        CalculatorRunner(Double).push(0, 1)


def test_objects_that_are_not_nodes_are_refused() -> None:
    with pytest.raises(NotFoundError, match='"Doubel"'):
        CalculatorRunner("Doubel")
    with pytest.raises(GraphSyntaxError, match="<node>:1"):
        CalculatorRunner('calculator: "Double" oops: 1')
    with pytest.raises(ValidationError, match='Tag "SEEED" index 0 was not expected'):
        CalculatorRunner(Redact, side_packets={"SEEED": 3}).run()


def test_a_sink_collects_packets_and_bounds(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("Forward"), registry=registry)
    packets, all_of_it = Sink(graph, "out"), Sink(graph, "out", observe_timestamp_bounds=True)
    graph.start_run()
    graph.add_packet_to_input_stream("in", "a", 1)
    graph.set_input_stream_timestamp_bound("in", 10)
    graph.close()

    assert packets.pairs == [(1, "a")]
    assert all_of_it.values == ["a"]
    assert all_of_it.timestamps == [1, Timestamp(9)]
    with pytest.raises(NotFoundError, match=r'"oot".*Did you mean "out"'):
        Sink(graph, "oot")


def test_stop_of_another_node_ends_the_run() -> None:
    class StopsAtTwo(Double):
        def process(self, cc: CalculatorContext) -> None:
            if cc.get(self.number) == 2:
                raise Stop
            cc.emit(self.doubled, 0)

    runner = CalculatorRunner(StopsAtTwo)
    for number in (1, 2):
        runner.push(0, number, at=number)
    assert runner.run().outputs[0].timestamps == [1]
