"""A calculator behind an object detector: counts of the labels that were found."""

from collections import Counter

import numpy as np
from graphrt import Calculator, CalculatorContext, In, Out, calculator
from numpy.typing import NDArray


@calculator("project_name.CountLabels")
class CountLabels(Calculator):
    """Says in words how often each label was found, as in ``1 circle, 2 squares``.

    Inputs:
        LABELS: (n,) bytes, a label per object, UTF-8.
    Outputs:
        SUMMARY: the counts, by the alphabet; ``nothing`` if n is 0.
    """

    labels = In[NDArray[np.object_]]("LABELS")
    summary = Out[str]("SUMMARY")

    def process(self, cc: CalculatorContext) -> None:
        """Called for each picture."""
        counts = Counter(label.decode() for label in cc.get(self.labels).tolist())
        found = [
            f"{count} {label}" if count == 1 else f"{count} {label}s"
            for label, count in sorted(counts.items())
        ]
        cc.emit(self.summary, ", ".join(found) or "nothing")
