"""Totals of a graph's runs at any moment, and observers that running runs take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    Out,
    RunTotals,
)
from graph_runtime.observe.live_calls import BUCKETS, LiveCalls, bucket_of, describe_packet
from graph_runtime.observe.run_totals import RUNS_PER_TURN
from graph_runtime.packet import Packet, packet_at
from graph_runtime.plan.registry import Registry

TWO = """
input_stream: "in"
output_stream: "out"
node { name: "first" calculator: "Pass" input_stream: "IN:in" output_stream: "OUT:middle" }
node {
  name: "pair"
  calculator: "Pair"
  input_stream: "A:middle"
  input_stream: "B:other"
  output_stream: "OUT:out"
}
input_stream: "other"
"""


class Pass(Calculator):
    """Passes packets on; fails on the word "fail"."""

    source = In[str]("IN")
    out = Out[str]("OUT")

    def process(self, cc: CalculatorContext) -> None:
        if cc.get(self.source) == "fail":
            raise ValueError("told to fail")
        cc.emit(self.out, cc.get(self.source))


class Pair(Calculator):
    """Joins texts of the same timestamp."""

    a = In[str]("A")
    b = In[str]("B")
    out = Out[str]("OUT")

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.a) and not cc.is_empty(self.b):
            cc.emit(self.out, cc.get(self.a) + cc.get(self.b))


@pytest.fixture
def graph() -> Iterator[CalculatorGraph]:
    registry = Registry(REGISTRY)
    registry.register_calculator(Pass)
    registry.register_calculator(Pair)
    graph = CalculatorGraph(text_config=TWO, registry=registry)
    yield graph
    graph.close()


def test_a_run_counts_while_it_goes_on_and_after_its_end(graph: CalculatorGraph) -> None:
    totals = RunTotals(graph.plan)
    graph.count_into(totals)
    assert totals.streams == ("in", "other", "middle", "out")
    for run in range(2):
        graph.start_run()
        for time in range(2):
            graph.add_packet_to_input_stream("in", "a", time)
        graph.wait_until_idle()
        now = totals.look()
        assert (now.runs, now.ended) == (1, run)
        assert now.packets == [2 + 3 * run, run, 2 + 3 * run, run]
        assert now.queued == [0, 2]
        assert now.queued_on == [0, 0, 2, 0]
        assert now.waiting == [0, 1]
        assert now.throttled == ()
        graph.add_packet_to_input_stream("in", "a", 2)
        graph.wait_until_idle()
        later = totals.look()
        graph.add_packet_to_input_stream("other", "b", 0)
        graph.close_all_input_streams()
        graph.wait_until_done()
        done = totals.look()
        assert (done.runs, done.ended, done.failed) == (0, run + 1, 0)
        assert done.packets == [3 * (run + 1), run + 1, 3 * (run + 1), run + 1]
        assert all(after >= before for after, before in zip(done.calls, later.calls, strict=True))
        assert done.queued == [0, 0]


def test_a_failed_run_is_counted_at_its_node(graph: CalculatorGraph) -> None:
    totals = RunTotals(graph.plan)
    graph.count_into(totals)
    graph.start_run()
    graph.add_packet_to_input_stream("in", "fail", 0)
    with pytest.raises(Exception, match="told to fail"):
        graph.wait_until_done()
    now = totals.look()
    assert (now.ended, now.failed, now.errors) == (1, 1, [1, 0])
    (failure,) = totals.failures
    assert failure.node == "first"
    assert "told to fail" in failure.text
    graph.start_run()
    graph.cancel()
    with pytest.raises(Exception, match="failed"):
        graph.wait_until_done()
    assert (totals.ended, totals.failed) == (2, 1), "a cancelled run has not failed"


def test_a_run_that_goes_on_takes_an_observer_and_lets_go_of_it(graph: CalculatorGraph) -> None:
    totals = RunTotals(graph.plan)
    graph.count_into(totals)
    own = LiveCalls(2)
    graph.trace(own)
    graph.start_run()
    graph.add_packet_to_input_stream("in", "a", 0)
    graph.wait_until_idle()
    later = LiveCalls(2)
    totals.observer = later
    assert totals.observer is later
    graph.add_packet_to_input_stream("in", "a", 1)
    graph.wait_until_idle()
    totals.observer = None
    graph.add_packet_to_input_stream("in", "a", 2)
    graph.wait_until_idle()
    # Three packets come; one packet comes.
    assert [sum(each) for each in own.buckets] == [3, 0]
    assert [sum(each) for each in later.buckets] == [1, 0]


def test_a_look_in_turns_counts_a_run_that_ends_meanwhile_once(graph: CalculatorGraph) -> None:
    plan = graph.plan
    totals = RunTotals(plan)
    graphs = [CalculatorGraph(validated_graph=plan) for _ in range(RUNS_PER_TURN + 1)]
    for each in graphs:
        each.count_into(totals)
        each.start_run()
        each.add_packet_to_input_stream("in", "a", 0)
        each.wait_until_idle()
    turns = totals.look_in_turns()
    assert next(turns) is None
    for each in graphs:
        each.close()
    now = next(turns)
    assert now is not None
    assert now.packets[0] == len(graphs)
    assert (now.runs, now.ended) == (len(graphs), 0)
    after = totals.look()
    assert after.packets[0] == len(graphs)
    assert after.ended == len(graphs)
    assert all(new >= old for new, old in zip(after.calls, now.calls, strict=True))


def test_buckets_are_two_for_each_doubling() -> None:
    bounds = [0, 1024, 1536, 2048, 3072, 4096]
    assert [bucket_of(each) for each in bounds] == [0, 1, 2, 3, 4, 5]
    assert [bucket_of(each - 1) for each in bounds[1:]] == [0, 1, 2, 3, 4]
    assert bucket_of(1 << 62) == BUCKETS - 1


class Odd:
    """An array's attributes, of which one raises."""

    shape = (1,)

    @property
    def nbytes(self) -> int:
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("value", "size", "shown"),
    [
        ("text", 4, "tex"),
        ("größe", None, "grö"),
        (b"\xff1234", 5, "\\xf"),
        (12, None, "12"),
        pytest.param(10**5000, None, None, id="large"),
        (["a"], None, None),
        (Odd(), None, None),
    ],
)
def test_a_packet_is_described_without_the_methods_of_its_class(
    value: object, size: int | None, shown: str | None
) -> None:
    seen = describe_packet("s", packet_at(value, 7), 3)
    assert (seen.stream, seen.time, seen.type) == ("s", 7, type(value).__name__)
    assert (seen.size, seen.value) == (size, shown)
    assert describe_packet("s", Packet(value)).value is None
