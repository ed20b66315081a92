"""`StepCoalescer`: how often the server is told what streams have gained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from calculators.llm.engine.messages import Tokens

#: To bring a stream's new tokens to its client costs the server 0.1 to 0.4 ms, however many they
#: are: the engine has emptied the caches meanwhile. At this pace that is some hundredths of a core.
SECONDS_PER_STREAM: Final = 0.01
#: Ten pieces a second, of a model that writes much faster than anybody reads.
LONGEST: Final = 0.1


class StepCoalescer:
    """Decides after which steps all streams are told of.

    A step is one if since the last ``seconds_per_stream`` times the number of streams has passed.
    So a few streams, or a model whose steps take long, are told of every step, and many streams of
    a small model get several tokens at a time: else the server would need more time for them than
    the engine. First and last tokens are told at once, which is the pipeline's business.
    """

    def __init__(
        self, seconds_per_stream: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """0 seconds: every step is one."""
        self._seconds_per_stream = seconds_per_stream
        self._clock = clock
        self._streams: set[tuple[int, int]] = set()
        self._told_at = 0.0

    def is_due(self) -> bool:
        """Is the step that begins now one of them?"""
        now = self._clock()
        wait = min(self._seconds_per_stream * len(self._streams), LONGEST)
        if now - self._told_at < wait:
            return False
        self._told_at = now
        return True

    def note(self, told: Iterable[Tokens]) -> None:
        """What goes to the server: so it learns which streams there are."""
        for tokens in told:
            key = (tokens.request_id, tokens.sequence)
            if tokens.finish_reason is None:
                self._streams.add(key)
            else:
                self._streams.discard(key)

    def forget(self, request_id: int) -> None:
        """The request was cancelled."""
        self._streams -= {key for key in self._streams if key[0] == request_id}
