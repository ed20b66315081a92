"""`FairQueue`: the order of requests where one is generated at a time."""

from __future__ import annotations

from collections import deque

from calculators.llm.engine.messages import Add


class FairQueue:
    """First come, first served, but one request of a group at a time.

    The choices of one answer are requests of one group. When one of them has ended, the next of its
    group waits behind all groups that have arrived meanwhile.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Add]] = {}
        #: The group whose turn it is, and its other requests.
        self._group: int | None = None
        self._rest: deque[Add] = deque()

    def __len__(self) -> int:
        return len(self._rest) + sum(map(len, self._waiting.values()))

    @property
    def is_empty(self) -> bool:
        """True if no group is waiting for its turn."""
        return not self._waiting

    def put(self, request: Add) -> None:
        if request.group == self._group:
            self._rest.append(request)
        else:
            self._waiting.setdefault(request.group, deque()).append(request)

    def take(self) -> Add:
        """Return the next request. Called once the last one is `done`, and only if one waits."""
        self._group = next(iter(self._waiting))
        self._rest = self._waiting.pop(self._group)
        return self._rest.popleft()

    def done(self) -> None:
        """Note that the taken request has ended; the rest of its group queues up again."""
        if self._rest and self._group is not None:
            self._waiting[self._group] = self._rest
        self._group, self._rest = None, deque()

    def remove(self, request_id: int) -> None:
        """Forget a waiting request."""
        self._rest = _without(request_id, self._rest)
        for group, requests in list(self._waiting.items()):
            left = _without(request_id, requests)
            if left:
                self._waiting[group] = left
            else:
                del self._waiting[group]


def _without(request_id: int, requests: deque[Add]) -> deque[Add]:
    return deque(each for each in requests if each.request_id != request_id)
