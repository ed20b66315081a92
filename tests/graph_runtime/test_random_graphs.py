"""Random graphs, run on every driver, against what they must send.

More of the same for as long as wanted: ``python -m tests.fuzz_graphs --seconds 600``.
"""

from __future__ import annotations

from hypothesis import HealthCheck, event, given, settings

from tests.graph_runtime.random_graphs import BuiltGraph, GraphSpec, graph_specs
from tests.graph_runtime.random_runs import DRIVERS, Action, Plan, PlannedRun, actions

bounded = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check_packets(spec: GraphSpec, steps: list[Action]) -> None:
    """Every driver sends on every stream what the nodes make of what was fed, and ends."""
    plan = Plan(BuiltGraph(spec), steps)
    expected = plan.graph.expected(plan.fed)
    event(f"{len(plan.graph.nodes)} nodes")
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


@bounded
@given(spec=graph_specs, steps=actions)
def test_packets_do_not_depend_on_the_driver(spec: GraphSpec, steps: list[Action]) -> None:
    check_packets(spec, steps)


#: For `tests.fuzz_graphs`: name, check, strategies.
CHECKS = (("packets", check_packets, {"spec": graph_specs, "steps": actions}),)
