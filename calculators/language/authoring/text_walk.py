"""`TextWalk`: finds the texts in deltas, and puts the changed ones in their place."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import structs

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import Begun, Delta, Deltas, Ended, Failed, Finished, Gained
from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    Reasoning,
    Refused,
    ToolCall,
)
from calculators.language.finish_reason import FinishReason
from calculators.language.json_object import is_object
from calculators.language.refusal import Refusal
from graph_runtime import Code

log = logging.getLogger(__name__)


class Channel(StrEnum):
    """A kind of text of a choice."""

    CONTENT = "content"
    REASONING = "reasoning"
    ARGUMENTS = "arguments"


class Feed(NamedTuple):
    """A question of the walk: new text of a channel.

    Attributes:
        ends: the text has ended.
    """

    choice: int
    channel: Channel
    text: str
    ends: bool


class Fed(NamedTuple):
    """The answer to a `Feed`: the text that goes on in its place.

    Attributes:
        is_done: the answer ends here.
        error: raised after the text, for the whole answer.
    """

    text: str
    is_done: bool = False
    error: Exception | None = None


#: A part of the walk: asks `Feed`, receives `Fed`, returns nothing.
_Steps: TypeAlias = Generator[Feed, Fed, None]

_CHANNELS: Final[dict[type, Channel]] = {
    Content: Channel.CONTENT,
    Reasoning: Channel.REASONING,
    Arguments: Channel.ARGUMENTS,
}


class TextWalk:
    """The state of one answer on its way through a node that changes texts.

    Attributes:
        is_over: the answer has ended or failed; texts that have not ended are dropped.
    """

    def __init__(self, channels: Collection[Channel], node: str) -> None:
        """``node``: the node's name, for errors."""
        self._channels = frozenset(channels)
        self._node = node
        self._begun: Begun | None = None
        self._open: set[int] = set()
        #: The channels with a text that has not ended, by choice.
        self._texts: dict[int, set[Channel]] = {}
        #: The changed arguments of the open call, by choice.
        self._arguments: dict[int, list[str]] = {}
        #: The choices that ended with a refusal, and their texts with it.
        self._refused: set[int] = set()
        self._has_changed = False
        #: The answer has failed here; the rest of it is dropped.
        self._has_failed = False
        self.is_over = True

    def _begin(self, begun: Begun) -> None:
        self._begun = begun
        self._open = set(range(begun.choices))
        self._texts = {choice: set() for choice in self._open}
        self._arguments.clear()
        self._refused.clear()
        self._has_changed = self._has_failed = self.is_over = False

    def plain_feed(self, packet: Deltas) -> Feed | None:
        """Return the only question of a packet that is one piece of content, like nearly all.

        `plain` then takes its answer. None: the packet needs `walk`.
        """
        if len(packet) != 1:
            return None
        item = packet[0]
        if type(item) is not Gained or len(item.events) != 1:
            return None
        event = item.events[0]
        choice = item.choice
        if type(event) is not Content or choice not in self._open:
            return None
        texts = self._texts[choice]
        if Channel.REASONING in texts or Channel.CONTENT not in self._channels:
            return None
        return Feed(choice, Channel.CONTENT, event.text, ends=False)

    def plain(self, packet: Deltas, text: str) -> Deltas:
        """Return a packet for which `plain_feed` has a question, with another text."""
        item = packet[0]
        assert isinstance(item, Gained)
        self._texts[item.choice].add(Channel.CONTENT)
        if (Content(text),) == tuple(item.events):
            return packet
        self._has_changed = True
        if not text and item.usage is None:
            return _NOTHING
        events = (Content(text),) if text else ()
        return Deltas((structs.replace(item, events=events, logprobs=None, token_ids=()),))

    def walk(self, packet: Deltas) -> Generator[Feed, Fed, Deltas]:
        """Ask for the text in place of each text; return the packet that goes on."""
        out: list[Delta] = []
        for item in packet:
            try:
                yield from self._walk_item(item, out)
            except Refusal as refusal:
                self._refuse(refusal, out)
            except RequestError as error:
                # Its frames hold this list, and the list the error.
                self._fail(error.with_traceback(None), out)
            except Exception:
                log.exception('node "%s" failed', self._node)
                text = f'node "{self._node}" failed'
                self._fail(RequestError(text, code=Code.INTERNAL), out)
        return Deltas(out)

    def _walk_item(self, item: Delta, out: list[Delta]) -> _Steps:
        match item:
            case Begun():
                self._begin(item)
                out.append(item)
            case Gained(choice) if choice in self._open:
                yield from self._walk_group(item, out)
            case Finished(choice) if choice in self._open:
                rest: list[Event] = []
                if Channel.CONTENT in self._channels and choice not in self._refused:
                    # A choice without content has an empty text, to which something may be added.
                    self._texts[choice].add(Channel.CONTENT)
                yield from self._end_texts(choice, rest, tuple(Channel))
                if rest:
                    out.append(Gained(choice, tuple(rest)))
                self._open.discard(choice)
                out.append(structs.replace(item, verbose=None) if self._has_changed else item)
            case Gained() | Finished():
                pass
            case Ended() | Failed():
                if not self._has_failed:
                    out.append(item)
                self._has_failed = False
                self._end()
            case _:
                out.append(item)

    def _walk_group(self, group: Gained, out: list[Delta]) -> _Steps:
        choice = group.choice
        events: list[Event] = []
        is_done = False
        try:
            for event in group.events:
                is_done = yield from self._walk_event(choice, event, events)
                if is_done:
                    break
        finally:
            if len(events) == len(group.events) and tuple(events) == tuple(group.events):
                out.append(group)
            else:
                self._has_changed = True
                if events or group.usage is not None:
                    changed = structs.replace(
                        group, events=tuple(events), logprobs=None, token_ids=()
                    )
                    out.append(changed)
        if is_done:
            out.append(Finished(choice, FinishReason.STOP))
            self._open.discard(choice)
            if not self._open:
                self._stop()

    def _walk_event(
        self, choice: int, event: Event, events: list[Event]
    ) -> Generator[Feed, Fed, bool]:
        """Add what an event becomes; return True if the choice ends here."""
        channel = _CHANNELS.get(type(event))
        if isinstance(event, ToolCall) or (isinstance(event, Content) and not event.text.isspace()):
            yield from self._end_texts(choice, events, (Channel.REASONING,))
        if isinstance(event, ToolCall):
            self._arguments[choice] = []
        if isinstance(event, Refused):
            # It is the last event of its choice.
            yield from self._end_texts(choice, events, tuple(Channel))
            self._refused.add(choice)
        if isinstance(event, CallDone) and Channel.ARGUMENTS in self._channels:
            yield from self._end_texts(choice, events, (Channel.ARGUMENTS,))
            text = "".join(self._arguments.pop(choice, ()))
            events.append(CallDone(text, is_object(text)))
            return False
        if channel is None or channel not in self._channels:
            events.append(event)
            return False
        assert isinstance(event, Content | Reasoning | Arguments)
        self._texts[choice].add(channel)
        fed = yield Feed(choice, channel, event.text, ends=False)
        self._add(choice, channel, fed, events)
        return fed.is_done

    def _end_texts(self, choice: int, events: list[Event], channels: tuple[Channel, ...]) -> _Steps:
        """Add the rests of texts that end."""
        texts = self._texts[choice]
        for channel in channels:
            if channel in texts:
                texts.discard(channel)
                fed = yield Feed(choice, channel, "", ends=True)
                self._add(choice, channel, fed, events)

    def _add(self, choice: int, channel: Channel, fed: Fed, events: list[Event]) -> None:
        if fed.text:
            self._add_text(choice, channel, fed.text, events)
        if fed.error is not None:
            raise fed.error

    def _add_text(self, choice: int, channel: Channel, text: str, events: list[Event]) -> None:
        match channel:
            case Channel.CONTENT:
                events.append(Content(text))
            case Channel.REASONING:
                events.append(Reasoning(text))
            case Channel.ARGUMENTS:
                self._arguments.setdefault(choice, []).append(text)
                events.append(Arguments(text))

    def _refuse(self, refusal: Refusal, out: list[Delta]) -> None:
        for choice in sorted(self._open):
            out.append(Gained(choice, (Refused(refusal.text, refusal.category),)))
            out.append(Finished(choice, FinishReason.CONTENT_FILTER))
        self._open.clear()
        self._stop()

    def _fail(self, error: RequestError, out: list[Delta]) -> None:
        request = None if self._begun is None else self._begun.request
        out.append(Failed(error, request))
        self._stop()
        self._end()
        self._has_failed = True

    def _stop(self) -> None:
        if self._begun is not None:
            self._begun.stop()

    def _end(self) -> None:
        self.is_over = True
        self._open.clear()
        # It leads to the generation, and from there perhaps back here.
        self._begun = None


_NOTHING: Final = Deltas()
