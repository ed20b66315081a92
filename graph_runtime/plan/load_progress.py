"""`LoadProgress`: the progress of loading, which loaders write and displays read."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class LoadProgress:
    """The phase that loading is in, and the fraction of the expected work that is done.

    Loaders begin one phase after the other, or split the progress into parts that run beside or
    after each other. Reading is cheap and may happen at any time, in any thread; a phase whose
    progress can be measured is measured when it is read. The fraction never falls.
    """

    def __init__(self) -> None:
        self._phase = ""
        self._start = 0.0
        self._end = 0.0
        self._measure: Callable[[], float] | None = None
        self._parts: Sequence[tuple[float, LoadProgress]] = ()
        self._highest = 0.0

    def begin(
        self,
        phase: str,
        start: float,
        end: float | None = None,
        measure: Callable[[], float] | None = None,
    ) -> None:
        """Begin a phase.

        Args:
            phase: a few words for people, without names and paths: "compiling the model".
            start: the fraction of all work, from 0 to 1, that is done before the phase.
            end: the fraction after it.
            measure: returns how much of the phase is done, from 0 to 1; None: that is not known,
                and the fraction stays at ``start``.
        """
        # First None, and set last: a reader in another thread must not measure with the limits of
        # another phase.
        self._measure = None
        self._phase, self._start, self._end = phase, start, start if end is None else end
        self._measure = measure

    def split(self, *shares: float) -> Sequence[LoadProgress]:
        """Split the work from now on into parts with these shares; return the parts."""
        self._start = self._end = self.fraction
        left = (1 - self._start) / sum(shares)
        self._parts = [(share * left, LoadProgress()) for share in shares]
        return [part for _, part in self._parts]

    def finish(self) -> None:
        """Note that all work is done."""
        self._highest = 1.0

    @property
    def fraction(self) -> float:
        """The fraction of the expected work that is done, from 0 to 1."""
        done = self._start + sum(share * part.fraction for share, part in self._parts)
        measure = self._measure
        if measure is not None:
            done += (self._end - self._start) * min(1.0, max(0.0, measure()))
        self._highest = min(1.0, max(self._highest, done))
        return self._highest

    @property
    def phase(self) -> str:
        """The phase; of several that run at the same time the one with most work left."""
        begun = [
            (share * (1 - part.fraction), phase)
            for share, part in self._parts
            if (phase := part.phase) and part.fraction < 1
        ]
        return max(begun)[1] if begun else self._phase
