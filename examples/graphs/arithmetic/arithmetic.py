"""Calculators on arrays: a class, because it takes a side packet, and a plain function."""

import numpy as np
from numpy.typing import NDArray

from calculators.requests.http_payload import RequestError
from graph_runtime import Calculator, CalculatorContext, In, Out, SideIn, calculator


@calculator("examples.WeightedSum")
class WeightedSum(Calculator):
    """``left + weight * right``."""

    left = In[NDArray[np.float32]]()
    right = In[NDArray[np.float32]]()
    weight = SideIn[float]("WEIGHT")
    sum = Out[NDArray[np.float32]]()

    def process(self, cc: CalculatorContext) -> None:
        """Arrays of requests are read-only: what arrived, not a copy."""
        left, right = cc.get(self.left), cc.get(self.right)
        if left.shape != right.shape:
            # A RequestError is what the client reads.
            raise RequestError(f"left has the shape {left.shape}, right has {right.shape}")
        cc.emit(self.sum, left + np.float32(cc.side(self.weight)) * right)


@calculator("examples.Largest")
def largest(numbers: NDArray[np.float32]) -> float:
    """What a function returns is sent; its annotations are the types of its ports."""
    if not numbers.size:
        raise RequestError("there is no largest element of nothing")
    return float(numbers.max())
