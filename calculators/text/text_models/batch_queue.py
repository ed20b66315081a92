"""`BatchQueue`: the order in which waiting sequences are computed, and which of them together.

Pure logic, without threads and models. A batch begins with the sequence whose turn it is: clients
take turns, and so do the requests of one client. It is filled with sequences of like length, from
each request one before any request has a second, until one more would make it

- larger than ``budget`` tokens, padding included: a processor is full at about 256,
- more than ``waste`` times as large as its real tokens: padding is computed like any token,
- larger than this stream's share of what waits, so that the other streams get theirs.

Nothing waits for a batch to become fuller: what is there when a stream is free is taken.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final, NamedTuple

#: Tokens of a batch, with padding. MiniLM-L6 takes 180 to 200 us of processor time per token from
#: 32 short sequences on, and three to four times as much for a single one (openvino 2026.4.1).
BUDGET: Final = 256
#: Tokens with padding for each real one.
WASTE: Final = 1.3
#: Requests that a batch may take sequences from; the search costs time for each.
CONSIDERED: Final = 256


class QueuePlace(NamedTuple):
    """A sequence: its request, its number there, and its number of tokens."""

    request: int
    item: int
    length: int


class _Request:
    """The sequences of a request that wait, by length."""

    __slots__ = ("client", "number", "waiting")

    def __init__(self, number: int, client: str, lengths: Sequence[int]) -> None:
        self.number = number
        self.client = client
        self.waiting = sorted((length, index) for index, length in enumerate(lengths))

    def nearest(self, length: int) -> int:
        """Return the position in ``waiting`` of the sequence whose length is nearest."""
        waiting = self.waiting
        at = bisect_left(waiting, (length, -1))
        if at == len(waiting):
            return at - 1
        if at and length - waiting[at - 1][0] < waiting[at][0] - length:
            return at - 1
        return at


class BatchQueue:
    """Sequences that wait, by client and request. Not safe for threads."""

    def __init__(self, streams: int, *, budget: int = BUDGET, waste: float = WASTE) -> None:
        """``streams``: batches that are computed at the same time."""
        self._streams = streams
        self._budget = budget
        self._waste = waste
        self._requests: dict[int, _Request] = {}
        #: Requests by client; clients and requests are in the order of their turns.
        self._clients: dict[str, dict[int, _Request]] = {}
        self._count = 0

    def __len__(self) -> int:
        """The number of sequences that wait."""
        return self._count

    def add(self, request: int, client: str, lengths: Sequence[int]) -> None:
        """Add the sequences of a request, at least one, by their numbers of tokens."""
        made = self._requests[request] = _Request(request, client, lengths)
        self._clients.setdefault(client, {})[request] = made
        self._count += len(lengths)

    def drop(self, request: int) -> None:
        """Forget what still waits of a request, if anything does."""
        dropped = self._requests.get(request)
        if dropped is not None:
            self._count -= len(dropped.waiting)
            self._remove(dropped)

    def take(self) -> list[QueuePlace]:
        """Remove and return the next batch; it is empty only if nothing waits."""
        if not self._count:
            return []
        # A stream takes at most its share: one large batch is padded to its longest text, and the
        # other stream has nothing to do (decision 0052).
        most = -(-self._count // self._streams)
        first = self._next_request()
        # All sequences of a request are equally old; with the longest first, short ones are left
        # to fill the last batches.
        length, index = first.waiting.pop()
        batch = [QueuePlace(first.number, index, length)]
        self._fill(batch, most)
        for number in {place.request for place in batch}:
            request = self._requests[number]
            if not request.waiting:
                self._remove(request)
        self._count -= len(batch)
        return batch

    def _next_request(self) -> _Request:
        """Return the request whose turn it is; it and its client go to the end of their queues."""
        client = next(iter(self._clients))
        requests = self._clients.pop(client)
        self._clients[client] = requests
        number = next(iter(requests))
        request = requests.pop(number)
        # So a request of 2,048 texts delays another's single text by the batches that run, and not
        # by its own (decision 0052).
        requests[number] = request
        return request

    def _fill(self, batch: list[QueuePlace], most: int) -> None:
        wanted = longest = total = batch[0].length
        # The search runs for each batch on a core that could compute: 256 requests bound it.
        considered = [each for each in islice(self._in_order(), CONSIDERED) if each.waiting]
        while considered:
            found = []
            for order, request in enumerate(considered):
                at = request.nearest(wanted)
                found.append((abs(request.waiting[at][0] - wanted), order, at))
            found.sort()
            left = []
            for _, order, at in found:
                if len(batch) == most or longest * (len(batch) + 1) > self._budget:
                    return
                request = considered[order]
                length, index = request.waiting[at]
                padded = max(longest, length) * (len(batch) + 1)
                # Padding is computed like any token; up to 1.3 padded tokens for a real one a
                # larger batch still gains (decision 0052).
                if padded > self._budget or padded > self._waste * (total + length):
                    continue  # the others of this request are still farther away
                del request.waiting[at]
                batch.append(QueuePlace(request.number, index, length))
                longest, total = max(longest, length), total + length
                if request.waiting:
                    left.append((order, request))
            considered = [request for _, request in sorted(left, key=_order)]

    def _in_order(self) -> Iterator[_Request]:
        """The requests in the order of turns: the first of each client, then the second ones."""
        turns = zip_longest(*(requests.values() for requests in self._clients.values()))
        return (each for each in chain.from_iterable(turns) if each is not None)

    def _remove(self, request: _Request) -> None:
        del self._requests[request.number]
        requests = self._clients[request.client]
        del requests[request.number]
        if not requests:
            del self._clients[request.client]


def _order(item: tuple[int, _Request]) -> int:
    return item[0]
