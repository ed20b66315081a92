"""Reasons why a run without an error sent nothing on a stream."""

from __future__ import annotations

import pytest

from calculators import register_all
from graph_runtime import Calculator, CalculatorContext, In, Out, Registry, RunError, SideIn
from tests.graph_runtime.every_driver import DRIVERS, make_graph, run_graph

ROUTED = """
    input_stream: "in"
    node { name: "router" calculator: "Router" input_stream: "in"
           output_stream: "A:to_a" output_stream: "B:to_b" }
    node { name: "a" calculator: "Loop" input_stream: "to_a" input_stream: "AGAIN:again_a"
           output_stream: "from_a" output_stream: "AGAIN:again_a"
           input_stream_info { tag_index: "AGAIN" back_edge: true } %(sync)s }
    node { name: "b" calculator: "Loop" input_stream: "to_b" input_stream: "AGAIN:again_b"
           output_stream: "from_b" output_stream: "AGAIN:again_b"
           input_stream_info { tag_index: "AGAIN" back_edge: true } %(sync)s }
    node { name: "join" calculator: "%(join)s" input_stream: "from_a" input_stream: "from_b"
           output_stream: "out" %(handler)s }
"""
SYNC = (
    'input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler" options { '
    '[mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "AGAIN" } } } }'
)
IMMEDIATE = 'input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }'


class Router(Calculator):
    """Sends everything to A."""

    value = In[int]()
    a = Out[int]("A")
    b = Out[int]("B")
    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.a, cc.get(self.value))


class Loop(Calculator):
    """Answers at once; could loop, as nodes of language models do."""

    value = In[int]()
    again = In[int]("AGAIN")
    answer = Out[int]()
    next_turn = Out[int]("AGAIN")
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        pass

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.answer, cc.get(self.value))


class Swallow(Calculator):
    value = In[int]()
    answer = Out[int]()
    fails = SideIn[bool]("FAILS", optional=True)

    def process(self, cc: CalculatorContext) -> None:
        if cc.side(self.fails, False):
            raise ValueError("as it was asked to")


@pytest.fixture
def nodes(registry: Registry) -> Registry:
    register_all(registry)
    for each in (Router, Loop, Swallow):
        registry.register_calculator(each)
    return registry


def routed(join: str, handler: str = "", sync: str = SYNC) -> str:
    return ROUTED % {"join": join, "handler": handler, "sync": sync}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("join", ["MergeCalculator", "ImmediateMuxCalculator"])
def test_a_join_that_waits_for_a_silent_branch_is_named(
    nodes: Registry, join: str, driver: str
) -> None:
    graph = make_graph(routed(join), nodes, driver)
    run_graph(graph, driver, [("in", 1, 0)])
    assert graph.silence("out") == (
        'node "join" holds "from_a" and waits for "from_b", which node "b" has not settled; '
        'node "b" did not run: nothing came on "to_b"; '
        'node "router" ran once and sent nothing on "to_b"'
    )
    assert graph.silence("from_a") == ""


def test_the_report_is_about_the_last_run(nodes: Registry) -> None:
    graph = make_graph(routed("MergeCalculator", IMMEDIATE), nodes, "default")
    assert graph.silence("out") == ""
    run_graph(graph, "default", [])
    assert graph.silence("out").endswith(
        'no packet was added to the input stream "in" of the graph'
    )
    run_graph(graph, "default", [("in", 1, 0)])
    assert graph.silence("out") == ""


def test_a_loop_that_nothing_starts_is_named(nodes: Registry) -> None:
    graph = make_graph(routed("MergeCalculator", IMMEDIATE, sync=""), nodes, "default")
    run_graph(graph, "default", [("in", 1, 0)])
    assert 'node "a" holds "to_a" and waits for "again_a", which it sends itself' in graph.silence(
        "from_a"
    )


def test_a_node_that_ran_and_sent_nothing_is_named(nodes: Registry) -> None:
    text = """
        input_stream: "in"
        node { calculator: "Swallow" input_stream: "in" output_stream: "out"
               input_side_packet: "FAILS:fails" }
    """
    graph = make_graph(text, nodes, "default")
    run_graph(graph, "default", [("in", 1, 0), ("in", 2, 1)], {"fails": False})
    assert graph.silence("out") == 'node "Swallow" ran 2 times and sent nothing on "out"'
    with pytest.raises(RunError):
        run_graph(graph, "default", [("in", 1, 0)], {"fails": True})
    assert graph.silence("out") == ""  # the error is the reason


def test_the_check_before_the_run_warns_of_the_same_joins(nodes: Registry) -> None:
    for join in ("MergeCalculator", "ImmediateMuxCalculator"):
        [warning] = make_graph(routed(join), nodes, "default").plan.warnings
        assert warning.node == "join"
        assert 'node "a" may send nothing on "from_a"' in warning.message
        assert "ImmediateInputStreamHandler" in warning.hint
        assert make_graph(routed(join, IMMEDIATE), nodes, "default").plan.warnings == ()


