"""Filters of arrays over time, one state per element.

They compute as MediaPipe's ``util/filtering`` does, down to which steps are float and which double.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.vision.landmarks.landmarks import Floats

Doubles = npt.NDArray[np.float64]

#: Nanoseconds between two frames at 30 per second.
_FRAME: Final = 1_000_000_000 // 30


class LowPass:
    """An exponential low-pass filter of n numbers, in float32."""

    def __init__(self, count: int, alpha: float) -> None:
        self._alpha: Any = np.full(count, alpha, np.float32)
        self._stored: Floats | None = None
        #: The last values as they came.
        self.raw = np.zeros(count, np.float32)

    @property
    def has_value(self) -> bool:
        """True after the first call."""
        return self._stored is not None

    def apply(self, values: npt.NDArray[Any], alpha: Any = None) -> Floats:
        """Return the filtered values; ``alpha`` from 0 to 1, per element, from now on."""
        values = values.astype(np.float32, copy=False)
        if alpha is not None:
            given = np.asarray(alpha, np.float32)
            self._alpha = np.where((given >= 0) & (given <= 1), given, self._alpha)
        if self._stored is None:
            found = values
        else:
            new: Floats = self._alpha * values
            rest: Doubles = 1.0 - self._alpha.astype(np.float64)
            found = (new.astype(np.float64) + rest * self._stored).astype(np.float32)
        self.raw = values
        self._stored = found
        return found


class OneEuro:
    """The One-Euro filter of n numbers: the faster a number changes, the less it is smoothed.

    Source: Casiez, Roussel, Vogel: "1 Euro Filter" (CHI 2012), with MediaPipe's scale by the
    object's size.
    """

    def __init__(
        self, count: int, frequency: float, min_cutoff: float, beta: float, derivate_cutoff: float
    ) -> None:
        """``frequency`` per second, until timestamps show it."""
        self._frequency = frequency
        self._min_cutoff = min_cutoff
        self._beta = beta
        self._derivate_cutoff = derivate_cutoff
        self._values = LowPass(count, self._alpha(min_cutoff))
        self._changes = LowPass(count, self._alpha(derivate_cutoff))
        self._last = -1

    def apply(self, time: int, scale: float, values: Floats) -> npt.NDArray[Any]:
        """Return the filtered values; ``time`` in nanoseconds, ``scale`` 1 / the object's size."""
        if self._last >= time:
            return values
        if self._last != 0 and time != 0:
            self._frequency = 1.0 / ((time - self._last) * 1e-9)
        self._last = time
        change = np.zeros(len(values))
        if self._values.has_value:
            change = (values.astype(np.float64) - self._values.raw) * scale * self._frequency
        smooth = self._changes.apply(change, self._alpha(self._derivate_cutoff))
        cutoff = self._min_cutoff + self._beta * np.abs(smooth.astype(np.float64))
        return self._values.apply(values, self._alpha(cutoff))

    def _alpha(self, cutoff: Any) -> Any:
        period = 1.0 / self._frequency
        return 1.0 / (1.0 + (1.0 / (2.0 * math.pi * cutoff)) / period)


class RelativeVelocity:
    """A low-pass filter of n numbers that trusts new values the more, the faster they move."""

    def __init__(self, count: int, window_size: int, velocity_scale: float) -> None:
        self._window_size = window_size
        self._velocity_scale = np.float32(velocity_scale)
        #: Scaled distances and nanoseconds, the newest first.
        self._window: deque[tuple[Floats, int]] = deque()
        self._low_pass = LowPass(count, 1.0)
        self._last: Floats | None = None
        self._last_scale = np.float32(1)
        self._last_time = -1

    def apply(self, time: int, scale: float, values: Floats) -> npt.NDArray[Any]:
        """Return the filtered values; ``time`` in nanoseconds, ``scale`` 1 / the object's size."""
        if self._last_time >= time:
            return values
        factor = np.float32(scale)
        alpha: Any = np.float32(1)
        if self._last is not None:
            distance = values * factor - self._last * self._last_scale
            duration = time - self._last_time
            distances, durations = distance, duration
            longest = (1 + self._window_size) * _FRAME
            for earlier, took in self._window:
                if durations + took > longest:
                    break
                distances = distances + earlier
                durations += took
            velocity = (distances / (durations * 1e-9)).astype(np.float32)
            alpha = 1 - 1 / (1 + self._velocity_scale * np.abs(velocity))
            self._window.appendleft((distance, duration))
            if len(self._window) > self._window_size:
                self._window.pop()
        self._last, self._last_scale, self._last_time = values, factor, time
        return self._low_pass.apply(values, alpha)
