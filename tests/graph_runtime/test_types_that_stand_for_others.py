"""A class may stand for others: branches that make either may come together, in any order."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import calculators
from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    Out,
    Registry,
    ValidationError,
)


class Message:
    """What an author's node makes."""


class Array:
    """What a built-in node makes."""

    stands_for: ClassVar[tuple[type, ...]] = (Message,)


class MakesMessage(Calculator):
    trigger = In[int]("IN")
    made = Out[Message]("OUT")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.made, Message())


class MakesArray(Calculator):
    trigger = In[int]("IN")
    made = Out[Array]("OUT")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.made, Array())


class Reads(Calculator):
    value = In[Array]("IN")
    name = Out[str]("OUT")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.name, type(cc.get(self.value)).__name__)


class ReadsMessage(Calculator):
    value = In[Message]("IN")

    def process(self, cc: CalculatorContext) -> None:
        """Take what comes."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    calculators.register_all(REGISTRY)
    made = Registry(REGISTRY)
    for each in (MakesMessage, MakesArray, Reads, ReadsMessage):
        made.register_calculator(each)
    return made


def mux(first: str, second: str) -> str:
    return f"""
        input_stream: "in"
        input_stream: "select"
        output_stream: "out"
        node {{ calculator: "{first}" input_stream: "IN:in" output_stream: "OUT:a" }}
        node {{ calculator: "{second}" input_stream: "IN:in" output_stream: "OUT:b" }}
        node {{
          calculator: "SwitchMuxCalculator"
          input_stream: "SELECT:select"
          input_stream: "C0__V:a"
          input_stream: "C1__V:b"
          output_stream: "V:both"
        }}
        node {{ calculator: "Reads" input_stream: "IN:both" output_stream: "OUT:out" }}
    """


@pytest.mark.parametrize("order", [("MakesMessage", "MakesArray"), ("MakesArray", "MakesMessage")])
def test_channels_of_a_switch_may_have_either(registry: Registry, order: tuple[str, str]) -> None:
    said: list[Any] = []
    with CalculatorGraph(text_config=mux(*order), registry=registry) as graph:
        graph.observe_output_stream("out", lambda _, packet: said.append(packet.value))
        graph.start_run()
        for time in (0, 1):
            graph.add_packet_to_input_stream("select", time, time)
            graph.add_packet_to_input_stream("in", 5, time)
        graph.close_all_packet_sources()
        graph.wait_until_done()
    assert said == [name.removeprefix("Makes") for name in order]


def test_a_packet_from_outside_may_be_either(registry: Registry) -> None:
    text = """
        input_stream: "in"
        output_stream: "out"
        node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "same" }
        node { calculator: "Reads" input_stream: "IN:same" output_stream: "OUT:out" }
    """
    said: list[Any] = []
    with CalculatorGraph(text_config=text, registry=registry) as graph:
        graph.observe_output_stream("out", lambda _, packet: said.append(packet.value))
        graph.start_run()
        for time, value in enumerate((Message(), Array())):
            graph.add_packet_to_input_stream("in", value, time)
        graph.close_all_packet_sources()
        graph.wait_until_done()
    assert said == ["Message", "Array"]


def test_who_wants_only_the_other_is_told_at_the_start(registry: Registry) -> None:
    text = """
        input_stream: "in"
        node { calculator: "MakesArray" input_stream: "IN:in" output_stream: "OUT:a" }
        node { calculator: "ReadsMessage" input_stream: "IN:a" }
    """
    with pytest.raises(ValidationError, match='"Message"'):
        CalculatorGraph(text_config=text, registry=registry)
