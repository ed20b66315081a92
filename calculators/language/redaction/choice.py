"""`ChoiceRedactor`: redacts the events of one choice, and keeps their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from calculators.language import (
    Arguments,
    CallDone,
    Content,
    Event,
    Reasoning,
    Refused,
    SpeechSamples,
    TokenLogprob,
    ToolCall,
)
from calculators.language.redaction.redactors import (
    ArgumentsRedactor,
    TextRedactor,
    parts_of,
    redacted,
)
from calculators.language.text_patterns import Scanner, Spans


class RedactionChannel(Enum):
    """A kind of text, with the values of ``graphrt.RedactOptions.Channel``."""

    CONTENT = 0
    REASONING = 1
    TOOL_CALLS = 2


@dataclass(frozen=True, slots=True)
class Redaction:
    """The patterns of a node, their mask and channels.

    Attributes:
        channels: the texts that are redacted; others are passed on.
    """

    patterns: Scanner
    mask: str
    channels: frozenset[RedactionChannel] = frozenset(RedactionChannel)

    def text(self, text: str) -> str:
        """Return a whole text, redacted. Raises TimeoutError if an expression takes too long."""
        return redacted(text, self.patterns, self.mask)


class ChoiceRedactor:
    """Redacts the events of one choice.

    The content is one text, also around calls, because clients join it. So while its last
    characters are held back, the events after them wait. Reasoning ends where something else
    begins, and each call has arguments of its own.

    All methods raise TimeoutError if an expression takes too long.
    """

    __slots__ = ("_arguments", "_call", "_content", "_reasoning", "_redaction", "_spelling")

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._content = _MarkedText(redaction.patterns, redaction.mask)
        self._reasoning = TextRedactor(redaction.patterns, redaction.mask)
        #: The call that is open, and the text of its arguments so far.
        self._call: ArgumentsRedactor | None = None
        self._arguments = ""
        self._spelling = _Spelling()

    def feed(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events that are certain now."""
        if len(events) == 1 and self._call is None and self._reasoning.is_new:
            # Most groups are one piece of content.
            event = events[0]
            if type(event) is Content and RedactionChannel.CONTENT in self._redaction.channels:
                return self._content.feed_events(event.text)
        made: list[Event] = []
        for event in events:
            self._feed(event, made)
        return made

    def finish(self) -> list[Event]:
        """Return the rest; the choice has ended."""
        made: list[Event] = []
        self._put(self._end_reasoning(), made)
        self._put(self._end_call(), made)
        made += self._content.finish_events()
        return made

    def keeps_logprobs(self, tokens: Sequence[TokenLogprob], events: Sequence[Event]) -> bool:
        """Return whether all tokens so far spell the text that is shown. Call it for each group.

        ``events``: those that are sent with the tokens.
        """
        return self._spelling.feed(tokens, events)

    def _feed(self, event: Event, made: list[Event]) -> None:
        channels = self._redaction.channels
        if type(event) is not Reasoning:
            self._put(self._end_reasoning(), made)
        match event:
            case Content(text):
                if not text.isspace():
                    self._put(self._end_call(), made)
                if RedactionChannel.CONTENT in channels:
                    made += self._content.feed_events(text)
                else:
                    made.append(event)
            case Reasoning(text):
                self._put(self._end_call(), made)
                if RedactionChannel.REASONING in channels:
                    text = self._reasoning.feed(text)
                if text:
                    self._put([Reasoning(text)], made)
            case ToolCall(name, call_id):
                self._put(self._end_call(), made)
                if RedactionChannel.TOOL_CALLS in channels:
                    name = self._redaction.text(name)
                    self._call = ArgumentsRedactor(self._redaction.patterns, self._redaction.mask)
                self._arguments = ""
                self._put([ToolCall(name, call_id)], made)
            case Arguments(text):
                if self._call is not None:
                    text = self._call.feed(text)
                self._arguments += text
                if text:
                    self._put([Arguments(text)], made)
            case CallDone(_, is_complete):
                self._put(self._end_call(), made)
                self._put([CallDone(self._arguments, is_complete)], made)
            case SpeechSamples():
                pass  # it says what is taken out of the text
            case Refused(text, category):
                made += self.finish()
                made.append(Refused(self._redaction.text(text), category))

    def _put(self, events: Sequence[Event], made: list[Event]) -> None:
        """Put events after the content so far: now, or when it is let go."""
        if events:
            made += self._content.put(events)

    def _end_reasoning(self) -> Sequence[Event]:
        rest = self._reasoning.finish()
        return [Reasoning(rest)] if rest else ()

    def _end_call(self) -> Sequence[Event]:
        if self._call is None:
            return ()
        rest = self._call.finish()
        self._call = None
        self._arguments += rest
        return [Arguments(rest)] if rest else ()


