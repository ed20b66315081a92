"""Status handlers: called before and after a run, skipped without their side packets."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import CalculatorGraph, Code, GraphError, Registry, RunError
from tests.graph_runtime.small_calculators import one_node

CONFIG = 'status_handler { status_handler: "Noting" input_side_packet: "WHO:name" }'


class Noting:
    """A status handler that notes its calls, and fails in one of the phases."""

    def __init__(self, fails_in: str = "") -> None:
        self.calls: list[tuple[str, Any, dict[str, Any]]] = []
        self._fails_in = fails_in

    def __call__(self, phase: str, error: Any, side_packets: Any, options: Any) -> None:
        names = {name: packet.value for name, packet in side_packets.items()}
        self.calls.append((phase, error, names))
        if phase == self._fails_in:
            raise GraphError("no", code=Code.DATA_LOSS)


def make(registry: Registry, handler: Any) -> CalculatorGraph:
    registry.register_status_handler("Noting", handler)
    return CalculatorGraph(text_config=one_node("Forward", graph=CONFIG), registry=registry)


def test_it_is_called_before_and_after_the_run(registry: Registry) -> None:
    noting = Noting()
    graph = make(registry, noting)
    graph.start_run({"name": "x"})
    graph.close()
    assert noting.calls == [("PRE_RUN", None, {"name": "x"}), ("POST_RUN", None, {"name": "x"})]


def test_it_may_ask_the_graph_after_the_run(registry: Registry) -> None:
    looked: list[int] = []

    def look(phase: str, *_: Any) -> None:
        if phase == "POST_RUN":
            looked.append(len(graph.statistics().nodes))

    graph = make(registry, look)
    graph.start_run({"name": "x"})
    graph.close()
    assert looked == [1]


def test_it_is_skipped_without_its_side_packets(registry: Registry) -> None:
    noting = Noting()
    graph = make(registry, noting)
    with pytest.raises(RunError, match="Skipping run of Noting: Missing input side packet: name"):
        graph.start_run()
    assert noting.calls == []


@pytest.mark.parametrize(
    ("phase", "method"), [("PRE_RUN", "HandlePreRunStatus"), ("POST_RUN", "HandleStatus")]
)
def test_its_error_is_the_runs_with_its_code(registry: Registry, phase: str, method: str) -> None:
    graph = make(registry, Noting(fails_in=phase))

    def run() -> None:
        graph.start_run({"name": "x"})
        graph.close()

    with pytest.raises(RunError, match=f"Noting::{method} failed: no") as failed:
        run()
    assert failed.value.code is Code.DATA_LOSS
