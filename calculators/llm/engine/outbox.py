"""`Outbox`: tokens on their way to the server, held back a little where there are many streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from calculators.llm.engine.messages import Tokens

#: To bring a stream's new tokens to its client costs the server 0.1 to 0.4 ms, however many they
#: are: the engine has emptied the caches meanwhile. At this pace that is some hundredths of a core.
SECONDS_PER_STREAM: Final = 0.004
#: A reader sees 20 pieces of text per second as a steady flow.
LONGEST: Final = 0.05


class Outbox:
    """Decides which tokens go out after a step.

    A sequence's first and last tokens go at once. The others wait until ``seconds_per_stream``
    times the number of streams has passed since the tokens of all went out. So a few streams, or a
    model whose steps take long, are told of every step, and many streams of a small model get
    several tokens at a time: else the server would need more time for them than the engine.
    """

    def __init__(
        self, seconds_per_stream: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """0 seconds: everything goes out at once."""
        self._seconds_per_stream = seconds_per_stream
        self._clock = clock
        self._streams: set[tuple[int, int]] = set()
        self._held: dict[tuple[int, int], Tokens] = {}
        self._sent_at = 0.0

    def take(self, gained: list[Tokens]) -> list[Tokens]:
        """What a step brought; what is to be sent now, of this step and of those before."""
        if not self._seconds_per_stream:
            return gained
        now = self._clock()
        wait = min(self._seconds_per_stream * len(self._streams), LONGEST)
        is_due = now - self._sent_at >= wait
        leaving: list[Tokens] = []
        for tokens in gained:
            key = (tokens.request_id, tokens.sequence)
            before = self._held.pop(key, None)
            if before is not None:
                tokens = before.followed_by(tokens)
            if tokens.finish_reason is not None:
                self._streams.discard(key)
                leaving.append(tokens)
            elif key not in self._streams:
                self._streams.add(key)
                leaving.append(tokens)
            elif is_due:
                leaving.append(tokens)
            else:
                self._held[key] = tokens
        if is_due:
            self._sent_at = now
            leaving += self._held.values()
            self._held.clear()
        return leaving

    def forget(self, request_id: int) -> None:
        """The request was cancelled: nobody waits for its tokens."""
        for key in [key for key in self._streams if key[0] == request_id]:
            self._streams.discard(key)
            self._held.pop(key, None)
