"""The calculator alone, without the detector: `CalculatorRunner` feeds it."""

import numpy as np
import pytest
from graph_runtime.testing import CalculatorRunner

from count_labels import CountLabels


@pytest.mark.parametrize(
    ("labels", "summary"),
    [
        ([], "nothing"),
        ([b"circle"], "1 circle"),
        ([b"square", b"circle", b"square"], "1 circle, 2 squares"),
    ],
)
def test_labels_are_counted(labels: list[bytes], summary: str) -> None:
    runner = CalculatorRunner(CountLabels)
    runner.push("LABELS", np.array(labels, object), at=0)
    runner.run()
    assert runner.outputs["SUMMARY"].values == [summary]
