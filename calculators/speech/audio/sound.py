"""`Sound`: the packet of sound between calculators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """Sound of one channel.

    Attributes:
        samples: float32, shape ``[N]``, nominally within -1 and 1.
        sample_rate: samples per second, in Hz.
    """

    samples: Samples
    sample_rate: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.sample_rate
