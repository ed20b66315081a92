"""Bad graphs, bad calculators, bad packets: one clear error each, and the process continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    CalculatorGraph,
    GraphConfigError,
    GraphSyntaxError,
    In,
    NotFoundError,
    Out,
    Packet,
    Registry,
    RunError,
    StateError,
    Timestamp,
    ValidationError,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.small_calculators import Forward, one_node

NODES = 10_000


@pytest.fixture(autouse=True)
def _still_works(registry: Registry) -> Iterator[None]:
    """Check after each test that an ordinary graph runs in the same process."""
    yield
    graph = CalculatorGraph(text_config=one_node("Double"), registry=registry)
    sink = Sink(graph, "out")
    graph.start_run()
    graph.add_packet_to_input_stream("in", 21, 0)
    graph.close()
    assert sink.values == [42]


# Files and texts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node {\n  calculator: ", r"<text>:2:\d+: .*found the end of the text"),
        ("node { calculater: 'X' }", "<text>:1:8: .*calculater"),
        ("node { calculator: 'X", "<text>:1:20: "),
        ("node " * 50_000, "<text>:1:"),
        ("node { " * 50_000, "<text>:1:"),
        ("\0", "<text>:1:1: "),
    ],
)
def test_a_syntax_error_names_line_and_column(text: str, message: str) -> None:
    with pytest.raises(GraphSyntaxError, match=message):
        CalculatorGraph(text_config=text)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    with pytest.raises(GraphConfigError, match=r"graph\.pbtxt: no such file"):
        CalculatorGraph(binary_graph_path=path)
    path.write_bytes(b"# ten megabytes\n" * (10 * 2**20 // 16))
    with pytest.raises(GraphConfigError, match=r"graph\.pbtxt: more than \d+ bytes, too large"):
        CalculatorGraph(binary_graph_path=path)
    path.write_bytes(b'input_stream: "a"\nnode { calculator: "\xff\xfe" }')
    with pytest.raises(GraphSyntaxError, match=r"graph\.pbtxt:2:21: .*0xff is not UTF-8"):
        CalculatorGraph(binary_graph_path=path)


@pytest.mark.parametrize("entry", ["TAG:999999999999:name", "TAG:10001:name", "TAG:1:name", "Name"])
def test_stream_entries_name_their_node(registry: Registry, entry: str) -> None:
    with pytest.raises(ValidationError, match="TagMaps for node") as caught:
        CalculatorGraph(
            text_config=f"""
                input_stream: "name"
                node {{ calculator: "Forward" input_stream: "{entry}" output_stream: "out" }}
            """,
            registry=registry,
        )
    assert len(caught.value.findings) == 1
    assert 'calculator: "Forward"' in str(caught.value)
    assert len(str(caught.value)) < 5000


# Size ---------------------------------------------------------------------------------------------


def chain(length: int, *, is_closed: bool = False) -> str:
    """Return a chain of nodes in the wrong order, so that it must be sorted."""
    nodes = [
        f'node {{ calculator: "Forward" input_stream: "s{place}" output_stream: "s{place + 1}" }}'
        for place in reversed(range(length))
    ]
    first = (
        f'node {{ calculator: "Forward" input_stream: "s{length}" output_stream: "s0" }}'
        if is_closed
        else 'input_stream: "s0"'
    )
    return "\n".join([first, *nodes])


@pytest.mark.unmeasured
def test_a_chain_of_ten_thousand_nodes_runs(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=chain(NODES), registry=registry)
    sink = Sink(graph, f"s{NODES}", observe_timestamp_bounds=True)
    graph.start_run()
    graph.add_packet_to_input_stream("s0", "x", 0)
    graph.set_input_stream_timestamp_bound("s0", 50)
    graph.close()

    assert sink.pairs == [(0, "x")]
    assert sink.timestamps == [0, 49]


@pytest.mark.unmeasured
def test_a_cycle_of_thousands_of_nodes_is_reported(registry: Registry) -> None:
    with pytest.raises(ValidationError, match="cycle detected") as caught:
        CalculatorGraph(text_config=chain(3000, is_closed=True), registry=registry)
    assert len(caught.value.findings) == 1


def test_a_subgraph_that_contains_itself_is_refused(registry: Registry) -> None:
    for name, inner in (("A", "B"), ("B", "C"), ("C", "A")):
        registry.register_subgraph(
            f'type: "{name}" input_stream: "x" output_stream: "y" '
            f'node {{ calculator: "{inner}" input_stream: "x" output_stream: "y" }}'
        )
    with pytest.raises(ValidationError, match="subgraph A contains itself: A -> B -> C -> A"):
        CalculatorGraph(text_config=one_node("A"), registry=registry)


def test_subgraphs_that_double_at_every_level_are_refused(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graph_runtime.plan.subgraph.MAX_NODES", 1000)
    for level in range(60):
        registry.register_subgraph(f"""
            type: "Level{level}" input_stream: "x" output_stream: "y"
            node {{ calculator: "Level{level + 1}" input_stream: "x" output_stream: "m" }}
            node {{ calculator: "Level{level + 1}" input_stream: "m" output_stream: "y" }}
        """)
    registry.register_calculator(Forward, "Level60")
    with pytest.raises(ValidationError, match="subgraphs of Level0 expand to more than 1000 nodes"):
        CalculatorGraph(text_config=one_node("Level0"), registry=registry)


# Calculators that fail ----------------------------------------------------------------------------


class Fails(Calculator):
    """Fails in the method that its class attribute names."""

    value = In[int]()
    out = Out[int]()
    at = ""

    def __init__(self) -> None:
        self.fail("__init__")

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        if cls.at == "contract":
            raise OSError("disk on fire")

    def open(self, cc: CalculatorContext) -> None:
        self.fail("open")

    def process(self, cc: CalculatorContext) -> None:
        self.fail("process")
        cc.emit(self.out, cc.get(self.value))

    def close(self, cc: CalculatorContext) -> None:
        self.fail("close")

    def fail(self, method: str) -> None:
        if self.at == method:
            raise OSError("disk on fire")


def run(registry: Registry, calculator: type[Calculator], value: Any = 1, time: Any = 7) -> None:
    """Send one packet through one node; return the run's error, or None."""
    registry.register_calculator(calculator, "Tested")
    graph = CalculatorGraph(text_config=one_node("Tested", 'name: "tested"'), registry=registry)
    graph.start_run()
    try:
        graph.add_packet_to_input_stream("in", value, time)
    finally:
        graph.close()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("__init__", r'__init__\(\) for node "tested" failed: OSError: disk on fire'),
        ("open", r'Open\(\) for node "tested" failed: OSError: disk on fire'),
        (
            "process",
            r'Process\(\) for node "tested" failed: OSError: disk on fire \(at input timestamp 7\)',
        ),
        ("close", r'Close\(\) for node "tested" failed: OSError: disk on fire'),
    ],
)
def test_a_method_that_raises_fails_the_run(registry: Registry, method: str, message: str) -> None:
    with pytest.raises(RunError, match=message) as caught:
        run(registry, type("Tested", (Fails,), {"at": method}))
    assert len(caught.value.errors) == 1
    assert isinstance(caught.value.errors[0].__cause__ or caught.value.__cause__, OSError)


