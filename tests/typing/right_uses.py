"""Uses that type checkers must accept, with the types that they must infer. Checked, never run."""

from __future__ import annotations

from typing import Any, assert_type

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    CalculatorGraph,
    GraphService,
    In,
    Options,
    Out,
    Packet,
    Registry,
    SideIn,
    SideOut,
    Timestamp,
    calculator,
    options,
)
from graph_runtime.testing import CalculatorRunner, Sink


@options("typingtest.RedactOptions")
class RedactOptions:
    words: tuple[str, ...] = ()
    mask: str = "*"
    limit: int | None = None


@options
class Unnamed:
    rate: float = 0.5


CLOCK: GraphService[list[int]] = GraphService("typingtest.Clock", list)


class Redact(Calculator):
    """Every use of a typed port."""

    text = In[str]("TEXT")
    times = In[int]("TIME", multiple=True)
    clean = Out[str]("TEXT")
    hits = Out[int]("HITS", optional=True)
    model = SideIn[list[str]]("MODEL")
    made = SideOut[float]("MADE")
    redact = Options(RedactOptions)
    by_name = Options("mediapipe.GateCalculatorOptions")

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        assert_type(contract.options(RedactOptions), RedactOptions)
        contract.use_service(CLOCK)

    def open(self, cc: CalculatorContext) -> None:
        assert_type(cc.side(self.model), list[str])
        assert_type(cc.side(self.model, None), list[str] | None)
        assert_type(cc.service(CLOCK), list[int] | None)
        cc.set_side(self.made, 1.5)

    def process(self, cc: CalculatorContext) -> None:
        assert_type(cc.get(self.text), str)
        assert_type(cc.get(self.text, None), str | None)
        assert_type(cc.get(self.text, 0), str | int)
        assert_type(cc.get_all(self.times), list[int | None])
        assert_type(self.redact, RedactOptions)
        assert_type(self.redact.words, tuple[str, ...])
        assert_type(self.redact.limit, int | None)
        assert_type(cc.input_timestamp, Timestamp)
        text = cc.get(self.text)
        for word in self.redact.words:
            text = text.replace(word, self.redact.mask)
        cc.emit(self.clean, text)
        cc.emit(self.hits, 3, at=cc.input_timestamp + 1)
        cc.forward(self.clean, cc.packet(self.text))


class Awaits(Calculator):
    """Methods that are coroutines, some or all."""

    value = In[int]()

    async def open(self, cc: CalculatorContext) -> None:
        assert_type(cc.options(RedactOptions), RedactOptions)

    async def process(self, cc: CalculatorContext) -> None:
        assert_type(cc.get(self.value), int)


@calculator("typingtest.Double")
def double(value: int) -> int:
    return 2 * value


@calculator(registry=Registry())
class Registered(Calculator):
    """A decorated class, whose type must not change."""

    value = In[int]()


def uses() -> None:
    assert_type(double(3), int)
    assert_type(Registered.value, In[int])
    assert_type(Redact.redact, Options[RedactOptions])
    assert_type(RedactOptions(words=("a",), limit=3).mask, str)
    assert_type(Unnamed(0.25).rate, float)
    assert_type(Timestamp(5) + 3, Timestamp)
    graph = CalculatorGraph(text_config="")
    graph.observe_output_stream("out", lambda stream, packet: print(stream, packet.value))
    graph.add_packet_to_input_stream("in", "a bare value", 0)
    graph.add_packet_to_input_stream("in", Packet("x", Timestamp.PRESTREAM))
    for packet in graph.add_output_stream_poller("out"):
        assert_type(packet, Packet)
    runner = CalculatorRunner(Redact, options=RedactOptions(), side_packets={"MODEL": ["x"]})
    runner.push("TEXT", "x", at=0)
    assert_type(runner.run().outputs["TEXT"], Sink)
    assert_type(runner.outputs["TEXT"].values, list[Any])


async def uses_async(graph: CalculatorGraph) -> None:
    async with graph as entered:
        assert_type(entered, CalculatorGraph)
        await graph.start_run_async({"model": []})
        async for packet in graph.add_output_stream_poller("out"):
            assert_type(packet, Packet)
