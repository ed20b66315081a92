"""`QuestionRoutes`: questions of several workers in one process of an encoder model.

Each worker numbers its questions. In the process the number of the worker's link is in the upper
bits; without other workers it is 0, and the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from calculators.text.text_models.messages import Answer, Ask, Computed, Refused, Working

_BITS: Final = 40
_OWN: Final = (1 << _BITS) - 1


class QuestionRoutes:
    """Translates the numbers of questions. `parts` and `finish` may be called by any thread."""

    def __init__(self) -> None:
        #: The numbers of unanswered questions.
        self._open: set[int] = set()

    def begin(self, link: int, ask: Ask) -> int:
        """Return the number of a worker's question in this process."""
        number = self.find(link, ask.number)
        self._open.add(number)
        return number

    def find(self, link: int, number: int) -> int:
        """Return the number in this process for a worker's number."""
        return link << _BITS | number

    def finish(self, number: int) -> None:
        """Forget a question that is answered or cancelled."""
        self._open.discard(number)

    def end(self, link: int) -> list[int]:
        """Return the unanswered questions of a link that has ended, and forget them."""
        found = [number for number in tuple(self._open) if number >> _BITS == link]
        self._open.difference_update(found)
        return found

    def parts(
        self, message: msgspec.Struct, links: Sequence[int]
    ) -> Iterator[tuple[int, msgspec.Struct]]:
        """Yield what each link gets of a message; the parent is link 0.

        A batch of several workers is reported to one of them as a batch, so that it is counted
        once; the others get their answers.
        """
        match message:
            case Answer() | Refused():
                yield self._own(message)
            case Computed(answers=answers) if answers:
                own = [self._own(each) for each in answers]
                first = own[0][0]
                here = [each for link, each in own if link == first]
                yield first, replace(message, answers=here)
                yield from ((link, each) for link, each in own if link != first)
            case Computed():
                yield links[0] if links else 0, message
            case Working():
                yield from ((link, message) for link in (links or (0,)))
            case _:
                yield 0, message

    def _own(self, answer: Answer | Refused) -> tuple[int, Answer | Refused]:
        self.finish(answer.number)
        return answer.number >> _BITS, replace(answer, number=answer.number & _OWN)
