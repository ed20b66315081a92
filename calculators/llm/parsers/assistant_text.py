"""`AssistantText`: the text around calls of tools."""

from __future__ import annotations

from calculators.language.events import Content, OutputEvent
from calculators.llm.parsers.json_scanner import BLANKS


class AssistantText:
    """Makes `Content` of text, but not of white space between calls or behind the last one."""

    __slots__ = ("_blanks", "is_behind_call")

    def __init__(self) -> None:
        #: True if no text has come since the last call.
        self.is_behind_call = False
        self._blanks: list[str] = []

    def say(self, text: str, events: list[OutputEvent]) -> None:
        """Append ``text`` to ``events``; white space behind a call waits for other text."""
        if self.is_behind_call and text:
            self._blanks.append(text)
            if not text.strip(BLANKS):
                return
            text = "".join(self._blanks)
            self.is_behind_call = False
            self._blanks = []
        if text:
            events.append(Content(text))

    def call(self) -> None:
        """Note that a call was announced."""
        self.is_behind_call = True
        self._blanks = []
