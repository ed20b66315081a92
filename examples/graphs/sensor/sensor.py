"""A calculator with state, and a plain function of two inputs of the same timestamp."""

from collections import deque
from typing import Final

from graphrt import Calculator, CalculatorContext, In, Out, calculator

#: Specific gas constant of dry air, in joule per kilogram and kelvin.
GAS_CONSTANT: Final = 287.05


@calculator("examples.Average")
class Average(Calculator):
    """The average of the last four values."""

    value = In[float]()
    average = Out[float]()

    def open(self, cc: CalculatorContext) -> None:
        """Called once per run: once per stream of requests."""
        self.last: deque[float] = deque(maxlen=4)

    def process(self, cc: CalculatorContext) -> None:
        """Called for each value, in the order of the timestamps."""
        self.last.append(cc.get(self.value))
        cc.emit(self.average, sum(self.last) / len(self.last))


@calculator("examples.Density")
def density(temperature: float, pressure: float) -> float | None:
    """Not called for a timestamp with only one of the two. If None is returned, nothing is sent."""
    return pressure / (GAS_CONSTANT * temperature) if temperature > 0 else None
