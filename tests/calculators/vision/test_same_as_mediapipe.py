"""Single calculators beside MediaPipe's engine, on the cases that it has run."""

from __future__ import annotations

from typing import Any

import pytest

from bench.mediapipe_oracle import difference, lines, run_unit
from graph_runtime import GraphError

UNITS = list(lines("units.jsonl"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit["unit"])
def test_a_calculator_sends_what_mediapipe_sends(unit: Any) -> None:
    if unit["error"]:
        with pytest.raises(GraphError):
            run_unit(unit)
        return
    seen = {(time, stream): value for time, stream, value in run_unit(unit)}
    expected = {
        (time, stream): value for time, stream, value in unit["outputs"] if value != "bound"
    }
    assert seen.keys() == expected.keys()
    for place, value in expected.items():
        assert difference(seen[place], value) < 3e-6, place
