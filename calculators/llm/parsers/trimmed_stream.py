"""`TrimmedStream`: an answer without the white space that models write before it."""

from __future__ import annotations

from calculators.llm.parsers.events import Content, OutputEvent, Reasoning
from calculators.llm.parsers.output_stream import OutputStream


class TrimmedStream:
    """An `OutputStream` whose content does not begin with white space.

    For answers that have to be of a certain form: behind its reasoning a model goes to a new line,
    which is no part of the form.
    """

    __slots__ = ("_has_begun", "_stream")

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream
        self._has_begun = False

    def feed(self, text: str) -> list[OutputEvent]:
        """As `OutputStream.feed`."""
        events = self._stream.feed(text)
        return events if self._has_begun else self._trimmed(events)

    def finish(self) -> list[OutputEvent]:
        """As `OutputStream.finish`."""
        return self._trimmed(self._stream.finish())

    def _trimmed(self, events: list[OutputEvent]) -> list[OutputEvent]:
        kept: list[OutputEvent] = []
        for event in events:
            if isinstance(event, Content) and not self._has_begun:
                event = Content(event.text.lstrip())
                if not event.text:
                    continue
            if not isinstance(event, Reasoning):
                self._has_begun = True
            kept.append(event)
        return kept
