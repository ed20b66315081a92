"""One node at a time, without a server: `CalculatorRunner` feeds it and collects its outputs."""

import numpy as np
import pytest
from graphrt import RunError
from graph_runtime.testing import CalculatorRunner
from numpy.typing import NDArray

from standardize import Standardize, StandardizeOptions


def standardized(values: NDArray[np.float32]) -> NDArray[np.float32]:
    runner = CalculatorRunner(Standardize, options=StandardizeOptions(epsilon=1e-9))
    runner.push(0, values, at=0)
    runner.run()
    (result,) = runner.outputs[0].values
    assert isinstance(result, np.ndarray)
    return result


def test_columns_have_mean_0_and_variance_1() -> None:
    result = standardized(np.array([[1, 10], [2, 20], [3, 30]], np.float32))
    assert result.mean(axis=0) == pytest.approx([0, 0], abs=1e-6)
    assert result.var(axis=0) == pytest.approx([1, 1], abs=1e-5)


def test_a_constant_column_becomes_0() -> None:
    assert standardized(np.full((3, 1), 5, np.float32)).tolist() == [[0], [0], [0]]


def test_a_row_alone_is_refused() -> None:
    with pytest.raises(RunError, match=r"shape \[3\], not \[rows, columns\]"):
        standardized(np.array([1, 2, 3], np.float32))