class _MarkedText(TextRedactor):
    """A `TextRedactor` for content with other events between its pieces."""

    __slots__ = ("_marks",)

    def __init__(self, patterns: Scanner, mask: str) -> None:
        super().__init__(patterns, mask)
        #: Events, each with its place in the buffer, which is after a character that is held back.
        self._marks: deque[tuple[int, list[Event]]] = deque()

    def put(self, events: Sequence[Event]) -> Sequence[Event]:
        """Add events after the text so far, and return the ones that need not wait."""
        if not self.held:
            return events
        place = len(self._buffer)
        if not self._marks or self._marks[-1][0] != place:
            self._marks.append((place, []))
        self._marks[-1][1].extend(events)
        return ()

    def feed_events(self, text: str) -> Sequence[Event]:
        """Add text. Return the events that are certain now."""
        if not self._marks:
            text = self.feed(text)
            return (Content(text),) if text else ()
        made: list[Event] = []
        for part in parts_of(text):
            made += self._with_marks(part, is_end=False)
        return made

    def finish_events(self) -> Sequence[Event]:
        """Return the rest; the text has ended."""
        return self._with_marks("", is_end=True)

    def _with_marks(self, text: str, *, is_end: bool) -> list[Event]:
        buffer, place = self._buffer + text, self._place
        spans, hold = self._scan(buffer, place, is_end=is_end)
        made = self._between_marks(buffer, place, hold, spans)
        kept = max(hold - 1, 0)
        self._buffer, self._place = buffer[kept:], hold - kept
        self._marks = deque([(mark - kept, events) for mark, events in self._marks])
        return made

    def _between_marks(self, buffer: str, place: int, hold: int, spans: Spans) -> list[Event]:
        """Return what is before ``hold``. Events within a match come after its mask."""
        made: list[Event] = []
        run: list[str] = []
        for start, stop in (*spans, (hold, hold)):
            while self._marks and self._marks[0][0] <= start:
                mark, events = self._marks.popleft()
                run.append(buffer[place : max(mark, place)])
                place = max(mark, place)
                _add_content(run, made)
                made += events
            run.append(buffer[place:start])
            if stop > start:
                run.append(self._mask)
                place = stop
        _add_content(run, made)
        return made


def _add_content(run: list[str], made: list[Event]) -> None:
    text = "".join(run)
    run.clear()
    if text:
        made.append(Content(text))


class _Spelling:
    """Compares tokens with the text that is shown.

    Tokens spell the text that a redaction removes, and may come before the text that is made of
    them. So log-probabilities are sent only while their tokens spell exactly the text beside
    them.
    """

    __slots__ = ("_ahead", "_has_begun", "_is_equal")

    def __init__(self) -> None:
        #: Bytes of tokens that are part of a character.
        self._ahead = b""
        self._has_begun = False
        self._is_equal = True

    def feed(self, tokens: Sequence[TokenLogprob], events: Sequence[Event]) -> bool:
        if not self._is_equal:
            return False
        shown = b"".join(
            [
                event.text.encode(errors="surrogatepass")
                for event in events
                if isinstance(event, Content | Reasoning)
            ]
        )
        spelled = self._ahead + b"".join([token.bytes for token in tokens])
        if not self._has_begun and spelled[:1] == b" " != shown[:1]:
            # The first token of some tokenizers has a space that does not belong to the text.
            spelled = spelled[1:]
        self._has_begun |= bool(shown)
        self._ahead = spelled[len(shown) :]
        self._is_equal = spelled.startswith(shown) and _is_part_of_character(self._ahead)
        return self._is_equal


def _is_part_of_character(rest: bytes) -> bool:
    """Return whether bytes are nothing, or the beginning of a character in UTF-8."""
    if len(rest) > 3:
        return False
    try:
        rest.decode()
    except UnicodeDecodeError as error:
        return error.start == 0 and error.reason == "unexpected end of data"
    return not rest
