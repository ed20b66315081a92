"""Metrics of resources that outlive a reload: each is published for the node that has it now."""

from __future__ import annotations

from graph_runtime.plan.moving_metrics import MovingMetrics
from servers.operations.metrics.families import Families
from servers.operations.metrics.server_metrics import GraphNodeMetrics


class Published:
    """The metrics of a graph, and what ``GET /metrics`` would show of them."""

    def __init__(self) -> None:
        self._families = Families()
        self.graph = GraphNodeMetrics(self._families, "g", frozenset())
        self.metrics = MovingMetrics(self.graph.of_node("old"))

    def __call__(self, name: str, node: str) -> float | None:
        """Return the value of a series; None if there is none."""
        lines: list[str] = []
        for family in self._families:
            for series in family:
                series.write(lines)
        head = f'{name}{{graph="g",node="{node}"}} '
        shown = "".join(lines).splitlines()
        found = [line.removeprefix(head) for line in shown if line.startswith(head)]
        return float(found[0]) if found else None

    def move(self, node: str = "new") -> None:
        self.metrics.move_to(self.graph.of_node(node))


def test_a_counter_goes_on_at_the_new_node_and_keeps_its_count_at_the_old_one() -> None:
    published = Published()
    counter = published.metrics.counter("calls", "Calls.")
    counter.add(3)
    published.move()
    counter.add(2)
    assert published("calls_total", "old") == 3
    assert published("calls_total", "new") == 2


def test_a_followed_counter_is_counted_once() -> None:
    published = Published()
    done = [5.0]
    end = published.metrics.counter("steps", "Steps.").follow(lambda: done[0])
    published.move()
    done[0] = 7
    assert published("steps_total", "old") == 5
    assert published("steps_total", "new") == 2
    end()
    done[0] = 9
    assert published("steps_total", "new") == 2


def test_gauges_leave_the_old_node_at_zero() -> None:
    published = Published()
    level = published.metrics.gauge("level", "Level.")
    level.add(2)
    end = published.metrics.gauge("up", "Up.").follow(lambda: 1)
    published.move()
    assert (published("level", "old"), published("level", "new")) == (0, 2)
    assert (published("up", "old"), published("up", "new")) == (0, 1)
    level.set(4)
    end()
    assert (published("level", "new"), published("up", "new")) == (4, 0)


def test_two_resources_can_change_places() -> None:
    published = Published()
    other = MovingMetrics(published.graph.of_node("new"))
    published.metrics.gauge("up", "Up.").follow(lambda: 1)
    other.gauge("up", "Up.").follow(lambda: 2)
    published.move("new")
    other.move_to(published.graph.of_node("old"))
    assert (published("up", "old"), published("up", "new")) == (2, 1)


def test_a_histogram_observes_at_the_new_node() -> None:
    published = Published()
    histogram = published.metrics.histogram("wait_seconds", "Wait.", bounds=(1.0,))
    histogram.observe(0.5)
    published.move()
    histogram.observe(0.5)
    histogram.observe(2)
    assert published("wait_seconds_count", "old") == 1
    assert published("wait_seconds_count", "new") == 2


def test_nothing_moves_to_the_node_that_has_it() -> None:
    published = Published()
    published.metrics.gauge("up", "Up.").follow(lambda: 1)
    published.move("old")
    assert published("up", "old") == 1
