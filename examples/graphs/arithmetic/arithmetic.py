"""Calculators on arrays: a class, because it takes a side packet, and a plain function."""

import numpy as np
from numpy.typing import NDArray

from calculators.kit.requests.http_payload import RequestError
from graphrt import Calculator, CalculatorContext, In, Out, SideIn, calculator


@calculator("examples.WeightedSum")
class WeightedSum(Calculator):
    """``left + weight * right``."""

    left = In[NDArray[np.float32]]()
    right = In[NDArray[np.float32]]()
    weight = SideIn[float]("WEIGHT")
    sum = Out[NDArray[np.float32]]()

    def process(self, cc: CalculatorContext) -> None:
        """Arrays of requests are read-only views of the request's bytes."""
        left, right = cc.get(self.left), cc.get(self.right)
        if left.shape != right.shape:
            # The client receives the text of a RequestError.
            raise RequestError(f"left has the shape {left.shape}, right has {right.shape}")
        cc.emit(self.sum, left + np.float32(cc.side(self.weight)) * right)


@calculator("examples.Largest")
def largest(numbers: NDArray[np.float32]) -> float:
    """The returned value is sent; the annotations are the types of the ports."""
    if not numbers.size:
        raise RequestError("there is no largest element of nothing")
    return float(numbers.max())
