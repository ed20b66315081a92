"""`SharedRequests`: requests of several workers in one engine.

Each worker numbers its requests from 0. In the engine the number of the worker's link is in the
upper bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from calculators.llm.engine.messages import Add, Cancel, Step, Tokens

#: Bits of a worker's own number: it counts for decades.
_BITS: Final = 40
_OWN: Final = (1 << _BITS) - 1


class SharedRequests:
    """Translates the numbers of requests, and knows the open requests of each link."""

    def __init__(self) -> None:
        #: The unfinished sequences of each open request, by its number in the engine.
        self._open: dict[int, dict[int, int]] = {}

    def inward(self, link: int, message: Add | Cancel) -> Add | Cancel:
        """Return a worker's message with the numbers that the engine has."""
        number = link << _BITS | message.request_id
        if isinstance(message, Cancel):
            self._open.get(link, {}).pop(number, None)
            return Cancel(number)
        self._open.setdefault(link, {})[number] = message.settings.num_return_sequences
        return replace(message, request_id=number, group=link << _BITS | message.group)

    def outward(self, step: Step) -> Iterator[tuple[int, Step]]:
        """Yield the part of each link, with the numbers that its worker knows."""
        parts: dict[int, Step] = {}
        for tokens in step.tokens:
            link = tokens.request_id >> _BITS
            if tokens.finish_reason is not None:
                self._count_end(link, tokens.request_id)
            parts.setdefault(link, Step([], [])).tokens.append(_own_tokens(tokens))
        for failed in step.failed:
            link = failed.request_id >> _BITS
            self._open.get(link, {}).pop(failed.request_id, None)
            own = replace(failed, request_id=failed.request_id & _OWN)
            parts.setdefault(link, Step([], [])).failed.append(own)
        yield from parts.items()

    def end(self, link: int) -> list[Cancel]:
        """Return what cancels the open requests of a link that has ended."""
        return [Cancel(number) for number in self._open.pop(link, {})]

    def _count_end(self, link: int, number: int) -> None:
        requests = self._open.get(link, {})
        left = requests.get(number, 0) - 1
        if left > 0:
            requests[number] = left
        else:
            requests.pop(number, None)


def _own_tokens(tokens: Tokens) -> Tokens:
    return replace(tokens, request_id=tokens.request_id & _OWN)
