"""One request as its client saw it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Outcome:
    """A request's times, in seconds of one clock.

    Attributes:
        arrivals: times at which tokens came; tokens that came together are one arrival.
        input_tokens, output_tokens: as the server counts them; of a server that does not, the
            arrivals are counted.
        text: the answer.
        error: "" if it succeeded.
    """

    sent: float
    arrivals: list[float] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    text: str = ""
    error: str = ""

    @property
    def is_good(self) -> bool:
        return not self.error and bool(self.arrivals)

    @property
    def ttft(self) -> float:
        """Seconds from sending to the first token."""
        return self.arrivals[0] - self.sent

    @property
    def tpot(self) -> float | None:
        """Seconds per token after the first; None: there is no other."""
        if self.output_tokens < 2:
            return None
        return (self.arrivals[-1] - self.arrivals[0]) / (self.output_tokens - 1)

    @property
    def gaps(self) -> list[float]:
        """Seconds between two arrivals."""
        return [
            after - before for before, after in zip(self.arrivals, self.arrivals[1:], strict=False)
        ]

    @property
    def e2el(self) -> float:
        """Seconds from sending to the last token."""
        return self.arrivals[-1] - self.sent