def test_a_contract_that_raises_fails_the_validation(registry: Registry) -> None:
    with pytest.raises(
        ValidationError, match="Tested: its contract failed: OSError: disk"
    ) as error:
        run(registry, type("Tested", (Fails,), {"at": "contract"}))
    assert len(error.value.findings) == 1
    assert isinstance(error.value.findings[0].__cause__, OSError)


@pytest.mark.parametrize("order", ["raises", "is not a number"])
def test_a_source_layer_that_raises_is_an_error(registry: Registry, order: str) -> None:
    class Source(Calculator):
        out = Out[int]()

        def source_process_order(self, cc: CalculatorContext) -> int:
            return 1 // 0 if order == "raises" else "first"  # type: ignore[return-value]

    registry.register_calculator(Source)
    graph = CalculatorGraph(
        text_config='node { calculator: "Source" output_stream: "out" }', registry=registry
    )
    graph.start_run()
    with pytest.raises(RunError, match=r'SourceProcessOrder\(\) for node "Source" failed: \w+Err'):
        graph.wait_until_done()


@pytest.mark.parametrize("method", ["open", "process", "close"])
def test_a_method_that_returns_a_value_fails_the_run(registry: Registry, method: str) -> None:
    def returns(self: Any, cc: CalculatorContext) -> int:
        return 5

    with pytest.raises(RunError, match='node "tested" failed: returned int; a calc'):
        run(registry, type("Tested", (Fails,), {method: returns}))


