"""`StepCoalescer`: joins the tokens of several steps into one message to the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from calculators.llm.engine.messages import Tokens

#: Sending a stream's new tokens to its client costs the server 0.1 to 0.4 ms, however many they
#: are: the engine has displaced its data from the caches. At this pace that is a few hundredths of
#: a core.
SECONDS_PER_STREAM: Final = 0.01
#: The longest pause: ten pieces a second, of a model that writes much faster than people read.
LONGEST: Final = 0.1


class StepCoalescer:
    """Decides after which steps the tokens of all streams are reported.

    A step reports if ``seconds_per_stream`` times the number of streams has passed since the last
    report. So for a few streams, or a model with long steps, every step reports, and many streams
    of a small model get several tokens at a time: otherwise the server would spend more time on
    them than the engine. The pipeline reports first and last tokens at once in any case.
    """

    def __init__(
        self, seconds_per_stream: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``seconds_per_stream``: the pause between reports, per stream; 0: every step reports."""
        self._seconds_per_stream = seconds_per_stream
        self._clock = clock
        self._streams: set[tuple[int, int]] = set()
        self._reported_at = 0.0

    def is_due(self) -> bool:
        """Return True if the step that begins now reports. If so, the pause begins anew."""
        now = self._clock()
        wait = min(self._seconds_per_stream * len(self._streams), LONGEST)
        if now - self._reported_at < wait:
            return False
        self._reported_at = now
        return True

    def note(self, reported: Iterable[Tokens]) -> None:
        """Note the reported tokens, from which the number of streams is known."""
        for tokens in reported:
            key = (tokens.request_id, tokens.sequence)
            if tokens.finish_reason is None:
                self._streams.add(key)
            else:
                self._streams.discard(key)

    def forget(self, request_id: int) -> None:
        """Forget the streams of a request."""
        self._streams -= {key for key in self._streams if key[0] == request_id}
