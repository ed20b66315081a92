"""MediaPipe's semantics, case by case, on every driver."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.core.loops import EndLoopCalculator
from calculators.core.vectors import (
    ClipVectorSizeCalculator,
    GetVectorItemCalculator,
    VectorCalculator,
    VectorSizeCalculator,
    variants,
)
from graph_runtime import REGISTRY, Registry
from tests.graph_runtime.case_calculators import register_case_calculators
from tests.graph_runtime.cases import CaseRun, load_cases

CASES = load_cases()
DRIVERS = ["application thread", "default", "asyncio", "thread pool"]

#: Stock templates that the cases use for int.
INT_INSTANCES: dict[str, type[VectorCalculator]] = {
    "TestEndLoopIntCalculator": EndLoopCalculator,
    "TestGetIntVectorItemCalculator": GetVectorItemCalculator,
    "TestIntVectorSizeCalculator": VectorSizeCalculator,
    "TestClipIntVectorSizeCalculator": ClipVectorSizeCalculator,
}

#: Cases whose expectation holds for one schedule; the drivers listed have another.
SCHEDULE_DEPENDENT: dict[str, set[str]] = {
    # The first packet fills a queue of size one. That is a deadlock unless the node has not been
    # opened before the second packet arrives, as on the application's thread.
    "handler/mux/removes_unused_data_packets_passthrough": {"default", "asyncio", "thread pool"},
    # Both packets are queued when the node is called; on a pool the call may come after the first.
    "handler/immediate/packet_order_smallest_timestamp_first": {"default", "thread pool"},
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    registry = Registry(REGISTRY)
    register_case_calculators(registry)
    for name, template in INT_INSTANCES.items():
        registry.register_calculator(variants(template, {name: int})[-1])
    return registry


# On all drivers in one test: a run takes less time than a test around it.
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_case_behaves_as_in_mediapipe(case: dict[str, Any], registry: Registry) -> None:
    others = SCHEDULE_DEPENDENT.get(case["name"], set())
    drivers = [driver for driver in DRIVERS if driver not in others]
    differences = {driver: CaseRun(case, registry, driver).run() for driver in drivers}
    assert differences == {driver: [] for driver in drivers}
