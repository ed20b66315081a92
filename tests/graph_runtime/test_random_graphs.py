"""Random graphs, run on every driver, against what they must send.

More of them for a given time: ``python -m tests.fuzz_graphs --seconds 600``.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.example_counts import examples
from tests.graph_runtime.random_graphs import (
    BuiltGraph,
    GraphSpec,
    any_graphs,
    determined_graphs,
    failing_graphs,
)
from tests.graph_runtime.random_runs import DRIVERS, Action, Plan, PlannedRun, actions

# Thousands of runs of code that other tests cover: measuring coverage takes three times as long.
pytestmark = pytest.mark.unmeasured

ENDINGS = ("close_all_input_streams", "close_all_packet_sources", "cancel")

bounded = settings(
    max_examples=examples(60),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check_packets(spec: GraphSpec, steps: list[Action]) -> None:
    """Check that every driver sends the expected packets on every stream, and leaves none."""
    plan = Plan(BuiltGraph(spec), steps)
    expected = plan.graph.expected(plan.fed)
    idle = None
    for driver in DRIVERS:
        outcome = PlannedRun(plan, driver).run()
        told = f"{driver}\n{plan.graph.text}\n{plan.calls}"
        assert outcome.error == "", f"{outcome.error}\n{told}"
        assert outcome.seen == expected, told
        if not plan.graph.unopened(plan.fed):
            assert outcome.left == [], told
        idle = outcome.idle if idle is None else idle
        assert outcome.idle == idle, told


def check_errors(spec: GraphSpec, steps: list[Action]) -> None:
    """Check that an error ends the run, only cuts streams short, and does so in the next run."""
    plan = Plan(BuiltGraph(spec), steps)
    expected = plan.graph.expected(plan.fed)
    for driver in DRIVERS:
        planned = PlannedRun(plan, driver)
        for _ in range(2):
            outcome = planned.run()
            told = f"{outcome.error}\n{driver}\n{plan.graph.text}\n{plan.calls}"
            assert "hangs" not in outcome.error, told
            if outcome.error:
                assert "planned in" in outcome.error, told
                for name, seen in outcome.seen.items():
                    assert seen == expected[name][: len(seen)], f"{name}: {told}"
            else:
                assert outcome.seen == expected, told


def check_endings(spec: GraphSpec, steps: list[Action], ending: str) -> None:
    """Check that under any schedule every run ends without an error, and timestamps increase."""
    plan = Plan(BuiltGraph(spec), steps)
    for driver in DRIVERS:
        planned = PlannedRun(plan, driver, ending)
        for _ in range(2):
            outcome = planned.run()
            told = f"{outcome.error}\n{driver}\n{ending}\n{plan.graph.text}\n{plan.calls}"
            assert "hangs" not in outcome.error, told
            if ending != "cancel":
                assert outcome.error == "", told
            for name, seen in outcome.seen.items():
                assert all(a[0] < b[0] for a, b in pairwise(seen)), f"{name}: {seen}: {told}"


@bounded
@given(spec=determined_graphs, steps=actions)
def test_packets_do_not_depend_on_the_driver(spec: GraphSpec, steps: list[Action]) -> None:
    check_packets(spec, steps)


@bounded
@given(spec=failing_graphs(), steps=actions)
def test_an_error_cuts_streams_short(spec: GraphSpec, steps: list[Action]) -> None:
    check_errors(spec, steps)


@bounded
@given(spec=any_graphs, steps=actions, ending=st.sampled_from(ENDINGS))
def test_every_run_ends(spec: GraphSpec, steps: list[Action], ending: str) -> None:
    check_endings(spec, steps, ending)


#: For `tests.fuzz_graphs`: name, check, strategies.
CHECKS = (
    ("packets", check_packets, {"spec": determined_graphs, "steps": actions}),
    ("errors", check_errors, {"spec": failing_graphs(), "steps": actions}),
    (
        "endings",
        check_endings,
        {"spec": any_graphs, "steps": actions, "ending": st.sampled_from(ENDINGS)},
    ),
)
