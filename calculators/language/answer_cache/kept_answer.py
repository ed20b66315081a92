"""`KeptAnswer`: a whole answer, in a form that can be given to any later request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from msgspec import structs

from calculators.language import (
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    Reasoning,
    Submitted,
    ToolCall,
    ToolRan,
)
from calculators.language.call_id import new_call_id
from calculators.language.delta import nothing

#: Bytes of an object, roughly, beside its text.
_OBJECT: Final = 120
#: Bytes of a character, at most.
_CHARACTER: Final = 4


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer of a model without anything of its request.

    Attributes:
        begun: without the request.
        items: ``Gained`` and ``Finished`` of all choices.
        size: bytes, roughly.
    """

    begun: Begun
    items: tuple[Gained | Finished, ...]
    end: Ended
    size: int

    def played_for(self, request: GenerationRequest) -> Deltas:
        """Return the answer to a request: one packet, with new ids of calls."""
        begun = structs.replace(self.begun, request=request, sources=request.sources)
        items: list[Delta] = [begun]
        for item in self.items:
            if isinstance(item, Gained):
                items.append(structs.replace(item, events=tuple(map(_with_new_id, item.events))))
            else:
                items.append(item)
        return Deltas((*items, self.end))


class AnswerRecorder:
    """Records an answer as it passes.

    Attributes:
        kept: the answer, once it has ended well.
        begun: once it has begun.
        is_over: nothing follows.
    """

    def __init__(self, blank: GenerationRequest) -> None:
        """``blank``: stands for the request, which is not kept."""
        self._blank = blank
        self._gained: list[Gained] = []
        self._ends: list[Finished] = []
        self._is_fit = True
        self.begun: Begun | None = None
        self.kept: KeptAnswer | None = None
        self.is_over = False

    def feed(self, packet: Deltas) -> Deltas:
        """Record the items of a packet. Returns the packet that goes on."""
        is_watched = False
        for item in packet:
            if type(item) is Gained:  # nearly all items are
                self._gained.append(item)
            else:
                is_watched |= isinstance(item, Begun | Submitted)
                self._record(item)
        return Deltas(map(self._with_watched_stop, packet)) if is_watched else packet

    def _with_watched_stop(self, item: Delta) -> Delta:
        if not isinstance(item, Begun | Submitted):
            return item
        stop = item.stop

        def stop_and_forget() -> None:
            # Half an answer looks like a whole one.
            self._is_fit = False
            stop()

        return structs.replace(item, stop=stop_and_forget)

    def _record(self, item: Delta) -> None:
        match item:
            case Begun():
                self.begun = item
            case Finished(choice, reason):
                self._is_fit &= reason is not FinishReason.CONTENT_FILTER
                self._ends.append(Finished(choice, reason, item.stop_string))
            case Ended():
                self.is_over = True
                if self._is_fit and self.begun is not None:
                    self.kept = self._whole(self.begun, item)
            case ToolRan():
                # An answer out of a cache does not do again what a tool did.
                self._is_fit = False
            case Failed():
                self.is_over = True
            case _:
                return

    def _whole(self, begun: Begun, end: Ended) -> KeptAnswer:
        by_choice: dict[int, list[Event]] = {}
        for gained in self._gained:
            by_choice.setdefault(gained.choice, []).extend(gained.events)
        items: list[Gained | Finished] = []
        size = _OBJECT * 8
        for finished in self._ends:
            events = _joined(by_choice.get(finished.choice, ()))
            if events:
                items.append(Gained(finished.choice, tuple(events)))
            items.append(finished)
            for event in events:
                texts = [part for part in structs.astuple(event) if isinstance(part, str)]
                size += _OBJECT + _CHARACTER * sum(map(len, texts))
        bare = structs.replace(
            begun, request=self._blank, sources=(), prompt_ids=None, stop=nothing
        )
        return KeptAnswer(bare, tuple(items), end, size)


def _joined(events: Iterable[Event]) -> list[Event]:
    """Return the events; texts of one kind in a row are one."""
    joined: list[Event] = []
    for kind, group in groupby(events, type):
        if kind is Content or kind is Reasoning:
            texts = [event.text for event in group if isinstance(event, Content | Reasoning)]
            joined.append(kind("".join(texts)))
        else:
            joined += group
    return joined


def _with_new_id(event: Event) -> Event:
    return structs.replace(event, call_id=new_call_id()) if isinstance(event, ToolCall) else event
