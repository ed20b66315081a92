"""`FirstAnswer`: several streams of deltas, of which the first that begins an answer goes on."""

from __future__ import annotations

from collections.abc import Callable

from calculators.language.delta import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Submitted,
    Usage,
    usage_sum,
)

NO_DELTAS = Deltas()


class FirstAnswer:
    """The rule for joining branches of which only one answers.

    The first input whose answer begins wins. Its items go on; the other answers are stopped, and
    their items are dropped. A failure goes on only when no other input can still begin: when
    all have failed, or when the run is idle (`on_idle`). The last failure counts. A
    single input passes as it is.

    The usage of the answer is the sum of its own and of the answers that were stopped, as far as
    they have reported it by then.

    Each turn of a request (`GenerationRequest.turn`) has a race of its own: a loop through tools
    makes several.

    Both methods return at once and touch nothing but this object, apart from calls of ``stop``.
    """

    def __init__(self, inputs: int) -> None:
        """``inputs``: the number of streams, which are numbered from 0."""
        self._inputs = inputs
        self._turn = 0
        self._winner = -1
        self._is_done = False
        self._failure: Failed | None = None
        self._failed: set[int] = set()
        self._losing: set[int] = set()
        #: Usage of the losers that have ended.
        self._lost: Usage | None = None
        self._stops: dict[int, Callable[[], None]] = {}

    def feed(self, place: int, packet: Deltas) -> Deltas:
        """Return the items of a packet of input ``place`` that go on; there may be none."""
        if self._inputs == 1:
            return packet
        if place == self._winner and not self._is_done and place not in self._losing:
            last = packet[-1] if packet else None
            if not isinstance(last, Begun | Submitted | Ended):
                # The usual packet, of an answer that goes on.
                self._is_done = isinstance(last, Failed)
                return packet
        items = [item for item in packet if self._passes(place, item)]
        if self._lost is not None:
            items = [self._with_lost(item) for item in items]
        return Deltas(items)

    def on_idle(self) -> Deltas:
        """Return the failure that was held back, now that no other input can begin."""
        if self._failure is None:
            return NO_DELTAS
        return Deltas((self._end_with(self._failure),))

    def _passes(self, place: int, item: Delta) -> bool:
        match item:
            case Submitted(stop):
                self._stops[place] = stop
                if self._winner >= 0 and not self._is_done:
                    stop()
                    return False
                return True
            case Begun():
                self._stops.pop(place, None)
                return self._begins(place, item)
            case Failed():
                self._stops.pop(place, None)
                if place in self._losing:
                    self._losing.discard(place)
                    return False
                if place == self._winner and not self._is_done:
                    self._is_done = True
                    return True
                return self._fails(place, item)
            case Ended(usage):
                if place != self._winner or place in self._losing:
                    self._losing.discard(place)
                    self._lost = usage if self._lost is None else usage_sum(self._lost, usage)
                    return False
                self._is_done = True
                return True
            case _:
                return place == self._winner and place not in self._losing

    def _begins(self, place: int, begun: Begun) -> bool:
        turn = begun.request.turn
        # An input that has answered may answer again; others come too late.
        is_late = self._winner >= 0 and turn <= self._turn
        if is_late and not (self._is_done and place == self._winner):
            self._losing.add(place)
            begun.stop()
            return False
        self._decide(turn, place, is_done=False)
        return True

    def _fails(self, place: int, failure: Failed) -> bool:
        turn = 0 if failure.request is None else failure.request.turn
        if self._winner >= 0 and turn <= self._turn:
            return False  # of a race that another input has won
        self._failure = failure
        self._failed.add(place)
        if len(self._failed) < self._inputs:
            return False
        self._end_with(failure)
        return True

    def _end_with(self, failure: Failed) -> Failed:
        turn = self._turn if failure.request is None else failure.request.turn
        self._decide(turn, min(self._failed), is_done=True)
        return failure

    def _with_lost(self, item: Delta) -> Delta:
        if self._lost is None or not isinstance(item, Ended):
            return item
        usage, self._lost = usage_sum(item.usage, self._lost), None
        return Ended(usage)

    def _decide(self, turn: int, place: int, *, is_done: bool) -> None:
        self._turn = turn
        self._winner = place
        self._is_done = is_done
        self._failure = None
        self._failed.clear()
        self._losing.discard(place)
        for loser, stop in self._stops.items():
            if loser != place:
                stop()
        self._stops.clear()