@pytest.mark.parametrize(
    ("send", "message"),
    [
        (lambda cc: cc.outputs[0].add("one", 7),
         r'"tested".* outputting to stream "out": .*stores "string", but "int".*timestamp 7'),
        (lambda cc: cc.outputs[0].add_packet(Packet(1)),
         r'"tested".*In stream "out", timestamp not specified .*Unset.*timestamp 7'),
        (lambda cc: [cc.outputs[0].add(1, 7), cc.outputs[0].add(1, 7)],
         r'stream "out"\. .* is 8 but received 7.*\(sent by node "tested"\)'),
        (lambda cc: [cc.outputs[0].close(), cc.outputs[0].add(1, 7)],
         r'"tested".*sent to closed stream "out".*timestamp 7'),
        (lambda cc: cc.outputs[0].set_next_timestamp_bound(Timestamp.DONE),
         r'"tested".*In stream "out", timestamp bound set to illegal value.*timestamp 7'),
        (lambda cc: cc.outputs["NONE"].add(1, 7),
         r'"tested".*no output stream \'NONE\'; it has: :0 \(at input timestamp 7\)'),
    ],
)  # fmt: skip
def test_errors_of_wrong_packets_name_node_stream_and_timestamp(
    registry: Registry, send: Any, message: str
) -> None:
    class Sends(Fails):
        def process(self, cc: CalculatorContext) -> None:
            send(cc)

    child = Registry(registry)
    child.register_calculator(Sends)
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in"
            node { name: "tested" calculator: "Sends" input_stream: "in" output_stream: "out" }
            node { calculator: "Double" input_stream: "out" output_stream: "end" }
        """,
        registry=child,
    )
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 7)
    with pytest.raises(RunError, match=message) as caught:
        graph.close()
    assert len(caught.value.errors) == 1


@pytest.mark.parametrize(
    ("value", "time", "message"),
    [
        ("one", 7, 'stream "in": The Packet stores "string", but "int" was requested'),
        (1, Timestamp.DONE, r'stream "in", timestamp .* illegal value: Timestamp::Done\(\)'),
    ],
)
def test_wrong_packets_of_the_application_fail_the_run(
    registry: Registry, value: Any, time: Any, message: str
) -> None:
    with pytest.raises(RunError, match=message) as caught:
        run(registry, Fails, value, time)
    assert len(caught.value.errors) == 1


def test_an_observer_that_raises_fails_the_run(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("Forward"), registry=registry)
    graph.observe_output_stream("out", lambda stream, packet: 1 / 0)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 7)
    with pytest.raises(RunError, match='observer of stream "out" failed at timestamp 7: ZeroDiv'):
        graph.close()


def test_a_calculator_whose_package_cannot_be_imported_is_an_error(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    point = EntryPoint("acme", "enginetest_no_such_package:register", "graphrt.calculators")
    monkeypatch.setattr("graph_runtime.plan.registry.entry_points", lambda *, group: [point])
    alone = Registry()
    alone.enable_entry_points()
    with pytest.raises(ValidationError, match=r'"Acme".*acme: ModuleNotFoundError: No module'):
        CalculatorGraph(text_config='node { calculator: "Acme" }', registry=alone)


# The wrong moment ---------------------------------------------------------------------------------


def test_calls_at_the_wrong_moment_or_with_wrong_names_are_refused(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("Forward"), registry=registry)
    graph.start_run()
    with pytest.raises(StateError, match="already going on"):
        graph.start_run()
    with pytest.raises(NotFoundError, match=r'"inn".*Did you mean "in"'):
        graph.add_packet_to_input_stream("inn", 1, 0)
    graph.close()
    with pytest.raises(StateError, match="before StartRun"):
        graph.add_packet_to_input_stream("in", 1, 0)


def test_a_plan_of_any_size_is_made_only_once(registry: Registry) -> None:
    plan = validate_graph(parse_graph_text(chain(100)), registry=registry)
    sinks = []
    for _ in range(3):
        graph = CalculatorGraph(plan)
        sinks.append(Sink(graph, "s100"))
        graph.start_run()
        graph.add_packet_to_input_stream("s0", 1, 0)
        graph.close()
    assert [sink.values for sink in sinks] == [[1]] * 3
