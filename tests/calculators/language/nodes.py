"""One node of authors on an answer, and the order of what it sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calculators.language import Deltas, OrderCheck
from calculators.language.testing import items_of
from graph_runtime.testing import CalculatorRunner


def in_order(packets: list[Deltas], *, is_complete: bool = True) -> list[Deltas]:
    """Check the order of an answer's items; return the packets."""
    check = OrderCheck()
    check.feed(items_of(packets))
    if is_complete:
        check.finish()
    return packets


def run_node(
    node: Any, packets: Sequence[Any], *, tag: str = "DELTAS", options: Any = ()
) -> list[Deltas]:
    """Return the packets that a node makes of packets, in the order that answers have."""
    runner = CalculatorRunner(node, options=options)
    for packet in packets:
        runner.push(tag, packet)
    runner.run()
    return in_order(runner.outputs["DELTAS"].values, is_complete=False)
