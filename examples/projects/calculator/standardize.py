"""A calculator for arrays: the place for your own."""

from dataclasses import dataclass

import numpy as np
from calculators.kit.requests.http_payload import RequestError
from graphrt import Calculator, CalculatorContext, In, Options, Out, calculator, options
from numpy.typing import NDArray


@options("project_name.StandardizeOptions")
@dataclass(frozen=True)
class StandardizeOptions:
    """The options that graph.pbtxt sets.

    Attributes:
        epsilon: added to the variance, so that a constant column becomes 0.
    """

    epsilon: float = 1e-6


@calculator("project_name.Standardize")
class Standardize(Calculator):
    """Scales each column of a table to mean 0 and variance 1.

    Inputs: (n, m) float32, at least one row.
    Outputs: (n, m) float32.
    """

    values = In[NDArray[np.float32]]()
    standardized = Out[NDArray[np.float32]]()
    options = Options(StandardizeOptions)

    def process(self, cc: CalculatorContext) -> None:
        """Called for each request. Arrays of requests are read-only."""
        values = cc.get(self.values)
        if values.ndim != 2 or not len(values):
            # The client receives the text of a RequestError, with status 400.
            raise RequestError(f"values have the shape {list(values.shape)}, not [rows, columns]")
        deviation = values - values.mean(axis=0)
        scale = np.sqrt(deviation.var(axis=0) + np.float32(self.options.epsilon))
        cc.emit(self.standardized, deviation / scale)