def test_branches_that_promise_their_timestamps_may_be_joined(nodes: Registry) -> None:
    """Also in a loop: PreviousLoopbackCalculator settles timestamps at which it sends nothing."""
    text = """
        input_stream: "in"
        node { calculator: "Forward" input_stream: "in" output_stream: "a" }
        node { calculator: "PreviousLoopbackCalculator" input_stream: "MAIN:in"
               input_stream: "LOOP:out" output_stream: "PREV_LOOP:before"
               input_stream_info { tag_index: "LOOP" back_edge: true } }
        node { calculator: "Join" input_stream: "LEFT:a" input_stream: "RIGHT:before"
               output_stream: "out" }
    """
    assert make_graph(text, nodes, "default").plan.warnings == ()


def test_a_loop_that_nothing_starts_gives_a_warning(registry: Registry) -> None:
    text = """
        input_stream: "in"
        node { name: "first" calculator: "Join" input_stream: "LEFT:in" input_stream: "RIGHT:again"
               output_stream: "out" input_stream_info { tag_index: "RIGHT" back_edge: true } }
        node { calculator: "Forward" input_stream: "out" output_stream: "again" }
    """
    [warning] = make_graph(text, registry, "default").plan.warnings
    assert str(warning).startswith('node "first": waits for "in" together with "again", which')
    assert 'sync_set { tag_index: "RIGHT:0" }' in warning.hint


def test_a_handler_that_replaces_a_calculators_own_gives_a_warning(
    nodes: Registry,
) -> None:
    text = """
        input_stream: "in"
        input_stream: "which"
        input_stream_handler { input_stream_handler: "DefaultInputStreamHandler" }
        node { calculator: "MuxCalculator" input_stream: "INPUT:in" input_stream: "SELECT:which"
               output_stream: "OUTPUT:out" }
    """
    [warning] = make_graph(text, nodes, "default").plan.warnings
    assert "MuxCalculator is written for MuxInputStreamHandler" in warning.message


class Chooser(Router):
    chooses_output = True


class Paper(int):
    """A type of packets of which none may be left unread."""

    must_be_read = True
    joined_by = "Stapler"


class Press(Calculator):
    value = In[int]()
    paper = Out[Paper]()

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.paper, Paper(cc.get(self.value)))


class Stamp(Calculator):
    plain = In[Paper]()
    stamped = Out[Paper]()

    def process(self, cc: CalculatorContext) -> None:
        cc.forward(self.stamped, cc.packet(self.plain))


def test_a_join_of_branches_of_which_one_is_chosen_certainly_waits(nodes: Registry) -> None:
    nodes.register_calculator(Chooser)
    for chooser, is_certain in (("Router", False), ("Chooser", True)):
        text = routed("MergeCalculator").replace('"Router"', f'"{chooser}"')
        [warning] = make_graph(text, nodes, "default").plan.warnings
        assert warning.is_certain is is_certain
        assert ("sends each packet to one of these branches" in warning.message) is is_certain


def test_with_times_the_report_has_timestamps_and_bounds(nodes: Registry) -> None:
    graph = make_graph(routed("MergeCalculator"), nodes, "default")
    run_graph(graph, "default", [("in", 1, 7)])
    assert graph.silence("out", shows_times=True).startswith(
        'node "join" holds "from_a" at 7 and waits for "from_b", which node "b" has not settled '
        "beyond Timestamp::PreStream()"
    )
    assert graph.held_back() == [
        'node "join" holds "from_a" at 7 and waits for "from_b", which node "b" has not settled '
        "beyond Timestamp::PreStream()"
    ]


PAPERS = """
    input_stream: "in" output_stream: "out"
    node { name: "press" calculator: "Press" input_stream: "in" output_stream: "paper" }
    node { name: "stamp" calculator: "Stamp" input_stream: "paper" output_stream: "stamped" }
    node { name: "last" calculator: "Stamp" input_stream: "%s" output_stream: "out" }
"""


def test_a_stream_that_must_be_read_and_is_not_gives_a_warning(nodes: Registry) -> None:
    for each in (Press, Stamp):
        nodes.register_calculator(each)
    assert make_graph(PAPERS % "stamped", nodes, "default").plan.warnings == ()
    [warning] = make_graph(PAPERS % "paper", nodes, "default").plan.warnings
    assert str(warning) == (
        'node "stamp": makes "stamped" of "paper", but nobody reads "stamped": node "last" reads '
        '"paper", past this node; let node "last" read "stamped"'
    )
    text = (PAPERS % "stamped").replace('output_stream: "out"\n    node { name: "press"', "%s")
    unread = (
        'output_stream: "out" node { calculator: "Press" input_stream: "in" output_stream: "x" }'
    )
    [warning] = make_graph(text % f'{unread} node {{ name: "press"', nodes, "default").plan.warnings
    assert str(warning).startswith('node "Press": sends "x", and nobody reads it')
