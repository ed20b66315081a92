"""Typed ports: their declaration, and their use in calculators."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    CalculatorGraph,
    GraphError,
    In,
    Options,
    Out,
    Packet,
    Registry,
    RunError,
    SideIn,
    SideOut,
    Timestamp,
    ValidationError,
    options,
)
from graph_runtime.authoring.ports import ports_of
from graph_runtime.testing import CalculatorRunner
from tests.graph_runtime.small_calculators import Double


class Everything(Calculator):
    first = In[int]()
    second = In[str]()
    tagged = In[float]("TAG")
    third_of_tag = In[bytes]("TAG", index=2, optional=True)
    many = In[int]("MANY", multiple=True, optional=True)
    out = Out[int](doc="the sum")
    same = Out[Any]("SAME", same_as=tagged)
    given = SideIn[int]("GIVEN", optional=True)
    made = SideOut[str]("MADE")

    def process(self, cc: CalculatorContext) -> None:
        pass


def test_untagged_ports_are_numbered_by_kind() -> None:
    ports = {port.name: port for port in ports_of(Everything)}

    assert {name: port.key for name, port in ports.items()} == {
        "first": 0,
        "second": 1,
        "tagged": "TAG",
        "third_of_tag": ("TAG", 2),
        "many": "MANY",
        "out": 0,
        "same": "SAME",
        "given": "GIVEN",
        "made": "MADE",
    }
    assert ports["first"].spec is int
    assert ports["out"].doc == "the sum"
    assert repr(ports["tagged"]) == "<In 'tagged'>"


def test_a_subclass_adds_replaces_and_removes_ports() -> None:
    class Less(Everything):
        second = None  # type: ignore[assignment]
        tagged = In[int]("TAG")  # type: ignore[assignment]
        new = In[int]()

    ports = {port.name: port for port in ports_of(Less)}
    assert "second" not in ports
    assert [ports["first"].key, ports["new"].key] == [0, 1]
    assert ports["tagged"].spec is int


def graph(registry: Registry, cls: type[Calculator], entries: str) -> CalculatorGraph:
    """Return a graph of one node of this class."""
    child = Registry(registry)
    child.register_calculator(cls, "Tested")
    return CalculatorGraph(text_config=f'node {{ calculator: "Tested" {entries} }}', registry=child)


def test_a_missing_required_port_is_refused(registry: Registry) -> None:
    with pytest.raises(ValidationError) as caught:
        graph(registry, Everything, 'input_stream: "a"')
    text = str(caught.value)
    assert 'For input streams of Tested ValidatePacketTypeSet failed:\nFailed to get tag ""' in text
    assert 'Failed to get tag "TAG" index 0' in text
    assert 'Failed to get tag "MADE" index 0' in text
    assert "GIVEN" not in text
    assert "MANY" not in text


def test_an_undeclared_port_is_refused(registry: Registry) -> None:
    with pytest.raises(ValidationError, match='Tag "EXTRA" index 0 was not expected'):
        graph(registry, Double, 'input_stream: "a" input_stream: "EXTRA:b" output_stream: "c"')


def test_the_types_of_ports_are_the_types_of_streams(registry: Registry) -> None:
    registry.register_calculator(Everything)
    plan = CalculatorGraph(
        text_config="""
            input_stream: "a" input_stream: "b" input_stream: "c"
            node {
              calculator: "Everything"
              input_stream: "a" input_stream: "b" input_stream: "TAG:c"
              output_stream: "o" output_stream: "SAME:s" output_side_packet: "MADE:m"
            }
        """,
        registry=registry,
    ).plan
    assert [each.name for each in plan.nodes[0].input_types] == ["int", "string", "float"]
    assert [each.name for each in plan.nodes[0].output_types] == ["int", "float"]
    assert [each.packet_type.name for each in plan.graph_inputs] == ["int", "string", "float"]


class Sums(Calculator):
    parts = In[int]("PART", multiple=True)
    total = Out[int]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.total, sum(value or 0 for value in cc.get_all(self.parts)))


def test_a_multiple_port_takes_as_many_as_the_graph_connects() -> None:
    runner = CalculatorRunner(Sums)
    for index, value in enumerate([1, 20, 300]):
        runner.push(("PART", index), value, at=0)
    runner.push(("PART", 1), 7, at=1)
    assert runner.run().outputs[0].values == [321, 7]


def test_a_multiple_port_needs_at_least_one_stream(registry: Registry) -> None:
    with pytest.raises(ValidationError, match='Failed to get tag "PART" index 0'):
        graph(registry, Sums, 'output_stream: "o"')


class Uses(Calculator):
    value = In[Any]("VALUE")
    other = In[Any]("OTHER", optional=True)
    out = Out[Any]("OUT")
    unconnected = Out[int]("UNCONNECTED", optional=True)
    side = SideIn[str]("SIDE", optional=True)
    side_out = SideOut[str]("SIDE", optional=True)

    def open(self, cc: CalculatorContext) -> None:
        self.connected = [
            cc.is_connected(port)
            for port in (self.value, self.other, self.unconnected, self.side, self.side_out)
        ]

    def process(self, cc: CalculatorContext) -> None:
        seen = (
            cc.get(self.value, "none"),
            cc.get(self.other, "none"),
            cc.is_empty(self.other),
            cc.side(self.side, "no side"),
        )
        cc.emit(self.unconnected, 1)
        cc.emit(self.out, (seen, self.connected), at=cc.input_timestamp + 1)


def test_optional_ports_have_defaults() -> None:
    runner = CalculatorRunner(Uses, outputs=["OUT"], side_outputs=[])
    runner.push("VALUE", 1, at=0)
    assert runner.run().outputs["OUT"].pairs == [
        (1, ((1, "none", True, "no side"), [True, False, False, False, False]))
    ]

    runner = CalculatorRunner(Uses, side_packets={"SIDE": "x"})
    runner.push("VALUE", 1, at=0)
    runner.push("OTHER", 2, at=5)
    assert runner.run().outputs["OUT"].values == [
        ((1, "none", True, "x"), [True] * 5),
        (("none", 2, False, "x"), [True] * 5),
    ]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda self, cc: cc.get(self.other), r"no input stream 'OTHER'; it has: VALUE:0"),
        (lambda self, cc: cc.side(self.side), r"no input side packet 'SIDE'; it has: none"),
        (lambda self, cc: cc.set_side(self.side_out, "x"), r"no output side packet 'SIDE'"),
        (lambda self, cc: cc.close(self.unconnected), r"no output stream 'UNCONNECTED'"),
        (lambda self, cc: cc.inputs["VALUE", 3], r"no input stream \('VALUE', 3\)"),
    ],
)
def test_ports_may_be_left_unconnected(use: Any, message: str) -> None:
    class Careless(Uses):
        def process(self, cc: CalculatorContext) -> None:
            use(self, cc)

    runner = CalculatorRunner(Careless, outputs=["OUT"], side_outputs=[])
    runner.push("VALUE", 1, at=0)
    with pytest.raises(RunError, match=message):
        runner.run()


def test_a_value_may_be_missing_at_a_timestamp() -> None:
    class Careless(Uses):
        def process(self, cc: CalculatorContext) -> None:
            cc.get(self.other)

    runner = CalculatorRunner(Careless)
    runner.push("VALUE", 1, at=0)
    runner.push("OTHER", 1, at=5)
    with pytest.raises(RunError, match='stream "in_other_0" has no packet at this timestamp'):
        runner.run()


class Sends(Calculator):
    value = In[int]()
    out = Out[Any]()

    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        time = cc.input_timestamp
        if cc.get(self.value) == 0:
            cc.forward(self.out, cc.packet(self.value).at(time + 5))
        elif cc.get(self.value) == 1:
            cc.forward(self.out, Packet.empty(time + 20))
        elif cc.get(self.value) == 2:
            cc.set_bound(self.out, time + 30)
        else:
            cc.close(self.out)


def test_ports_send_packets_and_bounds_and_close(registry: Registry) -> None:
    registry.register_calculator(Sends)
    tested = CalculatorGraph(
        text_config="""
            input_stream: "in"
            node { calculator: "Sends" input_stream: "in" output_stream: "out" }
        """,
        registry=registry,
    )
    tested.start_run()
    bounds = []
    for value in range(4):
        tested.add_packet_to_input_stream("in", value, value)
        bounds.append(tested.statistics().streams["out"].bound)
    assert bounds == [6, 22, 32, Timestamp.DONE]
    tested.close()


@options("enginetest.SpeedOptions")
class SpeedOptions:
    speed: int = 1


def test_options_are_available_from_open_on() -> None:
    class Hasty(Calculator):
        value = In[int]()
        speed = Options(SpeedOptions)

        def __init__(self) -> None:
            assert self.speed.speed == 1

    with pytest.raises(RunError, match=r"Hasty: options are there from open\(\) on"):
        CalculatorRunner(Hasty).run()
    assert isinstance(Hasty.speed, Options)


def test_a_contract_can_depend_on_the_node(registry: Registry) -> None:
    class Picky(Calculator):
        value = In[int]()
        speed = Options(SpeedOptions)

        @classmethod
        def update_contract(cls, contract: CalculatorContract) -> None:
            speed = contract.options(SpeedOptions).speed
            contract.require(speed < 5, f"a speed of {speed} is too much")

    with pytest.raises(ValidationError, match="Tested: a speed of 7 is too much"):
        graph(
            registry,
            Picky,
            'input_stream: "a" node_options { [x/enginetest.SpeedOptions] { speed: 7 } }',
        )


def test_a_calculator_without_process_is_refused() -> None:
    class Forgot(Calculator):
        value = In[int]()

    runner = CalculatorRunner(Forgot)
    runner.push(0, 1, at=0)
    with pytest.raises(RunError, match=r"NotImplementedError: Forgot has no process\(\)"):
        runner.run()


def test_offsets_and_headers_are_set_in_open_only() -> None:
    class Late(Calculator):
        value = In[int]()
        out = Out[int]()

        def process(self, cc: CalculatorContext) -> None:
            with pytest.raises(GraphError, match=r"must be called from Calculator::Open\(\)"):
                cc.set_offset(3)
            with pytest.raises(GraphError, match=r"must be called from Calculator::Open\(\)"):
                cc.outputs[0].set_header(Packet("h"))
            cc.emit(self.out, 1)

    runner = CalculatorRunner(Late)
    runner.push(0, 1, at=0)
    assert runner.run().outputs[0].values == [1]
